"""What is tried to reach a replica that sleeps, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import NoneHealthy
from gateway.session import opening
from gateway.session.opening import Asleep, NotOpened, Opened, Opener
from gateway.session.upstream import Refused, Unreachable
from tests.gateway.session.fakes import FakeUpstream
from tests.gateway.session.test_opening import (
    REFUSED,
    Connect,
    Evidence,
    Positions,
    counts,
    opener,
    scripted,
    status,
    wanted,
)
from tests.support.waiting import eventually

__all__ = ["scripted"]

COLD, OTHER = (
    ReplicaEndpoint(f"http://127.0.0.1:{port}", name, max_sessions=1, cold_start=True)
    for port, name in ((9101, "cold"), (9102, "other"))
)
WARM = ReplicaEndpoint("http://127.0.0.1:9103", "warm", max_sessions=1)


@pytest.fixture(autouse=True)
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "WAKE_PAUSE_SECONDS", 0.0)


def registry_of(*endpoints: ReplicaEndpoint) -> ReplicaRegistry:
    registry = ReplicaRegistry(list(endpoints))
    for replica in registry.all():
        if not replica.sleeping:
            registry.note_success(replica, recovery_threshold=1, latency_ms=1)
    return registry


def patient(registry: ReplicaRegistry, evidence: Evidence, *, seconds: float = 60) -> Opener:
    return replace(opener(registry, evidence), wake_timeout_seconds=seconds)


async def test_a_sleeping_replica_is_given_its_own_time(
    scripted: type[Connect], lines: Callable[[str], list[str]]
) -> None:
    registry, evidence, positions = registry_of(COLD), Evidence(), Positions()
    connect = scripted(registry, FakeUpstream())
    opened = await patient(registry, evidence).open(wanted(), on_position=positions.told)
    assert isinstance(opened, Opened)
    ((timeout_seconds, _),) = connect.limits
    assert 50 < timeout_seconds <= 60
    assert positions == [(0, 1)], "whoever waits for that knows it"
    assert (evidence.awake, evidence.reports) == ([COLD.url], [])
    assert len(lines("replica_wanted")) == 1


async def test_whoever_waits_for_long_is_told_so_again_and_again(
    scripted: type[Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "TOLD_AGAIN_SECONDS", 0.01)
    registry, positions = registry_of(COLD), Positions()
    connect = scripted(registry)
    connect.hangs_at = 1
    waking = asyncio.create_task(patient(registry, Evidence()).open(wanted(), on_position=positions.told))
    await eventually(lambda: len(positions) >= 3, "it is told again")
    assert set(positions) == {(0, 1)}
    waking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waking
    told = len(positions)
    await asyncio.sleep(0.05)
    assert len(positions) == told, "nobody is told who does not wait"


@pytest.mark.parametrize("nothing_there", [REFUSED, status(502), status(503), status(504)])
async def test_while_nothing_is_there_it_is_tried_again(
    scripted: type[Connect], nothing_there: Unreachable | Refused
) -> None:
    registry, evidence = registry_of(COLD), Evidence()
    connect = scripted(registry, nothing_there, nothing_there, nothing_there, nothing_there, FakeUpstream())
    assert isinstance(await patient(registry, evidence).open(wanted()), Opened)
    assert len(connect.urls) == 5
    assert (evidence.awake, evidence.reports) == ([COLD.url], [])


@pytest.mark.parametrize("code", [401, 404, 429])
async def test_any_other_answer_is_that_of_one_that_is_awake(scripted: type[Connect], code: int) -> None:
    registry, evidence = registry_of(COLD), Evidence()
    connect = scripted(registry, REFUSED, status(code))
    assert await patient(registry, evidence).open(wanted()) == NotOpened(status(code))
    assert len(connect.urls) == 2
    assert (evidence.awake, evidence.reports) == ([COLD.url], [])
    assert counts(registry) == (0, 0)


@pytest.mark.parametrize(
    ("last", "reason"),
    [(REFUSED, "connection refused"), (status(503), "answered the upgrade with 503")],
    ids=["unreachable", "not there"],
)
async def test_one_that_does_not_wake_in_time_is_told_of_and_the_next_is_woken(
    scripted: type[Connect], last: Unreachable | Refused, reason: str
) -> None:
    registry, evidence = registry_of(COLD, OTHER), Evidence()
    connect = scripted(registry, last, FakeUpstream())
    opened = await patient(registry, evidence, seconds=0).open(wanted())
    assert isinstance(opened, Opened)
    assert connect.urls == [f"ws://127.0.0.1:{port}/v1/stream" for port in (9101, 9102)]
    assert evidence.reports == [(COLD.url, reason)]
    assert evidence.awake == [OTHER.url]


async def test_whoever_may_wake_none_is_told_that_only_sleepers_have_room(scripted: type[Connect]) -> None:
    registry = registry_of(COLD, WARM)
    connect = scripted(registry, FakeUpstream())
    opened = await opener(registry).open(wanted(), wake=False)
    assert isinstance(opened, Opened)
    assert opened.lease.url == WARM.url
    assert await opener(registry).open(wanted(), wake=False) == NotOpened(Asleep())
    assert len(connect.urls) == 1
    assert counts(registry) == (1, 0), "only the one that was opened"


async def test_a_sleeper_is_still_there_after_others_have_failed(scripted: type[Connect]) -> None:
    registry = registry_of(WARM, COLD)
    scripted(registry, status(503))
    assert await opener(registry).open(wanted(), wake=False) == NotOpened(Asleep())


async def test_a_client_that_leaves_meanwhile_leaves_it_asleep(scripted: type[Connect]) -> None:
    registry, evidence = registry_of(COLD), Evidence()
    connect = scripted(registry)
    connect.hangs_at = 1
    waking = asyncio.create_task(patient(registry, evidence).open(wanted()))
    await connect.hanging.wait()
    assert next(iter(registry.candidates())).waking
    waking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waking
    assert counts(registry) == (0, 0)
    assert registry.all()[0].sleeping
    assert (evidence.awake, evidence.reports) == ([], [])


async def test_one_that_failed_to_wake_is_used_by_nobody_until_it_is_well(scripted: type[Connect]) -> None:
    registry = registry_of(COLD)

    class Judges(Evidence):
        def report_failure(self, url: str, reason: str) -> None:
            registry.note_failure(registry.all()[0], failure_threshold=3, reason=reason)

    scripted(registry, REFUSED)
    assert await patient(registry, Judges(), seconds=0).open(wanted()) == NotOpened(NoneHealthy())
    assert await opener(registry).open(wanted()) == NotOpened(NoneHealthy())
