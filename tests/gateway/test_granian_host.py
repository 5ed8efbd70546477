"""What the gateway takes from Granian: each piece pinned, so that a new version fails here and not in use."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import signal
import sys
import tomllib
from collections.abc import Callable, Coroutine, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import uvloop

from gateway import granian_host
from gateway.errors import RuntimeRefused
from gateway.granian_host import (
    HURRY_SECONDS,
    KEEP_ORDER,
    PINNED_GRANIAN,
    SAME_SIGNAL_SECONDS,
    SIGNALS,
    HostedApp,
    SignalledDrain,
    worker_number,
)
from gateway.replicas.config import RouterConfig
from gateway.replicas.endpoint import ReplicaEndpoint
from gateway.runtime import Resolved, RuntimeMode
from gateway.session.asgi_door import WIRE, Wire
from gateway.settings import Settings
from tests.gateway.session.virtual_time import VirtualTimeLoop
from tests.support.ports import free_port

# Untyped, and beyond what they export: that is what these tests are about.
granian: Any = importlib.import_module("granian")
signals: Any = importlib.import_module("granian._signals")
native: Any = importlib.import_module("granian._granian")
asgi: Any = importlib.import_module("granian.asgi")
rsgi: Any = importlib.import_module("granian.rsgi")
common: Any = importlib.import_module("granian.server.common")
mp: Any = importlib.import_module("granian.server.mp")

ROOT = Path(__file__).parents[2]
NAMES = ("RSGIWorker", "ASGIWorker", "_rsgi_call_wrap", "_asgi_call_wrap")

SPAWN_RSGI = inspect.unwrap(mp.MPServer._spawn_rsgi_worker)
SPAWN_ASGI = inspect.unwrap(mp.MPServer._spawn_asgi_worker)
SPAWN_ASGI_LIFESPAN = inspect.unwrap(mp.MPServer._spawn_asgi_lifespan_worker)


# -- pins


def test_the_installed_granian_is_the_pinned_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert f"granian=={PINNED_GRANIAN}" in project["project"]["dependencies"]
    assert version("granian") == PINNED_GRANIAN


def test_the_default_server_is_the_one_with_worker_processes() -> None:
    assert granian.Granian is mp.MPServer


@pytest.mark.parametrize("name", NAMES)
def test_the_workers_module_has_what_is_replaced(name: str) -> None:
    assert callable(getattr(mp, name))


@pytest.mark.parametrize("name", ["RSGIWorker", "_rsgi_call_wrap"])
def test_the_worker_looks_up_at_the_call_what_is_replaced(name: str) -> None:
    code = SPAWN_RSGI.__code__
    assert name in code.co_names
    assert name not in {*code.co_varnames, *code.co_freevars, *code.co_cellvars}
    assert SPAWN_RSGI.__globals__ is vars(mp)


@pytest.mark.parametrize("spawn", [SPAWN_RSGI, SPAWN_ASGI, SPAWN_ASGI_LIFESPAN])
def test_every_worker_imports_its_signal_function_at_the_call(spawn: Callable[..., None]) -> None:
    code = spawn.__code__
    assert "granian._signals" in code.co_names
    assert "set_loop_signals" in code.co_varnames
    assert list(inspect.signature(signals.set_loop_signals).parameters) == ["loop"]


def test_the_application_is_loaded_before_the_worker_looks_anything_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    monkeypatch.setattr(mp, "configure_logging", lambda *_: order.append("logging"))
    monkeypatch.setattr(mp, "load_env", lambda *_: None)
    monkeypatch.setattr("granian._loops.loops", {"asyncio": None})
    spawn = mp.WorkerProcess.wrap_target(lambda *_: order.append("worker"))
    sock = (None, None)
    spawn(1, None, lambda: order.append("application"), sock, None, "asyncio", False, None, None, None)
    assert order == ["logging", "application", "worker"]


def test_both_kinds_of_workers_are_made_from_the_same_arguments() -> None:
    assert mp.ASGIWorker.__text_signature__ == mp.RSGIWorker.__text_signature__
    assert list(inspect.signature(SPAWN_RSGI).parameters) == list(inspect.signature(SPAWN_ASGI).parameters)


def test_the_call_wrappers_take_what_they_are_given() -> None:
    assert list(inspect.signature(mp._asgi_call_wrap).parameters) == [
        "callback",
        "scope_opts",
        "state",
        "access_log_fmt",
    ]
    assert list(inspect.signature(mp._rsgi_call_wrap).parameters) == ["callback", "access_log_fmt"]


def test_the_lifespan_is_driven_by_the_names_that_are_used() -> None:
    assert list(inspect.signature(asgi.LifespanProtocol).parameters) == ["callable"]
    lifespan = asgi.LifespanProtocol(lambda *_: None)
    assert lifespan.interrupt is False
    assert inspect.iscoroutinefunction(lifespan.startup)
    assert inspect.iscoroutinefunction(lifespan.shutdown)


def test_a_workers_signal_can_be_set() -> None:
    stop = native.WorkerSignal()
    stop.add_cb(lambda: None)
    stop.set()


def test_the_main_process_has_what_a_second_signal_needs() -> None:
    assert list(inspect.signature(granian.Granian.serve).parameters)[1:] == [
        "spawn_target",
        "target_loader",
        "wrap_loader",
    ]
    assert inspect.isfunction(granian.Granian.signal_handler_interrupt)
    assert inspect.isfunction(mp.WorkerProcess.terminate)
    assert "wrks" in granian.Granian("gateway.app:app").__dict__


# -- the application in a worker


class Gateway:
    """An ASGI application with a lifespan, and its drain."""

    def __init__(
        self, *, startup_fails: bool = False, drain_fails: bool = False, refusal: str | None = None
    ) -> None:
        self.calls: list[str] = []
        self.refusal = refusal
        self.drained = asyncio.Event()
        self._startup_fails = startup_fails
        self._drain_fails = drain_fails

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls.append(scope["type"])
        if scope["type"] != "lifespan":
            return
        while True:
            message = (await receive())["type"]
            self.calls.append(message)
            failed = self._startup_fails and message == "lifespan.startup"
            if failed and self.refusal is not None:
                await send({"type": f"{message}.failed", "message": "Traceback (most recent call last)"})
                raise ConnectionError
            await send({"type": f"{message}.failed" if failed else f"{message}.complete"})
            if failed or message == "lifespan.shutdown":
                return

    async def drain(self) -> None:
        self.calls.append("drain")
        if self._drain_fails:
            raise ZeroDivisionError("a defect")
        await self.drained.wait()
        self.calls.append("drained")

    def hurry(self) -> None:
        self.calls.append("hurry")


class NativeWorker:
    """Granian's worker, which serves by one of its methods."""

    def __init__(self, *args: object) -> None:
        self._args = args

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda *given: (*self._args, name, *given)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What `granian.server.mp` is in a worker; what is done to Granian is undone after the test."""
    module = ModuleType("granian.server.mp")
    for name in NAMES:
        setattr(module, name, lambda *args, _name=name: (_name, args))
    module.ASGIWorker = NativeWorker  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "granian.server.mp", module)
    monkeypatch.setattr(signals, "set_loop_signals", signals.set_loop_signals)
    return module


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def hosted_in_worker(gateway: Gateway) -> HostedApp:
    return HostedApp(gateway, gateway)


async def test_the_application_is_asgi_under_either_interface(worker: ModuleType) -> None:
    gateway = Gateway()
    await hosted_in_worker(gateway)({"type": "http"}, None, None)
    assert gateway.calls == ["http"]


def test_the_worker_is_made_to_serve_asgi(worker: ModuleType) -> None:
    app = hosted_in_worker(Gateway())
    made = worker.RSGIWorker(1, "sock", "ipc")
    assert made.serve_str("scheduler", "loop", "stop") == (
        1,
        "sock",
        "ipc",
        "serve_str",
        "scheduler",
        "loop",
        "stop",
    )
    assert worker._rsgi_call_wrap("ignored", "format") == ("_asgi_call_wrap", (app, {}, {}, "format"))
    assert worker._rsgi_call_wrap("ignored") == ("_asgi_call_wrap", (app, {}, {}, None))


@pytest.mark.parametrize(
    ("method", "kept"),
    [("serve_str", True), ("serve_str_uds", True), ("serve_mtr", False), ("serve_mtr_uds", False)],
)
async def test_sends_keep_their_order_where_one_thread_serves_a_connection(
    worker: ModuleType, method: str, kept: bool
) -> None:
    app = hosted_in_worker(Gateway())
    assert not app.sends_keep_order, "not before it is known"
    getattr(worker.RSGIWorker(1), method)
    assert app.sends_keep_order is kept


async def test_a_worker_that_is_not_ours_leaves_it_at_no(worker: ModuleType) -> None:
    """Under `--interface asgi` Granian makes the worker that it knows, and we see nothing of it."""
    app = hosted_in_worker(Gateway())
    worker.ASGIWorker(1).serve_str()
    assert not app.sends_keep_order


async def test_a_session_finds_the_servers_own_callables(worker: ModuleType) -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope.get(WIRE))

    def receive() -> None: ...

    def send(message: object) -> None: ...

    app = HostedApp(application, Gateway())
    worker.RSGIWorker(1).serve_str()
    await app({"type": "websocket"}, receive, send)
    await app({"type": "http"}, receive, send)
    assert seen == [Wire(receive, send, sends_keep_order=True), None]


def test_a_worker_serves_by_a_method_that_it_is_asked_for_by_name() -> None:
    """The names and the modes, and that nothing else is asked of a worker in between."""
    methods = {str(mode): set(named.values()) for mode, named in common.WORKERS_METHODS.items()}
    assert methods == {"mt": {"serve_mtr", "serve_mtr_uds"}, "st": {"serve_str", "serve_str_uds"}}
    assert set(KEEP_ORDER) == methods["st"]
    assert all(callable(getattr(mp.ASGIWorker, name)) for names in methods.values() for name in names)
    source = inspect.getsource(SPAWN_RSGI)
    assert "getattr(worker, WORKERS_METHODS[runtime_mode]" in source
    assert "worker." not in source


async def test_a_request_reaches_the_application_through_granians_own_wrapper(
    worker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker._asgi_call_wrap = mp._asgi_call_wrap  # type: ignore[attr-defined]
    gateway = Gateway()
    app = hosted_in_worker(gateway)

    class Proto:
        receive = send = None

    callback, _, _ = rsgi._callbacks_from_target(app)
    await worker._rsgi_call_wrap(callback)({"type": "websocket"}, Proto)
    assert gateway.calls == ["websocket"]


def test_several_workers_are_told_that_limits_are_theirs(
    worker: ModuleType, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("streamhold"), "propagate", True)
    hosted_in_worker(Gateway())
    for worker_id in (1, 2, 3):
        worker.RSGIWorker(worker_id)
    assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["several_workers"]


def test_workers_of_a_fleet_know_of_each_other(
    worker: ModuleType, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("streamhold"), "propagate", True)
    HostedApp(Gateway(), Gateway(), in_fleet=True)
    worker.RSGIWorker(2)
    assert caplog.records == []


def test_a_start_that_is_refused_is_told_in_one_line(
    worker: ModuleType, loop: asyncio.AbstractEventLoop, capfd: pytest.CaptureFixture[str]
) -> None:
    gateway = Gateway(startup_fails=True, refusal="no fleet")
    _, init, _ = rsgi._callbacks_from_target(hosted_in_worker(gateway))
    with pytest.raises(SystemExit) as ended:
        init(loop)
    assert ended.value.code == 1
    assert capfd.readouterr().err == "gateway: no fleet\n"


def test_the_frame_that_loads_the_application_knows_the_workers_number(worker: ModuleType) -> None:
    assert worker_number() == 1
    code = "def wrapped(worker_id, load):\n    return load()"
    exec(code, worker.__dict__)
    assert worker.wrapped(3, worker_number) == 3
    source = inspect.getsource(mp.WorkerProcess.wrap_target)
    assert "worker_id,\n" in source
    assert "callback_loader()" in source


def test_granian_finds_the_lifespan_and_runs_it(worker: ModuleType, loop: asyncio.AbstractEventLoop) -> None:
    gateway = Gateway()
    _, init, delete = rsgi._callbacks_from_target(hosted_in_worker(gateway))
    init(loop)
    assert gateway.calls == ["lifespan", "lifespan.startup"]
    delete(loop)
    assert gateway.calls[2:] == ["lifespan.shutdown"]


def test_a_failed_startup_ends_the_worker(worker: ModuleType, loop: asyncio.AbstractEventLoop) -> None:
    app = hosted_in_worker(Gateway(startup_fails=True))
    with pytest.raises(SystemExit) as ended:
        app.__rsgi_init__(loop)
    assert ended.value.code == 1


@pytest.mark.parametrize("name", NAMES)
def test_another_granian_is_refused_with_one_line(
    worker: ModuleType, name: str, loop: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    delattr(worker, name)
    before = dict(vars(worker))
    app = hosted_in_worker(Gateway())
    assert dict(vars(worker)) == before, "half of it would be worse than nothing"
    with pytest.raises(SystemExit) as ended:
        app.__rsgi_init__(loop)
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line
    assert f"granian=={PINNED_GRANIAN}" in line
    assert "--interface asgi" in line


def test_another_process_than_a_worker_is_refused_under_rsgi(
    loop: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "granian.server.mp")
    before = signals.set_loop_signals
    app = hosted_in_worker(Gateway())
    assert signals.set_loop_signals is before
    with pytest.raises(SystemExit):
        app.__rsgi_init__(loop)
    assert len(capsys.readouterr().err.splitlines()) == 1


async def test_a_worker_that_was_not_switched_serves_nobody(worker: ModuleType) -> None:
    with pytest.raises(RuntimeRefused, match="not supported"):
        await hosted_in_worker(Gateway()).__rsgi__({}, None)


def test_a_granian_without_the_signal_function_is_refused(
    worker: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(signals, "set_loop_signals")
    with pytest.raises(SystemExit) as ended:
        hosted_in_worker(Gateway())
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot drain" in line


class StopSignal:
    """Granian's own way to tell a worker to stop."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        self.is_set = True


