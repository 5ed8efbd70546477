"""A drain: who is waited for, who is ended, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.errors import GatewayRestarting, SessionEnded
from gateway.session import roster as module
from gateway.session.core import Handover, UnhealthyPolicy
from gateway.session.roster import Roster
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}


class Session:
    """An open session that ends `lingers_seconds` after it was told to."""

    def __init__(self, lingers_seconds: float = 0, *, waiting: bool = False) -> None:
        self.waiting = waiting
        self.resumes = 0
        self.handover: Handover = "never"
        self.since = asyncio.get_running_loop().time()
        self.unhealthy_policies: list[UnhealthyPolicy] = []
        self.causes: list[SessionEnded] = []
        self.told_at: float | None = None
        self.over = asyncio.Event()
        self._lingers_seconds = lingers_seconds

    def fail(self, cause: SessionEnded) -> None:
        loop = asyncio.get_running_loop()
        self.causes.append(cause)
        self.told_at = loop.time()
        loop.call_later(self._lingers_seconds, self.over.set)

    def unhealthy(self, policy: UnhealthyPolicy) -> None:
        self.unhealthy_policies.append(policy)

    def offer_handover(self, granted: Callable[[], bool]) -> None:
        """It never goes."""


async def hold(
    roster: Roster, session: Session, opens_after: float = 0, *, replica: str | None = None
) -> None:
    """One session's life in the roster."""
    with roster.entry() as entry:
        if opens_after:
            await asyncio.sleep(opens_after)
        entry.opened(session, has_replica=not session.waiting)
        entry.replica = replica
        await session.over.wait()


async def test_sessions_are_listed_while_they_last() -> None:
    roster = Roster()
    assert len(roster) == 0
    with roster.entry(), roster.entry():
        assert len(roster) == 2
    assert len(roster) == 0
    with pytest.raises(ZeroDivisionError), roster.entry():
        raise ZeroDivisionError
    assert len(roster) == 0


async def test_an_empty_roster_drains_at_once() -> None:
    loop, roster = asyncio.get_running_loop(), Roster()
    before = loop.time()
    assert not roster.draining
    await roster.drain(timeout_seconds=30, spread_seconds=2)
    assert roster.draining
    assert loop.time() == before


async def test_sessions_may_go_on_and_the_drain_ends_with_the_last() -> None:
    loop, roster, sessions = asyncio.get_running_loop(), Roster(), [Session(), Session()]
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for session in sessions:
            tasks.create_task(hold(roster, session))
        await settle()
        drain = tasks.create_task(roster.drain(timeout_seconds=30, spread_seconds=2))
        await settle()
        assert roster.draining
        await asyncio.sleep(10)
        sessions[0].over.set()
        await asyncio.sleep(10)
        assert not drain.done()
        sessions[1].over.set()
        await drain
    assert loop.time() == before + 20
    assert not roster.deadline_passed
    assert [session.causes for session in sessions] == [[], []]


async def test_at_the_deadline_the_rest_is_ended_spread_out() -> None:
    loop, roster, sessions = asyncio.get_running_loop(), Roster(), [Session() for _ in range(4)]
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for session in sessions:
            tasks.create_task(hold(roster, session))
        await settle()
        await roster.drain(timeout_seconds=30, spread_seconds=2)
    assert all(isinstance(session.causes[0], GatewayRestarting) for session in sessions)
    assert all(len(session.causes) == 1 for session in sessions)
    times = sorted(session.told_at - before for session in sessions if session.told_at is not None)
    assert times == pytest.approx([30, 30.5, 31, 31.5])
    assert len(roster) == 0


async def test_a_session_that_still_opens_at_the_deadline_is_ended_as_it_opens() -> None:
    roster, session = Roster(), Session()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold(roster, session, opens_after=32))
        await settle()
        await roster.drain(timeout_seconds=30, spread_seconds=2)
        assert len(roster) == 0
    assert [type(cause) for cause in session.causes] == [GatewayRestarting]


async def test_a_session_that_opens_during_the_drain_is_ended_at_the_deadline() -> None:
    loop, roster, session = asyncio.get_running_loop(), Roster(), Session()
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold(roster, session, opens_after=10))
        await settle()
        await roster.drain(timeout_seconds=30, spread_seconds=2)
    assert session.told_at == before + 30


async def test_sessions_that_wait_for_a_replica_are_ended_at_once() -> None:
    loop, roster = asyncio.get_running_loop(), Roster()
    before = loop.time()
    waiting, moves, served = Session(waiting=True), Session(), Session()
    async with asyncio.TaskGroup() as tasks:
        for session in (waiting, moves, served):
            tasks.create_task(hold(roster, session))
        await settle()
        moves.waiting = True
        await roster.drain(timeout_seconds=30, spread_seconds=0)
    assert [session.told_at for session in (waiting, moves, served)] == [before, before, before + 30]
    assert {type(cause) for cause in waiting.causes} == {GatewayRestarting}


