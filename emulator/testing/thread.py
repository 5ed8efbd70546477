"""A farm with its control API in a thread of its own, with an event loop of its own.

A thread, not a process: it is there in hundredths of a second, so that every test has a fresh one and the
same seed gives the same faults in each; and its log can be read when all else fails. A test that blocks does
not stop it. What a test does to its whole process it does to the farm too, a frozen clock for one;
`isolate="process"` has replicas that are out of reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future

from emulator.control.server import ControlServer
from emulator.farm import Farm

HOST = "127.0.0.1"
START_SECONDS = 60.0
"""Many replicas that are processes of their own take their time."""
STOP_SECONDS = 30.0


class FarmThread:
    """`start` it, then `stop` it, both from outside."""

    def __init__(self, make: Callable[[], Farm]) -> None:
        """`make` is called in the thread."""
        self._make = make
        self._ready: Future[tuple[Farm, str]] = Future()
        self._stop: Callable[[], None] | None = None
        # A farm that hangs does not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._main, name="emulator farm", daemon=True)
        self._failure: BaseException | None = None

    def start(self) -> tuple[Farm, str]:
        """The farm runs, and its control API at this URL. Raises what kept it from that."""
        self._thread.start()
        return self._ready.result(START_SECONDS)

    def stop(self) -> None:
        """Nothing of the farm is left. Raises what ended it before its time, TimeoutError when it hangs."""
        if self._stop is not None:
            # Its loop is closed when it has ended by itself.
            with contextlib.suppress(RuntimeError):
                self._stop()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"the emulator did not stop within {STOP_SECONDS:g} s")
        if self._failure is not None:
            raise self._failure

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001
            # The thread's outermost frame: raised again for whoever waits, by `start` or by `stop`.
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()

        def stop_soon() -> None:
            loop.call_soon_threadsafe(stop.set)

        self._stop = stop_soon
        with socket.socket() as bound:
            bound.bind((HOST, 0))
            farm = self._make()
            control = ControlServer(farm, bound)
            async with farm, asyncio.TaskGroup() as group:
                serving = group.create_task(control.run())
                await control.wait_until_up()
                self._ready.set_result((farm, control.url))
                waiting = group.create_task(stop.wait())
                await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                control.stop()
