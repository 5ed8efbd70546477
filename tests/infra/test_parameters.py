"""What is wrong with parameters, and what a stack is sent."""

from __future__ import annotations

from typing import Any

import pytest

from infra.parameters import (
    TO_COME,
    Given,
    Sent,
    changed_values,
    laid_over,
    missing_from,
    read_file,
    read_pairs,
    resolved,
    sent,
    wrong_in,
    wrong_value,
)
from infra.template import Parameter, Template


def template(*parameters: Parameter) -> Template:
    return Template("", {one.name: one for one in parameters}, (), (), ())


def given(**values: str) -> Given:
    return Given(values, dict.fromkeys(values, "--parameter"))


@pytest.mark.parametrize(
    ("more", "value", "told"),
    [
        ({}, "anything", None),
        ({"type": "Number"}, "3.5", None),
        ({"type": "Number"}, "three", "should be a number, not 'three'"),
        ({"type": "Number"}, "nan", "should be a number, not 'nan'"),
        ({"type": "Number", "min_value": 1}, "0", "should be at least 1, not '0'"),
        ({"type": "Number", "max_value": 2}, "3", "should be at most 2, not '3'"),
        ({"type": "List<Number>"}, "1,x", "should be a list, each of which should be a number, not '1,x'"),
        ({"type": "AWS::EC2::VPC::Id"}, "vpc-0123456789abcdef0", None),
        ({"type": "AWS::EC2::VPC::Id"}, "subnet-01234567", "be an id that begins with vpc-"),
        ({"type": "List<AWS::EC2::Subnet::Id>"}, "subnet-01234567, subnet-12345678", None),
        ({"type": "List<AWS::EC2::Subnet::Id>"}, "subnet-01234567,x", "each of which should be an id that"),
        ({"type": "AWS::EC2::VPC::Id", "default": ""}, "", None),
        ({"allowed_values": ("a", "")}, "b", "should be one of a, (empty), not 'b'"),
        ({"allowed_values": ("a", "")}, "", None),
        ({"allowed_pattern": "[a-z]+"}, "abc", None),
        ({"allowed_pattern": "[a-z]+"}, "abc1", "should match [a-z]+, not 'abc1'"),
        ({"allowed_pattern": "[a-z]+", "constraint": "small letters"}, "A", "match [a-z]+ (small letters)"),
        ({"allowed_pattern": r"\p{Alpha}+"}, "A", None),
        ({"type": "CommaDelimitedList", "allowed_pattern": "[a-z]"}, "a,b", None),
        ({"min_length": 2}, "a", "should have at least 2 characters"),
        ({"max_length": 2}, "abc", "should have at most 2 characters"),
        ({"hidden": True, "min_length": 9}, "hunter2", "at least 9 characters, not the value given"),
        ({"type": "AWS::SSM::Parameter::Value<String>", "allowed_pattern": "x"}, "/a/b", None),
        ({"type": "AWS::SSM::Parameter::Value<String>"}, "", "name of a parameter in SSM"),
    ],
)
def test_a_value_is_held_to_its_declaration(more: dict[str, Any], value: str, told: str | None) -> None:
    found = wrong_value(Parameter("P", **more), value)
    if told is None:
        assert found is None
    else:
        assert found is not None
        assert told in found


def test_a_secret_that_is_wrong_is_not_shown() -> None:
    found = wrong_value(Parameter("P", hidden=True, allowed_pattern="[0-9]+"), "hunter2")
    assert found is not None
    assert "hunter2" not in found


def test_everything_wrong_is_told_and_where_it_stands() -> None:
    templates = {
        "data.yaml": template(Parameter("NodeType", allowed_values=("small",))),
        "service.yaml": template(Parameter("Cpu", "Number")),
    }
    values = laid_over(Given({"Cpu": "x"}, {"Cpu": "my.yaml"}), given(NodeTypo="small", Other="1"))
    assert wrong_in(values, templates) == [
        "my.yaml: Cpu should be a number, not 'x'",
        "--parameter: NodeTypo is no parameter of data.yaml and service.yaml; did you mean NodeType?",
        "--parameter: Other is no parameter of data.yaml and service.yaml; there are Cpu and NodeType",
    ]


