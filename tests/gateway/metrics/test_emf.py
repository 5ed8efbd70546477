"""The line that CloudWatch makes metrics of, held against its published schema and its further rules."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import jsonschema
import pytest

from gateway.metrics import names
from gateway.metrics.emf import emf_line
from gateway.metrics.measuring import Counters, Moment, metrics_of
from gateway.metrics.reporter import EmfReporter
from gateway.replicas.model import Candidate
from tests.support.manual_clock import ManualClock

UNITS = (
    "Seconds|Microseconds|Milliseconds|Bytes|Kilobytes|Megabytes|Gigabytes|Terabytes|Bits|Kilobits|Megabits|"
    "Gigabits|Terabits|Percent|Count|Bytes\\/Second|Kilobytes\\/Second|Megabytes\\/Second|"
    "Gigabytes\\/Second|Terabytes\\/Second|Bits\\/Second|Kilobits\\/Second|Megabits\\/Second|"
    "Gigabits\\/Second|Terabits\\/Second|Count\\/Second|None"
)
TEXT = {"type": "string", "pattern": "^(.*)$", "minLength": 1, "maxLength": 1024}
SCHEMA = {
    "type": "object",
    "required": ["_aws"],
    "properties": {
        "_aws": {
            "type": "object",
            "required": ["Timestamp", "CloudWatchMetrics"],
            "properties": {
                "Timestamp": {"type": "integer"},
                "CloudWatchMetrics": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["Namespace", "Dimensions", "Metrics"],
                        "properties": {
                            "Namespace": TEXT,
                            "Dimensions": {
                                "type": "array",
                                "minItems": 1,
                                "items": {
                                    "type": "array",
                                    "minItems": 0,
                                    "maxItems": 30,
                                    "items": TEXT | {"maxLength": 250},
                                },
                            },
                            "Metrics": {
                                "type": "array",
                                "minItems": 1,
                                "maxItems": 100,
                                "items": {
                                    "type": "object",
                                    "required": ["Name"],
                                    "properties": {
                                        "Name": TEXT,
                                        "Unit": {"type": "string", "pattern": f"^({UNITS})$"},
                                        "StorageResolution": {"enum": [1, 60]},
                                    },
                                },
                            },
                        },
                    },
                },
            },
        }
    },
}
"""As the CloudWatch User Guide gives it."""


def checked(line: str) -> dict[str, Any]:
    """The line, which breaks no rule of the format."""
    assert "\n" not in line
    read: dict[str, Any] = json.loads(line)
    jsonschema.validate(read, SCHEMA)
    for about in read["_aws"]["CloudWatchMetrics"]:
        for name in (name for group in about["Dimensions"] for name in group):
            assert isinstance(read[name], str), "a dimension is a member of the root"
        for metric in about["Metrics"]:
            value = read[metric["Name"]]
            assert isinstance(value, int | float)
            assert not isinstance(value, bool)
    return read


def candidate(name: str = "a", **more: Any) -> Candidate:
    plain = {"primary": False, "weight": 1.0, "healthy": True, "draining": False, "sessions": 0}
    return Candidate(f"http://{name}", name, **({"max_sessions": None} | plain | more))


def values(*seen: Candidate, sessions: int = 0, waiting: int = 0, resumes: int = 0) -> dict[str, float]:
    moment = Moment(seen, sessions, waiting, Counters(resumes))
    return metrics_of(moment, before=Counters(), full_at_sessions=8)


def test_a_line_keeps_every_rule_of_the_format() -> None:
    told = values(candidate(max_sessions=4, sessions=2), sessions=2)
    read = checked(emf_line(told, namespace="Streamhold", service="gateway", at_ms=1_700_000_000_123))
    about = read["_aws"]["CloudWatchMetrics"][0]
    assert {metric["Name"]: metric["Unit"] for metric in about["Metrics"]} == names.UNITS
    assert (about["Namespace"], about["Dimensions"], read["Service"]) == (
        "Streamhold",
        [["Service"]],
        "gateway",
    )
    assert read["_aws"]["Timestamp"] == 1_700_000_000_123


def test_the_schema_tells_a_wrong_line() -> None:
    read = json.loads(emf_line(values(), namespace="Streamhold", service="gateway", at_ms=1))
    read["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Unit"] = "Sessions"
    with pytest.raises(jsonschema.ValidationError):
        checked(json.dumps(read))


def test_sessions_count_with_those_that_wait_for_what_one_worker_is_to_carry() -> None:
    told = values(candidate(), sessions=5, waiting=1)
    assert (told[names.SESSIONS], told[names.WAITING_SESSIONS]) == (5, 1)
    assert told[names.SESSION_UTILISATION] == 75.0


def test_replicas_are_told_by_what_they_are() -> None:
    told = values(
        candidate("a"),
        candidate("b", draining=True),
        candidate("c", healthy=False),
        candidate("d", healthy=False, sleeping=True),
    )
    assert told[names.REPLICAS] == 4
    assert told[names.HEALTHY_REPLICAS] == 1
    assert told[names.SLEEPING_REPLICAS] == 1


@pytest.mark.parametrize(
    ("seen", "percent"),
    [
        ([candidate("a", max_sessions=4, sessions=1), candidate("b", max_sessions=4, sessions=2)], 37.5),
        ([candidate("a", max_sessions=4, sessions=4), candidate("b", healthy=False, max_sessions=4)], 100.0),
        ([candidate("a", max_sessions=1, sessions=1), candidate("b", sessions=50)], 100.0),
        ([candidate("a", sessions=50)], None),
        ([candidate("a", healthy=False, max_sessions=4)], None),
        ([], None),
    ],
)
def test_the_places_of_replicas_that_tell_them_are_used_so_far(
    seen: list[Candidate], percent: float | None
) -> None:
    assert values(*seen).get(names.REPLICA_UTILISATION) == percent


async def test_a_reporter_writes_a_line_each_interval_and_tells_what_happened_once() -> None:
    clock, stream = ManualClock(), io.StringIO()
    counters = Counters()

    def look() -> Moment:
        return Moment([], 0, 0, counters)

    reporter = EmfReporter(
        look,
        full_at_sessions=8,
        interval_seconds=60,
        namespace="Streamhold",
        service="blue",
        clock=clock,
        stream=stream,
    )
    running = asyncio.create_task(reporter.run())
    await clock.advance(59)
    assert stream.getvalue() == ""
    counters = Counters(2, 7)
    await clock.advance(1)
    counters = Counters(5, 7)
    await clock.advance(60)
    counters = Counters(6, 8)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    read = [checked(line) for line in stream.getvalue().splitlines()]
    assert [line[names.RESUMES] for line in read] == [2, 3, 1]
    assert [line[names.HANDED_BACK] for line in read] == [7, 0, 1]
    after = [line["_aws"]["Timestamp"] // 1000 - 1_700_000_000 for line in read]
    assert after == [60, 120, 120]
    assert {line["Service"] for line in read} == {"blue"}
