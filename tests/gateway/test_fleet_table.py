from __future__ import annotations

from typing import Any

import pytest

from gateway.fleet_table import fleet_lines

FLEET: dict[str, Any] = {
    "name": "gateways",
    "member": "host:1:ab",
    "at": 10_000.0,
    "age_seconds": 0.42,
    "hash": "00ff",
    "failing": None,
    "failed_beats": 0,
    "id_shared": False,
    "share": 50,
    "members": [
        {"id": "host:1:ab", "state": "serving", "since": 9_988.0, "load": 4, "waiting": 0},
        {"id": "host:22:cd\x1b[2J", "state": "draining", "since": 400.0, "load": None, "waiting": 2},
    ],
}


def printed(**more: object) -> list[str]:
    return list(fleet_lines({"fleet": {**FLEET, **more}}))


@pytest.mark.parametrize("report", [{}, {"fleet": None}])
def test_without_a_fleet_there_is_nothing_to_print(report: dict[str, Any]) -> None:
    assert list(fleet_lines(report)) == []


def test_a_fleet_is_a_line_and_an_aligned_table() -> None:
    blank, summary, head, first, second = printed()
    assert blank == ""
    assert summary == "fleet gateways: 2 members, seen 0.4 s ago, hash 00ff; share 50"
    assert head.split() == ["MEMBER", "STATE", "SESSIONS", "WAITING", "JOINED"]
    assert first.split("  ")[0] == "host:1:ab (this one)"
    assert first.endswith("12.0 s ago")
    assert second.endswith("3 h ago")
    assert head.index("STATE") == first.index("serving") == second.index("draining")
    assert "\x1b" not in second


def test_what_is_wrong_is_said_in_the_first_line() -> None:
    summary = printed(failing="no answer", failed_beats=3, id_shared=True)[1]
    assert summary.endswith("; a second process has this gateway's id; 3 beats failed: no answer")


@pytest.mark.parametrize(
    "fleet",
    [
        [],
        {},
        {"members": [1]},
        {"members": {}},
        {**FLEET, "age_seconds": float("nan")},
        {**FLEET, "age_seconds": 10**400},
        {**FLEET, "at": 1e300},
    ],
)
def test_what_no_gateway_answers_is_refused_in_words(fleet: object) -> None:
    with pytest.raises(LookupError, match="is it a gateway"):
        list(fleet_lines({"fleet": fleet}))


def test_what_is_missing_is_left_open() -> None:
    assert list(fleet_lines({"fleet": {"members": [{}]}}))[-1].split() == ["-"] * 5
