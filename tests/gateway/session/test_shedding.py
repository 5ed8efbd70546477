"""Who is handed back, when, and how fast: by views and sessions in the test's hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from gateway.errors import SessionEnded
from gateway.fleet.sighting import Sighting
from gateway.fleet.surplus import MOVABLE
from gateway.session.core import Handover, UnhealthyPolicy
from gateway.session.shedding import Shedder, SheddingPolicy
from tests.gateway.fleet.views import member, view
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.manual_clock import settle

LOOPS = {"virtual": VirtualTimeLoop}

POLICY = SheddingPolicy(
    tolerance=0.2, settle=timedelta(seconds=30), per_second=2.0, beat=timedelta(seconds=5)
)


class Session:
    """An open session; `gone_at` once it was handed back."""

    waiting = False
    resumes = 0

    def __init__(self, handover: Handover = "now", *, age_seconds: float = 100.0) -> None:
        self.handover = handover
        self.since = now() - age_seconds
        self.gone_at: float | None = None
        self._granted: Callable[[], bool] | None = None

    def offer_handover(self, granted: Callable[[], bool]) -> None:
        self._granted = granted
        self.becomes(self.handover)

    def becomes(self, handover: Handover) -> None:
        """Something was said in it, and this is what it is like now."""
        self.handover = handover
        if handover == "now" and self._granted is not None and self._granted():
            self.handover, self.gone_at = "never", now()

    def fail(self, cause: SessionEnded) -> None:
        raise AssertionError("a shedding ends no session")

    def unhealthy(self, policy: UnhealthyPolicy) -> None:
        raise AssertionError("nor is any replica its concern")


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Member:
    """This gateway's membership: `hears` is a beat's answer."""

    id: str = "me"
    fresh: bool = True
    sighting: Sighting = field(default_factory=lambda: Sighting(view(), 0))
    listeners: list[Callable[[Sighting], None]] = field(default_factory=list)

    def excess(
        self, tolerance: float, settle: timedelta, movable: str | None = None, smallest: int = 1
    ) -> int:
        if not self.fresh or not self.sighting.settled(settle):
            return 0
        return self.sighting.view.excess(self.id, tolerance, settle, movable, smallest)

    def subscribe(self, listener: Callable[[Sighting], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


@dataclass
class Fixture:
    member: Member
    shedder: Shedder
    all: list[Session]
    draining: bool = False
    waiting: int = 0
    broken: bool = False

    def sessions(self) -> Sequence[Session]:
        return [session for session in self.all if session.gone_at is None]

    def load(self) -> int:
        if self.broken:
            raise ZeroDivisionError("a defect")
        return len(self.sessions())

    @property
    def gone(self) -> list[int]:
        """Which have been handed back, in that order."""
        gone = [(session.gone_at, number) for number, session in enumerate(self.all) if session.gone_at]
        return [number for _, number in sorted(gone)]

    async def hears(self, *others: int, since: float = 0.0, waiting: int = 0) -> None:
        """A beat is answered: the others' loads, and what this gateway has just reported."""
        self.answers(*others, since=since, waiting=waiting)
        await settle()

    def answers(self, *others: int, since: float = 0.0, waiting: int = 0) -> None:
        """The same, in the very moment of the answer."""
        load = len(self.sessions())
        seen = [member(f"other{at}", load=load, waiting=waiting) for at, load in enumerate(others)]
        me = member("me", since=since, load=load, movable=self.shedder.report()[MOVABLE])
        self.member.sighting = self.member.sighting.next(view(me, *seen, now=1000 + now()), now())
        for listener in self.member.listeners:
            listener(self.member.sighting)


@asynccontextmanager
async def shedding(*sessions: Session, policy: SheddingPolicy = POLICY) -> AsyncIterator[Fixture]:
    member = Member()
    shedder = Shedder(
        policy,
        roster := Fixture(member, None, list(sessions)),  # type: ignore[arg-type]
        load=lambda: roster.load(),
        waiting=lambda: roster.waiting,
    )
    roster.shedder = shedder
    # The first view misses nobody.
    member.sighting = Sighting(view(), 0)
    running = asyncio.create_task(shedder.run(member))
    await settle()
    try:
        yield roster
    finally:
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert member.listeners == []
        for session in roster.sessions():
            session.becomes("now")
            assert session.gone_at is None, "nobody goes after its end"


def idle(count: int) -> list[Session]:
    return [Session() for _ in range(count)]


async def test_what_is_above_the_mean_goes_one_by_one_the_oldest_first(
    lines: Callable[[str], list[str]],
) -> None:
    async with shedding(*idle(8)) as gateway:
        begun = now()
        await gateway.hears(0)
        assert gateway.gone == [0]
        await asyncio.sleep(10)
        assert gateway.gone == [0, 1, 2, 3]
        assert [session.gone_at - begun for session in gateway.all[:4] if session.gone_at] == pytest.approx(
            [0, 0.5, 1, 1.5]
        )
        assert lines("sessions_handed_back") == []
        await gateway.hears(4)
        assert lines("sessions_handed_back") == ["sessions_handed_back member=me sessions=4 left=4"]
        await asyncio.sleep(60)
        await gateway.hears(4)
        assert gateway.shedder.handed_back == 4
        assert len(lines("sessions_handed_back")) == 1


async def test_the_next_view_takes_the_place_of_what_was_left_of_the_last() -> None:
    async with shedding(*idle(20)) as gateway:
        await gateway.hears(0)
        await asyncio.sleep(1.2)
        assert len(gateway.gone) == 3
        await gateway.hears(17)
        await asyncio.sleep(60)
        assert len(gateway.gone) == 3
        await gateway.hears(9)
        await asyncio.sleep(60)
        assert len(gateway.gone) == 7, "17 and 9: down to 13"


