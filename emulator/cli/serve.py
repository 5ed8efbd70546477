"""`python -m emulator`: starts replicas and the control API, tells how to break them, and stops cleanly."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from emulator import console
from emulator.cli import announced, cloudmapped, hosts, values
from emulator.cli.lifetime import ended_by_signals, say
from emulator.cli.ports import PortOfAReplica, control_port
from emulator.control.server import ControlServer
from emulator.events import Event
from emulator.farm import Farm, PortBusy
from emulator.faults import Flaky, Latency, Refuse
from emulator.faults.fault import Fault
from emulator.faults.process import Poison
from emulator.limits import TooFewFiles
from emulator.live.terminal import is_wanted
from emulator.media import MediaKind
from emulator.media.choice import NoVideo, chosen
from emulator.replica.port import bind
from emulator.replica.scaling import ScaleToZero
from emulator.replica.spec import LOOPBACK, names_of, unknown_among
from emulator.sentences import line_for

DEFAULT_PORT = 9101
STARTUP_SECONDS = 10.0


class BadCommand(Exception):
    """The command line cannot be followed; the text says what would be right."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 after an orderly stop, 1 when it could not start, 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        return asyncio.run(_serve(options))
    except BadCommand as problem:
        print(f"emulator: {problem}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator",
        description="Starts fake replicas of the streaming server here, and breaks them on command.",
        epilog="Scenarios: run FILE... plays them through a gateway, validate FILE... checks, list shows "
        "those that come along. Real replicas: --record FILE --of ws://host:port writes down what passes "
        "between clients and one, --replay FILE serves that again (each has a --help of its own).",
    )
    add = parser.add_argument
    add(
        "--replicas",
        type=values.positive,
        default=3,
        metavar="N",
        help="how many; they are called a, b, c ... (3)",
    )
    add(
        "--host",
        type=values.host,
        default=LOOPBACK,
        metavar="ADDRESS",
        help="where the replicas listen; 0.0.0.0: on all addresses, as in a container (127.0.0.1)",
    )
    add(
        "--port",
        type=values.port,
        default=DEFAULT_PORT,
        help="of the first replica, the others follow; 0: free ones (9101)",
    )
    add(
        "--control-port",
        type=values.port,
        default=None,
        help="of the control API; 0: a free one (9190, or the one after the replicas' where that is theirs)",
    )
    add("--capacity", type=values.positive, default=4, metavar="N", help="sessions a replica at a time (4)")
    add(
        "--flaky",
        action="append",
        default=[],
        metavar="NAME",
        help="breaks about half of its sessions; repeatable",
    )
    add("--down", action="append", default=[], metavar="NAME", help="refuses connects; repeatable")
    add("--slow", action="append", default=[], metavar="NAME", help="answers late; repeatable")
    add(
        "--scale-to-zero",
        action="append",
        default=[],
        metavar="NAME",
        help="sleeps while nobody uses it, and is woken by whatever comes; repeatable",
    )
    add("--idle-seconds", type=values.seconds, metavar="S", help="until it sleeps (60)")
    add("--wake-seconds", type=values.seconds, metavar="S", help="until it is warm (5)")
    add("--poison", metavar="TEXT", help="a prompt with this text kills the replica that takes it up")
    add("--seed", type=values.seed, default=0, help="of everything random (0)")
    add(
        "--segment-seconds",
        type=values.seconds,
        default=1.0,
        metavar="S",
        help="how long a segment takes (1)",
    )
    add(
        "--media",
        choices=["auto", "filler", "mp4"],
        default="auto",
        help="mp4: real video (needs the extra `media`); filler: cheap bytes (auto: mp4 where it can be)",
    )
    add("--watermark", action="store_true", help="paint each replica's name and colour into its video")
    add(
        "--subprotocol",
        action="append",
        default=[],
        metavar="NAME",
        help="spoken by all replicas; repeatable",
    )
    add(
        "--isolate",
        choices=["none", "process"],
        default="none",
        help="process: each replica is a process of its own",
    )
    add("--plain", action="store_true", help="print lines instead of the live view, on a terminal too")
    add("--json", action="store_true", help="print one JSON line with all addresses instead of the text")
    add("--ready-file", type=Path, metavar="PATH", help="write the same JSON there once everything runs")
    announced.add_arguments(parser)
    cloudmapped.add_arguments(parser)
    return parser


async def _serve(options: argparse.Namespace) -> int:
    names = names_of(options.replicas)
    farm = _farm(options, names)
    _check_ready_file(options.ready_file)
    try:
        port = control_port(options.control_port, first=options.port, replicas=len(names))
    except PortOfAReplica as problem:
        raise BadCommand(str(problem)) from problem
    _check_host(options.host)
    stop = asyncio.Event()
    with _control_socket(hosts.control_host(options.host), port) as control_socket, ended_by_signals(stop):
        try:
            async with farm, announced.announced(farm, options), cloudmapped.listed(farm, options, port):
                await _run(farm, ControlServer(farm, control_socket), stop, options)
        except PortBusy as problem:
            raise BadCommand(f"{problem}: choose other ports with --port") from problem
        except (TooFewFiles, announced.NotAnnounced, cloudmapped.NotListed) as problem:
            raise BadCommand(str(problem)) from problem
    return 0


