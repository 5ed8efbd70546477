"""`python -m emulator --replay FILE`: serves recorded sessions as the recorded replica did."""

from __future__ import annotations

import argparse
import asyncio
import logging
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from emulator.cli import values
from emulator.cli.lifetime import ended_by_signals, say
from emulator.recording.format import Binary, Recording
from emulator.recording.reading import BadRecording, lines_in, read
from emulator.recording.replay import Replay, Tally

HOST = "127.0.0.1"
DEFAULT_PORT = 9101


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 when every session was played to its end, 1 when one was not or it could not start,
    2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    path: Path = options.replay
    try:
        if stat.S_ISCHR(path.stat().st_mode):
            return _refuse(f"{path} is a device, and has no end: name a recording with --replay")
        with path.open("rb") as file:
            recording = read(lines_in(file))
    except OSError as problem:
        return _refuse(f"{path} cannot be read: {problem.strerror}: name a recording with --replay")
    except BadRecording as problem:
        return _refuse(f"{path}, {problem}" if problem.line else f"{path} {problem}")
    try:
        return asyncio.run(_replay(recording, options))
    except OSError as problem:
        reason = problem.strerror or str(problem)
        return _refuse(
            f"port {options.port} cannot be opened on {HOST}: {reason}: choose another with --port"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator",
        description="Serves recorded sessions again, one a connection, and says where a client differs.",
        allow_abbrev=False,
    )
    parser.add_argument("--replay", type=Path, required=True, metavar="FILE", help="a recording")
    parser.add_argument(
        "--port",
        type=values.port,
        default=DEFAULT_PORT,
        help=f"where clients come; 0: a free one ({DEFAULT_PORT})",
    )
    parser.add_argument(
        "--speed",
        type=values.speed,
        default=1.0,
        metavar="X",
        help="how many times as fast as recorded; inf: without any pause (1)",
    )
    return parser


async def _replay(recording: Recording, options: argparse.Namespace) -> int:
    stop = asyncio.Event()
    with ended_by_signals(stop):
        async with Replay(recording, host=HOST, port=options.port, speed=options.speed, say=say) as replay:
            for line in _about(recording, options.replay):
                say(line)
            say(f"clients come to ws://{HOST}:{replay.port}")
            say("ready")
            await stop.wait()
            say("stopping")
    tally = replay.tally
    say(_in_words(tally))
    return 1 if tally.differed or tally.unfinished else 0


def _in_words(tally: Tally) -> str:
    end = "its end" if tally.matched == 1 else "their end"
    told = f"{_sessions(tally.matched)} played to {end}, {tally.differed} differed"
    return told + (f", {tally.unfinished} not over" if tally.unfinished else "")


def _sessions(count: int) -> str:
    return f"{count} session{'s' if count != 1 else ''}"


def _about(recording: Recording, path: Path) -> Sequence[str]:
    lines = [f"replays {_sessions(len(recording.conversations))} of {path}"]
    if recording.is_cut:
        lines.append("its last line is only half there, and left out")
    sent = [step.said for entry in recording.conversations for step in entry.steps if step.side == "s"]
    bare = sum(isinstance(said, Binary) and said.data is None for said in sent)
    if bare:
        have, their = ("has", "its") if bare == 1 else ("have", "their")
        lines.append(
            f"{bare} of its binary messages {have} no bytes: filler of {their} length takes {their} place"
        )
    return lines


def _refuse(text: str) -> int:
    print(f"emulator: {text}", file=sys.stderr)
    return 1
