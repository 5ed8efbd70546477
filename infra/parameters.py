"""PURE. The stacks' parameters: what was given, all that is wrong with it, and what each stack is sent.

1. A parameter goes to every stack whose template has it.
2. One that is not given keeps the value that its stack has. A new stack, or a new parameter, takes what
   another stack puts out under its name, else the template's default; one that has neither has to be given.
3. What another stack puts out wins over the value that a stack has: it may have changed.
4. How many gateways there are to be at once is not kept: not given, it goes back to its default.
5. Defaults are sent like values: a stack keeps them then, whatever a later template's default is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml

from infra.template import Parameter, Template
from infra.words import listed, safe

TO_COME = "(put out by another stack)"
"""Stands for a value that is not there yet. It will not be empty."""
MOMENTARY = frozenset({"DesiredCount"})
"""Hold for the deployment that they are given for: kept, they would undo what the autoscaling did since."""
_ID_PREFIXES = {
    "AWS::EC2::VPC::Id": "vpc-",
    "AWS::EC2::Subnet::Id": "subnet-",
    "AWS::EC2::SecurityGroup::Id": "sg-",
}


@dataclass(frozen=True, slots=True)
class Given:
    """What was given: values by name, and where a value comes from."""

    values: Mapping[str, str]
    places: Mapping[str, str]


NOTHING = Given({}, {})


@dataclass(frozen=True, slots=True)
class Sent:
    """One parameter for a stack. A value of None is the one that the stack has."""

    name: str
    value: str | None


def read_pairs(pairs: Iterable[str]) -> tuple[Given, list[str]]:
    """`KEY=VALUE` of a command line, and what is wrong with them. The last of a name holds."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            values[name.strip()] = value
        else:
            problems.append(f"--parameter {safe(pair)}: should be KEY=VALUE")
    return Given(values, dict.fromkeys(values, "--parameter")), problems


