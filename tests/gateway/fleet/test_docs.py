"""docs/fleet.md says what there is: its tests, its commands, its log lines; and its first example runs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from gateway.fleet.redis_scripts import COMMANDS
from tests.support.processes import ROOT
from tests.support.redis_server import RedisServer

PAGE = (ROOT / "docs" / "fleet.md").read_text()
HERE = ROOT / "tests" / "gateway" / "fleet"
RULES = PAGE.partition("## Every rule")[2]


@pytest.mark.parametrize("row", [row for row in RULES.splitlines() if "`test_" in row])
def test_what_holds_a_rule_exists(row: str) -> None:
    for file, name in re.findall(r"`(test_\w+)::(test_\w+)`", row):
        tree = ast.parse((HERE / f"{file}.py").read_text())
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in names, f"{file} has no {name}"


def test_the_rights_listed_are_those_that_the_scripts_need() -> None:
    (rights,) = re.findall(r"ACL SETUSER fleet .*?```", PAGE, re.DOTALL)
    assert sorted(re.findall(r"\+(\w+)", rights)) == sorted(command.lower() for command in COMMANDS)


def test_every_line_that_a_member_logs_is_explained() -> None:
    source = (ROOT / "gateway" / "fleet" / "telling.py").read_text()
    events = set(re.findall(r'"(fleet_\w+)"', source))
    assert events == set(re.findall(r"^\| `(fleet_\w+)` \|", PAGE, re.MULTILINE))


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def run(example: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_example_runs() -> None:
    said = ast.literal_eval(run(examples()[0]))
    assert [(state, load) for _, state, load in said] == [("starting", 12)]


def test_the_second_example_reaches_a_server(server: RedisServer) -> None:
    first, second = examples()
    assert "redis://127.0.0.1:6379/0" in second
    after = "\nprint(asyncio.run(store.view()).members)\n"
    said = run(first + second.replace("redis://127.0.0.1:6379/0", server.url) + after)
    assert said.splitlines()[1] == "()"
