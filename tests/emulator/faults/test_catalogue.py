from __future__ import annotations

from typing import Any

import pytest

from emulator import faults
from emulator.faults import CATALOGUE, BadFault, fault_from
from emulator.faults.fault import Point


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_fault_has_defaults_and_comes_back_from_its_fields(name: str) -> None:
    fault = fault_from(name, {})
    assert fault.name == name
    assert isinstance(fault.at, Point)
    assert fault_from(name, faults.fields_of(fault)) == fault
    assert faults.describe(fault) == name


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_fault_says_what_it_does(name: str) -> None:
    assert (CATALOGUE[name].__doc__ or "").strip().endswith(".")


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("stahl", {}, "there are: refuse, blackhole"),
        ("stall", {"since": 1}, "stall has no field 'since'; its fields: probability"),
        ("stahl", {}, "there is no fault 'stahl'; did you mean stall?; there are: refuse"),
        ("stall", {"secs": 1}, "stall has no field 'secs'; did you mean seconds?; its fields: "),
        ("stall", {"seconds": "1"}, 'stall: seconds must be a number or null, not "1"'),
        ("stall", {"seconds": 10**400}, "seconds must be a number or null, not 1000000000000000000000"),
        ("stall", {"times": 1.5}, "stall: times must be a whole number or null, not 1.5"),
        ("oversized", {"binary": 1}, "oversized: binary must be true or false, not 1"),
        ("poison", {"text": ["a" * 90]}, "poison: text must be a text, not a list"),
        ("stall", {"seconds": -1}, "seconds must be 0 or more"),
        ("stall", {"then": "explode"}, 'then must be one of continue, reset, not "explode"'),
        ("stall", {"then": "continu"}, 'not "continu"; did you mean continue?'),
        ("stall", {"then": True}, "then must be one of continue, reset, not true"),
        ("stall", {"point": "nowhere"}, "point must be one of init, now, open, segment, "),
        ("stall", {"segment": -1}, "segment is a number from 0"),
        ("stall", {"segment": 1, "point": "init"}, "goes with segment_start, segment"),
        ("refuse", {"probability": 2}, "probability is a share from 0 to 1"),
        ("refuse", {"after_seconds": -1}, "after_seconds must be 0 or more"),
        ("refuse", {"for_seconds": 0}, "for_seconds must be more than 0"),
        ("refuse", {"times": 0}, "times must be 1 or more"),
        ("health_status", {"status": 101}, "from 200 to 599"),
        ("health_hang", {"seconds": -1}, "seconds must be 0 or more"),
        ("latency", {"jitter_seconds": -1}, "seconds must be 0 or more"),
        ("abort", {"sent_bytes": 9, "declared_bytes": 9}, "less than declared_bytes"),
        ("abort", {"point": "upgrade"}, "use reset"),
        ("close", {"code": 1006}, "code may be"),
        ("close", {"code": 999}, "code may be"),
        ("close", {"reason": "ä" * 62}, "123 bytes"),
        ("close", {"point": "upgrade"}, "use reset"),
        ("flaky", {"sessions": 1.5}, "shares from 0 to 1"),
        ("gpu_error", {"point": "upgrade"}, "use reset"),
        ("reject", {"point": "segment"}, 'point must be one of init, open, not "segment"'),
        ("reject", {"code": "worker_failed"}, "code must be one of gpu_unavailable, session_rejected, not"),
        ("big_state", {"size_bytes": -1}, "size_bytes must be 0 to"),
        ("poison", {"text": ""}, "must not be empty"),
        ("latency", {"session": 0}, "session counts upgrade requests from 1"),
        ("latency", {"seconds": float("nan")}, "seconds must be 0 or more"),
        ("stall", {"seconds": float("inf")}, "seconds must be 0 or more"),
        ("refuse", {"for_seconds": float("inf")}, "null is for ever"),
        ("blackhole", {"how": "maybe"}, 'how must be one of accept, backlog, not "maybe"'),
        ("slow_accept", {"seconds": -1}, "seconds must be 0 or more"),
        ("upgrade_status", {"status": 200}, "status must be 300 to 599, not 200"),
        ("upgrade_status", {"location": "a\r\nb"}, "location must be printable ASCII"),
        ("upgrade_status", {"retry_after_seconds": -1}, "retry_after_seconds must be 0 or more"),
        ("slow_upgrade", {"pieces": 0}, "pieces must be 1 to 1000"),
        ("slow_drip", {"pieces": 1001}, "pieces must be 1 to 1000"),
        ("redirect", {"status": 304}, "status must be one of 301, 302, 303, 307, 308, not 304"),
        ("redirect", {"location": ""}, "location must be printable ASCII"),
        ("huge_body", {"size_bytes": -1}, "size_bytes must be 0 to"),
        ("flap", {"down_seconds": 0}, "down_seconds must be more than 0"),
        ("capacity", {"sessions": -1}, "sessions must be 0 to"),
        ("cold_start", {"every_seconds": 0}, "every_seconds must be more than 0"),
        ("bandwidth", {"bytes_per_second": 0}, "bytes_per_second must be 1 to"),
        ("stop_reading", {"point": "upgrade"}, "needs an open session"),
        ("oversized", {"size_bytes": 2**40}, "size_bytes must be 0 to"),
        ("fragment_storm", {"fragment_bytes": 0}, "fragment_bytes must be 1 to"),
        ("fragment_storm", {"ping_every": -1}, "ping_every must be 0 or more"),
        ("corrupt_media", {"flipped_bytes": 0}, "flipped_bytes must be 1 or more"),
        ("corrupt_media", {"segment": -1}, "segment is a number from 0"),
        ("kill", {"restart_after_seconds": -1}, "restart_after_seconds must be 0 or more"),
        ("pause", {"seconds": -1}, "seconds must be 0 or more"),
        ("restart", {"away_seconds": -1}, "away_seconds must be 0 or more"),
    ],
)
def test_a_wrong_fault_is_refused_with_what_would_be_right(
    name: str, fields: dict[str, Any], text: str
) -> None:
    with pytest.raises(BadFault) as refusal:
        fault_from(name, fields)
    assert text in str(refusal.value)
    assert "`" not in str(refusal.value)
    assert f"{name}: {name}" not in str(refusal.value)


def test_a_description_names_what_differs_from_the_defaults() -> None:
    assert faults.describe(faults.Stall(seconds=3, times=1)) == "stall times=1 seconds=3"
