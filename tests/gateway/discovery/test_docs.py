"""docs/discovery.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.discovery import attributes, cloudmap, ecs
from gateway.session.opening import TOLD_AGAIN_SECONDS
from gateway.settings import load
from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "discovery.md").read_text()
WORDS = " ".join(PAGE.split())
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("action", [*cloudmap.ACTIONS, *ecs.ACTIONS])
def test_every_permission_is_named(action: str) -> None:
    assert f"`{action}`" in PAGE


def test_every_attribute_is_in_the_table() -> None:
    read = re.findall(r"^    (\w+) {2,}\S", attributes.__doc__ or "", re.MULTILINE)
    assert len(read) == 7
    table = PAGE.partition("| key | what it says |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(read)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_load(example: str, tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(example)
    settings = load({}, tmp_path)
    assert settings.discovery.kind != "static" or settings.router.cold_start.idle_seconds == 300


def test_how_often_a_client_is_told_that_it_waits() -> None:
    assert f"again every {TOLD_AGAIN_SECONDS:g} s" in WORDS


def test_how_many_instances_there_may_be() -> None:
    assert f"lists {cloudmap.MOST_INSTANCES} instances at most" in WORDS
