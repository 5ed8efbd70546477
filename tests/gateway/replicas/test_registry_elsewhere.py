"""What other gateways have of a replica counts as if it were here, and goes when they say so."""

from __future__ import annotations

import pytest

from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.events import PlaceFreed, RegistryEvent
from gateway.replicas.model import Elsewhere
from gateway.replicas.registry import ReplicaRegistry
from gateway.selection import AllFull, Chosen, Policy, choose
from tests.support.manual_clock import ManualClock

A = ReplicaEndpoint("http://A:8000/", "a", max_sessions=2)
B = ReplicaEndpoint("http://b:8000", "b", max_sessions=3)
COLD = ReplicaEndpoint("http://c:8000", "c", max_sessions=1, cold_start=True)
KEY_A, KEY_B = "http://a:8000", "http://b:8000"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def registry(clock: ManualClock) -> ReplicaRegistry:
    registry = ReplicaRegistry([A, B], clock=clock)
    for replica in registry.all():
        registry.note_success(replica, recovery_threshold=1, latency_ms=1.0)
    return registry


@pytest.fixture
def events(registry: ReplicaRegistry) -> list[RegistryEvent]:
    events: list[RegistryEvent] = []
    registry.subscribe(events.append)
    return events


def test_the_limit_is_for_all_gateways(registry: ReplicaRegistry) -> None:
    registry.note_elsewhere({KEY_A: Elsewhere(1)})
    a = registry.get(A.url)
    assert a is not None
    assert a.takes_sessions
    with registry.lease(A.url):
        assert not a.takes_sessions
        assert not registry.snapshot(a).has_room
        first = registry.select()
        assert first is not None
        assert first.name == "b"


def test_the_fewest_sessions_are_those_of_all_gateways(registry: ReplicaRegistry) -> None:
    registry.note_elsewhere({KEY_A: Elsewhere(1)})
    choice = choose(Policy.LEAST_SESSIONS, registry.candidates(), ticket=0, draw=0.0)
    assert isinstance(choice, Chosen)
    assert choice.candidate.name == "b"


def test_what_is_reserved_is_no_session_and_not_to_be_had(registry: ReplicaRegistry) -> None:
    registry.note_elsewhere({KEY_A: Elsewhere(0, 2), KEY_B: Elsewhere(2, 1)})
    assert isinstance(choose(Policy.PRIORITY, registry.candidates(), ticket=0, draw=0.0), AllFull)
    assert [one.all_sessions for one in registry.candidates()] == [0, 2]


def test_what_is_freed_elsewhere_is_told_once_all_is_known(registry: ReplicaRegistry) -> None:
    registry.note_elsewhere({KEY_A: Elsewhere(2), KEY_B: Elsewhere(1, 1)})
    seen: list[tuple[str, list[int]]] = []

    def hear(event: RegistryEvent) -> None:
        assert isinstance(event, PlaceFreed)
        seen.append((event.url, [one.elsewhere.places for one in registry.all()]))

    registry.subscribe(hear)
    registry.note_elsewhere({KEY_A: Elsewhere(1), KEY_B: Elsewhere(1, 1)})
    registry.note_elsewhere({KEY_A: Elsewhere(2), KEY_B: Elsewhere(1)})
    registry.note_elsewhere({})
    assert seen == [(A.url, [1, 2]), (B.url, [2, 1]), (A.url, [0, 0]), (B.url, [0, 0])]


def test_one_that_joins_later_has_what_is_known_of_it(registry: ReplicaRegistry) -> None:
    registry.note_elsewhere({"http://d:1": Elsewhere(1)})
    registry.reconcile([A, B, ReplicaEndpoint("http://D:1", "d", max_sessions=1)])
    assert [one.all_sessions for one in registry.candidates()] == [0, 0, 1]


def test_one_sleeps_once_no_gateway_has_had_a_session_on_it(clock: ManualClock) -> None:
    registry = ReplicaRegistry([COLD], clock=clock)
    (cold,) = registry.all()
    registry.note_success(cold, recovery_threshold=1, latency_ms=1.0)
    registry.note_elsewhere({COLD.url: Elsewhere(1)})
    clock.jump(1000)
    registry.let_sleep(cold, idle_seconds=300)
    assert not cold.sleeping
    registry.note_elsewhere({})
    clock.jump(299)
    registry.let_sleep(cold, idle_seconds=300)
    assert not cold.sleeping
    with registry.lease(COLD.url):
        registry.note_elsewhere({COLD.url: Elsewhere(0, 1)})
    clock.jump(300)
    registry.let_sleep(cold, idle_seconds=300)
    assert cold.sleeping


def test_one_that_another_gateway_wakes_is_the_first_to_be_woken(clock: ManualClock) -> None:
    other = ReplicaEndpoint("http://d:8000", "d", max_sessions=4, cold_start=True)
    registry = ReplicaRegistry([COLD, other], clock=clock)
    registry.note_elsewhere({other.url: Elsewhere(1)})
    choice = choose(Policy.PRIORITY, registry.candidates(), ticket=0, draw=0.0)
    assert isinstance(choice, Chosen)
    assert choice.candidate.name == "d"
