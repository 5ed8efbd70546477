"""The scenarios that come along, as files: each is right, says what it is, and can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.scenario import Scenario
from emulator.scenario.reading import SHIPPED, files_in, read_scenario

FILES = list(files_in([SHIPPED]))


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    path: Path = request.param
    return read_scenario(path)


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 25


def test_it_says_in_one_line_what_fails(scenario: Scenario) -> None:
    assert 30 <= len(scenario.description) <= 120
    assert scenario.description.endswith(".")


def test_it_is_called_like_its_file(scenario: Scenario) -> None:
    assert scenario.name in {file.stem for file in FILES}


def test_something_is_expected_of_its_sessions(scenario: Scenario) -> None:
    assert scenario.sessions
    assert scenario.expect.sessions


def test_it_is_over_soon(scenario: Scenario) -> None:
    assert scenario.deadline <= 60


def test_no_two_describe_the_same() -> None:
    descriptions = [read_scenario(file).description for file in FILES]
    assert len(set(descriptions)) == len(descriptions)
