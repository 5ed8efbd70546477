"""A member's life, beat by beat, in a time of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.member import MemberState, Report
from gateway.fleet.membership import FleetMembership
from gateway.fleet.memory_store import MemoryFleetStore, MemoryServer
from gateway.fleet.sighting import Sighting
from gateway.fleet.step import fleet_membership_lifecycle_step
from gateway.fleet.store import Beat
from tests.gateway.fleet.scripted_store import (
    APPLIED_UNANSWERED,
    FAILS,
    HANGS,
    SPEC,
    Fate,
    LoopServer,
    ScriptedStore,
)
from tests.gateway.fleet.views import seconds
from tests.gateway.session.virtual_time import LoopClock, VirtualTimeLoop

LOOPS = {"virtual": VirtualTimeLoop}
DEADLINE = 7 / 3
"""(ttl - every) / 3 of the spec of 10 s and the cadence of 3 s below."""
Lines = Callable[[str], list[str]]


def step(store: ScriptedStore | MemoryFleetStore, member_id: str = "me", **options: Any) -> FleetMembership:
    options = {"every": seconds(3), "clock": LoopClock(), **options}
    return fleet_membership_lifecycle_step(SPEC, store=store, member_id=member_id, **options)


def now() -> float:
    return asyncio.get_running_loop().time()


async def peek(server: MemoryServer) -> dict[str, str]:
    """Everyone's state, as a stranger sees it."""
    return {member.id: member.state for member in (await MemoryFleetStore(SPEC, server).view()).members}


async def test_it_begins_with_one_beat_as_starting() -> None:
    server = LoopServer()
    async with step(ScriptedStore(server), report=lambda: {"load": 3}) as membership:
        assert await peek(server) == {"me": "starting"}
        (member,) = membership.sighting.view.members
        assert (member.id, member.state, member.report) == ("me", "starting", {"load": 3})


async def test_it_beats_every_after_each_answer() -> None:
    store = ScriptedStore(LoopServer(), Fate(), Fate(delay_seconds=1.5), Fate(answer_delay_seconds=2))
    begin = now()
    async with step(store):
        await asyncio.sleep(20)
    assert [time - begin for time, _ in store.beats] == [0, 3, 7.5, 12.5, 15.5, 18.5]


async def test_its_state_is_the_one_that_its_process_is_in_at_the_beat() -> None:
    server, state = LoopServer(), MemberState.STARTING
    async with step(ScriptedStore(server), state=lambda: state):
        await asyncio.sleep(3.1)
        assert await peek(server) == {"me": "starting"}
        state = MemberState.SERVING
        await asyncio.sleep(2.8)
        assert await peek(server) == {"me": "starting"}
        await asyncio.sleep(0.2)
        assert await peek(server) == {"me": "serving"}
        state = MemberState.DRAINING
        await asyncio.sleep(3)
        assert await peek(server) == {"me": "draining"}


async def test_it_serves_after_its_start_unless_told_otherwise() -> None:
    server, load = LoopServer(), 1
    async with step(ScriptedStore(server), report=lambda: {"load": load}) as membership:
        load = 2
        await asyncio.sleep(3.1)
        (member,) = membership.sighting.view.members
        assert (member.state, member.report) == ("serving", {"load": 2})