def test_a_parameter_of_both_is_held_to_both() -> None:
    templates = {"a": template(Parameter("P", min_length=3)), "b": template(Parameter("P", max_length=1))}
    assert len(wrong_in(given(P="xx"), templates)) == 2


def test_pairs_and_what_is_none() -> None:
    found, problems = read_pairs(["A=1", "B=x=y", "A=2", "C=", "D", "=e"])
    assert found.values == {"A": "2", "B": "x=y", "C": ""}
    assert problems == ["--parameter D: should be KEY=VALUE", "--parameter =e: should be KEY=VALUE"]


@pytest.mark.parametrize(
    ("text", "values", "problems"),
    [
        ("", {}, 0),
        ("A: 1\nB: [x, y]\nC: true\nD: ''\nE:", {"A": "1", "B": "x,y", "C": "true", "D": "", "E": ""}, 0),
        ("A: 8.10\nB: 012345678901", {"A": "8.10", "B": "012345678901"}, 0),
        ("- A", {}, 1),
        ("A: [", {}, 1),
        ("A: 1\nB: 2\nA: 3", {}, 1),
        ("A: {B: 1}\nD: [[1]]\nE: 1", {"E": "1"}, 2),
    ],
)
def test_a_file_and_what_is_wrong_with_it(text: str, values: dict[str, str], problems: int) -> None:
    found, told = read_file(text, "my.yaml")
    assert found.values == values
    assert len(told) == problems
    assert all(line.startswith("my.yaml: ") for line in told)


DECLARED = template(
    Parameter("Image"),
    Parameter("Min", "Number", default="2"),
    Parameter("DesiredCount", default=""),
    Parameter("Secret", default="", hidden=True),
    Parameter("RedisArn", default=""),
)
HAD = {"Image": "gateway:1", "Min": "5", "DesiredCount": "4", "Secret": "****", "RedisArn": "old"}


def test_a_new_stack_is_sent_every_value_with_its_default() -> None:
    values = sent(DECLARED, given(Image="gateway:1"), had={}, put_out={"RedisArn": "arn"})
    assert values == (
        Sent("Image", "gateway:1"),
        Sent("Min", "2"),
        Sent("DesiredCount", ""),
        Sent("Secret", ""),
        Sent("RedisArn", "arn"),
    )


def test_a_stack_keeps_what_is_not_given_anew() -> None:
    values = sent(DECLARED, given(Image="gateway:1", Secret="****"), had=HAD, put_out={"RedisArn": "new"})
    assert values == (
        Sent("Image", None),
        Sent("Min", None),
        Sent("DesiredCount", ""),
        # Whether a secret is the same cannot be seen: it is sent.
        Sent("Secret", "****"),
        Sent("RedisArn", "new"),
    )
    assert changed_values(DECLARED, values, HAD) == [
        "DesiredCount: 4 -> (empty)",
        "Secret: a secret, which is not shown",
        "RedisArn: old -> new",
    ]


def test_what_is_given_wins_over_what_is_put_out() -> None:
    values = sent(DECLARED, given(Image="i", RedisArn="mine"), had={}, put_out={"RedisArn": "arn"})
    assert Sent("RedisArn", "mine") in values


def test_what_is_missing() -> None:
    declared = template(*map(Parameter, "ABCD"), Parameter("E", default=""))
    assert missing_from(declared, given(A="1"), had=["B"], put_out=["C"]) == ["D"]


def test_the_values_that_rules_are_held_against() -> None:
    values = resolved(DECLARED, given(Min="7"), had=HAD, to_come=["RedisArn"])
    assert values == {
        "Image": "gateway:1",
        "Min": "7",
        "DesiredCount": "",
        "Secret": None,
        "RedisArn": TO_COME,
    }
