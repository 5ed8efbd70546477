"""`python -m gateway`: serve the gateway, check its configuration, look at one that runs, or announce a
replica to it.

Exit status 0 when all is well, 1 when it is not (the reason is on stderr, in lines that begin with
`gateway:`), 2 when the command line itself is wrong. What only one command needs is imported by that
command: `check` must be quick.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from gateway import announcer
from gateway.errors import RuntimeRefused
from gateway.fleet_table import fleet_lines
from gateway.logs import escape, hide_passwords
from gateway.runtime import refuse_unsupported
from gateway.settings import (
    complain,
    first_of,
    inspect,
    load_or_exit,
    long_running_steps,
    masked,
    resolve_runtime,
    runtime_or_exit,
)

STATUS_TIMEOUT_SECONDS = 5.0
"""For the whole answer, not for each piece of it."""
MOST_LATENCY_MS = 1e9
MOST_STATUS_BYTES = 16 * 1024 * 1024
"""Far above the report of any gateway."""
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of `arguments` (the process's own by default); the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        match options.command:
            case "serve":
                status = serve(options.workers)
            case "check":
                status = check(os.environ, Path.cwd(), sys.stdout)
            case "announce":
                status = announcer.announce(options)
            case _:
                status = show_status(options.url, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone (`check | head`). Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gateway",
        description="Keeps streaming sessions on healthy replicas.",
        epilog="The configuration is gateway.yaml in this directory, or the file that GATEWAY_CONFIG names, "
        "under GATEWAY_SECTION__FIELD variables.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    serve_command = commands.add_parser(
        "serve", help="serve on router.host and router.port until a signal comes"
    )
    serve_command.add_argument(
        "--workers",
        type=_one_or_more,
        metavar="N",
        default=1,
        help="worker processes; without a fleet, limits hold for each (default: 1)",
    )
    commands.add_parser(
        "check", help="print the resolved settings and the runtime mode, or all that is wrong"
    )
    status_command = commands.add_parser(
        "status", help="print the replicas of a running gateway, and its fleet"
    )
    status_command.add_argument(
        "--url", help="base URL of the gateway (default: router.host and router.port of the configuration)"
    )
    announcer.add_arguments(
        commands.add_parser("announce", help="announce a replica to gateways with discovery.kind fleet")
    )
    return parser


def _one_or_more(text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number of 1 or more, not {text!r}")
    return count


def serve(workers: int) -> int:
    """Serve until a signal ends it."""
    settings = load_or_exit()
    runtime = runtime_or_exit(settings)
    from gateway import granian_host

    granian_host.serve(settings, runtime, workers=workers)
    return 0


def check(environ: Mapping[str, str], directory: Path, out: TextIO) -> int:
    """Print what the gateway would run with, and complain of everything that keeps it from starting."""
    inspection = inspect(environ, directory)
    complaints = first_of([str(problem) for problem in inspection.problems])
    runtime = resolve_runtime(inspection.settings, environ)
    # The mode is judged beside broken settings, unless it is one of them.
    if not any(problem.key in ("runtime.mode", "runtime") for problem in inspection.problems):
        try:
            refuse_unsupported(runtime, long_running_steps(inspection.settings))
        except RuntimeRefused as refused:
            complaints.append(str(refused))
    if not inspection.problems:
        print(f"# from {', '.join(inspection.sources)}", file=out)
        print(masked(inspection.settings), end="", file=out)
        print(f"# runtime mode: {runtime.mode} ({runtime.reason})", file=out)
    out.flush()
    complain(f"warning: {warning}" for warning in runtime.warnings)
    complain(complaints)
    return 1 if complaints else 0


def show_status(url: str | None, out: TextIO) -> int:
    """Print the replicas that the gateway at `url` tells of, and its fleet."""
    base = (url or _configured_url()).rstrip("/")
    if "://" not in base:
        base = f"http://{base}"
    try:
        report = _fetch(f"{base}/status")
        table = "\n".join((_table(report), *fleet_lines(report)))
    except LookupError as error:
        hint = "" if url else " (name another gateway with --url)"
        complain([f"{hide_passwords(base)}: {error}{hint}"])
        return 1
    sessions, draining = report.get("sessions"), report.get("draining") is True
    print(f"{hide_passwords(base)}: {_cell(sessions)} sessions{', draining' if draining else ''}", file=out)
    print(table, file=out)
    return 0


def _configured_url() -> str:
    router = inspect(os.environ, Path.cwd()).settings.router
    host = f"[{router.host}]" if ":" in router.host else router.host
    return f"http://{ANY_ADDRESS.get(router.host, host)}:{router.port}"


def _fetch(url: str) -> Mapping[str, Any]:
    """The JSON object at `url`. Raises LookupError in the reader's words when there is none."""
    import httpx

    try:
        status, body = asyncio.run(_answer(url))
        found = json.loads(body) if status == httpx.codes.OK else None
    except (httpx.TimeoutException, TimeoutError):
        raise LookupError(f"no whole answer came within {STATUS_TIMEOUT_SECONDS:g} seconds") from None
    except httpx.ConnectError:
        raise LookupError("nothing answers there") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise LookupError(f"it cannot be asked: {error}") from None
    except (ValueError, RecursionError):
        raise LookupError("something answers there, but not with JSON; is it a gateway?") from None
    if not isinstance(found, dict):
        raise LookupError(f"something answers there with {status}, but not as a gateway does")
    return found