@pytest.mark.parametrize(
    ("fate", "report", "error", "said"),
    [
        (FAILS, {}, FleetUnavailable, "connection refused"),
        (HANGS, {}, FleetUnavailable, "no answer within 2.33 s"),
        (Fate(), {"load": True}, FleetRefused, "truth value"),
        (Fate(), {"zone": "x" * 5000}, FleetRefused, "report_max_bytes"),
    ],
)
async def test_a_first_beat_that_fails_stops_the_start(
    fate: Fate, report: Report, error: type[Exception], said: str
) -> None:
    server, begin, opened = LoopServer(), now(), Opened()
    with pytest.raises(error, match=said):
        async with step(ScriptedStore(server, fate), report=lambda: report, depends_on=[opened.context()]):
            raise AssertionError("it has begun")
    assert now() - begin <= DEADLINE + 1e-6
    assert await peek(server) == {}
    assert opened.story == ["opened", "closed"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_report_that_raises_stops_the_start() -> None:
    def report() -> Report:
        raise LookupError("no such counter")

    with pytest.raises(LookupError):
        async with step(ScriptedStore(LoopServer()), report=report):
            raise AssertionError("it has begun")


async def test_a_failed_beat_is_told_once_and_the_next_one_tries_again(lines: Lines) -> None:
    store = ScriptedStore(LoopServer(), Fate(), FAILS, FAILS, HANGS)
    begin = now()
    async with step(store) as membership:
        await asyncio.sleep(4)
        assert membership.status().failing == "connection refused"
        assert not membership.fresh
        await asyncio.sleep(12)
        assert membership.status().failing is None
        assert membership.fresh
    times = [time - begin for time, _ in store.beats]
    assert times == pytest.approx([0, 3, 6, 9, 12 + DEADLINE])
    (failed,) = lines("fleet_beat_failed")
    assert "view_age_seconds=3 " in failed
    assert 'reason="connection refused"' in failed
    (again,) = lines("fleet_beats_again")
    assert "failed_beats=3" in again
    assert f"seconds={9 + DEADLINE:.3f}" in again


async def test_one_beat_that_fails_drops_nobody() -> None:
    server = LoopServer()
    async with step(ScriptedStore(server, Fate(), FAILS), every=seconds(4.9)) as membership:
        since = membership.sighting.view.members[0].since
        for _ in range(300):
            assert await peek(server) != {}
            await asyncio.sleep(0.05)
        assert membership.sighting.view.members[0].since == since


async def test_a_slow_answer_and_a_slow_write_fit_into_the_ttl() -> None:
    server = LoopServer()
    late, slow = Fate(answer_delay_seconds=DEADLINE - 0.01), Fate(delay_seconds=DEADLINE - 0.01)
    store = ScriptedStore(server, late, slow)
    async with step(store, every=seconds(3)) as membership:
        since = membership.sighting.view.members[0].since
        await asyncio.sleep(10)
        assert membership.sighting.view.members[0].since == since


async def test_a_beat_that_was_cut_off_may_have_been_applied() -> None:
    server, load = LoopServer(), 1
    store = ScriptedStore(server, Fate(), APPLIED_UNANSWERED)
    async with step(store, report=lambda: {"load": load}) as membership:
        load = 2
        await asyncio.sleep(3 + DEADLINE + 0.1)
        assert membership.status().failed_beats == 1
        assert membership.sighting.view.members[0].report == {"load": 1}
        view = await MemoryFleetStore(SPEC, server).view()
        assert view.members[0].report == {"load": 2}
        await asyncio.sleep(3)
        assert membership.sighting.view.members[0].report == {"load": 2}
        assert membership.status().failed_beats == 0


async def test_an_answer_to_a_process_that_was_stopped_meanwhile_is_too_old_to_be_used() -> None:
    """The timer does not cut it off: when the process runs again, answer and timer are due in one moment."""
    server = LoopServer()
    store = ScriptedStore(server)
    stopped = StoppedClock()
    async with step(store, clock=stopped) as membership:
        await asyncio.sleep(3.1)
        seen = membership.sighting.view.at
        stopped.stop_during_next_beat_seconds = 60.0
        await asyncio.sleep(3)
        assert membership.status().failing == "the answer came after 60 s"
        assert membership.sighting.view.at == seen
        assert not membership.fresh


class StoppedClock(LoopClock):
    """Ahead of the loop by the time for which the process was stopped."""

    stop_during_next_beat_seconds = 0.0
    ahead_seconds = 0.0

    def monotonic(self) -> float:
        told = super().monotonic() + self.ahead_seconds
        self.ahead_seconds += self.stop_during_next_beat_seconds
        self.stop_during_next_beat_seconds = 0.0
        return told


async def test_a_report_that_raises_later_is_told_with_its_traceback(
    lines: Lines, tracebacks: Callable[[], list[type[BaseException] | None]]
) -> None:
    broken = False

    def report() -> Report:
        if broken:
            raise LookupError("no such counter")
        return {"load": 1}

    server = LoopServer()
    async with step(ScriptedStore(server), report=report) as membership:
        broken = True
        await asyncio.sleep(7)
        assert membership.status().failing == "LookupError: no such counter"
        broken = False
        await asyncio.sleep(3)
        assert membership.status().failing is None
    assert len(lines("fleet_beat_failed")) == 1
    assert tracebacks() == [LookupError]


async def test_a_report_that_is_refused_later_is_told_too(lines: Lines) -> None:
    said: Report = {}
    async with step(ScriptedStore(LoopServer()), report=lambda: said) as membership:
        said = {"load": float("nan")}
        await asyncio.sleep(7)
        assert "finite" in str(membership.status().failing)
    assert len(lines("fleet_beat_failed")) == 1


async def test_who_leaves_is_gone_at_once(lines: Lines) -> None:
    server = LoopServer()
    async with step(ScriptedStore(server)):
        await asyncio.sleep(4)
    assert await peek(server) == {}
    assert "how=leave" in lines("fleet_left")[0]
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(("linger_for", "alive"), [(2.0, 2.0), (60.0, 60.0), (None, 10.0)])
async def test_who_lingers_is_seen_draining_for_that_long(
    linger_for: float | None, alive: float, lines: Lines
) -> None:
    server = LoopServer()
    options: dict[str, Any] = {}
    if linger_for is not None:
        options["linger_for"] = seconds(linger_for)
    async with step(ScriptedStore(server), "other"):
        async with step(ScriptedStore(server), on_stop="linger", report=lambda: {"load": 5}, **options):
            await asyncio.sleep(4)
        left = now()
        (mine, _) = (await MemoryFleetStore(SPEC, server).view()).members
        assert (mine.id, mine.state, mine.report) == ("me", "draining", {"load": 5})
        await asyncio.sleep(left + alive - 0.01 - now())
        assert await peek(server) == {"me": "draining", "other": "serving"}
        await asyncio.sleep(0.02)
        assert await peek(server) == {"other": "serving"}
    assert "how=linger" in lines("fleet_left")[0]


async def test_a_report_that_fails_at_the_end_does_not_keep_it_from_lingering() -> None:
    server, broken = LoopServer(), False

    def report() -> Report:
        if broken:
            raise LookupError("no such counter")
        return {"load": 1}

    async with step(ScriptedStore(server), on_stop="linger", report=report):
        broken = True
    assert await peek(server) == {"me": "draining"}


async def test_a_beat_that_is_under_way_at_the_end_is_waited_for() -> None:
    server = LoopServer()
    store = ScriptedStore(server, Fate(), Fate(delay_seconds=2))
    async with step(store):
        begin = now()
        await asyncio.sleep(4)
    assert now() - begin == pytest.approx(5)
    assert store.leaves == [(begin + 5, "me")]
    assert await peek(server) == {}


@pytest.mark.parametrize("fate", [FAILS, HANGS])
async def test_an_entry_that_could_not_be_removed_expires(fate: Fate, lines: Lines) -> None:
    server = LoopServer()
    async with step(ScriptedStore(server, Fate(), fate)):
        begin = now()
    assert now() - begin <= DEADLINE + 1e-6
    assert await peek(server) == {"me": "starting"}
    assert "how=expires" in lines("fleet_left")[0]
    await asyncio.sleep(10)
    assert await peek(server) == {}


class Opened:
    """Something that a membership depends on, and what became of it."""

    def __init__(self, store: ScriptedStore | None = None) -> None:
        self.story: list[str] = []
        self._store = store

    @asynccontextmanager
    async def context(self) -> AsyncIterator[None]:
        self.story.append("opened")
        try:
            yield
        finally:
            if self._store is not None:
                self.story.append(f"{len(self._store.beats)} beats, {len(self._store.leaves)} leaves")
            self.story.append("closed")


async def test_what_it_depends_on_is_open_from_before_the_first_beat_until_after_the_last() -> None:
    store = ScriptedStore(LoopServer())
    opened = Opened(store)
    async with step(store, depends_on=[opened.context()]):
        assert opened.story == ["opened"]
        await asyncio.sleep(4)
    assert opened.story == ["opened", "2 beats, 1 leaves", "closed"]


async def test_what_is_raised_inside_comes_out_as_it_is_and_the_member_leaves() -> None:
    server = LoopServer()
    with pytest.raises(KeyError):
        async with step(ScriptedStore(server)):
            raise KeyError("x")
    assert await peek(server) == {}


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_at_any_moment_it_leaves_no_task_behind(turns: int) -> None:
    server = LoopServer()
    slow = Fate(delay_seconds=0.5, answer_delay_seconds=0.5)

    async def run() -> None:
        async with step(ScriptedStore(server, slow, slow, slow)):
            await asyncio.sleep(1e6)

    task = asyncio.create_task(run())
    await asyncio.sleep(turns * 0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(asyncio.all_tasks()) == 1
    if turns > 2:
        assert await peek(server) == {}


async def test_a_member_whose_process_was_stopped_learns_that_it_was_expired(lines: Lines) -> None:
    server = LoopServer()
    async with step(ScriptedStore(server)) as membership:
        await asyncio.sleep(4)
        first = membership.sighting.view.members[0].since
        server.ahead_seconds = 60.0  # the store's time went on while the process did not run
        await asyncio.sleep(3)
        assert membership.sighting.view.members[0].since == first + seconds(66)
    (line,) = lines("fleet_entry_was_expired")
    assert "absent_seconds=63" in line


async def test_a_second_live_process_under_one_id_is_told_by_both(lines: Lines) -> None:
    server = LoopServer()
    async with step(ScriptedStore(server)) as one:
        await asyncio.sleep(1)
        async with step(ScriptedStore(server)) as two:
            await asyncio.sleep(20)
            assert one.status().id_shared
            assert two.status().id_shared
            assert len(one.sighting.view.members) == 1
        assert len(lines("fleet_id_shared")) == 2
        assert len(lines("fleet_id_taken_over")) == 1
        await asyncio.sleep(15)
        assert not one.status().id_shared
    assert len(lines("fleet_id_own_again")) == 1


async def test_a_process_that_leaves_does_not_take_its_successors_entry_with_it() -> None:
    server = LoopServer()
    old = step(ScriptedStore(server))
    await old.__aenter__()
    await asyncio.sleep(1)
    async with step(ScriptedStore(server)) as successor:
        await asyncio.sleep(4)  # the successor has beaten last
        await old.__aexit__(None, None, None)
        assert await peek(server) == {"me": "serving"}
        await asyncio.sleep(20)
        assert not successor.status().id_shared
    assert await peek(server) == {}


async def test_a_stable_id_keeps_its_since_over_a_restart_within_the_ttl(lines: Lines) -> None:
    server = LoopServer()
    await MemoryFleetStore(SPEC, server).beat(Beat("me", incarnation="killed"))
    begin = now()
    await asyncio.sleep(5)
    async with step(ScriptedStore(server)) as membership:
        assert membership.sighting.view.members[0].since.timestamp() == begin
        await asyncio.sleep(10)
        assert not membership.status().id_shared
    assert lines("fleet_id_shared") == []
    assert "incarnation=killed" in lines("fleet_id_taken_over")[0]


async def test_others_that_come_and_go_are_told_once_each(lines: Lines) -> None:
    server = LoopServer()
    async with step(ScriptedStore(server)):
        async with step(ScriptedStore(server), "other"):
            await asyncio.sleep(10)
        await asyncio.sleep(10)
    mine = [line for line in lines("fleet_changed") if "member=me" in line]
    assert [line.partition("members=")[2] for line in mine] == ["2 joined=other", "1 gone=other"]


async def test_many_that_come_at_once_are_counted(lines: Lines) -> None:
    server = LoopServer()
    store = MemoryFleetStore(SPEC, server)
    async with step(ScriptedStore(server)):
        for number in range(6):
            await store.beat(Beat(f"m{number}"))
        await asyncio.sleep(4)
    assert lines("fleet_changed")[0].endswith("members=7 joined=6")


async def test_who_listens_hears_of_every_answered_beat_until_it_ends_that() -> None:
    store = ScriptedStore(LoopServer(), Fate(), Fate(), FAILS)
    heard: list[Sighting] = []
    async with step(store) as membership:
        end = membership.subscribe(heard.append)
        await asyncio.sleep(10)
        end()
        end()
        await asyncio.sleep(10)
    assert [sighting.view.at for sighting in heard] == store.seen[1:3]


async def test_while_beats_fail_the_view_is_kept_and_ages_and_nothing_is_handed_over() -> None:
    server, settle = LoopServer(), seconds(20)
    other = MemoryFleetStore(SPEC, server)
    await other.beat(Beat("zero", report={"load": 0}, ttl=seconds(1000)))
    store = ScriptedStore(server)
    async with step(store, report=lambda: {"load": 10}) as membership:
        await asyncio.sleep(4)
        assert membership.excess(0.1, settle) == 0  # not settled
        await asyncio.sleep(21)
        assert membership.excess(0.1, settle) == 5
        assert membership.share(11) == 6
        store.fates = [FAILS] * 20
        await asyncio.sleep(3)
        assert membership.excess(0.1, settle) == 0
        await asyncio.sleep(27)
        assert membership.status().age_seconds > 27
        assert membership.share(11) == 6
        assert [member.id for member in membership.sighting.view.members] == ["me", "zero"]
        store.fates = []
        await asyncio.sleep(4)  # an answer came; its own entry had expired meanwhile
        assert membership.fresh
        assert membership.excess(0.1, settle) == 0
        await asyncio.sleep(21)
        assert membership.excess(0.1, settle) == 5


async def test_an_overdue_beat_makes_the_view_old_before_it_has_failed() -> None:
    store = ScriptedStore(LoopServer())
    async with step(store) as membership:
        assert membership.fresh
        asyncio.get_running_loop()._jumper.now += 60  # type: ignore[attr-defined] # the process was stopped
        assert not membership.fresh


async def test_before_its_first_beat_there_is_no_view() -> None:
    membership = step(ScriptedStore(LoopServer()))
    with pytest.raises(RuntimeError, match="async with"):
        _ = membership.sighting


@pytest.mark.parametrize("on_stop", ["leave", "linger"])
@pytest.mark.parametrize("fates", [[], [Fate(), HANGS]], ids=["while it rests", "while a beat is under way"])
async def test_who_is_abandoned_says_nothing_more_and_expires(on_stop: str, fates: list[Fate]) -> None:
    server = LoopServer()
    store = ScriptedStore(server, *fates)
    async with step(store, on_stop=on_stop) as membership:
        await asyncio.sleep(4)
        membership.abandon()
        beats, ended = len(store.beats), now()
    assert (now(), len(store.beats), store.leaves) == (ended, beats, [])
    assert list(await peek(server)) == ["me"]
    await asyncio.sleep(10)
    assert await peek(server) == {}
    assert len(asyncio.all_tasks()) == 1


async def test_who_has_something_new_to_say_beats_before_its_time() -> None:
    store = ScriptedStore(LoopServer())
    begin = now()
    async with step(store) as membership:
        membership.beat_soon()
        await asyncio.sleep(1.5)
        membership.beat_soon()
        membership.beat_soon()
        await asyncio.sleep(5)
    assert [time - begin for time, _ in store.beats] == [0, 0.25, 1.5, 4.5]


async def test_what_changes_during_a_beat_is_said_in_one_more() -> None:
    store = ScriptedStore(LoopServer(), Fate(), Fate(answer_delay_seconds=1))
    begin = now()
    async with step(store) as membership:
        await asyncio.sleep(3.5)
        membership.beat_soon()
        await asyncio.sleep(3)
    assert [time - begin for time, _ in store.beats] == [0, 3, 4.25]


async def test_while_beats_fail_none_comes_before_its_time() -> None:
    store = ScriptedStore(LoopServer(), Fate(), FAILS, FAILS)
    begin = now()
    async with step(store) as membership:
        for _ in range(40):
            membership.beat_soon()
            await asyncio.sleep(0.2)
    assert [time - begin for time, _ in store.beats][:4] == [0, 0.25, 3.25, 6.25]
