"""Whatever a file or a variable holds, it is settings or a list of problems: never an exception of another
kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from gateway.settings import Settings, inspect
from gateway.settings.checking import check
from gateway.settings.environment import Variables, read_environment
from gateway.settings.fields import Section
from gateway.settings.loading import FileSource
from gateway.settings.tree import REMOVED, dotted, value_at, with_changes, with_value, without


def names(model: type[BaseModel]) -> set[str]:
    """Every key of `model` and its sections, those of later versions too."""
    found = set(model.model_fields) | (model.later if issubclass(model, Section) else frozenset())
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= names(field.annotation)
    return found


KEYS = st.sampled_from(
    sorted(names(Settings) | {"url", "name", "primary", "weight", "max_sessions", "nonsense", ""})
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["http://a:1", "http://A:1/", "ftp://a", "/ws", "priority", "fleet", "none", "*", "1"]),
)
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
SECTIONS = st.dictionaries(st.sampled_from(sorted(Settings.model_fields)), TREES, max_size=6)


@settings(deadline=None)
@given(st.one_of(st.dictionaries(KEYS, TREES, max_size=5), SECTIONS))
def test_any_tree_is_settings_or_problems(tree: dict[str, object]) -> None:
    checked = check(tree)
    assert isinstance(checked.settings, Settings)
    assert all(message and not message.startswith("Input") for _, message in checked.broken)
    if not checked.broken:
        assert checked.settings.router.endpoints()


@settings(deadline=None)
@given(st.one_of(st.dictionaries(KEYS, TREES, max_size=5), SECTIONS))
def test_the_second_pass_finds_something_wherever_the_first_fails_and_nowhere_else(
    tree: dict[str, object],
) -> None:
    try:
        read = Settings.read_from(FileSource(Settings, tree, Variables()))
    except ValidationError:
        assert check(tree).broken
    else:
        assert (check(tree).broken, check(tree).settings) == ((), read)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=64), st.text(max_size=64).map(str.encode)))
def test_any_file_is_settings_or_problems(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "gateway.yaml").write_bytes(content)
    assert inspect({}, tmp_path).problems


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=12).map(lambda end: f"GATEWAY_{end}"), st.text(max_size=12)))
def test_any_variables_are_read_or_problems(environ: dict[str, str]) -> None:
    read_environment(environ, Settings)


def test_a_place_is_written_as_people_do() -> None:
    assert dotted(("router", "replicas", 0, "url")) == "router.replicas[0].url"
    assert dotted(()) == ""


def test_trees_are_changed_in_copies() -> None:
    tree = {"a": {"b": [{"c": 1}, 2]}}
    assert with_value(tree, ("a", "b", 0, "c"), 5) == {"a": {"b": [{"c": 5}, 2]}}
    assert with_value(tree, ("x", "y"), 1) == {**tree, "x": {"y": 1}}
    assert with_value({"a": 1}, ("a", "b"), 2) == {"a": 1}
    assert without(tree, ("a", "b", 0, "c")) == {"a": {"b": [{}, 2]}}
    assert without(tree, ("a", "z")) == tree
    changes = {("a", "b", 0, "c"): REMOVED, ("a", "b", 1): 3, ("a", "z"): REMOVED, ("q", "r"): 1}
    assert with_changes(tree, changes) == {"a": {"b": [{}, 3]}}
    assert value_at(tree, ("a", "b", 1)) == 2
    assert value_at(tree, ("a", "b", 7, "c")) is None
    assert tree == {"a": {"b": [{"c": 1}, 2]}}
