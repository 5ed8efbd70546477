"""All that the gateway needs of Granian beyond its public surface. Each piece is pinned by a test, and
Granian by version.

1. `granian gateway.app:app` without flags serves RSGI, where close codes, reasons and subprotocols do not
   exist. The application is loaded in the worker, before the worker looks up its server class and its call
   wrapper; so loading it is the moment to have ASGI served there instead.
2. A termination signal cuts every WebSocket within milliseconds. The function that installs a worker's signal
   handlers is looked up just as late; ours lets the gateway drain before it passes the signal on.
3. Two servers may have one port without a word, so a worker that finds it served refuses to start.
4. Granian's main process forwards only the first signal. `serve` runs one that forwards the second as well.
5. What a message costs there is mostly the trips between its threads. `session/asgi_writer.py` saves some of
   them where sends keep their order, which is where one thread serves a connection: we look which of the
   worker's `serve_*` methods is used. And it needs Granian's own `send`, which begins when it is called; the
   framework's wrappers do not.

Where a name is missing, starting is refused: half of it would lose close codes and sessions without a word.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from types import FrameType, ModuleType
from typing import Any, NoReturn, Protocol

from gateway.errors import RuntimeRefused
from gateway.listeners import another_server
from gateway.logs import configure, log_line
from gateway.routes.stream import NoSessionHere
from gateway.runtime import Resolved
from gateway.session.asgi_door import WIRE, Wire
from gateway.settings import Settings, bindable_or_exit
from gateway.wiring import Gateway

logger = logging.getLogger("streamhold.host")

PINNED_GRANIAN = "2.8.9"

SAME_SIGNAL_SECONDS = 1.0
"""Signals within this time count as one: a terminal's Ctrl-C reaches a worker twice, itself and through the
main process.
"""

HURRY_SECONDS = 0.5
"""After a second signal: how long the closes may take to reach their clients."""

KEEP_ORDER = ("serve_str", "serve_str_uds")
"""The worker's methods under which one thread serves a connection (`--runtime-mode st`), so that its sends
run in the order in which they began. Under `mt` any thread takes the next one.
"""

STOP_SECONDS = 3.0
"""How long the worker may take to stop once no session is left."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


class Hosted(Protocol):
    """What a termination signal acts on, and what may refuse to start."""

    async def drain(self) -> None:
        """Return once no session is left."""

    def hurry(self) -> None:
        """Have a `drain` that is under way end its sessions now."""

    @property
    def refusal(self) -> str | None:
        """Why the lifespan did not begin, in a line for whoever started it; None for a defect, too."""


class HostedApp:
    """What Granian serves: an ASGI application under either of its asynchronous interfaces.

    Under RSGI, Granian calls `__rsgi_init__` and `__rsgi_del__` while the loop stands still; the lifespan
    runs there.
    """

    def __init__(self, app: ASGIApp, gateway: Hosted, *, in_fleet: bool = False) -> None:
        self._app = app
        self._gateway = gateway
        self.in_fleet = in_fleet
        """Its workers know of each other."""
        self._lifespan: Any = None
        self.sends_keep_order = False
        """Whether this worker's sends leave in the order of their calls; not unless it is known."""
        self._missing: str | None = "this process is not a worker of it"
        worker = sys.modules.get("granian.server.mp")
        if worker is not None:
            self._missing = _serve_asgi_for_rsgi(worker, self)
            _drain_on_signals(gateway)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        match scope["type"]:
            case "websocket":
                scope[WIRE] = Wire(receive, send, self.sends_keep_order)
                await self._app(scope, receive, send)
            case "lifespan":
                await self._live(scope, receive, send)
            case _:
                await self._app(scope, receive, send)

    async def _live(self, scope: Any, receive: Any, send: Any) -> None:
        """The lifespan. A start that is refused is told in a line, where the framework sends its traceback
        and Granian prints that of the exception.
        """

        async def tell(message: Any) -> None:
            if message["type"] == "lifespan.startup.failed" and self._gateway.refusal is not None:
                _tell(self._gateway.refusal)
                message = {"type": message["type"], "message": ""}
            await send(message)

        try:
            await self._app(scope, receive, tell)
        except Exception:
            if self._gateway.refusal is None:
                raise

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        raise RuntimeRefused(unsupported("the worker was not switched to ASGI"))

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._missing is not None:
            _exit(unsupported(self._missing))
        from granian.asgi import LifespanProtocol

        self._lifespan = LifespanProtocol(self)  # type: ignore[no-untyped-call]
        loop.run_until_complete(self._lifespan.startup())
        if self._lifespan.interrupt:
            raise SystemExit(1)

    def __rsgi_del__(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self._lifespan.shutdown())


