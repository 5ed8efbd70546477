"""Plays every scenario against the gateway, HAProxy and nginx, and writes the table in docs/comparison.md.

`python -m scripts.comparison`: a few minutes, where haproxy and nginx are installed. Where one of the two is
not, it says so, and writes nothing. What stands around the table is written by hand.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from emulator.running.gateways import parsed
from emulator.running.play import Fresh
from emulator.running.results import Result
from emulator.running.suite import Suite
from emulator.scenario import Need, Scenario
from emulator.scenario.reading import SHIPPED, files_in, read_scenario
from scripts.reference import placed

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "comparison.md"
JOBS = 3
SBIN = "/usr/sbin"
LONGEST_CELL = 110

COMMANDS: Mapping[str, str] = {
    "the gateway": "granian gateway.app:app",
    "HAProxy": "scripts/peers/haproxy",
    "nginx": "scripts/peers/nginx",
}
LACKS: Mapping[str, Sequence[Need]] = {
    "the gateway": (),
    "HAProxy": ("resume", "status", "sleep"),
    "nginx": ("resume", "queue", "probes", "status", "sleep"),
}
"""What each is not made for, as its manual has it."""


async def main() -> int:
    """The exit status."""
    missing = [name for name in ("haproxy", "nginx") if shutil.which(name, path=_path()) is None]
    if missing:
        print(f"comparison: not installed: {', '.join(missing)}", file=sys.stderr)
        return 1
    scenarios = [read_scenario(path) for path in files_in([SHIPPED])]
    results = {}
    for name, command in COMMANDS.items():
        print(f"comparison: {name} ({len(scenarios)} scenarios)", file=sys.stderr)
        suite = Suite(scenarios, Fresh(parsed(command)), jobs=JOBS, ended=_tell)
        results[name] = await suite.run()
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(placed(text, "comparison", table(scenarios, results, versions=_versions())))
    failed = [result.scenario.name for result in results["the gateway"] if result.verdict != "passed"]
    if failed:
        print(f"comparison: the gateway does not survive: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def table(scenarios: Sequence[Scenario], results: Mapping[str, Sequence[Result]], *, versions: str) -> str:
    """Counts, and a row a scenario."""
    names = list(results)
    lines = [f"With {versions}.", "", _row(["", *names]), _rule(len(names) + 1)]
    for word, verdict in (("yes", "passed"), ("no", "failed"), ("cannot", "cannot")):
        counts = [sum(result.verdict == verdict for result in results[name]) for name in names]
        lines.append(_row([word, *map(str, counts)]))
    columns = ["scenario", "what fails, and what should come of it", "asks for", *names]
    lines += ["", _row(columns), _rule(len(columns))]
    for index, scenario in enumerate(scenarios):
        link = f"[{scenario.name}](../emulator/scenarios/{scenario.name}.yaml)"
        needs = ", ".join(scenario.needs) or "-"
        cells = [cell(results[name][index], LACKS[name]) for name in names]
        lines.append(_row([link, _plain(scenario.description), needs, *cells]))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(columns: int) -> str:
    return "|" + "---|" * columns


def cell(result: Result, lacks: Sequence[Need]) -> str:
    """What came of one scenario with one gateway."""
    if result.verdict == "passed":
        return "yes"
    missing = [need for need in result.scenario.needs if need in lacks]
    why = f" (no {', '.join(missing)})" if missing else ""
    if result.verdict == "cannot":
        return f"cannot{why}"
    first = next((finding for finding in result.findings if not finding.startswith("not through")), "")
    return f"no{why}: {_short(_plain(first or result.findings[0]))}"


def _plain(text: str) -> str:
    """As it may stand in a cell, without what differs from run to run."""
    text = " ".join(text.splitlines()[0].split()) if text.strip() else ""
    text = re.sub(
        r"\bafter \d+\.\d+ s\b", "too late", re.sub(r"\b\d+\.\d+ s without", "too long without", text)
    )
    return text.replace("|", "\\|").replace("*", "\\*")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 3].rsplit(" ", 1)[0] + " ..."


def _tell(result: Result) -> None:
    print(f"  {result.headline}", file=sys.stderr)


def _versions() -> str:
    haproxy = _said("haproxy", "-v").split()[2].split("-")[0]
    nginx = _said("nginx", "-v").rpartition("/")[2].split()[0]
    return f"HAProxy {haproxy} and nginx {nginx}"


def _said(command: str, flag: str) -> str:
    program = shutil.which(command, path=_path())
    assert program is not None
    done = subprocess.run([program, flag], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout + done.stderr


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{SBIN}:/sbin"


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
