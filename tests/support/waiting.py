"""Waiting on a condition: the only way in which an end-to-end test lets time pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE_SECONDS = 20.0
"""How long a condition may take on a busy machine: a bound on a hang, never a verdict on speed."""


async def eventually(
    condition: Callable[[], object],
    what: str,
    *,
    timeout: float = PATIENCE_SECONDS,
    every: float = 0.02,
) -> None:
    """Return once `condition()`, awaited where it must be, is true.

    AssertionError with `what` and the last value when that does not come in time.
    """
    last: object = None
    try:
        async with asyncio.timeout(timeout):
            while True:
                value = condition()
                last = await value if isinstance(value, Awaitable) else value
                if last:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s: {what} (last value: {last!r})") from None
