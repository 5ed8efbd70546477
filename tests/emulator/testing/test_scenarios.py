"""The fixture `scenario`: a scenario file's verdict is the test's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from emulator.running.play import Fresh, Standing
from emulator.scenario.reading import SHIPPED
from emulator.testing import scenarios
from emulator.testing.scenarios import NotPlayed
from tests.support.outside import Outside
from tests.support.ports import free_ports

pytestmark = pytest.mark.timeout(180)

GATEWAY = """
import asyncio
import sys
import pytest

GATEWAY = f"{sys.executable} -m gateway serve"
"""
WRONG = """
replicas: {count: 1}
sessions: [{name: s, prompts: [a pier]}]
timeline: [{at: 0s, fault: {replica: a, latency: {seconds: 0.01}}}]
expect:
  sessions: {s: {moves: 7}}
"""
BROKEN = """
replicas: {count: 1}
sessions: [{name: s, promts: [a pier]}]
"""


def test_a_scenario_passes_or_fails_its_test_with_the_verdict(outside: Outside, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(WRONG)
    (tmp_path / "broken.yaml").write_text(BROKEN)
    tests = f"""{GATEWAY}
def test_passes(scenario):
    result = scenario("kill.yaml", start_gateway=GATEWAY, seed=3)
    assert (result.verdict, result.played.seed) == ("passed", 3)

async def test_in_a_loop(scenario):
    with pytest.raises(RuntimeError, match="await asyncio.to_thread"):
        scenario("kill.yaml", start_gateway=GATEWAY)

def test_fails(scenario):
    scenario("wrong.yaml", start_gateway=GATEWAY)

def test_broken(scenario):
    scenario("broken.yaml", start_gateway=GATEWAY)
"""
    # In CI, pytest cuts nothing in its summary.
    ran = outside.pytest(tmp_path, tests, ini="asyncio_mode = auto", env={"CI": "true"})
    assert (ran.status, "2 failed, 2 passed" in ran.said) == (1, True), ran.said
    assert "scenario wrong.yaml: FAIL  wrong" in ran.said
    assert "moves" in ran.said
    assert ran.said.count("what happened (seed ") == 1
    assert ran.said.count("scenario wrong.yaml: ") == 2, "once with its account, once in the summary"
    assert ran.said.count("promts") == 2
    assert "scenario broken.yaml:" in ran.said
    assert "broken.yaml:3:" in ran.said
    assert "promts" in ran.said
    assert "Traceback" not in ran.said


def test_a_file_beside_the_test_comes_before_one_that_the_emulator_brings(tmp_path: Path) -> None:
    assert scenarios.found("kill.yaml", tmp_path) == SHIPPED / "kill.yaml"
    (tmp_path / "kill.yaml").touch()
    assert scenarios.found("kill.yaml", tmp_path) == tmp_path / "kill.yaml"
    with pytest.raises(NotPlayed, match=r"no such file in .*among the emulator's own: .*kill\.yaml"):
        scenarios.found("kil.yaml", tmp_path)
    with pytest.raises(NotPlayed, match=r"did you mean kill\?"):
        scenarios.found("kil", tmp_path)
    assert scenarios.found("abort", tmp_path) == SHIPPED / "abort.yaml"


def test_where_it_is_played_is_one_of_two() -> None:
    assert scenarios.venue("http://127.0.0.1:8000", None, None) == Standing("http://127.0.0.1:8000", 9101)
    assert scenarios.venue("ws://127.0.0.1:8000", None, 7000) == Standing("ws://127.0.0.1:8000", 7000)
    assert scenarios.venue(None, "python -m gateway", None) == Fresh(("python", "-m", "gateway"))


@pytest.mark.parametrize(
    ("gateway", "start_gateway", "port", "told"),
    [
        (None, None, None, "say where: gateway=URL"),
        ("http://127.0.0.1:1", "python", None, "say where: gateway=URL"),
        (None, "python", 9101, "port= goes with gateway="),
        ("127.0.0.1:8000", None, None, "should be a URL such as"),
        ("http://127.0.0.1:8000/v1", None, None, "scheme, host and port alone"),
        (None, "no-such-command", None, "there is no command 'no-such-command'"),
    ],
)
def test_a_wrong_place_is_told_what_would_be_right(
    gateway: str | None, start_gateway: str | None, port: int | None, told: str
) -> None:
    with pytest.raises(NotPlayed) as error:
        scenarios.venue(gateway, start_gateway, port)
    assert told in str(error.value)


async def test_the_callers_loop_is_left_alone() -> None:
    nowhere = Standing("http://127.0.0.1:1", free_ports(3))
    with pytest.raises(NotPlayed, match="no gateway answers there"):
        await asyncio.to_thread(scenarios.play, SHIPPED / "kill.yaml", nowhere)
    assert asyncio.get_running_loop().is_running()