@pytest.fixture
def signalled_worker(worker: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """What a worker's signals drain. This process has its own handlers again after the test."""
    monkeypatch.setattr(native, "WorkerSignal", StopSignal)
    monkeypatch.setattr(granian_host, "_exit_in_time", lambda: None)
    gateway = Gateway()
    hosted_in_worker(gateway)
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    yield gateway
    for signum, handler in before.items():
        signal.signal(signum, handler)


def test_a_workers_signals_drain_it(signalled_worker: Gateway) -> None:
    async def run() -> bool:
        stop = signals.set_loop_signals(asyncio.get_running_loop())
        for signum in SIGNALS:
            signal.raise_signal(signum)
        await asyncio.sleep(5)
        assert not stop.is_set
        signalled_worker.drained.set()
        await asyncio.sleep(0.1)
        assert stop.is_set
        return True

    assert in_virtual_time(run)
    assert signalled_worker.calls == ["drain", "drained"]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_that_comes_while_the_loop_stands_still_drains_too(
    signalled_worker: Gateway, signum: signal.Signals, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Between the lifespan's startup and serving it does, and uvloop's own handlers lose what comes then."""
    loop = new_loop()
    try:
        stop = signals.set_loop_signals(loop)
        loop.run_until_complete(asyncio.sleep(0))
        signal.raise_signal(signum)
        signalled_worker.drained.set()
        loop.run_until_complete(asyncio.sleep(0.1))
        assert stop.is_set
    finally:
        loop.close()


# -- signals


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, bool]]) -> bool:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(test())


class Stops:
    """When the worker was told to stop, in seconds from the start."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.times: list[float] = []

    def __call__(self) -> None:
        self.times.append(self._loop.time() - self._began)


async def signalled(gateway: Gateway, *at: float, drained_at: float | None = None) -> list[float]:
    """When the worker is stopped that gets a signal at each of these times."""
    loop = asyncio.get_running_loop()
    stops = Stops()
    drain = SignalledDrain(loop, gateway, stops)
    for seconds in at:
        loop.call_later(seconds, drain.signalled)
    if drained_at is not None:
        loop.call_later(drained_at, gateway.drained.set)
    await asyncio.sleep(100)
    gateway.drained.set()
    await asyncio.sleep(0)
    return stops.times


@pytest.mark.parametrize(
    ("at", "drained_at", "first_stop", "hurried"),
    [
        ([0], 30, 30, False),
        ([0, 0], 30, 30, False),
        ([0, SAME_SIGNAL_SECONDS - 0.1], 30, 30, False),
        ([0, SAME_SIGNAL_SECONDS - 0.1, 2 * SAME_SIGNAL_SECONDS - 0.2], None, 1.8 + HURRY_SECONDS, True),
        ([0, 5], None, 5 + HURRY_SECONDS, True),
        ([0, 0, 5, 5], None, 5 + HURRY_SECONDS, True),
        ([0, 5], 5.1, 5.1, True),
    ],
    ids=[
        "one signal",
        "a terminal's Ctrl-C",
        "just within a second",
        "within a second of one that did not count",
        "a second one later",
        "two Ctrl-C",
        "hurried and drained",
    ],
)
def test_the_first_signal_drains_and_a_later_one_hurries(
    at: list[float], drained_at: float | None, first_stop: float, hurried: bool
) -> None:
    async def run() -> bool:
        gateway = Gateway()
        stops = await signalled(gateway, *at, drained_at=drained_at)
        assert stops[0] == pytest.approx(first_stop)
        assert gateway.calls.count("drain") == 1
        assert gateway.calls.count("hurry") == int(hurried)
        return True

    assert in_virtual_time(run)


def test_a_third_signal_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(granian_host, "HURRY_SECONDS", 60)

    async def run() -> bool:
        assert (await signalled(Gateway(), 0, 5, 10))[0] == pytest.approx(10)
        return True

    assert in_virtual_time(run)


def test_a_drain_that_fails_stops_the_worker_and_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("streamhold"), "propagate", True)

    async def run() -> bool:
        assert await signalled(Gateway(drain_fails=True), 3) == [pytest.approx(3)]
        return True

    assert in_virtual_time(run)
    assert "ZeroDivisionError" in caplog.text


# -- the main process of `python -m gateway serve`


class MainProcess:
    """Granian's main process, as far as `serve` builds on it."""

    made: list[MainProcess]

    def __init__(self, target: str, **options: Any) -> None:
        self.target = target
        self.options = options
        self.wrks = [Worker(), Worker()]
        self.interrupts = 0
        type(self).made.append(self)

    def serve(self, **options: Any) -> None:
        self.options |= options

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        self.interrupts += 1


class Worker:
    def __init__(self) -> None:
        self.terminations = 0

    def terminate(self) -> None:
        self.terminations += 1


@pytest.fixture
def main_process(monkeypatch: pytest.MonkeyPatch) -> MainProcess:
    MainProcess.made = []
    monkeypatch.setattr(granian, "Granian", MainProcess)
    config = RouterConfig("localhost", free_port(), [ReplicaEndpoint("http://127.0.0.1:9101")])
    granian_host.serve(Settings.for_router(config), Resolved(RuntimeMode.SINGLE_PROCESS), workers=2)
    (made,) = MainProcess.made
    assert made.options["port"] == config.port
    return made


def test_serving_is_where_the_settings_say_and_in_workers(main_process: MainProcess) -> None:
    options = main_process.options
    assert (options["address"], options["workers"]) == ("127.0.0.1", 2)
    assert str(options["interface"]) == "rsgi"
    assert options["wrap_loader"] is False


def test_only_a_second_signal_is_handed_on(
    main_process: MainProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("gateway.granian_host.time.monotonic", lambda: now)
    main_process.signal_handler_interrupt(signal.SIGTERM, None)
    now += SAME_SIGNAL_SECONDS / 2
    main_process.signal_handler_interrupt(signal.SIGINT, None)
    assert [worker.terminations for worker in main_process.wrks] == [0, 0]
    now += SAME_SIGNAL_SECONDS
    main_process.signal_handler_interrupt(signal.SIGTERM, None)
    assert [worker.terminations for worker in main_process.wrks] == [1, 1]
    assert main_process.interrupts == 3
