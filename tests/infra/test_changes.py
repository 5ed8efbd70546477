"""A change set in words."""

from __future__ import annotations

from typing import Any

import pytest

from infra.changes import Change, Kind, changes_lines, changes_of, created_by, summary
from infra.parameters import TO_COME
from infra.template import read_template


def described(name: str = "A", **more: Any) -> dict[str, Any]:
    return {
        "Type": "Resource",
        "ResourceChange": {"LogicalResourceId": name, "ResourceType": "AWS::X", "Action": "Modify", **more},
    }


def detail(name: str = "P", recreation: str = "Never", **more: str) -> dict[str, Any]:
    target = {"Attribute": "Properties", "Name": name, "RequiresRecreation": recreation}
    return {"Target": target, "Evaluation": "Static", **more}


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"Action": "Add"}, "create"),
        ({"Action": "Remove"}, "remove"),
        ({"Action": "Import"}, "import"),
        ({"Action": "Dynamic"}, "depends"),
        ({"Replacement": "False"}, "change"),
        ({"Replacement": "True"}, "replace"),
        ({"Replacement": "Conditional"}, "may replace"),
        # As moto has it: not a word on replacement.
        ({}, "change"),
    ],
)
def test_what_would_be_done(more: dict[str, Any], kind: Kind) -> None:
    (change,) = changes_of([described(**more)])
    assert change == Change(kind, "A", "AWS::X")


@pytest.mark.parametrize(
    ("details", "reasons"),
    [
        ([detail(ChangeSource="DirectModification")], ("P (template)",)),
        (
            [
                detail(ChangeSource="ParameterReference", CausingEntity="ImageUri"),
                detail(ChangeSource="DirectModification") | {"Evaluation": "Dynamic"},
            ],
            ("P (parameter ImageUri)",),
        ),
        (
            [detail("Role", "Conditionally", ChangeSource="ResourceAttribute", CausingEntity="TaskRole.Arn")],
            ("Role may need a new one (TaskRole.Arn changes)",),
        ),
        (
            [detail("Name", "Always", ChangeSource="DirectModification"), detail("Port")],
            ("Name needs a new one (template)", "Port"),
        ),
        ([{"Target": {"Attribute": "Tags"}, "ChangeSource": "Automatic"}], ("Tags (by itself)",)),
        ([{}], ("something",)),
    ],
)
def test_why(details: list[dict[str, Any]], reasons: tuple[str, ...]) -> None:
    (change,) = changes_of([described(Details=details)])
    assert change.reasons == reasons


@pytest.mark.parametrize(
    ("policy", "told"),
    [("Delete", ()), ("Snapshot", ("a snapshot is kept",)), ("Retain", ("it stays, outside the stack",))],
)
def test_what_is_left_of_what_goes(policy: str, told: tuple[str, ...]) -> None:
    (change,) = changes_of([described(Action="Remove", PolicyAction=policy)])
    assert change.reasons == told


def test_what_hurts_comes_first() -> None:
    found = changes_of(
        [
            described("Z", Action="Add"),
            described("Y", Replacement="False"),
            described("X", Action="Remove"),
            described("W", Replacement="True"),
            {"Type": "Hook"},
        ]
    )
    assert [change.resource for change in found] == ["W", "X", "Z", "Y"]
    assert summary(found) == "1 to create, 1 to change, 1 to replace, 1 to remove"
    assert changes_lines(found)[0] == "  ! replace      W  AWS::X"


TEMPLATE = """
Parameters: {P: {Type: String}}
Conditions:
  Has: !Not [!Equals [!Ref P, ""]]
  Both: !And [!Condition Has, !Not [!Equals [!Join ["", !Ref P], "x"]]]
  Unknown: !Equals [!Ref AWS::Region, here]
Resources:
  D: {Type: T, Condition: Unknown}
  A: {Type: T}
  B: {Type: T, Condition: Has}
  C: {Type: T, Condition: Both}
"""


@pytest.mark.parametrize(
    ("value", "created"),
    [("", "AD"), ("x", "ABD"), ("y", "ABCD"), (TO_COME, "ABCD"), (None, "ABCD")],
)
def test_a_template_alone_tells_what_it_would_create(value: str | None, created: str) -> None:
    found = created_by(read_template(TEMPLATE), {"P": value})
    assert "".join(change.resource for change in found) == created
    assert changes_lines(found)[0] == "  + create       A  T"
    assert changes_lines(found)[-1] == "  + create       D  T: if Unknown holds"


def test_no_change_is_no_line() -> None:
    assert changes_lines([]) == []
    assert summary([]) == ""