def unsupported(detail: str) -> str:
    """The one line for a Granian that cannot be hosted on."""
    return (
        f"this Granian's default interface is not supported ({detail}): "
        f"install granian=={PINNED_GRANIAN}, or use --interface asgi"
    )


def _tell(line: str) -> None:
    print(f"gateway: {line}", file=sys.stderr, flush=True)  # noqa: T201  # before any log may be set up


def _exit(line: str) -> NoReturn:
    _tell(line)
    raise SystemExit(1)


def worker_number() -> int:
    """The number of this process among its server's workers, from 1; kept when Granian replaces it.

    Only the frame that loads the application knows it: 1 where there is none.
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "granian.server.mp" and "worker_id" in frame.f_locals:
            return int(frame.f_locals["worker_id"])
        frame = frame.f_back  # type: ignore[assignment]
    return 1


def _serve_asgi_for_rsgi(worker: ModuleType, app: HostedApp) -> str | None:
    """From now on this worker serves `app` by ASGI where it would by RSGI; else what is missing for that."""
    names = ("RSGIWorker", "ASGIWorker", "_rsgi_call_wrap", "_asgi_call_wrap")
    if missing := [name for name in names if not hasattr(worker, name)]:
        return f"granian.server.mp has no {', '.join(missing)}"
    asgi_worker, asgi_wrap = worker.ASGIWorker, worker._asgi_call_wrap

    def call_wrap(callback: Any, access_log_format: str | None = None) -> Any:
        return asgi_wrap(app, {}, {}, access_log_format)

    def counted_worker(worker_id: int, *args: Any) -> Any:
        if not app.in_fleet:
            _tell_of_many_workers(worker_id)
        return _SeenWorker(asgi_worker(worker_id, *args), app)

    worker.RSGIWorker = counted_worker  # type: ignore[attr-defined]
    worker._rsgi_call_wrap = call_wrap  # type: ignore[attr-defined]
    return None


class _SeenWorker:
    """Granian's worker, which is asked for one method: the one by which it serves."""

    def __init__(self, worker: Any, app: HostedApp) -> None:
        self._worker = worker
        self._app = app

    def __getattr__(self, name: str) -> Any:
        self._app.sends_keep_order = name in KEEP_ORDER
        return getattr(self._worker, name)


def _tell_of_many_workers(worker_id: int) -> None:
    if worker_id == 2:
        message = "workers without a fleet are independent gateways: limits hold for each worker"
        logger.warning(log_line("several_workers", message=message))


