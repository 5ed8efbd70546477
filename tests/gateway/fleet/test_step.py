"""What the lifecycle step refuses when it is built, and where it runs."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import FleetSpec, fleet_membership_lifecycle_step, instance_id
from gateway.errors import FleetRefused, RuntimeRefused
from gateway.fleet.membership import FleetMembership
from gateway.fleet.memory_store import MemoryFleetStore
from gateway.runtime import Resolved, RuntimeMode
from tests.gateway.fleet.views import seconds

SPEC = FleetSpec(name="gateways", ttl=seconds(10))


def built(**options: Any) -> FleetMembership:
    store = options.pop("store", MemoryFleetStore(SPEC))
    return fleet_membership_lifecycle_step(SPEC, store=store, **{"every": seconds(3), **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": seconds(5)}, "below half of ttl"),
        ({"every": seconds(0)}, "above 0"),
        ({"on_stop": "stay"}, "leave or linger"),
        ({"on_stop": "linger", "linger_for": seconds(-1)}, "linger_for"),
        ({"member_id": "a\tb"}, "no tab"),
        ({"member_id": "{a}"}, "no brace"),
        ({"store": MemoryFleetStore(FleetSpec("others", seconds(10)))}, "the store keeps the fleet"),
    ],
)
def test_what_breaks_a_rule_is_refused_when_it_is_built(options: dict[str, Any], said: str) -> None:
    with pytest.raises(FleetRefused, match=said):
        built(**options)


@pytest.mark.parametrize("mode", [RuntimeMode.SINGLE_PROCESS, RuntimeMode.FLEET])
def test_a_process_that_keeps_running_may_run_it(mode: RuntimeMode) -> None:
    assert built(runtime=mode).spec == SPEC


@pytest.mark.parametrize(
    "mode", [RuntimeMode.SERVERLESS, Resolved(RuntimeMode.SERVERLESS, reason="runtime.mode is serverless")]
)
def test_a_serverless_runtime_refuses_it(mode: RuntimeMode | Resolved) -> None:
    with pytest.raises(RuntimeRefused, match=r"serverless.*cannot run: fleet membership"):
        built(runtime=mode)


def test_a_member_is_its_process_unless_it_is_given_a_name() -> None:
    assert built().id == instance_id()
    assert built(member_id="gateway-0").id == "gateway-0"
