"""The loop that has a registry follow a source, on a clock that the tests move."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.discovery.belief import Patience
from gateway.discovery.listing import Listed, Listing, Problem
from gateway.discovery.watch import JITTER, MOST_CAUSES, MOST_PROBLEMS, Pace, ReplicaWatch
from gateway.errors import SourceUnavailable
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.replicas.events import RegistryEvent, ReplicaJoined
from gateway.replicas.registry import ReplicaRegistry
from tests.support.manual_clock import ManualClock, settle

Lines = Callable[[str], list[str]]

PACE = Pace(every_seconds=3, deadline_seconds=2, patience=Patience(10, 30), full_every_seconds=60)
ROUND_SECONDS = PACE.every_seconds * (1 + JITTER)
"""By then the next question has been asked."""


def endpoint(name: str) -> ReplicaEndpoint:
    return ReplicaEndpoint(f"http://{name}:8000", name)


@dataclass
class Source:
    """Lists what the test says, and counts what it is asked."""

    kind: str = "scripted"
    pace: Pace = PACE
    names: str = ""
    withheld: str = ""
    problems: tuple[Problem, ...] = ()
    rev: str | None = None
    error: Exception | None = None
    hangs: bool = False
    listings: int = 0
    revisions: int = 0
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    async def revision(self) -> str | None:
        self.revisions += 1
        if self.error is not None:
            raise self.error
        return self.rev

    async def listing(self) -> Listing:
        self.listings += 1
        if self.hangs:
            self.waiting.set()
            await asyncio.Event().wait()
        listed = (Listed(endpoint(name), name not in self.withheld) for name in self.names)
        return Listing(tuple(listed), self.problems)


@dataclass
class Watched:
    source: Source
    registry: ReplicaRegistry
    clock: ManualClock
    watch: ReplicaWatch

    @property
    def names(self) -> str:
        return "".join(replica.name for replica in self.registry.all())

    async def rounds(self, count: int = 1) -> None:
        """Let the source be asked so many times."""
        for _ in range(count):
            asked = self.source.revisions
            while self.source.revisions == asked:
                await self.clock.advance(0.1)


@asynccontextmanager
async def watching(source: Source, *configured: ReplicaEndpoint) -> AsyncIterator[Watched]:
    clock = ManualClock()
    registry = ReplicaRegistry(list(configured), clock=clock)
    watch = ReplicaWatch(registry, source, configured=configured, clock=clock, rng=random.Random(7))
    await watch.look()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watch.run())
        await settle()
        yield Watched(source, registry, clock, watch)
        running.cancel()


async def test_replicas_join_change_and_drain_as_they_are_listed() -> None:
    async with watching(Source(names="a")) as watched:
        assert watched.names == "a"
        watched.source.names, watched.source.withheld = "abc", "b"
        await watched.rounds()
        assert watched.names == "abc"
        assert [one.draining for one in watched.registry.candidates()] == [False, True, False]
        watched.source.withheld = "a"
        await watched.rounds()
        assert [one.draining for one in watched.registry.candidates()] == [True, False, False]


async def test_it_asks_every_so_often_with_some_jitter() -> None:
    async with watching(Source()) as watched:
        before = watched.source.revisions
        await watched.clock.advance(PACE.every_seconds * (1 - JITTER) - 0.01)
        assert watched.source.revisions == before
        await watched.clock.advance(100 * PACE.every_seconds)
        assert 100 / (1 + JITTER) <= watched.source.revisions - before <= 101 / (1 - JITTER)


async def test_configured_replicas_stay_whatever_the_source_says() -> None:
    async with watching(Source(names="b"), endpoint("z")) as watched:
        assert watched.names == "zb"
        watched.source.names = ""
        await watched.rounds(20)
        assert watched.names == "z"


async def test_health_and_sessions_outlive_every_listing() -> None:
    async with watching(Source(names="a")) as watched:
        replica = watched.registry.get("http://a:8000")
        assert replica is not None
        watched.registry.note_success(replica, recovery_threshold=1, latency_ms=1.0)
        with watched.registry.lease(replica.url):
            watched.source.names = "ba"
            await watched.rounds(3)
            assert watched.registry.get(replica.url) is replica
            assert (replica.is_healthy, replica.sessions) == (True, 1)


async def test_a_set_that_does_not_change_is_not_told_again() -> None:
    async with watching(Source(names="ab")) as watched:
        heard: list[RegistryEvent] = []
        watched.registry.subscribe(heard.append)
        await watched.rounds(5)
        assert heard == []
        watched.source.names = "abc"
        await watched.rounds()
        assert [event for event in heard if isinstance(event, ReplicaJoined)] == [
            ReplicaJoined("http://c:8000")
        ]


async def test_a_missing_replica_goes_once_it_has_been_missing_for_long_enough() -> None:
    async with watching(Source(names="abc")) as watched:
        watched.source.names = "ab"
        await watched.rounds()
        await watched.clock.advance(PACE.patience.confirm_seconds - ROUND_SECONDS)
        assert watched.names == "abc"
        await watched.clock.advance(2 * ROUND_SECONDS)
        assert watched.names == "ab"


async def test_a_source_that_fails_is_told_of_once_and_the_last_set_stays(lines: Lines) -> None:
    async with watching(Source(names="abc")) as watched:
        watched.source.error = SourceUnavailable("nobody is there")
        await watched.rounds(20)
        assert watched.names == "abc"
        (failed,) = lines("discovery_failed")
        assert "nobody is there" in failed
        assert "replicas_kept=3" in failed
        watched.source.error = None
        await watched.rounds(2)
        (again,) = lines("discovery_answers_again")
        assert "failures=20" in again


async def test_another_cause_is_told_of_too_and_once_however_it_is_put(lines: Lines) -> None:
    async with watching(Source(names="abc")) as watched:

        async def failing(*causes: tuple[str, str]) -> list[str]:
            for said, cause in causes:
                watched.source.error = SourceUnavailable(said, cause=cause)
                await watched.rounds()
            return [line.partition("reason=")[2] for line in lines("discovery_failed")]

        throttled = (("too often", "throttled"), ("left alone for 3 s", "throttled"))
        assert await failing(*throttled) == ['"too often"']
        refused = ("no such service", "ServiceNotFound")
        assert await failing(refused, refused, throttled[0]) == ['"too often"', '"no such service"']
        watched.source.error = None
        await watched.rounds(2)
        assert len(await failing(refused)) == 3, "a new outage is told of anew"


async def test_an_outage_with_ever_new_causes_does_not_fill_the_log(lines: Lines) -> None:
    async with watching(Source(names="abc")) as watched:
        for number in range(MOST_CAUSES + 5):
            watched.source.error = SourceUnavailable("odd", cause=f"Code{number}")
            await watched.rounds()
        assert len(lines("discovery_failed")) == MOST_CAUSES


async def test_failures_do_not_count_as_answers_without_a_replica() -> None:
    async with watching(Source(names="abc")) as watched:
        watched.source.names = "ab"
        await watched.rounds()
        watched.source.error = SourceUnavailable("gone")
        await watched.rounds(10)
        watched.source.error = None
        await watched.rounds(2)
        assert watched.names == "abc"
        await watched.clock.advance(PACE.patience.confirm_seconds + ROUND_SECONDS)
        assert watched.names == "ab"


async def test_an_emptied_source_moves_nothing_while_it_fills_again(lines: Lines) -> None:
    async with watching(Source(names="abcde")) as watched:
        heard: list[RegistryEvent] = []
        watched.registry.subscribe(heard.append)
        for names in ("", "b", "bd", "abd", "abcde"):
            watched.source.names = names
            await watched.rounds()
        await watched.clock.advance(60)
        assert watched.names == "abcde"
        assert heard == []
        (doubted,) = lines("discovery_doubted")
        assert "missing=5 known=5 kept_for_seconds=30" in doubted


async def test_a_source_that_stays_empty_is_believed_in_the_end() -> None:
    async with watching(Source(names="abc")) as watched:
        watched.source.names = ""
        await watched.rounds()
        await watched.clock.advance(PACE.patience.settle_seconds - ROUND_SECONDS)
        assert watched.names == "abc"
        await watched.clock.advance(2 * ROUND_SECONDS)
        assert watched.names == ""


async def test_a_source_that_hangs_fails_by_its_deadline(lines: Lines) -> None:
    source = Source(pace=Pace(3, 0.01, Patience(10, 30)), names="a")
    registry = ReplicaRegistry([])
    watch = ReplicaWatch(registry, source)
    await watch.look()
    source.hangs = True
    await watch.look()
    assert [replica.name for replica in registry.all()] == ["a"]
    (failed,) = lines("discovery_failed")
    assert "no answer within 0.01 s" in failed


async def test_a_defect_of_a_source_does_not_end_the_watch(lines: Lines) -> None:
    async with watching(Source(names="a")) as watched:
        watched.source.error = RuntimeError("a defect")
        await watched.rounds(2)
        watched.source.error, watched.source.names = None, "ab"
        await watched.rounds(2)
        assert watched.names == "ab"
        (failed,) = lines("discovery_failed")
        assert "RuntimeError: a defect" in failed


async def test_a_first_question_without_an_answer_leaves_the_configured_ones() -> None:
    source = Source(names="a", error=SourceUnavailable("not yet"))
    async with watching(source, endpoint("z")) as watched:
        assert watched.names == "z"
        source.error = None
        await watched.rounds()
        await settle()
        assert watched.names == "za"


async def test_a_bad_entry_is_told_of_once_and_again_when_it_came_back(lines: Lines) -> None:
    async with watching(Source(problems=(Problem("m", "it announces no url"),))) as watched:
        await watched.rounds(3)
        (told,) = lines("discovery_ignored")
        assert 'who=m reason="it announces no url"' in told
        problems, watched.source.problems = watched.source.problems, ()
        await watched.rounds(2)
        watched.source.problems = problems
        await watched.rounds(2)
        assert len(lines("discovery_ignored")) == 2


async def test_of_many_bad_entries_the_first_are_told_and_the_number_of_the_rest(lines: Lines) -> None:
    many = tuple(Problem(f"m{number:03}", "it announces no url") for number in range(500))
    async with watching(Source(problems=many)) as watched:
        await watched.rounds(3)
    told = lines("discovery_ignored")
    assert len(told) == MOST_PROBLEMS + 1
    assert "who=m000 " in told[0]
    assert told[-1].endswith(f"more={500 - MOST_PROBLEMS}")


async def test_a_revision_that_stays_saves_the_list_until_it_is_due_in_full() -> None:
    async with watching(Source(names="a", rev="1")) as watched:
        await watched.rounds(5)
        assert (watched.source.listings, watched.source.revisions) == (1, 6)
        watched.source.rev, watched.source.names = "2", "ab"
        await watched.rounds(2)
        assert (watched.source.listings, watched.names) == (2, "ab")
        watched.source.names = "abc"  # a list that changed under its old revision
        await watched.clock.advance(PACE.full_every_seconds + ROUND_SECONDS)
        assert (watched.source.listings, watched.names) == (3, "abc")


async def test_while_a_replica_is_missing_every_answer_is_a_new_list() -> None:
    async with watching(Source(names="abc", rev="1")) as watched:
        watched.source.rev, watched.source.names = "2", "ab"
        await watched.rounds(3)
        assert watched.source.listings >= 3
        watched.source.names = "abc"
        await watched.rounds(2)
        asked = watched.source.listings
        await watched.rounds(5)
        assert watched.source.listings == asked


async def test_cancelled_in_the_middle_of_a_question_it_leaves_nothing_behind() -> None:
    source = Source(names="a")
    async with watching(source) as watched:
        source.hangs = True
        await watched.clock.advance(ROUND_SECONDS)
        async with asyncio.timeout(5):
            await source.waiting.wait()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert watched.names == "a"


@pytest.mark.parametrize("every", [1, 30])
async def test_the_pace_is_the_sources(every: float) -> None:
    async with watching(Source(pace=Pace(every, 2, Patience(10, 30)))) as watched:
        before = watched.source.revisions
        await watched.clock.advance(every * (1 + JITTER))
        assert watched.source.revisions - before == 1
