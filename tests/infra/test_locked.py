"""What images install is a part of requirements.txt: the right one, and never an old one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.locked import BUILD, IMAGES, LOCK, ROOT, NotLocked, entries_of, file_for, needed, parts

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

SMALL = """\
alone==1.0 \\
    --hash=sha256:a1
    # via streamhold (pyproject.toml)
both==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:b1
    # via
    #   ring-a
    #   streamhold (pyproject.toml)
both==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:b2
    # via ring-a
deep==3.1 \\
    --hash=sha256:d1 \\
    --hash=sha256:d2
    # via both
ring-a[extra]==1.0 \\
    --hash=sha256:r1
    # via ring-b
ring-b==1.0 \\
    --hash=sha256:r2
    # via ring-a
"""


def wanted_from(*requirements: str) -> list[str]:
    return [entry.text.split(" ")[0] for entry in needed(list(entries_of(SMALL)), requirements)]


@pytest.mark.parametrize("use", [*IMAGES, BUILD])
def test_each_file_is_what_the_lock_says_now(use: str) -> None:
    made = parts(PROJECT, LOCK.read_text())[use]
    assert file_for(use).read_text() == made, "python -m infra.locked makes it anew"


def test_there_is_a_file_for_each_use_and_no_other() -> None:
    assert set((ROOT / "infra").glob("requirements-*.txt")) == {file_for(use) for use in [*IMAGES, BUILD]}


@pytest.mark.parametrize("use", IMAGES)
def test_nothing_is_missing_that_the_installed_packages_ask_for(use: str) -> None:
    """By another way: the packages' own metadata, as they are installed here."""
    found = {entry.name for entry in entries_of(file_for(use).read_text())}
    assert set(_asked_for("streamhold", frozenset(IMAGES[use]))) - found == set()


@pytest.mark.parametrize("use", IMAGES)
def test_nothing_is_there_that_only_development_needs(use: str) -> None:
    found = {entry.name for entry in entries_of(file_for(use).read_text())}
    asked = {canonicalize_name(Requirement(line).name) for line in _extra("dev")}
    assert found & asked == set()
    assert ("av" in found) is ("media" in IMAGES[use])
    assert ("boto3" in found) is ("aws" in IMAGES[use])


def test_the_build_has_what_pyproject_builds_with() -> None:
    assert PROJECT["build-system"]["requires"] == ["hatchling"]
    assert {"hatchling", "uv"} <= {entry.name for entry in entries_of(file_for(BUILD).read_text())}


@pytest.mark.parametrize("use", [*IMAGES, BUILD])
def test_every_package_has_a_version_and_a_hash(use: str) -> None:
    for entry in entries_of(file_for(use).read_text()):
        first, *rest = entry.text.splitlines()
        assert "==" in first.split(" ")[0], first
        assert rest, first
        assert all(line.strip().startswith("--hash=sha256:") for line in rest), first


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        (["alone>=1"], ["alone==1.0"]),
        (["both"], ["both==1.0", "both==2.0", "deep==3.1"]),
        (["ring_b"], ["both==1.0", "both==2.0", "deep==3.1", "ring-a[extra]==1.0", "ring-b==1.0"]),
        (["Deep[x]<9; python_version > '3'"], ["deep==3.1"]),
        ([], []),
    ],
    ids=["one", "its own and what it draws in", "in a ring", "a requirement with everything", "none"],
)
def test_a_part_is_what_is_wanted_and_what_that_draws_in(
    requirements: list[str], expected: list[str]
) -> None:
    assert wanted_from(*requirements) == expected


def test_what_is_not_locked_is_named() -> None:
    with pytest.raises(NotLocked, match=r"newcomer, other: not in requirements\.txt"):
        wanted_from("alone", "other>2", "newcomer")


def test_an_entry_keeps_its_hashes_and_no_comment() -> None:
    (deep,) = [entry for entry in entries_of(SMALL) if entry.name == "deep"]
    assert deep.text == "deep==3.1 \\\n    --hash=sha256:d1 \\\n    --hash=sha256:d2"
    assert deep.wanted_by == {"both"}


def test_a_lock_that_changes_changes_the_file() -> None:
    changed = LOCK.read_text().replace("granian==", "granian==9")
    assert parts(PROJECT, changed)["gateway"] != file_for("gateway").read_text()


def _extra(name: str) -> list[str]:
    return list(PROJECT["project"]["optional-dependencies"][name])


def _asked_for(name: str, extras: frozenset[str], seen: set[Any] | None = None) -> Iterator[str]:
    """Every package that an installed one asks for on this machine, by its own metadata."""
    seen = set() if seen is None else seen
    if (name, extras) in seen:
        return
    seen.add((name, extras))
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        markers = [{"extra": extra} for extra in extras or {""}]
        if wanted.marker is None or any(wanted.marker.evaluate(marker) for marker in markers):
            yield canonicalize_name(wanted.name)
            yield from _asked_for(wanted.name, frozenset(wanted.extras), seen)
