from __future__ import annotations

from dataclasses import dataclass, fields

import pytest

from emulator.described import field_docs, summary
from emulator.faults import CATALOGUE, Stall


@dataclass
class Plain:
    """What it is,
    in two lines."""

    said: int = 0
    """Told in
    two lines."""
    unsaid: int = 0
    again: int = 0
    """Told by the base."""


class Child(Plain):
    again: int = 1
    """Told by the child."""


def test_the_string_below_a_field_is_what_is_said_of_it() -> None:
    assert field_docs(Plain) == {"said": "Told in two lines.", "again": "Told by the base."}
    assert summary(Plain) == "What it is, in two lines."


def test_the_nearest_class_has_the_word() -> None:
    assert field_docs(Child) == {"said": "Told in two lines.", "again": "Told by the child."}
    assert summary(Child) == "", "a docstring is not inherited: it says what another class is"


def test_a_class_without_source_says_nothing() -> None:
    assert field_docs(type("Made", (), {"__module__": "nowhere"})) == {}


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_field_of_every_fault_says_what_it_is(name: str) -> None:
    kind = CATALOGUE[name]
    assert summary(kind)
    assert {entry.name for entry in fields(kind)} <= field_docs(kind).keys()


def test_a_faults_own_fields_and_those_of_all_are_told() -> None:
    told = field_docs(Stall)
    assert told["then"].startswith("What follows")
    assert told["times"].startswith("How many")