class _Loader(yaml.BaseLoader):
    """YAML of texts alone, in which no key stands twice: of two image URIs, one is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} stands there twice", key.start_mark
                    )
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def read_file(text: str, path: str) -> tuple[Given, list[str]]:
    """The mapping of names to values in a YAML file, and what is wrong with it."""
    try:
        # Every value as it is written: 8.10 is no number here, nor 012345678901.
        tree = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        return NOTHING, [f"{path}: it is no YAML: {safe(str(error))}"]
    if not tree:
        return NOTHING, []
    if not isinstance(tree, dict):
        return NOTHING, [f"{path}: should be a mapping, a line `KEY: VALUE` for each parameter"]
    values: dict[str, str] = {}
    problems: list[str] = []
    for name, value in tree.items():
        flat = value if isinstance(value, list) else [value]
        if any(isinstance(one, dict | list) for one in flat):
            problems.append(f"{path}: {safe(str(name))} should be a text, a number or a list of them")
        else:
            values[str(name)] = ",".join(flat)
    return Given(values, dict.fromkeys(values, path)), problems


def laid_over(below: Given, above: Given) -> Given:
    """Both, where `above` wins."""
    return Given({**below.values, **above.values}, {**below.places, **above.places})


def wrong_in(given: Given, templates: Mapping[str, Template]) -> list[str]:
    """A line for each thing that is wrong with the values, whatever stacks there are."""
    problems: list[str] = []
    known = {name for template in templates.values() for name in template.parameters}
    for name, value in given.values.items():
        place = given.places[name]
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {listed(sorted(known))}"
            problems.append(f"{place}: {safe(name)} is no parameter of {listed(list(templates))}; {hint}")
            continue
        declared = [t.parameters[name] for t in templates.values() if name in t.parameters]
        wrong = dict.fromkeys(said for one in declared if (said := wrong_value(one, value)) is not None)
        problems += [f"{place}: {name} {said}" for said in wrong]
    return problems


def missing_from(
    template: Template, given: Given, *, had: Iterable[str] = (), put_out: Iterable[str] = ()
) -> list[str]:
    """The names of parameters for which there is no value from anywhere."""
    known = {*given.values, *had, *put_out}
    return [name for name, one in template.parameters.items() if one.default is None and name not in known]


def sent(
    template: Template, given: Given, *, had: Mapping[str, str], put_out: Mapping[str, str]
) -> tuple[Sent, ...]:
    """What the stack is sent. Nothing is missing any more."""
    return tuple(_sent(one, given.values, had, put_out) for one in template.parameters.values())


def _sent(
    one: Parameter, given: Mapping[str, str], had: Mapping[str, str], put_out: Mapping[str, str]
) -> Sent:
    value = given.get(one.name, put_out.get(one.name))
    if value is None and one.name in MOMENTARY:
        value = one.default
    if one.name in had and (value is None or (value == had[one.name] and not one.hidden)):
        return Sent(one.name, None)
    return Sent(one.name, one.default if value is None else value)


def resolved(
    template: Template, given: Given, *, had: Mapping[str, str], to_come: Iterable[str]
) -> dict[str, str | None]:
    """The value that each parameter will have: TO_COME for what is put out later, None for what AWS hides."""
    awaited = set(to_come)
    return {
        one.name: TO_COME if one.name in awaited else _resolved(one, given.values, had)
        for one in template.parameters.values()
    }


def _resolved(one: Parameter, given: Mapping[str, str], had: Mapping[str, str]) -> str | None:
    if one.name in given:
        return given[one.name]
    if one.name in had and one.name not in MOMENTARY:
        return None if one.hidden else had[one.name]
    return one.default


def changed_values(template: Template, parameters: Iterable[Sent], had: Mapping[str, str]) -> list[str]:
    """A line for each parameter that gets another value than the stack has."""
    lines = []
    for one in parameters:
        if one.value is None:
            continue
        if template.parameters[one.name].hidden:
            lines.append(f"{one.name}: a secret, which is not shown")
        elif one.name not in had:
            lines.append(f"{one.name}: {_shown(one.value)}")
        else:
            lines.append(f"{one.name}: {_shown(had[one.name])} -> {_shown(one.value)}")
    return lines


def _shown(value: str) -> str:
    return safe(value) if value else "(empty)"


def wrong_value(parameter: Parameter, value: str) -> str | None:
    """Why this is no value of the parameter; None when it is one, as far as can be told from here."""
    if value == parameter.default:
        return None
    shown = "the value given" if parameter.hidden else repr(safe(value, 100))
    if parameter.type.startswith("AWS::SSM::Parameter::"):
        return None if value else f"should be the name of a parameter in SSM, not {shown}"
    many = parameter.type == "CommaDelimitedList" or parameter.type.startswith("List<")
    kind = parameter.type.removeprefix("List<").removesuffix(">")
    pieces = [piece.strip() for piece in value.split(",")] if many else [value]
    for piece in pieces:
        if (said := _wrong_piece(parameter, kind, piece)) is not None:
            return f"should {'be a list, each of which should ' if many else ''}{said}, not {shown}"
    return None


def _wrong_piece(parameter: Parameter, kind: str, piece: str) -> str | None:
    """What a single value should be and is not."""
    prefix = _ID_PREFIXES.get(kind)
    if prefix is not None and not re.fullmatch(rf"{prefix}[0-9a-f]{{8,17}}", piece):
        return f"be an id that begins with {prefix}"
    if parameter.allowed_values and piece not in parameter.allowed_values:
        return f"be one of {', '.join(value or '(empty)' for value in parameter.allowed_values)}"
    if kind == "Number" and (said := _wrong_number(parameter, piece)) is not None:
        return said
    if parameter.min_length is not None and len(piece) < parameter.min_length:
        return f"have at least {parameter.min_length} characters"
    if parameter.max_length is not None and len(piece) > parameter.max_length:
        return f"have at most {parameter.max_length} characters"
    if parameter.allowed_pattern is not None and not _matches(parameter.allowed_pattern, piece):
        return parameter_rule(parameter)
    return None


def parameter_rule(parameter: Parameter) -> str:
    """The pattern in the template's own words, where it has some."""
    said = f" ({' '.join(parameter.constraint.split())})" if parameter.constraint else ""
    return f"match {parameter.allowed_pattern}{said}"


def _wrong_number(parameter: Parameter, piece: str) -> str | None:
    try:
        number = float(piece)
    except ValueError:
        return "be a number"
    if not math.isfinite(number):
        return "be a number"
    if parameter.min_value is not None and number < parameter.min_value:
        return f"be at least {parameter.min_value:g}"
    if parameter.max_value is not None and number > parameter.max_value:
        return f"be at most {parameter.max_value:g}"
    return None


def _matches(pattern: str, value: str) -> bool:
    """Whether the whole value does. A pattern that only Java knows is left to AWS."""
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True