async def _answer(url: str) -> tuple[int, bytes]:
    """Status and body of the answer, which has to be whole in time and not too large."""
    import httpx

    body = bytearray()
    # The address is the gateway's own: a proxy of the environment does not reach this machine.
    client = httpx.AsyncClient(timeout=STATUS_TIMEOUT_SECONDS, trust_env=False)
    async with asyncio.timeout(STATUS_TIMEOUT_SECONDS), client, client.stream("GET", url) as response:
        # Nothing is unpacked: a gateway compresses nothing, and a few bytes can become any number.
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > MOST_STATUS_BYTES:
                raise LookupError("something answers there without an end; is it a gateway?")
    return response.status_code, bytes(body)


_COLUMNS = ("REPLICA", "URL", "STATUS", "SESSIONS", "PENDING", "ELSEWHERE", "LIMIT", "FAILURES", "LATENCY")


def _table(report: Mapping[str, Any]) -> str:
    """The report's replicas, aligned. Raises LookupError when it has none to show."""
    replicas = report.get("replicas")
    if not isinstance(replicas, list) or not all(isinstance(one, dict) for one in replicas):
        raise LookupError("the answer has no list of replicas; is it a gateway?")
    rows = [_COLUMNS, *(_row(one) for one in replicas)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(replica: Mapping[str, Any]) -> tuple[str, ...]:
    flags = [flag for flag in ("primary", "draining", "removed", "sleeping") if replica.get(flag) is True]
    return (
        _cell(replica.get("name")),
        _cell(replica.get("url")),
        " ".join((_cell(replica.get("status")), *flags)),
        _cell(replica.get("active_sessions")),
        _cell(replica.get("pending_sessions")),
        _cell(replica.get("elsewhere_sessions")),
        _cell(replica.get("max_sessions")),
        _cell(replica.get("consecutive_failures")),
        _latency(replica.get("last_latency_ms")),
    )


def _latency(milliseconds: object) -> str:
    if not isinstance(milliseconds, int | float):
        return "-"
    if not 0 <= milliseconds < MOST_LATENCY_MS:
        raise LookupError("the answer has a latency that no probe can have; is it a gateway?")
    return f"{milliseconds:.1f} ms"


def _cell(value: object) -> str:
    """A value from the network, safe for a terminal."""
    return "-" if value is None else escape(str(value))
