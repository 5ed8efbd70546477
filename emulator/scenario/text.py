"""PURE. YAML text into plain values, with the place of each, and everything wrong with it as YAML.

PyYAML takes a key twice (the last one wins, silently), forgets where a value stood, and reads `on`, `no` and
`12:30` as YAML 1.1 does. So the text is composed into nodes first, scalars are read as YAML 1.2 and as JSON
do (true, false, null, numbers, all else is text), and the values are made here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]
"""A place in a scenario: `("timeline", 0, "kill")`."""

MOST_NODES = 100_000
"""Far above any real scenario; aliases of aliases reach it with a few lines of text."""
MOST_DIGITS = 40
_TAG = "tag:yaml.org,2002:"
_PLAIN_MAPPING, _PLAIN_LIST = f"{_TAG}map", f"{_TAG}seq"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands in a file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong with the text as YAML."""

    place: Place | None
    path: Path
    message: str


@dataclass(slots=True)
class Text:
    """What was read."""

    tree: Any = None
    """Plain values, keys as text; None for an empty file."""
    keys: dict[Path, Place] = field(default_factory=dict)
    """Where each key of a mapping, or entry of a list, begins."""
    values: dict[Path, Place] = field(default_factory=dict)
    """Where each value begins."""
    faults: list[Fault] = field(default_factory=list)
    is_readable: bool = True
    """False when there is no tree to say anything about."""

    def place_of(self, path: Path, *, key: bool = False) -> Place | None:
        """Where `path` stands, or the nearest that is there above it."""
        for length in range(len(path), -1, -1):
            places = (self.keys, self.values) if key else (self.values, self.keys)
            for known in places:
                if path[:length] in known:
                    return known[path[:length]]
        return None


class _Unreadable(Exception):
    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars as the core schema of YAML 1.2 does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's)


for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), _first)


def printable(text: str) -> str:
    """`text` as a terminal may show it: what would move the cursor, colour it or hide is escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def read_text(text: str) -> Text:
    """What `text` holds; never raises for what is wrong with it."""
    found = Text()
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is not None:
            found.tree = _Reader(found).value(root, (), frozenset())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        _give_up(found, _syntax(error), _place(mark) if mark is not None else None)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        code = f"U+{ord(text[error.position]):04X}" if error.position < len(text) else "a character"
        _give_up(found, f"has {code}, which YAML does not allow; remove it", place)
    except _Unreadable as why:
        _give_up(found, str(why), why.place)
    except RecursionError:
        place = Place(loader.line + 1, loader.column + 1) if loader is not None else Place(1, 1)
        _give_up(found, "is nested too deeply", place)
    finally:
        if loader is not None:
            loader.dispose()
    return found


def _give_up(found: Text, message: str, place: Place | None) -> None:
    found.faults.append(Fault(place, (), message))
    found.tree, found.is_readable = None, False


class _Reader:
    """Makes values of nodes, noting where each stands."""

    def __init__(self, found: Text) -> None:
        self._found = found
        self._nodes = 0

    def value(self, node: yaml.Node, path: Path, above: frozenset[int]) -> Any:
        self._nodes += 1
        place = _place(node.start_mark)
        if id(node) in above:
            raise _Unreadable("refers to itself: an alias inside its own anchor", place)
        if self._nodes > MOST_NODES:
            raise _Unreadable(f"has more than {MOST_NODES} values, aliases followed", place)
        self._found.values[path] = place
        inside = above | {id(node)}
        match node:
            case yaml.MappingNode():
                self._check_tag(node, _PLAIN_MAPPING, path)
                return dict(self._entries(node, path, inside))
            case yaml.SequenceNode():
                self._check_tag(node, _PLAIN_LIST, path)
                items = enumerate(node.value)
                return [self.value(item, (*path, index), inside) for index, item in items]
            case _:
                return self._scalar(node, path)

    def _entries(
        self, node: yaml.MappingNode, path: Path, inside: frozenset[int]
    ) -> Iterator[tuple[str, Any]]:
        first: dict[str, Place] = {}
        for key, value in node.value:
            place = _place(key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                self._complain(place, path, "has a key that is a list or a mapping; keys are text")
                continue
            name = _joined(key.value)
            inner = (*path, name)
            if _is_broken(name):
                self._complain(place, inner, "has half of a character in its name, which no text may have")
            if name in first:
                self._complain(place, inner, f"is already given on line {first[name].line}; keep one")
                continue
            first[name] = self._found.keys[inner] = place
            yield name, self.value(value, inner, inside)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        text, place = str(node.value), _place(node.start_mark)
        match node.tag.removeprefix(_TAG):
            case "str":
                text = _joined(text)
                if _is_broken(text):
                    self._complain(place, path, NOT_UTF_8)
                return text
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int" if len(text) <= MOST_DIGITS and _is_number(text):
                return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            case "float" if _is_number(text):
                number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
                if not math.isfinite(number):
                    self._complain(place, path, f"should be a finite number, not {text[:MOST_DIGITS]}")
                return number
            case "int" | "float":
                self._complain(place, path, f"should be a number of at most {MOST_DIGITS} digits")
            case tag:
                self._complain(place, path, _unknown_tag(tag))
        return text

    def _check_tag(self, node: yaml.Node, plain: str, path: Path) -> None:
        if node.tag != plain:
            message = _unknown_tag(node.tag.removeprefix(_TAG))
            self._complain(_place(node.start_mark), path, message)

    def _complain(self, place: Place, path: Path, message: str) -> None:
        self._found.faults.append(Fault(place, path, message))


NOT_UTF_8 = "should be text that UTF-8 can carry"
_HALF = re.compile("[\ud800-\udfff]")


def _joined(text: str) -> str:
    """Characters above U+FFFF may be written as two escapes, as in JSON."""
    if not _is_broken(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _is_broken(text: str) -> bool:
    """Half of a character can be escaped, and stands for nothing."""
    return _HALF.search(text) is not None


def _unknown_tag(tag: str) -> str:
    return f"has the tag {printable(tag)}, which scenarios do not know; remove it"


_NUMBER = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(inf|nan)", re.I
)


def _is_number(text: str) -> bool:
    """A tag such as `!!int` may stand before anything."""
    return _NUMBER.fullmatch(text) is not None and (text[:2] in ("0x", "0o") or "x" not in text)


def _place(mark: yaml.Mark) -> Place:
    return Place(mark.line + 1, mark.column + 1)


_SYNTAX: Mapping[str, str] = {
    "found character '\\t' that cannot start any token": "has a tab; YAML is indented with spaces",
    "mapping values are not allowed here": "has a colon where no value can begin: is the line indented as "
    "the ones beside it, and is text with `: ` in it quoted?",
    "expected a single document in the stream": "has a second document; a scenario is one document a file",
}
"""By PyYAML's words, which tell what its parser waited for and not what the writer did."""


def _syntax(error: yaml.MarkedYAMLError) -> str:
    for why in (error.problem, error.context):
        if why is not None and why in _SYNTAX:
            return _SYNTAX[why]
    told = ": ".join(part for part in (error.context, error.problem) if part)
    return f"is not YAML: {told or 'it cannot be parsed'}"
