"""PURE. Whether a gateway that runs already is one for a scenario, as far as it says so itself.

What a scenario wants of a gateway's settings is given to one that is started for it. One that runs has its
own: what it tells on /status is held against the scenario, and what it does not tell stays open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emulator.scenario import Scenario, as_variable


@dataclass(frozen=True, slots=True)
class Fit:
    """How a gateway and a scenario go together."""

    knows_none: str = ""
    """Why it is not a gateway of these replicas at all, in words."""
    refusal: str = ""
    """Why this scenario would say nothing about it, in words."""
    open: tuple[str, ...] = ()
    """Settings of the scenario's that it may not have, in words."""
    strangers: tuple[str, ...] = ()
    """URLs of other replicas, which it takes for healthy."""


def fit(scenario: Scenario, urls: Mapping[str, str], status: str | bytes | None) -> Fit:
    """`urls` are those of the scenario's replicas, by name; `status` is the body of the gateway's answer."""
    variables = [f"{name}={as_variable(value)}" for name, value in scenario.gateway.environment.items()]
    known = None if status is None else _entries(status)
    if known is None:
        return Fit(open=(*variables, *_explicit(scenario)))
    missing = [name for name, url in urls.items() if _plain(url) not in known]
    if len(missing) == len(urls):
        theirs, ours = _some(list(known)) or "none", _some(list(urls.values()))
        return Fit(knows_none=f"its replicas are {theirs}, and not those of the scenario, {ours}")
    if missing:
        wanted = ", ".join(f"{name} ({urls[name]})" for name in missing)
        return Fit(refusal=f"it has no replica {wanted}")
    untold: list[str] = []
    for name, url in urls.items():
        for key, value in scenario.replicas.plan(name).gateway.items():
            if key not in known[_plain(url)]:
                untold.append(f"{key}: {json.dumps(value)} of replica {name}")
            elif (told := known[_plain(url)][key]) != value:
                has, wants = json.dumps(told), json.dumps(value)
                return Fit(
                    refusal=f"it has {key}: {has} for replica {name}, where the scenario needs {wants}"
                )
    own = {_plain(url) for url in urls.values()}
    strangers = [url for url, entry in known.items() if url not in own and entry.get("status") == "healthy"]
    return Fit(open=(*variables, *untold), strangers=tuple(strangers))


def _entries(body: str | bytes) -> dict[str, dict[str, Any]] | None:
    """What the gateway says of each replica, by URL; None for an answer of another kind."""
    try:
        return {_plain(entry["url"]): dict(entry) for entry in json.loads(body)["replicas"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _explicit(scenario: Scenario) -> Iterator[str]:
    """What the scenario itself says of its replicas that a gateway has to know, in words."""
    if scenario.replicas.capacity is not None:
        yield f"capacity: {scenario.replicas.capacity} of its replicas"
    for key, value in (scenario.replicas.gateway or {}).items():
        yield f"{key}: {json.dumps(value)} of its replicas"
    for pattern, own in scenario.replicas.each.items():
        if own.capacity is not None:
            yield f"capacity: {own.capacity} of replica {pattern}"
        for key, value in (own.gateway or {}).items():
            yield f"{key}: {json.dumps(value)} of replica {pattern}"


def _plain(url: str) -> str:
    return url.rstrip("/")


def _some(urls: list[str]) -> str:
    return ", ".join(urls[:3]) + (f" and {len(urls) - 3} more" if len(urls) > 3 else "")
