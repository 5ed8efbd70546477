"""What the command line tells people first: what was started, and how to break it. Text only."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from emulator.farm import Farm
from emulator.faults import describe


def addresses(farm: Farm, control_url: str) -> dict[str, Any]:
    """Where everything is, for programs."""
    listed = {"environment": dict(farm.environment)} if farm.environment else {}
    return {
        "pid": os.getpid(),
        "control": control_url,
        "replicas": [
            {"name": replica.name, "url": replica.url, "port": replica.port, "pid": replica.pid}
            for replica in farm.replicas.values()
        ],
        **listed,
    }


def exports(environment: Mapping[str, str]) -> Iterator[str]:
    """Lines for a shell."""
    for name, value in environment.items():
        yield f"export {name}={shlex.quote(value)}"


def banner(farm: Farm, control_url: str) -> Iterator[str]:
    """What was started, and lines to paste that break it."""
    count = len(farm.replicas)
    yield f"{count} replica{'s' if count != 1 else ''}:"
    for replica in farm.replicas.values():
        scales = ["sleeps while nobody uses it"] if replica.spec.scale_to_zero is not None else []
        notes = ", ".join([*scales, *(describe(fault) for fault in replica.faults)])
        yield f"  {replica.name:<3} {replica.url}   {replica.ws_url}" + (f"   {notes}" if notes else "")
    yield f"control API: {control_url} (its routes: {control_url}/schema)"
    yield f"player: {control_url}/player"
    first = next(iter(farm.replicas))
    base = f"{control_url}/replicas/{first}"
    yield f"break one, here {first}:"
    yield f"  curl -X POST {base}/kill"
    yield f"  curl -X POST {base}/restart"
    yield f"  curl -X PUT {base}/faults/stall -d '{{\"seconds\": 5}}'"
    yield f"  curl -X PUT {base}/faults/abort -d '{{\"times\": 1}}'"
    yield f"  curl -X DELETE {base}/faults/stall"
    yield "see all faults, what the replicas saw, and make all as new:"
    yield f"  curl {control_url}/faults"
    yield f"  curl {control_url}/events"
    yield f"  curl -X POST {control_url}/reset"
    if farm.environment:
        yield f'listed in Cloud Map; where a gateway starts: eval "$(curl -s {control_url}/environment)", or'
        for line in exports(farm.environment):
            yield f"  {line}"
