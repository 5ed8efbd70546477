"""`python -m emulator --record FILE --of URL`: writes down what clients and a replica say."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from emulator.cli import values
from emulator.cli.lifetime import ended_by_signals, say
from emulator.recording.format import MAX_FILE_BYTES
from emulator.recording.proxy import BadAddress, RecordingProxy, address_of
from emulator.recording.recorder import Recorder

HOST = "127.0.0.1"
DEFAULT_PORT = 9180
DEFAULT_LIMIT_MIB = 512


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 after an orderly stop, 1 when it could not start, 2 for a wrong command line."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    path: Path = options.record
    limit_bytes = options.limit_mib * 1024 * 1024
    try:
        of = address_of(options.of)
        with Recorder(path, of, limit_bytes=limit_bytes, on_limit=_warn) as recorder:
            try:
                return asyncio.run(_record(of, recorder, options))
            except OSError as problem:
                path.unlink()
                reason = problem.strerror or str(problem)
                return _refuse(
                    f"port {options.port} cannot be opened on {HOST}: {reason}: choose another with --port"
                )
    except BadAddress as problem:
        return _refuse(f"--of: {problem}")
    except FileExistsError:
        return _refuse(f"{path} is there already: name another file with --record, or remove it")
    except OSError as problem:
        return _refuse(f"{path} cannot be written: {problem.strerror}: name another file with --record")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulator",
        description="Stands between clients and a replica, passes everything on as it came, and records it.",
        epilog="Values of headers, query parameters and message keys that are named like secrets are masked.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--record", type=Path, required=True, metavar="FILE", help="where it goes; must not be there yet"
    )
    parser.add_argument("--of", required=True, metavar="URL", help="the replica: ws://host:port")
    parser.add_argument(
        "--port",
        type=values.port,
        default=DEFAULT_PORT,
        help=f"where clients come; 0: a free one ({DEFAULT_PORT})",
    )
    parser.add_argument(
        "--limit-mib",
        type=_limit,
        default=DEFAULT_LIMIT_MIB,
        metavar="N",
        help="of the file; from half of it on media is recorded by length and hash alone "
        f"({DEFAULT_LIMIT_MIB})",
    )
    return parser


def _limit(text: str) -> int:
    most = MAX_FILE_BYTES // (1024 * 1024)
    number = values.positive(text)
    if number > most:
        raise argparse.ArgumentTypeError(f"must be {most} at most, what can be replayed, not {text}")
    return number


async def _record(of: str, recorder: Recorder, options: argparse.Namespace) -> int:
    stop = asyncio.Event()
    with ended_by_signals(stop):
        async with RecordingProxy(of, recorder, host=HOST, port=options.port, say=say) as proxy:
            say(f"records {of} into {options.record}")
            say(f"clients come to ws://{HOST}:{proxy.port}")
            say("ready")
            await stop.wait()
            say("stopping")
    return 0


def _warn(text: str) -> None:
    print(f"emulator: recording: {text}", file=sys.stderr)


def _refuse(text: str) -> int:
    print(f"emulator: {text}", file=sys.stderr)
    return 1
