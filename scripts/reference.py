"""What in docs/ is made from the code: tables, and the layers; and the schema of scenario files.
`python -m scripts.reference` writes it anew.

Each piece stands between two comments, `<!-- NAME -->` and `<!-- end NAME -->`; the rest is written by hand.
A test fails while a piece is not what the code says.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec
from litestar.handlers import HTTPRouteHandler
from pydantic import BaseModel

from emulator.control.app import HANDLERS
from emulator.described import field_docs
from emulator.events import KINDS
from emulator.faults import CATALOGUE
from emulator.faults.fault import Kind, SessionPoint
from emulator.protocol import messages
from emulator.scenario.schema import schema_text
from emulator.testing import Wanted
from emulator.wording import choices_of
from gateway.settings import Settings
from scripts.infra_calls import infra_calls
from scripts.scenario_keys import scenario_keys
from scripts.stack_reference import numbers_table, parameters_table

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SCHEMA = ROOT / "emulator" / "scenario" / "schema.json"
"""What editors complete and check scenario files by."""

Rows = list[tuple[str, ...]]


def settings_table() -> str:
    """Every setting with its variable, its default, and what it is for."""
    rows: Rows = [("setting", "default", "meaning")]
    rows += [(f"`{key}`", f"`{default}`", meaning) for key, default, meaning in _settings(Settings, "")]
    return _table(rows)


def faults_table(about: str) -> str:
    """Every fault of a kind with the fields of its own."""
    common = {"probability", "after_seconds", "for_seconds", "times", "session"}
    rows: Rows = [("fault", "what it does", "fields (default)")]
    for name, kind in CATALOGUE.items():
        if kind.kind != about:
            continue
        own = [
            f"`{f.name}` ({_json(f.default)}{_choices(kind, f)})"
            for f in dataclasses.fields(kind)
            if f.name not in common
        ]
        rows.append((f"`{name}`", _one_line(kind.__doc__), ", ".join(own) or "none"))
    return _table(rows)


def _choices(kind: type, field: dataclasses.Field[Any]) -> str:
    """What else the field may be, where there is a choice; a session's points are explained beside the
    table."""
    values = choices_of(kind, field.name)
    if not values or values == get_args(SessionPoint):
        return ""
    return " or " + ", ".join(_json(value) for value in values if value != field.default)


def messages_table() -> str:
    """Every message of the streaming protocol, by who sends it."""
    source = ast.parse(inspect.getsource(messages))
    classes = {node.name: node for node in source.body if isinstance(node, ast.ClassDef)}
    rows: Rows = [("from", "type", "fields", "notes")]
    for sender, union in (("client", messages.ClientMessage), ("replica", messages.ServerMessage)):
        for kind in get_args(union):
            fields = [_message_field(field) for field in msgspec.structs.fields(kind)]
            tag = f"`{kind.__struct_config__.tag}`"
            rows.append((sender, tag, "; ".join(fields) or "none", _message_notes(classes[kind.__name__])))
    return _table(rows)


def modules_table(package: str) -> str:
    """Every module of the package, by what its first paragraph says of it."""
    rows: Rows = [("module", "pure", "what it is")]
    for path in sorted((ROOT / package).rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text()))
        if text is None or path.stem.startswith("__"):
            continue
        name = path.relative_to(ROOT / package).with_suffix("").as_posix()
        pure, said = _pure_and_said(text.split("\n\n")[0])
        rows.append((f"`{name}`", pure, said))
    return _table(rows)


def layers_text() -> str:
    """The order of the gateway's parts, from the contract that holds them to it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    ordered = [contract for contract in contracts if contract["type"] == "layers"]
    (layers,) = [contract["layers"] for contract in ordered if contract["containers"] == ["gateway"]]
    return "```text\n" + "\n".join(layers) + "\n```\n"


def events_table() -> str:
    """Every kind of event."""
    return _table([("kind", "what"), *((f"`{kind}`", told) for kind, told in KINDS.items())])


