"""PURE. A configuration before it is checked: nested mappings and lists, and the places in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

Path = tuple[str | int, ...]
"""A place in the configuration: `("router", "replicas", 0, "url")`."""

Tree = dict[str, Any]
"""What was read, by section. Functions here give changed copies."""


def dotted(path: Path) -> str:
    """`path` as people write it: `router.replicas[0].url`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def value_at(tree: object, path: Path) -> object:
    """What is at `path`, or None where there is nothing."""
    for part in path:
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, Sequence) and not isinstance(tree, str | bytes) and isinstance(part, int):
            tree = tree[part] if part < len(tree) else None
        else:
            return None
    return tree


def with_value(tree: Tree, path: Path, value: object) -> Tree:
    """`tree` with `value` at `path`, mappings made where they are missing.

    What stands in the way and is neither a mapping nor a list stays: its own error has to be told.
    """
    return cast(Tree, _with(tree, path, value))


def _with(tree: Any, path: Path, value: object) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    match tree:
        case None:
            return {first: _with(None, rest, value)}
        case dict():
            return {**tree, first: _with(tree.get(first), rest, value)}
        case list() if isinstance(first, int) and first < len(tree):
            return [_with(item, rest, value) if at == first else item for at, item in enumerate(tree)]
        case _:
            return tree


def without(tree: Tree, path: Path) -> Tree:
    """`tree` in which `path` is not there."""
    return cast(Tree, _without(tree, path))


def _without(tree: Any, path: Path) -> Any:
    first, rest = path[0], path[1:]
    match tree:
        case dict() if first in tree:
            if not rest:
                return {key: item for key, item in tree.items() if key != first}
            return {**tree, first: _without(tree[first], rest)}
        case list() if isinstance(first, int) and first < len(tree) and rest:
            return [_without(item, rest) if at == first else item for at, item in enumerate(tree)]
        case _:
            return tree


REMOVED: Final = object()
"""In place of a value in `with_changes`: the key is to go."""


def with_changes(tree: Tree, changes: Mapping[Path, object]) -> Tree:
    """`tree` with each of `changes`, in time that grows with the two and not with their product.

    A change of what is not there, and the removal of an entry of a list, does nothing.
    """
    changed = dict(tree)
    own = {id(changed)}  # what has been copied already
    for path, value in changes.items():
        holder: Any = changed
        for part in path[:-1]:
            inner = _entry(holder, part)
            if not isinstance(inner, dict | list):
                break
            if id(inner) not in own:
                inner = inner.copy()
                own.add(id(inner))
                holder[part] = inner
            holder = inner
        else:
            _change(holder, path[-1], value)
    return changed


def _entry(holder: Any, part: str | int) -> Any:
    if isinstance(holder, dict):
        return holder.get(part)
    return holder[part] if isinstance(part, int) and part < len(holder) else None


def _change(holder: Any, last: str | int, value: object) -> None:
    if isinstance(holder, dict):
        if value is not REMOVED:
            holder[last] = value
        else:
            holder.pop(last, None)
    elif value is not REMOVED and isinstance(last, int) and last < len(holder):
        holder[last] = value