def _farm(options: argparse.Namespace, names: list[str]) -> Farm:
    faults: dict[str, list[Fault]] = {name: [] for name in names}
    for flag, fault in (("flaky", Flaky()), ("down", Refuse()), ("slow", Latency())):
        wanted = getattr(options, flag)
        _check_names(flag, wanted, names)
        for name in wanted:
            faults[name].append(fault)
    if options.poison:
        for standing in faults.values():
            standing.append(Poison(text=options.poison))
    try:
        return Farm(
            names,
            host=options.host,
            port=options.port,
            capacity=options.capacity,
            seed=options.seed,
            segment_seconds=options.segment_seconds,
            media=_media(options),
            watermark=options.watermark,
            subprotocols=options.subprotocol,
            faults=faults,
            isolate=options.isolate,
            scale_to_zero=_scaling(options, names),
        )
    except ValueError as problem:
        raise BadCommand(f"{problem}: choose others with --port and --replicas") from problem


def _scaling(options: argparse.Namespace, names: list[str]) -> Mapping[str, ScaleToZero]:
    given = {"idle_seconds": options.idle_seconds, "wake_seconds": options.wake_seconds}
    wanted = {key: value for key, value in given.items() if value is not None}
    if wanted and not options.scale_to_zero:
        flag = next(iter(wanted)).replace("_", "-")
        raise BadCommand(f"--{flag} is for --scale-to-zero, which is missing")
    _check_names("scale-to-zero", options.scale_to_zero, names)
    return {name: ScaleToZero(**wanted) for name in options.scale_to_zero}


def _check_names(flag: str, wanted: Sequence[str], names: list[str]) -> None:
    if unknown := unknown_among(wanted, names):
        raise BadCommand(f"--{flag} {unknown[0]}: there is no such replica; there are: {', '.join(names)}")


def _media(options: argparse.Namespace) -> MediaKind:
    try:
        kind = chosen(options.media)
    except NoVideo as problem:
        raise BadCommand(f"--media {problem}") from problem
    if options.watermark and kind != "mp4":
        missing = "" if options.media == "filler" else ", which needs the extra `media`"
        raise BadCommand(f"--watermark is painted into real video: use it with --media mp4{missing}")
    return kind


def _check_host(host: str) -> None:
    """It is a place where this machine can listen, and people know who reaches it."""
    try:
        bind(host, 0).close()
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "is no name"
        raise BadCommand(
            f"--host {host}: {reason or problem}; name an address of this machine, or 0.0.0.0 for all of them"
        ) from problem
    if (warning := hosts.warning(host)) is not None:
        print(f"emulator: warning: {warning}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _control_socket(host: str, port: int) -> Iterator[socket.socket]:
    try:
        bound = bind(host, port)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        text = f"port {port} of the control API cannot be opened on {host}: {reason}"
        raise BadCommand(f"{text}: choose another with --control-port") from problem
    with bound:
        yield bound


def _check_ready_file(path: Path | None) -> None:
    if path is not None and path.is_dir():
        raise BadCommand(f"{path} is a directory: name a file with --ready-file")
    if path is not None and not os.access(path.parent, os.W_OK):
        raise BadCommand(f"{path} cannot be written: choose another place with --ready-file")


async def _run(farm: Farm, control: ControlServer, stop: asyncio.Event, options: argparse.Namespace) -> None:
    """The control API is served until `stop` is set."""
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(control.run())
        async with asyncio.timeout(STARTUP_SECONDS):
            await control.wait_until_up()
        _announce(farm, control.url, options)
        showing = group.create_task(_show(farm, control.url, stop, options))
        waiting = group.create_task(stop.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await showing
        control.stop()
    if not options.json:
        say("stopping")


async def _show(farm: Farm, control_url: str, stop: asyncio.Event, options: argparse.Namespace) -> None:
    """People see what happens until `stop` is set: a live view where there is a terminal for it, else
    lines."""
    if not options.json and not options.plain and is_wanted(sys.stdout, os.environ):
        # Imported only where it is shown: drawing takes a while to load.
        from emulator.live.screen import Screen

        listed = f'Cloud Map: eval "$(curl -s {control_url}/environment)"  ' if farm.environment else ""
        screen = Screen(farm, note=f"control API: {control_url}  {listed}Ctrl-C stops")
        await screen.run(stop)
        say(screen.summary)
        return

    def tell(event: Event) -> None:
        if not options.json and (line := line_for(event)) is not None:
            say(line)

    unsubscribe = farm.log.subscribe(tell)
    await stop.wait()
    unsubscribe()


def _announce(farm: Farm, control_url: str, options: argparse.Namespace) -> None:
    """People or programs know where everything is."""
    addresses = json.dumps(console.addresses(farm, control_url))
    if options.ready_file is not None:
        _write_whole(options.ready_file, addresses + "\n")
    if options.json:
        say(addresses)
        return
    for line in console.banner(farm, control_url):
        say(line)
    say("ready")


def _write_whole(path: Path, text: str) -> None:
    """Whoever finds the file finds all of it."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    beside.replace(path)
