"""A template's rules, as far as they can be told without AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.parameters import TO_COME
from infra.rules import broken_rules
from infra.template import read_template

EMPTY = {"Fn::Equals": [{"Ref": "A"}, ""]}
IS_1 = {"Fn::Equals": [{"Ref": "A"}, 1]}
UNKNOWN: dict[str, Any] = {"Fn::EachMemberIn": [[], []]}


@pytest.mark.parametrize(
    ("rule", "value", "broken"),
    [
        (EMPTY, "", False),
        (EMPTY, "x", True),
        (IS_1, "1", False),
        ({"Fn::Not": [EMPTY]}, "x", False),
        ({"Fn::And": [{"Fn::Not": [EMPTY]}, IS_1]}, "2", True),
        ({"Fn::Or": [EMPTY, IS_1]}, "1", False),
        ({"Fn::Contains": [["x", "y"], {"Ref": "A"}]}, "y", False),
        ({"Fn::Contains": [["x", "y"], {"Ref": "A"}]}, "z", True),
        # What only AWS can tell is left to it; where the rest decides, it decides.
        (UNKNOWN, "x", False),
        ({"Fn::Not": [UNKNOWN]}, "x", False),
        ({"Fn::And": [EMPTY, UNKNOWN]}, "x", True),
        (EMPTY, None, False),
        ({"Fn::Equals": [{"Ref": "Nowhere"}, ""]}, "x", False),
    ],
)
def test_an_assertion(rule: dict[str, Any], value: str | None, broken: bool) -> None:
    rules = {"R": {"Assertions": [{"Assert": rule, "AssertDescription": "told\n  so"}]}}
    assert broken_rules(rules, {"A": value}) == (["told so"] if broken else [])


@pytest.mark.parametrize(("condition", "told"), [(EMPTY, []), (IS_1, ["no"]), (UNKNOWN, [])])
def test_a_rule_holds_only_under_its_condition(condition: dict[str, Any], told: list[str]) -> None:
    assertion = {"Assert": {"Fn::Not": [IS_1]}, "AssertDescription": "no"}
    assert broken_rules({"R": {"RuleCondition": condition, "Assertions": [assertion]}}, {"A": "1"}) == told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, ["DiscoveryKind cloudmap needs CloudMapNamespace and CloudMapService"]),
        ({"CloudMapNamespace": "n", "CloudMapService": "s"}, []),
        ({"DiscoveryKind": "ecs"}, ["DiscoveryKind ecs needs ReplicaService"]),
        ({"DiscoveryKind": "fleet"}, ["DiscoveryKind fleet needs RedisUrlSecretArn"]),
        ({"DiscoveryKind": "fleet", "RedisUrlSecretArn": TO_COME}, []),
    ],
)
def test_the_rules_of_the_service(values: dict[str, str | None], told: list[str]) -> None:
    template = read_template((Path(__file__).parents[2] / "infra" / "service.yaml").read_text())
    defaults = {name: one.default for name, one in template.parameters.items()}
    assert broken_rules(template.rules, {**defaults, **values}) == told
