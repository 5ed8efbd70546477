"""What docs/aws.md has from the templates in infra/: parameters, and numbers with what they agree with."""

from __future__ import annotations

from pathlib import Path

import yaml

TEMPLATES = Path(__file__).resolve().parents[1] / "infra"

Rows = list[tuple[str, ...]]

NUMBERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "port of the container, of the target group, in the security groups",
        ("TargetGroup", "Port"),
        "`GRANIAN_PORT`, Granian's own default",
    ),
    (
        "what the load balancer asks of a gateway",
        ("TargetGroup", "HealthCheckPath"),
        "fails for the gateway's own faults: ECS replaces a task that fails here, and that heals no replica",
    ),
    (
        "silence after which the load balancer cuts a connection",
        ("LoadBalancer", "idle_timeout.timeout_seconds"),
        "above `session.idle_timeout_seconds` (300), which is above `session.ping_interval_seconds` (20): "
        "the gateway ends a silent session, and says why. Clients get no pings through Granian",
    ),
    (
        "time for sessions between the load balancer and SIGTERM",
        ("SessionDrainSeconds",),
        "not below `session.idle_timeout_seconds`: sessions that nobody uses end by themselves",
    ),
    (
        "`drain.timeout_seconds`",
        ("GATEWAY_DRAIN__TIMEOUT_SECONDS",),
        "set by the template, so that all of a drain fits into `StopTimeout`",
    ),
    ("`drain.spread_seconds`", ("GATEWAY_DRAIN__SPREAD_SECONDS",), "the same"),
    (
        "time between SIGTERM and SIGKILL",
        ("StopTimeout",),
        "above the two, 5 s for the last closes and 3 s for the server's end; Fargate's maximum",
    ),
    (
        "time after the start in which a failed check counts for nothing",
        ("HealthCheckGracePeriodSeconds",),
        "above the first question to discovery, the first round of probes, and joining the fleet",
    ),
    (
        "time from one gateway less to the next",
        ("ScaleInCooldown",),
        "not below the time for sessions and `StopTimeout` together",
    ),
    (
        "open files",
        ("SoftLimit",),
        "two a session (`admission.max_sessions`), one for each that waits, and a thousand",
    ),
)
"""What it is, where it stands in the service template, and what it agrees with."""


def parameters_table(stack: str) -> str:
    """Every parameter of a template: its default, and what it is for."""
    rows: Rows = [("parameter", "default", "meaning")]
    for name, about in _mapping(_tree(stack)["Parameters"]).items():
        said = _mapping(about)
        default = f"`{_text(said['Default'])}`" if "Default" in said else "required"
        rows.append((f"`{name}`", default if default != "``" else "", _text(said["Description"])))
    return _table(rows)


def numbers_table() -> str:
    """The numbers of the service template, each with what it has to do with the gateway's settings."""
    rows: Rows = [("what", "in the template", "agrees with")]
    for what, path, why in NUMBERS:
        found = _tree("service")
        if path[0] in _mapping(found["Resources"]):
            found = _mapping(_mapping(found["Resources"])[path[0]])
        value = _found(yaml.MappingNode("", [*_pairs(found)]), path[-1])
        if value is None:
            raise LookupError(f"{path} is not in the template")
        rows.append((what, f"`{path[-1]}: {value}`", why))
    return _table(rows)


def _tree(stack: str) -> dict[str, yaml.Node]:
    """The template, its short forms left alone."""
    return _mapping(yaml.compose((TEMPLATES / f"{stack}.yaml").read_text(), Loader=yaml.SafeLoader))


def _mapping(node: yaml.Node | None) -> dict[str, yaml.Node]:
    assert isinstance(node, yaml.MappingNode)
    return {_text(key): value for key, value in node.value}


def _pairs(mapping: dict[str, yaml.Node]) -> list[tuple[yaml.Node, yaml.Node]]:
    return [(yaml.ScalarNode("", key), value) for key, value in mapping.items()]


def _text(node: yaml.Node) -> str:
    assert isinstance(node, yaml.ScalarNode)
    return " ".join(str(node.value).split())


def _found(node: yaml.Node, key: str) -> str | None:
    """The first value of `key` below `node`: of a field, the default of a parameter, or beside that name."""
    match node:
        case yaml.MappingNode():
            fields = _mapping(node)
            named = fields.get("Name") or fields.get("Key")
            if isinstance(named, yaml.ScalarNode) and named.value == key and "Value" in fields:
                return _text(fields["Value"])
            here = fields.get(key)
            if isinstance(here, yaml.ScalarNode):
                return _text(here)
            if isinstance(here, yaml.MappingNode) and "Default" in _mapping(here):
                return _text(_mapping(here)["Default"])
            below = list(fields.values())
        case yaml.SequenceNode():
            below = list(node.value)
        case _:
            below = []
    return next((value for one in below if (value := _found(one, key)) is not None), None)


def _table(rows: Rows) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"
