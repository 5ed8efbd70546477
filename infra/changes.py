"""PURE. A change set in words: what would be created, changed, replaced and removed, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infra.rules import condition_holds
from infra.template import Template
from infra.words import safe

Kind = Literal["create", "change", "replace", "may replace", "remove", "import", "depends"]
_SIGNS: dict[Kind, str] = {
    "create": "+",
    "change": "~",
    "replace": "!",
    "may replace": "?",
    "remove": "-",
    "import": "+",
    "depends": "?",
}
_KEPT = {
    "Retain": "it stays, outside the stack",
    "Snapshot": "a snapshot is kept",
    "ReplaceAndRetain": "the old one stays, outside the stack",
    "ReplaceAndSnapshot": "a snapshot of the old one is kept",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What would be done to one resource."""

    kind: Kind
    resource: str
    type: str
    reasons: tuple[str, ...] = ()


def changes_of(described: Iterable[Mapping[str, Any]]) -> list[Change]:
    """The changes of a change set as AWS describes them, those that hurt first."""
    found = [_change(one["ResourceChange"]) for one in described if one.get("Type") == "Resource"]
    order = ["replace", "may replace", "remove", "depends", "create", "import", "change"]
    return sorted(found, key=lambda change: (order.index(change.kind), change.resource))


def changes_lines(changes: Sequence[Change]) -> list[str]:
    """A line for each."""
    if not changes:
        return []
    width = max(len(change.resource) for change in changes)
    return [_line(change, width) for change in changes]


def summary(changes: Sequence[Change]) -> str:
    """`2 to create, 1 to change`."""
    counts = Counter(change.kind for change in changes)
    words = {"may replace": "perhaps to replace", "depends": "not known before it is done"}
    return ", ".join(f"{counts[kind]} {words.get(kind, f'to {kind}')}" for kind in _SIGNS if counts[kind])


def created_by(template: Template, values: Mapping[str, str | None]) -> list[Change]:
    """What a new stack of this template has, where AWS cannot be asked yet; `values` of the parameters."""
    found: list[Change] = []
    for one in template.resources:
        holds: bool | None = True
        if one.condition is not None:
            holds = condition_holds(one.condition, template.conditions, values)
        if holds is None or holds:
            reasons = () if holds else (f"if {one.condition} holds",)
            found.append(Change("create", one.name, one.type, reasons))
    return sorted(found, key=lambda change: change.resource)


def _line(change: Change, width: int) -> str:
    why = f": {'; '.join(change.reasons)}" if change.reasons else ""
    return f"  {_SIGNS[change.kind]} {change.kind:<11}  {change.resource:<{width}}  {change.type}{why}"


def _change(one: Mapping[str, Any]) -> Change:
    kept = _KEPT.get(str(one.get("PolicyAction")))
    reasons = [*_reasons(one.get("Details") or []), *([kept] if kept else [])]
    name, kind = safe(str(one["LogicalResourceId"])), safe(str(one["ResourceType"]))
    return Change(_kind(one), name, kind, tuple(reasons))


def _kind(one: Mapping[str, Any]) -> Kind:
    match one.get("Action"), one.get("Replacement"):
        case "Add", _:
            return "create"
        case "Remove", _:
            return "remove"
        case "Import", _:
            return "import"
        case "Dynamic", _:
            return "depends"
        case _, "True":
            return "replace"
        case _, "Conditional":
            return "may replace"
        case _:
            return "change"


def _reasons(details: Iterable[Mapping[str, Any]]) -> list[str]:
    """One text for each property or attribute, however many details AWS has on it."""
    causes: dict[str, list[str]] = {}
    needs_new: dict[str, str] = {}
    for detail in details:
        target = detail.get("Target") or {}
        what = str(target.get("Name") or target.get("Attribute") or "something")
        told = causes.setdefault(what, [])
        if (cause := _cause(detail)) and cause not in told:
            told.append(cause)
        match target.get("RequiresRecreation"):
            case "Always":
                needs_new[what] = " needs a new one"
            case "Conditionally":
                needs_new.setdefault(what, " may need a new one")
            case _:
                pass
    because = {what: f" ({', '.join(told)})" if told else "" for what, told in causes.items()}
    return [safe(f"{what}{needs_new.get(what, '')}{cause}") for what, cause in because.items()]


def _cause(detail: Mapping[str, Any]) -> str:
    """Where the change comes from."""
    entity = detail.get("CausingEntity")
    match detail.get("ChangeSource"):
        case "ParameterReference":
            return f"parameter {entity}"
        case "ResourceReference":
            return f"{entity} changes"
        case "ResourceAttribute":
            return f"{entity} changes"
        case "DirectModification":
            # AWS adds this to what a parameter caused, too: there it says nothing more.
            return "" if detail.get("Evaluation") == "Dynamic" else "template"
        case "Automatic":
            return "by itself"
        case _:
            return ""
