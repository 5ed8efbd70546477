"""A CloudFormation template as cfn-lint reads it, and what becomes of it under given parameters.

References to parameters, conditions and the functions that build values from them are resolved; what only AWS
knows stays: `{"Ref": "Cluster"}`, and `${Cluster}` within text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cfnlint.decode import cfn_yaml  # type: ignore[import-untyped]

PSEUDO: Mapping[str, str] = {
    "AWS::AccountId": "123456789012",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-central-1",
    "AWS::StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/Gateway/5b7c3f10-aaaa-bbbb-1",
    "AWS::StackName": "Gateway",
    "AWS::URLSuffix": "amazonaws.com",
}
NO_VALUE = object()
LISTS = ("CommaDelimitedList", "List<")


@lru_cache
def _loaded(path: Path) -> dict[str, Any]:
    return _plain(cfn_yaml.load(str(path)))  # type: ignore[no-any-return]


def template_at(path: Path) -> dict[str, Any]:
    """The template, a copy that may be changed."""
    return copy.deepcopy(_loaded(path))


def _plain(value: Any) -> Any:
    """cfn-lint's nodes, which know their lines, as what they are."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case str():
            return str(value)
        case _:
            return value


@dataclass
class Stack:
    """What a template comes to."""

    template: Mapping[str, Any]
    given: Mapping[str, str]
    parameters: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        known = self.template["Parameters"]
        if unknown := set(self.given) - set(known):
            raise AssertionError(f"no such parameters: {sorted(unknown)}")
        self.parameters = {name: _parameter(known[name], self.given.get(name)) for name in known}
        if missing := [name for name, value in self.parameters.items() if value is None]:
            raise AssertionError(f"parameters without a value: {missing}")

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Those that are made."""
        made = {}
        for name, resource in self.template["Resources"].items():
            if "Condition" not in resource or self.holds(resource["Condition"]):
                made[name] = {key: self.value(item) for key, item in resource.items() if key != "Condition"}
        return made

    def properties(self, name: str) -> dict[str, Any]:
        """Of one resource, which has to be among those that are made."""
        resource = self.template["Resources"][name]
        assert "Condition" not in resource or self.holds(resource["Condition"]), f"{name} is not made"
        found: dict[str, Any] = self.value(resource["Properties"])
        return found

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """The properties of all resources of a type, by name."""
        return {name: one["Properties"] for name, one in self.resources.items() if one["Type"] == kind}

    def outputs(self) -> dict[str, Any]:
        return {name: self.value(one["Value"]) for name, one in self.template["Outputs"].items()}

    def refused(self) -> list[str]:
        """What the template's rules say against these parameters."""
        said = []
        for rule in self.template.get("Rules", {}).values():
            if self._truth(rule["RuleCondition"]):
                said += [
                    one["AssertDescription"] for one in rule["Assertions"] if not self._truth(one["Assert"])
                ]
        return said

    def holds(self, condition: str) -> bool:
        return self._truth(self.template["Conditions"][condition])

    def _truth(self, condition: Any) -> bool:
        [(operator, operands)] = condition.items()
        match operator:
            case "Condition":
                return self.holds(operands)
            case "Fn::Equals":
                left, right = (str(self.value(one)) for one in operands)
                return left == right
            case "Fn::Not":
                return not self._truth(operands[0])
            case "Fn::And":
                return all(self._truth(one) for one in operands)
            case "Fn::Or":
                return any(self._truth(one) for one in operands)
            case _:
                raise AssertionError(f"unknown in a condition: {operator}")

    def value(self, value: Any) -> Any:
        """`value` with all that can be known of it."""
        match value:
            case dict() if len(value) == 1 and next(iter(value)) in FUNCTIONS:
                [(function, operand)] = value.items()
                return FUNCTIONS[function](self, operand)
            case dict():
                items = {key: self.value(item) for key, item in value.items()}
                return {key: item for key, item in items.items() if item is not NO_VALUE}
            case list():
                return [item for item in map(self.value, value) if item is not NO_VALUE]
            case _:
                return value

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        return self.parameters.get(name, PSEUDO.get(name, {"Ref": name}))

    def _get_att(self, operand: list[str]) -> Any:
        assert operand[0] in self.template["Resources"], operand
        return {"Fn::GetAtt": list(operand)}

    def _if(self, operand: list[Any]) -> Any:
        condition, then, otherwise = operand
        return self.value(then if self.holds(condition) else otherwise)

    def _join(self, operand: list[Any]) -> str:
        between, parts = operand[0], self.value(operand[1])
        return str(between).join(_text(part) for part in parts)

    def _split(self, operand: list[Any]) -> list[str]:
        return _text(self.value(operand[1])).split(str(operand[0]))

    def _select(self, operand: list[Any]) -> Any:
        return self.value(operand[1])[int(operand[0])]

    def _sub(self, operand: str | list[Any]) -> str:
        text, own = (operand, {}) if isinstance(operand, str) else (operand[0], operand[1])

        def replaced(found: re.Match[str]) -> str:
            name = found[1]
            if name in own:
                return _text(self.value(own[name]))
            if "." in name:
                return _text(self._get_att(name.split(".", 1)))
            return _text(self._ref(name))

        return re.sub(r"\$\{([^!}]+)\}", replaced, text)


FUNCTIONS: dict[str, Callable[[Stack, Any], Any]] = {
    "Ref": Stack._ref,
    "Fn::GetAtt": Stack._get_att,
    "Fn::If": Stack._if,
    "Fn::Join": Stack._join,
    "Fn::Select": Stack._select,
    "Fn::Split": Stack._split,
    "Fn::Sub": Stack._sub,
}


def _parameter(declared: Mapping[str, Any], given: str | None) -> Any:
    value = given if given is not None else declared.get("Default")
    if value is not None and declared["Type"].startswith(LISTS):
        return str(value).split(",")
    return value if value is None else str(value)


def _text(value: Any) -> str:
    """What stands for it within text."""
    match value:
        case {"Ref": name}:
            return f"${{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{name}.{attribute}}}"
        case _:
            return str(value)


def at(template: Any, *path: str | int) -> Any:
    """What is there. A word finds an entry of a list by its Name, Key, Id or Field, under a condition too."""
    for step in path:
        if isinstance(template, list) and isinstance(step, str):
            entries = [entry for one in template for entry in (one, *_under_conditions(one))]
            template = next(entry for entry in entries if step in _names(entry))
        else:
            template = template[step]
    return template


def _under_conditions(entry: Any) -> list[Any]:
    return entry["Fn::If"][1:] if isinstance(entry, dict) and "Fn::If" in entry else []


def _names(entry: Any) -> set[Any]:
    return {entry.get(key) for key in ("Name", "Key", "Id", "Field")} if isinstance(entry, dict) else {entry}


def changed(template: Mapping[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """A copy of `template` with `value` at `path`; a function is called with what was there."""
    new = copy.deepcopy(dict(template))
    holder, last = at(new, *path[:-1]), path[-1]
    if isinstance(holder, list) and isinstance(last, str):
        last = holder.index(at(holder, last))
    before = holder[last]
    after = value(before) if callable(value) else value
    assert after != before, f"nothing changed at {path}"
    holder[last] = after
    return new
