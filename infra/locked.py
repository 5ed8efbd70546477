"""What an image installs: the part of requirements.txt that one use needs, with versions and hashes.

`python -m infra.locked` writes infra/requirements-*.txt anew, without asking anybody: who draws in whom
stands in the comments (`# via`) that uv leaves in requirements.txt. A package that is there only for an extra
of another one counts as drawn in by that one, so a part may have one too many, never one too few.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.txt"

IMAGES: Mapping[str, tuple[str, ...]] = {
    "gateway": ("fleet", "aws"),
    "emulator": ("emulator", "media", "fleet"),
}
"""The extras of this project that each image has: every kind of discovery; real video, and `--announce`."""
BUILD = "build"
"""What makes the wheel that goes into both, and INSTALLER, which puts it there with what it needs."""
INSTALLER = "uv"


@dataclass(frozen=True, slots=True)
class Entry:
    """One pinned package."""

    name: str
    text: str
    """Its lines, without the comments on who wants it."""
    wanted_by: frozenset[str]
    """The packages that draw it in; this project is none of them."""


class NotLocked(ValueError):
    """A package is wanted that the lock does not have; the text names it."""


def file_for(use: str) -> Path:
    """Where the part for an image, or for the build, is kept."""
    return ROOT / "infra" / f"requirements-{use}.txt"


def parts(project: Mapping[str, Any], lock: str) -> dict[str, str]:
    """By their use, the contents of all files, from a pyproject.toml and its requirements.txt. Raises
    NotLocked.
    """
    entries = list(entries_of(lock))
    declared = project["project"]
    roots = {
        image: [
            *declared["dependencies"],
            *(line for extra in extras for line in declared["optional-dependencies"][extra]),
        ]
        for image, extras in IMAGES.items()
    }
    roots[BUILD] = [*project["build-system"]["requires"], INSTALLER]
    return {use: _text(use, needed(entries, wanted)) for use, wanted in roots.items()}


def entries_of(lock: str) -> Iterable[Entry]:
    """What uv wrote, in its order."""
    for block in re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]:
        lines = block.splitlines()
        comments = [line.strip().lstrip("# ") for line in lines if line.lstrip().startswith("#")]
        kept = [line for line in lines if not line.lstrip().startswith("#")]
        parents = (comment.removeprefix("via").strip() for comment in comments)
        wanted_by = frozenset(canonicalize_name(parent) for parent in parents if parent and " " not in parent)
        yield Entry(_name(lines[0]), "\n".join(kept), wanted_by)


def needed(entries: Sequence[Entry], wanted: Iterable[str]) -> list[Entry]:
    """The entries that the requirements in `wanted` come to, in the order of the lock. One name may have
    several, each for some versions of Python. Raises NotLocked.
    """
    known = {entry.name for entry in entries}
    names = {_name(requirement) for requirement in wanted}
    if missing := sorted(names - known):
        raise NotLocked(f"{', '.join(missing)}: not in requirements.txt, which has to be made anew first")
    while more := {entry.name for entry in entries if entry.wanted_by & names} - names:
        names |= more
    return [entry for entry in entries if entry.name in names]


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement.rstrip(" \\")).name)


def _text(use: str, entries: Sequence[Entry]) -> str:
    head = f"# For {use}: a part of requirements.txt, made by `python -m infra.locked`."
    return "\n".join([head, *(entry.text for entry in entries)]) + "\n"


def main() -> None:
    """Write every file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for use, text in parts(project, LOCK.read_text()).items():
        path = file_for(use)
        path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {len(list(entries_of(text)))} packages")


if __name__ == "__main__":
    main()