def _drain_on_signals(drainable: Hosted) -> None:
    from granian import _signals

    if not hasattr(_signals, "set_loop_signals"):
        _exit(f"this Granian has no set_loop_signals, so it cannot drain: install granian=={PINNED_GRANIAN}")

    def set_loop_signals(loop: asyncio.AbstractEventLoop) -> Any:
        from granian._granian import WorkerSignal

        stop = WorkerSignal()

        def stop_worker() -> None:
            stop.set()
            _exit_in_time()

        drain = SignalledDrain(loop, drainable, stop_worker)

        def signalled(signum: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(drain.signalled)

        # Not by the loop: uvloop forgets what comes while it stands still, as it does between the lifespan's
        # startup and the first connection.
        inherited = [signal.signal(signum, signalled) for signum in SIGNALS]
        if any(_was_signalled(handler) for handler in inherited):
            loop.call_soon(drain.signalled)
        return stop

    _signals.set_loop_signals = set_loop_signals


def _exit_in_time() -> None:
    """End the worker even if Granian waits on: it does for clients that have sent half a request."""
    last_resort = threading.Timer(STOP_SECONDS, os._exit, (0,))
    last_resort.daemon = True
    last_resort.start()


def _was_signalled(inherited: Any) -> bool:
    """Whether a termination signal came between the fork and now: it ran the main process's handler, which
    the worker inherited, and which marks there a copy of the main process's server that nobody reads.
    """
    return bool(getattr(getattr(inherited, "__self__", None), "interrupt_signal", False))


class SignalledDrain:
    """The first signal starts the drain, whose end stops the worker. A later one hurries it, a third stops
    at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, drainable: Hosted, stop: Callable[[], None]) -> None:
        self._loop = loop
        self._drainable = drainable
        self._stop = stop
        self._counted_at: float | None = None
        self._hurried = False
        self._task: asyncio.Task[None] | None = None

    def signalled(self) -> None:
        """A termination signal has come."""
        now = self._loop.time()
        if self._counted_at is not None and now - self._counted_at < SAME_SIGNAL_SECONDS:
            return
        self._counted_at = now
        if self._task is None:
            self._task = self._loop.create_task(self._run())  # owned here: it stops the loop that it runs on
        elif not self._hurried:
            self._hurried = True
            logger.warning(log_line("drain_cut_short", message="a second signal came"))
            self._drainable.hurry()
            self._loop.call_later(HURRY_SECONDS, self._stop)
        else:
            self._stop()

    async def _run(self) -> None:
        try:
            await self._drainable.drain()
        except Exception:  # the outermost loop of this task: a defect must not keep the worker from stopping
            logger.exception("the drain failed")
        finally:
            self._stop()


def hosted(settings: Settings, runtime: Resolved) -> HostedApp:
    """The gateway of `settings`, as Granian serves it, once the runtime's warnings have been told. Exits with
    a line where another server has the worker's port.
    """
    other = another_server() if "granian.server.mp" in sys.modules else None
    if other is not None and other.is_certain:
        _exit(other.line)
    configure()
    if other is not None:
        logger.warning(log_line("port_shared", message=other.line))
    for warning in runtime.warnings:
        logger.warning(log_line("runtime_doubtful", mode=runtime.mode.value, message=warning))
    gateway = Gateway(settings, worker=worker_number())
    app = NoSessionHere(gateway.app, settings.session.paths)
    return HostedApp(app, gateway, in_fleet=settings.joins_fleet)


def serve(settings: Settings, runtime: Resolved, *, workers: int = 1) -> None:
    """Serve on router.host and router.port until a signal ends it; a second one, a second later, ends it at
    once. Exits with a line where they cannot be bound.
    """
    address = bindable_or_exit(settings)
    from granian import Granian
    from granian.constants import Interfaces

    class Server(Granian):  # type: ignore[misc,valid-type]  # its class depends on the platform
        """A main process that hands a second signal on to the workers that it waits for."""

        _interrupted_at: float | None = None

        def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
            now = time.monotonic()
            if self._interrupted_at is None:
                self._interrupted_at = now
            elif now - self._interrupted_at >= SAME_SIGNAL_SECONDS:
                for worker in self.wrks:
                    worker.terminate()
            super().signal_handler_interrupt(*args, **kwargs)

    server = Server(
        "gateway.app:app",
        address=address,
        port=settings.router.port,
        workers=workers,
        interface=Interfaces.RSGI,
    )
    server.serve(target_loader=lambda: hosted(settings, runtime), wrap_loader=False)
