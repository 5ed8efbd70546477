"""The tables in docs/ that are made from the code. `python -m scripts.reference` writes them anew.

A table stands between two comments, `<!-- NAME -->` and `<!-- end NAME -->`; the rest is written by hand.
A test fails while a table is not what the code says.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from emulator.faults import CATALOGUE
from gateway.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

Rows = list[tuple[str, ...]]


def settings_table() -> str:
    """Every setting with its variable, its default, and what it is for."""
    rows: Rows = [("setting", "default", "meaning")]
    rows += [(f"`{key}`", f"`{default}`", meaning) for key, default, meaning in _settings(Settings, "")]
    return _table(rows)


def faults_table() -> str:
    """Every fault with the fields of its own."""
    common = {"probability", "after_seconds", "for_seconds", "times"}
    rows: Rows = [("fault", "what it does", "fields (default)")]
    for name, kind in CATALOGUE.items():
        own = [f"`{f.name}` ({_json(f.default)})" for f in dataclasses.fields(kind) if f.name not in common]
        rows.append((f"`{name}`", _one_line(kind.__doc__), ", ".join(own) or "none"))
    return _table(rows)


TABLES = {"settings": ("settings.md", settings_table), "faults": ("faults.md", faults_table)}
"""By the name in the comments: the file, and what stands there."""


def placed(text: str, name: str, table: str) -> str:
    """`text` with `table` between the comments of `name`."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no <!-- {name} --> ... <!-- end {name} --> in this text")
    return pattern.sub(lambda found: found[1] + table + found[2], text)


def _settings(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner = _model_in(field.annotation)
        key = f"{prefix}{name}"
        if inner is None:
            yield key, _json(field.get_default(call_default_factory=True)), _one_line(field.description)
        elif get_origin(field.annotation) is tuple:
            yield from _settings(inner, f"{key}[].")
        else:
            yield from _settings(inner, f"{key}.")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, or a list of; None for a plain setting."""
    for kind in (annotation, *get_args(annotation)):
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            return kind
    return None


def _json(value: object) -> str:
    if repr(value) == "PydanticUndefined":
        return "required"
    return json.dumps(value, default=str)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _table(rows: Rows) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every table into its file."""
    for name, (file, table) in TABLES.items():
        path = DOCS / file
        path.write_text(placed(path.read_text(), name, table()))
        print(f"{path.relative_to(ROOT)}: {name}")


if __name__ == "__main__":
    main()