async def test_those_that_went_count_as_there_until_every_report_is_newer() -> None:
    async with shedding(*idle(8)) as gateway:
        await gateway.hears(0)
        await asyncio.sleep(4)
        for _ in range(2):
            await gateway.hears(0)
            await asyncio.sleep(3)
        assert len(gateway.gone) == 4
        await asyncio.sleep(5)
        await gateway.hears(0)
        assert len(gateway.gone) == 5, "nobody came there"


async def test_the_pace_holds_over_views() -> None:
    policy = SheddingPolicy(0.2, timedelta(seconds=30), per_second=0.1, beat=timedelta(seconds=5))
    async with shedding(*idle(20), policy=policy) as gateway:
        for _ in range(10):
            await gateway.hears(0)
            await asyncio.sleep(3)
        assert len(gateway.gone) == 3


async def test_only_sessions_that_can_go_on_elsewhere_go() -> None:
    never, later, young = Session("never"), Session("later"), Session(age_seconds=10)
    async with shedding(never, later, young, *(Session("never") for _ in range(7)), Session()) as gateway:
        assert gateway.shedder.report() == {"movable": 2}
        await gateway.hears(0)
        await asyncio.sleep(3)
        assert gateway.gone == [10]
        later.becomes("now")
        assert gateway.gone == [10, 1]
        await asyncio.sleep(25)
        await gateway.hears(0)
        assert gateway.gone == [10, 1, 2]
        await asyncio.sleep(60)
        await gateway.hears(0)
        assert len(gateway.gone) == 3


async def test_one_that_is_at_work_goes_only_while_somebody_is_to_go() -> None:
    sessions = [Session("later") for _ in range(8)]
    async with shedding(*sessions) as gateway:
        await gateway.hears(2)
        sessions[5].becomes("now")
        sessions[6].becomes("now")
        assert gateway.gone == [5], "not two at once"
        await asyncio.sleep(0.5)
        assert gateway.gone == [5, 6]
        await asyncio.sleep(1)
        await gateway.hears(3)
        sessions[0].becomes("now")
        await asyncio.sleep(60)
        assert gateway.gone == [5, 6]


@pytest.mark.parametrize("why", ["stale", "draining", "waiting"])
async def test_nobody_goes_meanwhile(why: str) -> None:
    async with shedding(*idle(8)) as gateway:
        await gateway.hears(0)
        assert len(gateway.gone) == 1
        gateway.member.fresh = why != "stale"
        gateway.draining = why == "draining"
        gateway.waiting = 3 if why == "waiting" else 0
        await asyncio.sleep(10)
        assert len(gateway.gone) == 1
        if why == "stale":
            gateway.member.fresh = True
            await gateway.hears(0)
            assert len(gateway.gone) == 2


async def test_nobody_goes_while_clients_wait_at_another_gateway() -> None:
    async with shedding(*idle(8)) as gateway:
        await gateway.hears(0, waiting=1)
        await asyncio.sleep(10)
        assert gateway.gone == []
        await gateway.hears(0)
        assert gateway.gone == [0]


async def test_by_a_view_that_another_has_followed_nobody_goes() -> None:
    sessions = [Session("later") for _ in range(8)]
    async with shedding(*sessions) as gateway:
        await gateway.hears(0)
        gateway.answers(8)
        sessions[0].becomes("now")
        await settle()
        assert gateway.gone == []


async def test_nobody_goes_until_the_fleet_has_settled() -> None:
    async with shedding(*idle(8)) as gateway:
        joined = 990 + now()
        for _ in range(2):
            await gateway.hears(0, since=joined)
            await asyncio.sleep(15)
            assert gateway.gone == []
        await gateway.hears(0, since=joined)
        assert gateway.gone == [0]


async def test_a_member_that_vanished_unsettles_the_fleet() -> None:
    async with shedding(*idle(8)) as gateway:
        await gateway.hears(0, 8)
        await gateway.hears(0)
        assert len(gateway.gone) == 1, "by the view that still had everybody"
        await asyncio.sleep(29)
        await gateway.hears(0)
        assert len(gateway.gone) == 1
        await asyncio.sleep(2)
        await gateway.hears(0)
        assert len(gateway.gone) == 2


async def test_within_the_tolerance_nobody_goes() -> None:
    async with shedding(*idle(6)) as gateway:
        await gateway.hears(4)
        await asyncio.sleep(60)
        await gateway.hears(4)
        assert gateway.gone == []


async def test_what_was_not_reported_as_movable_does_not_go() -> None:
    async with shedding(*(Session("never") for _ in range(8))) as gateway:
        await gateway.hears(0)
        for session in gateway.all:
            session.becomes("now")
        await asyncio.sleep(60)
        assert gateway.gone == []


async def test_a_defect_ends_neither_the_shedding_nor_the_gateway(
    lines: Callable[[str], list[str]], tracebacks: Callable[[], list[type[BaseException] | None]]
) -> None:
    async with shedding(*idle(8)) as gateway:
        gateway.broken = True
        await gateway.hears(0)
        await asyncio.sleep(10)
        assert lines("shedding_failed") == ["shedding_failed member=me"]
        assert tracebacks() == [ZeroDivisionError]
        gateway.broken = False
        await gateway.hears(0)
        assert gateway.gone == [0]


async def test_a_step_that_its_end_cuts_short_is_told(lines: Callable[[str], list[str]]) -> None:
    async with shedding(*idle(8)) as gateway:
        await gateway.hears(0)
        await asyncio.sleep(0.6)
    assert lines("sessions_handed_back") == ["sessions_handed_back member=me sessions=2 left=6"]
