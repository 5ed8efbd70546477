"""What the strings below a class's fields say, for descriptions that programs and people read."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Mapping
from functools import cache


def field_docs(kind: type) -> Mapping[str, str]:
    """Field name to the string below it, each in one line; those of base classes too, the nearest first.

    Read from the source: where there is none (a frozen program), nothing is known.
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        # Named, so that no file of Python's own is read.
        if each.__module__ in sys.stdlib_module_names or each is object:
            continue
        found |= _strings_below_fields(each)
    return found


def summary(kind: type) -> str:
    """The class's docstring in one line; "" without one."""
    return " ".join((kind.__dict__.get("__doc__") or "").split())


def in_json(text: str) -> str:
    """`text` for those who read JSON."""
    return re.sub(r"\bNone\b", "null", text)


@cache
def _strings_below_fields(kind: type) -> dict[str, str]:
    node = _classes_in(kind.__module__).get(kind.__qualname__)
    said = {}
    for entry, below in itertools.pairwise(node.body if node is not None else ()):
        match entry, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                said[name] = " ".join(text.split())
            case _:
                pass
    return said


@cache
def _classes_in(module: str) -> dict[str, ast.ClassDef]:
    """The classes at the top of a module."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
