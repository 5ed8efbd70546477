from __future__ import annotations

import asyncio

import pytest

from emulator.control.feed import Feed, TooManyWaiting
from emulator.events import EventLog, Wanted

LONG_SECONDS = 20.0


def record(log: EventLog, replica: str = "a", kind: str = "port_opened", session: int | None = None) -> None:
    log.record(replica, kind, at=0.0, session=session)


async def test_who_waits_is_woken_by_what_is_wanted_and_by_nothing_else() -> None:
    feed = Feed(EventLog())
    with feed.waiter(Wanted(replica="b", kinds=frozenset({"port_closed"}), session=2)) as waiter:
        record(feed.log, "b", "port_closed", 1)
        record(feed.log, "a", "port_closed", 2)
        record(feed.log, "b", "port_opened", 2)
        assert not await waiter.pause(0.0)
        record(feed.log, "b", "port_closed", 2)
        assert await waiter.pause(LONG_SECONDS)
        assert not await waiter.pause(0.0), "one event wakes once"


async def test_an_event_that_comes_while_nobody_pauses_is_not_lost() -> None:
    feed = Feed(EventLog())
    with feed.waiter(Wanted()) as waiter:
        record(feed.log)
        assert await waiter.pause(LONG_SECONDS)


async def test_places_are_bounded_and_free_again() -> None:
    feed = Feed(EventLog(), places=1)
    with feed.waiter(Wanted()):
        assert (feed.waiting, feed.is_full) == (1, True)
        with pytest.raises(TooManyWaiting), feed.waiter(Wanted()):
            pass
    assert (feed.waiting, feed.is_full) == (0, False)


async def test_a_cancelled_wait_frees_its_place() -> None:
    feed = Feed(EventLog())
    entered = asyncio.Event()

    async def wait() -> None:
        with feed.waiter(Wanted()) as waiter:
            entered.set()
            await waiter.pause(LONG_SECONDS)

    task = asyncio.create_task(wait())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert feed.waiting == 0


async def test_the_end_wakes_all_and_nobody_waits_after_it() -> None:
    feed = Feed(EventLog())
    with feed.waiter(Wanted()) as first, feed.waiter(Wanted()) as second:
        feed.close()
        assert await first.pause(LONG_SECONDS)
        assert await second.pause(LONG_SECONDS)
    with feed.waiter(Wanted()) as late:
        assert await late.pause(LONG_SECONDS)