def routes_table() -> str:
    """Every route of the control API that is described, by its handler's docstring."""
    rows: Rows = [("route", "what it does")]
    for handler in HANDLERS:
        if isinstance(handler, HTTPRouteHandler) and handler.include_in_schema is not False:
            (path,) = handler.paths
            (method,) = handler.http_methods
            route = re.sub(r":\w+}", "}", path)
            rows.append((f"`{method} {route}`", _one_line(handler.fn.__doc__)))
    return _table(rows)


def farm_options_table() -> str:
    """Every keyword of the marker `farm`."""
    rows: Rows = [("keyword", "default", "meaning")]
    docs = field_docs(Wanted)
    for entry in dataclasses.fields(Wanted):
        default = entry.default if entry.default is not dataclasses.MISSING else {}
        rows.append((f"`{entry.name}`", f"`{default!r}`", docs[entry.name]))
    return _table(rows)


PIECES: dict[str, tuple[str, Callable[[], str]]] = {
    "settings": ("settings.md", settings_table),
    **{f"faults: {kind}": ("faults.md", partial(faults_table, kind)) for kind in get_args(Kind)},
    "messages": ("protocol.md", messages_table),
    "scenario keys": ("scenarios.md", scenario_keys),
    "events": ("control.md", events_table),
    "routes": ("control.md", routes_table),
    "calls of infra": ("infra.md", infra_calls),
    "numbers of service": ("aws.md", numbers_table),
    "parameters of service": ("aws.md", partial(parameters_table, "service")),
    "parameters of data": ("aws.md", partial(parameters_table, "data")),
    "farm options": ("pytest.md", farm_options_table),
    "layers": ("architecture.md", layers_text),
    "modules of gateway": ("architecture.md", partial(modules_table, "gateway")),
    "modules of emulator": ("architecture.md", partial(modules_table, "emulator")),
    "modules of infra": ("architecture.md", partial(modules_table, "infra")),
}
"""By the name in the comments: the file, and what stands there."""


def placed(text: str, name: str, piece: str) -> str:
    """`text` with `piece` between the comments of `name`."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no <!-- {name} --> ... <!-- end {name} --> in this text")
    return pattern.sub(lambda found: found[1] + piece + found[2], text)


_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object"}
"""What a type of Python's is on the wire."""


def _message_field(field: msgspec.structs.FieldInfo) -> str:
    """The field with its type and, where it may be left out, what it is then."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    left_out = "" if default is msgspec.NODEFAULT else f" ({_json(default)})"
    return f"`{field.encode_name}`: {_in_words(field.type)}{left_out}"


def _in_words(kind: Any) -> str:
    """A type as the reader of JSON knows it."""
    inner = [each for each in get_args(kind) if each is not NoneType]
    origin = get_origin(kind)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin is list:
        return f"list of {_in_words(inner[0])}"
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return f"object of {', '.join(_message_field(field) for field in msgspec.structs.fields(kind))}"
    word = _WORDS.get(origin or kind)
    return word if word is not None else _in_words(inner[0])


def _message_notes(node: ast.ClassDef) -> str:
    """What the class and the strings below its fields say."""
    notes = [_one_line(ast.get_docstring(node))]
    for field, below in itertools.pairwise(node.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                notes.append(f"`{name}`: {_one_line(text)}")
            case _:
                pass
    return " ".join(note for note in notes if note)


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


def _pure_and_said(paragraph: str) -> tuple[str, str]:
    """Whether a module says in its first word that it is pure, and what it says beside that."""
    if (found := re.match(r"PURE[^.]*\. ", paragraph)) is None:
        return "", _one_line(paragraph)
    return "yes", _one_line(paragraph[found.end() :])


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _table(rows: Rows) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write every piece into its file."""
    for name, (file, make) in PIECES.items():
        path = DOCS / file
        path.write_text(placed(path.read_text(), name, make()))
        print(f"{path.relative_to(ROOT)}: {name}")
    SCHEMA.write_text(schema_text())
    print(SCHEMA.relative_to(ROOT))


if __name__ == "__main__":
    main()