@pytest.mark.parametrize(("waiting", "ends_after"), [(True, 10), (False, 30)])
async def test_a_session_that_opens_during_the_drain_and_waits_is_ended_at_once(
    waiting: bool, ends_after: float
) -> None:
    loop, roster, session = asyncio.get_running_loop(), Roster(), Session(waiting=waiting)
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold(roster, session, opens_after=10))
        await settle()
        await roster.drain(timeout_seconds=30, spread_seconds=0)
    assert session.told_at == before + ends_after


async def test_an_unhealthy_replica_is_told_to_exactly_its_sessions() -> None:
    roster, on_a, on_b, nowhere = Roster(), [Session(), Session()], Session(), Session()
    async with asyncio.TaskGroup() as tasks:
        for session in on_a:
            tasks.create_task(hold(roster, session, replica="http://a"))
        tasks.create_task(hold(roster, on_b, replica="http://b"))
        tasks.create_task(hold(roster, nowhere))
        still_opens = tasks.create_task(hold(roster, Session(), opens_after=1000))
        await settle()
        roster.unhealthy("http://a", "close")
        roster.unhealthy("http://c", "close")
        assert [session.unhealthy_policies for session in on_a] == [["close"]] * 2
        assert on_b.unhealthy_policies == nowhere.unhealthy_policies == []
        still_opens.cancel()
        for session in (*on_a, on_b, nowhere):
            session.over.set()


async def test_sessions_may_end_while_they_are_told() -> None:
    roster = Roster()
    with roster.entry() as first, roster.entry() as second:

        class Ends(Session):
            def unhealthy(self, policy: UnhealthyPolicy) -> None:
                super().unhealthy(policy)
                first.replica = second.replica = None

        sessions = Ends(), Ends()
        for entry, session in zip((first, second), sessions, strict=True):
            entry.opened(session, has_replica=True)
            entry.replica = "http://a"
        roster.unhealthy("http://a", "drain")
        assert sum(len(session.unhealthy_policies) for session in sessions) == 1


async def test_a_session_that_does_not_end_holds_the_drain_up_only_so_long() -> None:
    loop, roster, session = asyncio.get_running_loop(), Roster(), Session(lingers_seconds=1000)
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(hold(roster, session))
        await settle()
        await roster.drain(timeout_seconds=30, spread_seconds=2)
        assert loop.time() <= before + 30 + 2 + module.FAREWELL_SECONDS + 0.001
        assert len(roster) == 1


async def test_hurrying_brings_the_deadline_forward_and_spreads_nothing() -> None:
    loop, roster, sessions = asyncio.get_running_loop(), Roster(), [Session() for _ in range(3)]
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for session in sessions:
            tasks.create_task(hold(roster, session))
        await settle()
        drain = tasks.create_task(roster.drain(timeout_seconds=30, spread_seconds=2))
        await asyncio.sleep(5)
        roster.hurry()
        await drain
    assert [session.told_at for session in sessions] == [before + 5] * 3


async def test_hurrying_in_the_middle_of_the_spread_ends_the_rest_at_once() -> None:
    loop, roster, sessions = asyncio.get_running_loop(), Roster(), [Session() for _ in range(4)]
    before = loop.time()
    async with asyncio.TaskGroup() as tasks:
        for session in sessions:
            tasks.create_task(hold(roster, session))
        await settle()
        drain = tasks.create_task(roster.drain(timeout_seconds=30, spread_seconds=40))
        await asyncio.sleep(31)
        roster.hurry()
        await drain
    assert sorted(session.told_at or 0 for session in sessions) == [before + 30] + [before + 31] * 3


async def test_a_cancelled_drain_leaves_no_task() -> None:
    roster = Roster()
    with roster.entry():
        drain = asyncio.create_task(roster.drain(timeout_seconds=30, spread_seconds=2))
        await settle()
        drain.cancel()
        with pytest.raises(asyncio.CancelledError):
            await drain
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_resumes_of_open_sessions_and_of_those_that_have_ended_are_counted() -> None:
    roster = Roster()
    first, second = Session(), Session()
    with roster.entry() as waiting, roster.entry() as longer:
        with roster.entry() as entry:
            entry.opened(first, has_replica=True)
            longer.opened(second, has_replica=True)
            first.resumes, second.resumes = 2, 1
            assert roster.resumes == 3
        assert roster.resumes == 3
        second.resumes = 5
        assert roster.resumes == 7
        assert waiting.session is None
    assert roster.resumes == 7


async def test_sessions_are_listed_from_the_oldest_once_they_are_answered() -> None:
    roster, sessions = Roster(), [Session() for _ in range(5)]
    with roster.entry() as first, roster.entry() as second, roster.entry():
        second.opened(sessions[1], has_replica=True)
        first.opened(sessions[0], has_replica=True)
        with roster.entry() as third:
            third.opened(sessions[2], has_replica=True)
            assert roster.sessions() == sessions[:3]
        assert roster.sessions() == sessions[:2]
