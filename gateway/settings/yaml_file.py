"""Reads gateway.yaml: the tree, the line of each key, and everything wrong with the file as a file.

pydantic-settings' own reader takes a missing or empty file for no settings, and raises the parser's errors.
PyYAML lets a key be given twice (the last one wins, silently) and forgets where a value stood, so the file is
composed into nodes first and both are taken from there. No message repeats text of the file beyond a key: the
text may be a token.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from gateway.errors import Problem
from gateway.settings.fields import SECRETS
from gateway.settings.tree import Path, Tree, dotted
from gateway.settings.words import MOST_DIGITS, STARTER

_LONG_QUOTE = re.compile(r"'(?!<)[^']{5,}'")
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"
_WHOLE = "tag:yaml.org,2002:int"
_NOT_TEXT = {_WHOLE, *(f"tag:yaml.org,2002:{kind}" for kind in ("float", "bool", "null", "timestamp"))}
_MOST_BYTES = 256 * 1024
_MOST_NODES = 100_000
"""Far above any real configuration; aliases of aliases reach it with a few lines of text."""


_NO_FILE = "is a device, a pipe or a socket; name a regular file"


class _Unreadable(Exception):
    """The file as a whole cannot be used; the text says why."""


@dataclass(slots=True)
class YamlFile:
    """What was read."""

    source: str
    tree: Tree = field(default_factory=dict)
    lines: dict[Path, int] = field(default_factory=dict)
    """Line of each key and list entry, from 1."""
    problems: list[Problem] = field(default_factory=list)
    readable: bool = True
    """False when nothing of the file could be read, so that `tree` being empty says nothing."""


def read_yaml_file(path: FilePath, *, shown_as: str) -> YamlFile:
    """What `path` holds; never raises for what is wrong with it. `shown_as` is the file's name in
    messages.
    """
    file = YamlFile(shown_as)
    try:
        _fill(file, _text(path))
    except _Unreadable as why:
        file.problems.append(Problem(shown_as, "", str(why)))
        file.readable = False
    return file


def _text(path: FilePath) -> str:
    try:
        return _content(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise _Unreadable("there is no such file") from None
    except BlockingIOError:  # such as /proc/kmsg, which calls itself a regular file
        raise _Unreadable(_NO_FILE) from None
    except UnicodeDecodeError as error:
        raise _Unreadable(f"is not UTF-8 text (at byte {error.start + 1}); save it as UTF-8") from None
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _Unreadable(f"is not the name of a file: {error}") from None


def _content(path: FilePath) -> bytes:
    """The bytes of a regular file, never more than a configuration has, and without waiting for any."""
    kind = path.stat()
    if stat.S_ISDIR(kind.st_mode):
        raise _Unreadable("is a directory; name a YAML file")
    if not stat.S_ISREG(kind.st_mode):
        if os.path.samestat(kind, os.stat(os.devnull)):
            return b""
        raise _Unreadable(_NO_FILE)
    with open(path, "rb", buffering=0, opener=_open_without_waiting) as file:
        content = bytearray()
        while len(content) <= _MOST_BYTES and (piece := os.read(file.fileno(), _MOST_BYTES + 1)):
            content += piece
    if len(content) > _MOST_BYTES:
        raise _Unreadable(f"is above {_MOST_BYTES // 1024} KiB, which is too large for a configuration")
    return bytes(content)


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _fill(file: YamlFile, text: str) -> None:
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None:
            file.problems.extend(_scan(node, file))
        tree = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _Unreadable(_syntax(error)) from None
    except yaml.reader.ReaderError as error:
        raise _Unreadable(
            f"is not YAML: a character that YAML does not allow, at {error.position + 1}"
        ) from None
    except RecursionError:
        raise _Unreadable("is nested too deeply") from None
    except ValueError:
        message = "has a value that looks like a date or a number and is none; put it in quotes"
        raise _Unreadable(message) from None
    finally:
        if loader is not None:
            loader.dispose()
    if tree is None:
        raise _Unreadable(f"is empty; these lines would do:\n{STARTER}")
    if not isinstance(tree, dict):
        kind = "a list" if isinstance(tree, list) else "a single value"
        raise _Unreadable(f"should be a mapping with sections such as router:, not {kind}")
    file.tree = {str(key): _text_keys(item) for key, item in tree.items()}


def _text_keys(tree: object) -> object:
    """Keys that are neither text nor any of what `_name_keys` makes text are shown as Python does."""
    match tree:
        case dict():
            return {str(key): _text_keys(item) for key, item in tree.items()}
        case list():
            return [_text_keys(item) for item in tree]
        case _:
            return tree


def _syntax(error: yaml.MarkedYAMLError) -> str:
    """Line and column, and PyYAML's words without the pieces of text that it quotes."""
    mark = error.problem_mark or error.context_mark
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    why = _LONG_QUOTE.sub("'...'", error.problem or error.context or "it cannot be parsed")
    return f"is not YAML{where}: {why}"


def _scan(root: yaml.Node, file: YamlFile) -> Iterator[Problem]:
    """Note the line of everything below `root`; yield a problem for each key that a mapping has twice."""
    waiting: list[tuple[yaml.Node, Path, frozenset[int]]] = [(root, (), frozenset())]
    seen = 0
    while waiting:
        node, path, above = waiting.pop()
        seen += 1
        if id(node) in above:
            raise _Unreadable(
                f"refers to itself at line {node.start_mark.line + 1}: an alias inside its own anchor"
            )
        if seen > _MOST_NODES:
            raise _Unreadable("is too large for a configuration")
        inside = above | {id(node)}
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                file.lines[*path, index] = item.start_mark.line + 1
                waiting.append((item, (*path, index), inside))
        elif isinstance(node, yaml.ScalarNode) and node.tag == _WHOLE and len(node.value) > MOST_DIGITS:
            where = f"at line {node.start_mark.line + 1}"
            raise _Unreadable(f"has a number of {len(node.value)} digits {where}, which no setting takes")
        elif isinstance(node, yaml.MappingNode):
            _name_keys(node)
            yield from _duplicates(node, path, file.source)
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                    file.lines[*path, key.value] = key.start_mark.line + 1
                    waiting.append((value, (*path, key.value), inside))
                else:
                    waiting.append((value, path, inside))


def _name_keys(node: yaml.MappingNode) -> None:
    """Settings have names: YAML would read the keys `1`, `on` and `null` as a number, a boolean and nothing
    at all.
    """
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag in _NOT_TEXT:
            key.tag = _TEXT


def _duplicates(node: yaml.MappingNode, path: Path, source: str) -> Iterator[Problem]:
    first: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        line = key.start_mark.line + 1
        spelt = (key.tag, key.value)
        if spelt in first:
            message = f"is already set on line {first[spelt]}; keep one of the two"
            secret = any(path[: len(known)] == known for known in SECRETS)
            yield Problem(f"{source}:{line}", dotted(path if secret else (*path, key.value)), message)
        first.setdefault(spelt, line)
