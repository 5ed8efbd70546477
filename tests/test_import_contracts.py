"""The import contracts bite: each one breaks when a line is added that it forbids."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.processes import BIN, ROOT, clean_environment

FORBIDDEN = {
    "gateway imports emulator": ("gateway/clock.py", "import emulator.faults", "two independent readings"),
    "emulator imports gateway": (
        "emulator/replica/wire.py",
        "import gateway.errors",
        "two independent readings",
    ),
    "infra imports gateway": ("infra/words.py", "import gateway.errors", "stands apart from what it deploys"),
    "gateway imports infra": ("gateway/clock.py", "import infra.words", "stands apart from what it deploys"),
    "infra's pure files import AWS": ("infra/stack.py", "import boto3", "stay pure"),
    "a lower layer imports a higher": ("gateway/replicas/model.py", "import gateway.selection", "one way"),
    "settings import what runs": (
        "gateway/settings/sections.py",
        "import gateway.replicas.probes",
        "that runs",
    ),
    "a pure file imports a clock": ("gateway/selection.py", "from time import monotonic", "stay pure"),
    "a pure file imports a socket": ("gateway/session/core.py", "import socket", "stay pure"),
    "a pure file reaches asyncio by ours": ("gateway/runtime.py", "import gateway.clock", "stay pure"),
    "a pure file imports a library": (
        "emulator/protocol/script.py",
        "from websockets import frames",
        "stay pure",
    ),
    "a second file imports picows": ("gateway/session/bridge.py", "import picows", "one door"),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the contracts read, to spoil."""
    copy = tmp_path_factory.mktemp("contracts")
    for package in ("gateway", "emulator", "infra"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def lint(tree: Path) -> tuple[int, str]:
    done = subprocess.run(
        [BIN / "lint-imports", "--no-logo", "--no-cache"],
        cwd=tree,
        env=clean_environment({"PYTHONPATH": str(tree)}),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_tree_as_it_is_keeps_every_contract(tree: Path) -> None:
    status, output = lint(tree)
    assert status == 0, output


@pytest.mark.parametrize("case", FORBIDDEN)
def test_a_forbidden_import_breaks_its_contract(tree: Path, case: str) -> None:
    path, line, contract = FORBIDDEN[case]
    file = tree / path
    before = file.read_text()
    file.write_text(f"{before}\n{line}\n")
    try:
        status, output = lint(tree)
    finally:
        file.write_text(before)
    assert status == 1, output
    assert any(contract in part and "BROKEN" in part for part in output.splitlines()), output


def test_a_file_that_calls_itself_pure_is_held_to_it() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (held,) = [contract["source_modules"] for contract in contracts if "stay pure" in contract["name"]]
    claimed = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ("gateway", "emulator", "infra")
        for file in (ROOT / package).rglob("*.py")
        if file.read_text().startswith('"""PURE.')
    }
    assert claimed <= set(held), f"not in the contract: {sorted(claimed - set(held))}"


def test_a_new_module_must_be_given_its_layer(tree: Path) -> None:
    (tree / "gateway" / "brand_new.py").write_text("")
    try:
        status, output = lint(tree)
    finally:
        (tree / "gateway" / "brand_new.py").unlink()
    assert status == 1, output
    assert "brand_new" in output
