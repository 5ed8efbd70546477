"""The table of AWS's API calls in docs/infra.md, from the calls in the code of `python -m infra`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.aws import IAM_PREFIXES

INFRA = Path(__file__).resolve().parents[1] / "infra"


def infra_calls() -> str:
    """A line for each service with its actions, as a policy names them."""
    found: dict[str, set[str]] = {}
    for path in sorted(INFRA.glob("*.py")):
        tree = ast.parse(path.read_text())
        for service, operation in _calls(tree, dict(_constants(tree))):
            action = "".join(part.capitalize() for part in operation.split("_"))
            found.setdefault(IAM_PREFIXES.get(service, service), set()).add(action)
    rows = [
        f"| `{service}` | {', '.join(f'`{action}`' for action in sorted(actions))} |"
        for service, actions in sorted(found.items())
    ]
    return "\n".join(["| service | actions |", "|---|---|", *rows]) + "\n"


def _calls(tree: ast.Module, constants: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Service and operation of each `call(SERVICE, "operation", ...)` and `pages(...)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="call" | "pages"), args=[ast.Name(id=name), operation, *_]):
                if isinstance(operation, ast.Constant):
                    yield constants[name], str(operation.value)
            case _:
                pass


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The module's names for texts, also those that are assigned in pairs."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for one, value in zip(names, values, strict=True):
                    if isinstance(one, ast.Name) and isinstance(value, ast.Constant):
                        yield one.id, str(value.value)
            case _:
                pass
