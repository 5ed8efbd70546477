from __future__ import annotations

import pytest

from emulator.cli.ports import PortOfAReplica, aws_port, control_port


@pytest.mark.parametrize(
    ("asked", "first", "replicas", "port"),
    [
        (None, 9101, 3, 9190),
        (None, 9101, 89, 9190),
        (None, 9101, 90, 9191),
        (None, 9101, 500, 9601),
        (None, 9190, 1, 9191),
        (None, 0, 500, 9190),
        (None, 9000, 65535 - 9000 + 1, 8999),
        (0, 9101, 500, 0),
        (9190, 0, 500, 9190),
        (9601, 9101, 500, 9601),
    ],
)
def test_the_control_port_makes_way_for_the_replicas(
    asked: int | None, first: int, replicas: int, port: int
) -> None:
    assert control_port(asked, first=first, replicas=replicas) == port


def test_a_port_that_was_asked_for_is_not_moved() -> None:
    with pytest.raises(PortOfAReplica, match=r"is one of the replicas' \(9101 to 9600\): choose another"):
        control_port(9190, first=9101, replicas=500)


@pytest.mark.parametrize(
    ("asked", "replicas", "control", "port"),
    [
        (None, 3, 9190, 9199),
        (None, 3, 9199, 9200),
        (None, 500, 9601, 9602),
        (0, 500, 9190, 0),
        (5000, 3, 9190, 5000),
    ],
)
def test_the_port_of_awss_api_makes_way_for_all_others(
    asked: int | None, replicas: int, control: int, port: int
) -> None:
    assert aws_port(asked, first=9101, replicas=replicas, control=control) == port


@pytest.mark.parametrize(("asked", "whose"), [(9102, "one of the replicas'"), (9190, "the control API's")])
def test_nor_is_that_one_where_it_was_asked_for(asked: int, whose: str) -> None:
    with pytest.raises(PortOfAReplica, match=f"{whose}.*choose another with --cloudmap-port"):
        aws_port(asked, first=9101, replicas=3, control=9190)
