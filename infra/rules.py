"""PURE. A template's own rules and conditions on its parameters, told before AWS tells them.

AWS checks them as well, and it alone those that need more than the parameters' values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class _UndecidedError(Exception):
    """Only AWS can tell."""


def broken_rules(rules: Mapping[str, Any], values: Mapping[str, str | None]) -> list[str]:
    """The template's own words for each rule that does not hold. A value of None is not known yet."""
    found: list[str] = []
    for rule in rules.values():
        try:
            if "RuleCondition" in rule and not _holds(rule["RuleCondition"], values):
                continue
        except (_UndecidedError, RecursionError):
            continue
        for one in rule.get("Assertions", ()):
            try:
                if not _holds(one["Assert"], values):
                    told = str(one.get("AssertDescription", "a rule of the template does not hold"))
                    found.append(" ".join(told.split()))
            except (_UndecidedError, RecursionError):
                continue
    return found


def condition_holds(
    name: str, conditions: Mapping[str, Any], values: Mapping[str, str | None]
) -> bool | None:
    """Whether a condition of the template does; None where only AWS can tell."""
    try:
        return _holds(conditions.get(name), values, conditions)
    except (_UndecidedError, RecursionError):
        return None


def _holds(
    condition: Any, values: Mapping[str, str | None], conditions: Mapping[str, Any] | None = None
) -> bool:
    match condition:
        case {"Condition": str(name)} if conditions is not None and name in conditions:
            return _holds(conditions[name], values, conditions)
        case {"Fn::Equals": [left, right]}:
            return _value(left, values) == _value(right, values)
        case {"Fn::Not": [inner]}:
            return not _holds(inner, values, conditions)
        case {"Fn::And": list(inner)}:
            return all(_holds(one, values, conditions) for one in inner)
        case {"Fn::Or": list(inner)}:
            return any(_holds(one, values, conditions) for one in inner)
        case {"Fn::Contains": [list(several), one]}:
            return _value(one, values) in [_value(each, values) for each in several]
        case _:
            raise _UndecidedError


def _value(value: Any, values: Mapping[str, str | None]) -> str:
    match value:
        case {"Ref": str(name)}:
            found = values.get(name)
            if found is None:
                raise _UndecidedError
            return found
        case {"Fn::Join": [str(between), {"Ref": str(name)}]}:
            return between.join(_value({"Ref": name}, values).split(","))
        case str() | int():
            return str(value)
        case _:
            raise _UndecidedError
