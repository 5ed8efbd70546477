"""PURE. A CloudFormation template, as far as a command line must understand it before AWS is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import yaml

MOST_BYTES = 51_200
"""What AWS takes in a call; a larger one would have to be uploaded first."""
_KEPT = {"Retain": "stays", "RetainExceptOnCreate": "stays", "Snapshot": "leaves a snapshot"}
_NAMED_IAM = ("GroupName", "InstanceProfileName", "ManagedPolicyName", "RoleName", "UserName")


class TemplateError(ValueError):
    """This is no template."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """What may be given for a parameter."""

    name: str
    type: str = "String"
    default: str | None = None
    """None has to be given."""
    allowed_values: tuple[str, ...] = ()
    allowed_pattern: str | None = None
    constraint: str | None = None
    """The template's own words on what is right."""
    min_value: float | None = None
    max_value: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    hidden: bool = False
    """A secret: never shown, not by AWS either."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One that the template has."""

    name: str
    type: str
    condition: str | None = None
    """It is there if that holds; None is always."""
    kept: str | None = None
    """What is left of it when its stack is deleted; None is nothing."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template, and its very text."""

    text: str
    parameters: Mapping[str, Parameter]
    resources: tuple[Resource, ...]
    outputs: tuple[str, ...]
    capabilities: tuple[str, ...]
    """What AWS wants to be told that it may do."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """As they stand there."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """As they stand there."""


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms: `!Ref X`, `!GetAtt A.B`."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    value: Any
    match node:
        case yaml.ScalarNode():
            value = loader.construct_scalar(node)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case _:
            assert isinstance(node, yaml.MappingNode)
            value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def read_template(text: str) -> Template:
    """The template that `text` is. Raises TemplateError, in the reader's words."""
    try:
        return _read(text)
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, TemplateError):
            raise
        raise TemplateError(f"something in it is not of the kind that it should be: {error}") from None


def _read(text: str) -> Template:
    try:
        tree = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise TemplateError(f"it is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("Resources"), dict):
        raise TemplateError("it has no Resources")
    if (size := len(text.encode())) > MOST_BYTES:
        raise TemplateError(f"it has {size} bytes, and AWS takes {MOST_BYTES} at most")
    resources = {name: _mapping(body, name) for name, body in tree["Resources"].items()}
    return Template(
        text,
        MappingProxyType(
            {name: _parameter(name, _mapping(body, name)) for name, body in _part(tree, "Parameters").items()}
        ),
        tuple(_resource(name, body) for name, body in resources.items()),
        tuple(_part(tree, "Outputs")),
        _capabilities(resources),
        {name: _rule(_mapping(body, name), name) for name, body in _part(tree, "Rules").items()},
        _part(tree, "Conditions"),
    )


def _part(tree: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return _mapping(tree.get(key) or {}, key)


def _mapping(body: object, name: str) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise TemplateError(f"{name} should be a mapping")
    return body


def _parameter(name: str, body: Mapping[str, Any]) -> Parameter:
    return Parameter(
        name,
        str(body.get("Type", "String")),
        as_text(body["Default"]) if "Default" in body else None,
        tuple(as_text(value) for value in body.get("AllowedValues", ())),
        _text(body.get("AllowedPattern")),
        _text(body.get("ConstraintDescription")),
        _number(body.get("MinValue")),
        _number(body.get("MaxValue")),
        _whole(body.get("MinLength")),
        _whole(body.get("MaxLength")),
        as_text(body.get("NoEcho", False)) == "true",
    )


def _rule(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    assertions = body.get("Assertions") or []
    if not isinstance(assertions, list) or not all(isinstance(a, dict) and "Assert" in a for a in assertions):
        raise TemplateError(f"the Assertions of {name} should be a list, with an Assert in each")
    return {**body, "Assertions": assertions}


def as_text(value: object) -> str:
    """A value of YAML as AWS takes it: in lower case where it is true or false, lists with commas."""
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ",".join(as_text(one) for one in value)
        case _:
            return str(value)


def _text(value: object) -> str | None:
    return None if value is None else as_text(value)


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))


def _resource(name: str, body: Mapping[str, Any]) -> Resource:
    kept = _KEPT.get(str(body.get("DeletionPolicy")))
    condition = str(body["Condition"]) if "Condition" in body else None
    return Resource(name, str(body.get("Type")), condition, kept)


def _capabilities(resources: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    iam = [body for body in resources.values() if str(body.get("Type")).startswith("AWS::IAM::")]
    named = any(key in (body.get("Properties") or {}) for body in iam for key in _NAMED_IAM)
    if named:
        return ("CAPABILITY_NAMED_IAM",)
    return ("CAPABILITY_IAM",) if iam else ()
