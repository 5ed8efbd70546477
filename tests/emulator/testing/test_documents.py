"""What the README and docs/pytest.md show of the fixtures, run as it stands there, outside the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.outside import Outside
from tests.support.processes import ROOT

pytestmark = pytest.mark.timeout(180)


def python_in(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def test_the_test_in_the_readme_is_ten_lines_and_passes(outside: Outside, tmp_path: Path) -> None:
    (example,) = [block for block in python_in(ROOT / "README.md") if "farm" in block]
    body = example.partition("\n\n")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 10
    ran = outside.pytest(tmp_path, example)
    assert (ran.status, "1 passed" in ran.said) == (0, True), ran.said


@pytest.mark.parametrize("index", range(4))
def test_the_examples_in_the_docs_pass(outside: Outside, tmp_path: Path, index: int) -> None:
    examples = python_in(ROOT / "docs" / "pytest.md")
    assert len(examples) == 4
    count = examples[index].count("def test_")
    ran = outside.pytest(tmp_path, examples[index], ini="asyncio_mode = auto")
    assert (ran.status, f"{count} passed" in ran.said) == (0, True), ran.said
