"""Whether a gateway that runs is one for a scenario: by what it says on /status, and what it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.running.fitting import Fit, fit
from tests.emulator.running.build import scenario

URLS = {"a": "http://127.0.0.1:9101", "b": "http://127.0.0.1:9102"}
TWO = "replicas: {count: 2}\n"


def entry(url: str, **fields: Any) -> dict[str, Any]:
    return {"url": url, "status": "healthy", "max_sessions": 4, **fields}


def status(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"replicas": entries}).encode()


BOTH = (entry("http://127.0.0.1:9101/"), entry("http://127.0.0.1:9102"))


def test_a_gateway_of_these_very_replicas_fits() -> None:
    assert fit(scenario(TWO), URLS, status(*BOTH)) == Fit()


def test_a_gateway_of_other_replicas_is_told_from_one_that_lacks_some() -> None:
    others = [entry(f"http://10.0.0.{number}:80") for number in range(5)]
    assert fit(scenario(TWO), URLS, status(*others)).knows_none == (
        "its replicas are http://10.0.0.0:80, http://10.0.0.1:80, http://10.0.0.2:80 and 2 more, and not"
        " those of the scenario, http://127.0.0.1:9101, http://127.0.0.1:9102"
    )
    assert "its replicas are none" in fit(scenario(TWO), URLS, status()).knows_none
    assert fit(scenario(TWO), URLS, status(BOTH[0])).refusal == "it has no replica b (http://127.0.0.1:9102)"


@pytest.mark.parametrize(
    ("text", "told", "refusal"),
    [
        (
            "replicas: {count: 2, capacity: 1}",
            {},
            "it has max_sessions: 4 for replica a, where the scenario needs 1",
        ),
        (
            "replicas: {count: 2, each: {b: {capacity: 1}}}",
            {},
            "it has max_sessions: 4 for replica b, where the scenario needs 1",
        ),
        ("replicas: {count: 2}", {"max_sessions": None}, "it has max_sessions: null for replica b"),
        (
            "replicas: {count: 2, gateway: {primary: true}}",
            {"primary": False},
            "it has primary: false for replica b, where the scenario needs true",
        ),
    ],
)
def test_a_setting_that_it_tells_is_held_against_the_scenario(
    text: str, told: dict[str, Any], refusal: str
) -> None:
    first = {"primary": True} if "primary" in told else {}
    body = status({**BOTH[0], **first}, {**BOTH[1], **told})
    assert fit(scenario(text), URLS, body).refusal.startswith(refusal)


def test_what_it_does_not_tell_stays_open() -> None:
    text = (
        "replicas: {count: 2, capacity: 1, gateway: {cold_start: true},"
        " each: {b: {capacity: 2, gateway: {weight: 3}}}}\n"
        "gateway: {environment: {GATEWAY_SESSION__RESUME: false, LEVEL: high}}"
    )
    variables = ("GATEWAY_SESSION__RESUME=false", "LEVEL=high")
    for body in (None, b"{}", b"ok", b"[1]", b'{"replicas": {"a": 1}}'):
        assert fit(scenario(text), URLS, body).open == (
            *variables,
            "capacity: 1 of its replicas",
            "cold_start: true of its replicas",
            "capacity: 2 of replica b",
            "weight: 3 of replica b",
        )
    body = status(entry(URLS["a"], max_sessions=1), entry(URLS["b"], max_sessions=2, weight=3))
    assert fit(scenario(text), URLS, body).open == (
        *variables,
        "cold_start: true of replica a",
        "cold_start: true of replica b",
    )
    assert fit(scenario(TWO), URLS, None) == Fit()


def test_replicas_that_are_not_the_scenarios_are_told_of_where_they_are_said_to_serve() -> None:
    others = entry("http://127.0.0.1:9103"), entry("http://127.0.0.1:9104", status="unhealthy")
    assert fit(scenario(TWO), URLS, status(*BOTH, *others)) == Fit(strangers=("http://127.0.0.1:9103",))
