"""Where real video is made: in a few threads beside the event loop, which goes on meanwhile.

What has been made lately is kept: a session that goes on at another replica of this process asks for what was
made already.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache

from emulator.media import Order, Segment

THREADS = 2
"""Encoding leaves the interpreter to others for most of its time, so that two threads use two cores."""
KEPT_SEGMENTS = 64
"""About 100 KB each."""


def begin(order: Order) -> asyncio.Future[Segment]:
    """The segment, once it is made. Cancelling it is safe: what nobody waits for any more is not begun."""
    return asyncio.get_running_loop().run_in_executor(_threads(), _made, order)


@lru_cache(maxsize=KEPT_SEGMENTS)
def _made(order: Order) -> Segment:
    # Only whoever wants real video needs the library that makes it.
    from emulator.media import mp4

    return mp4.encode(order)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="studio")
