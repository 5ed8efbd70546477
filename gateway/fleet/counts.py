"""PURE. What a gateway reports to the others: how many sessions it has, and on which replicas.

A report has these keys; any other is left for later versions:

    load            its sessions
    waiting         those of its clients that wait for a place
    //host:port     its sessions on the replica there; https://host:port where that is how it is spoken to

What does not fit into a report is left out, the replicas with the fewest sessions first.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.fleet.encoding import encode_report
from gateway.fleet.member import Report, ReportValue, number_in
from gateway.fleet.view import LOAD
from gateway.replicas.urls import normalised_url

WAITING = "waiting"
_SCHEME = "http:"


def counts_report(
    sessions: Mapping[str, int], waiting: int, max_bytes: int, more: Report | None = None
) -> tuple[Report, int]:
    """The report of a gateway with so many `sessions` by replica URL, whose encoding takes `max_bytes` at
    most, and how many replicas had to be left out of it. `more` is said beside that.
    """
    said: dict[str, ReportValue] = {LOAD: sum(sessions.values()), WAITING: waiting, **(more or {})}
    left_bytes = max_bytes - len(encode_report(said, max_bytes))
    held = [(replica_key(url), count) for url, count in sessions.items() if count > 0]
    fitting = 0
    for key, count in sorted(held, key=lambda each: (-each[1], each[0])):
        left_bytes -= len(f',"{key}":{count}')
        if left_bytes < 0:
            break
        said[key] = count
        fitting += 1
    return said, len(held) - fitting


def replica_key(url: str) -> str:
    """What the replica at `url` is called in a report, however the URL is spelled."""
    return normalised_url(url).removeprefix(_SCHEME)


def counted_sessions(report: Report) -> dict[str, int]:
    """The sessions in a report, by `replica_key`."""
    return {
        key: value for key, value in report.items() if "//" in key and isinstance(value, int) and value > 0
    }


def waiting_in(report: Report) -> int:
    """The clients that wait, by a report; 0 where it does not say."""
    return int(number_in(report, WAITING) or 0)
