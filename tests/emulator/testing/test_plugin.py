"""The plugin as a project outside has it: installed with the package, strict about markers and warnings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.outside import Outside

pytestmark = pytest.mark.timeout(180)
"""Each of them is a whole run of pytest."""

CLIENT = """
import json
import pytest
from websockets.sync.client import connect

def segment(url):
    with connect(url, proxy=None) as session:
        session.send(json.dumps({"type": "session_init_v2"}))
        session.send(json.dumps({"type": "segment_prompt_source", "prompt": "a pier"}))
        for message in session:
            if isinstance(message, str) and json.loads(message)["type"] == "ltx2_segment_complete":
                return
"""


def passed(said: str) -> int:
    found = re.search(r"(\d+) passed", said)
    return int(found[1]) if found else 0


def test_a_plain_test_breaks_a_farm_and_sees_what_it_saw(outside: Outside, tmp_path: Path) -> None:
    ran = outside.pytest(tmp_path, CLIENT + f"""
import emulator

def test_from_the_wheel():
    assert emulator.__file__ == {str(outside.package / "__init__.py")!r}

def test_farm(farm):
    assert list(farm.urls()) == ["a", "b", "c"]
    segment(farm.replica("b").ws_url)
    assert farm.wait_for("message_sent", replica="b", session=1, type="ltx2_segment_complete")
    assert farm.kill("a").state == "killed"
    farm.arm("c", "abort", times=1)
    with pytest.raises(Exception):
        segment(farm.replica("c").ws_url)
    assert farm.wait_for("fault_struck", replica="c", fault="abort").session == 1

def test_each_test_has_a_fresh_one(farm):
    assert [replica.state for replica in farm.replicas()] == ["running"] * 3
    assert farm.seed == 0
""")  # fmt: skip
    assert (ran.status, passed(ran.said)) == (0, 3), ran.said


def test_an_async_test_awaits_and_is_told_where_it_must(outside: Outside, tmp_path: Path) -> None:
    tests = """
import asyncio
import pytest
from websockets.asyncio.client import connect

@pytest.mark.farm(replicas=["x", "y"], isolate="process")
async def test_farm(farm):
    farm.pause("y")
    assert (await farm.aio.replica("y")).state == "paused"
    async with asyncio.TaskGroup() as group:
        seen = group.create_task(farm.aio.wait_for("session_opened", replica="x"))
        async with connect(farm.replica("x").ws_url, proxy=None):
            await seen
    for wait in (farm.wait_for, farm.events):
        with pytest.raises(RuntimeError, match="await farm.aio"):
            wait("session_opened") if wait == farm.wait_for else wait(wait_seconds=1)

async def test_another_loop(farm):
    assert len(await farm.aio.replicas()) == 3
"""
    ran = outside.pytest(tmp_path, tests, ini="asyncio_mode = auto")
    assert (ran.status, passed(ran.said)) == (0, 2), ran.said


def test_markers_say_what_the_farm_is_like(outside: Outside, tmp_path: Path) -> None:
    ran = outside.pytest(tmp_path, """
import pytest
from emulator.faults import Latency

pytestmark = pytest.mark.farm(seed=7, capacity=1)

@pytest.mark.farm(replicas=2, flaky=["b"], faults={"a": {"stall": {"seconds": 2}}}, subprotocols=["v2"])
class TestMarked:
    def test_the_nearest_wins_and_the_others_fill_in(self, farm):
        assert farm.seed == 7
        a, b = farm.replicas()
        assert (a.capacity, list(a.faults), list(b.faults)) == (1, ["stall"], ["flaky"])
        assert a.faults["stall"]["seconds"] == 2

    @pytest.mark.farm(replicas=1, flaky=[], faults={"a": Latency(seconds=0.5)}, seed=8)
    def test_a_fault_as_a_value(self, farm):
        assert (farm.seed, farm.replica("a").faults["latency"]["seconds"]) == (8, 0.5)

@pytest.mark.farm(scale_to_zero={"a": {"wake_seconds": 0}})
def test_one_that_sleeps(replica):
    scaling = replica.status().scale_to_zero
    assert (scaling.power, scaling.wakes, scaling.idle_seconds) == ("asleep", 0, 60)

@pytest.mark.farm(segment_seconds=0.2)
def test_one_replica(replica):
    assert replica.url == replica.farm.urls()["a"]
    assert replica.kill().state == "killed"
    assert replica.restart().state == "running"
    replica.arm("latency", seconds=1)
    assert replica.lift().faults == {}
    assert replica.pause().state == "paused"
    assert replica.resume().state == "running"
    assert replica.sessions() == []
    assert replica.wait_for("fault_armed").seq in [event.seq for event in replica.events().events]
""")  # fmt: skip
    assert (ran.status, passed(ran.said)) == (0, 4), ran.said


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("replica=2", "there is no 'replica'; there are: replicas, capacity"),
        ("3", "it takes keywords only, as in replicas=3, not 3"),
        ("replicas=0", "replicas: must be a whole number of 1 or more or a list of texts, not 0"),
        ("replicas=['a', 'a']", "no name twice"),
        ("replicas=2, flaky=['c']", "there is no replica 'c'; there are: a, b"),
        ("flaky='b'", 'flaky: must be a list of texts, not "b"'),
        ("scale_to_zero={'z': {}}", "there is no replica 'z'; there are: a"),
        ("scale_to_zero={'a': {'idle': 1}}", "scale_to_zero: Object contains unknown field idle"),
        ("scale_to_zero={'a': {'idle_seconds': -1}}", "scale_to_zero: Expected float >= 0.0"),
        ("isolate='yes'", 'isolate: must be one of none, process, not "yes"'),
        ("seed='x'", 'seed: must be a whole number, not "x"'),
        ("segment_seconds=-1", "segment_seconds: must be a number of 0 or more, not -1"),
        ("faults={'a': {'stahl': {}}}", "faults of a: there is no fault 'stahl'; did you mean stall?"),
        (
            "faults={'a': {'stall': {'secs': 1}}}",
            "faults of a: stall has no field 'secs'; did you mean seconds?",
        ),
        ("faults={'a': 3}", "faults of a: fields by name, as in"),
    ],
)
def test_a_wrong_marker_is_told_what_would_be_right(mark: str, told: str) -> None:
    from emulator.testing import BadMark, wanted_from

    arguments = eval(f"(lambda *told, **named: (told, named))({mark})")
    with pytest.raises(BadMark) as error:
        wanted_from([arguments], replicas=3, seed=0)
    assert told in str(error.value)


def test_a_wrong_marker_or_use_fails_the_test_alone_and_without_a_traceback(
    outside: Outside, tmp_path: Path
) -> None:
    tests = """
import pytest

@pytest.mark.farm(replicas=0)
def test_wrong(farm): pass

@pytest.mark.farm(replicas=2)
def test_too_many(replica): pass

def test_right(farm): pass
"""
    ran = outside.pytest(tmp_path, tests)
    assert ran.status == 1
    assert "@pytest.mark.farm: replicas: must be a whole number of 1 or more or a list of texts" in ran.said
    assert "the fixture `replica` is for one, and this test wants 2: use `farm`" in ran.said
    assert "1 passed, 2 errors" in ran.said
    assert "Traceback" not in ran.said


@pytest.mark.parametrize(
    "options", [[], ["-n", "2"], ["-p", "no:asyncio"]], ids=["alone", "xdist", "no asyncio"]
)
def test_a_failed_test_shows_seed_and_timeline(outside: Outside, tmp_path: Path, options: list[str]) -> None:
    tests = (
        CLIENT
        + """
@pytest.mark.farm(seed=41)
def test_fails(farm):
    segment(farm.replica("a").ws_url + "?token=secret")
    farm.kill("a")
    assert farm is None

def test_passes(farm):
    pass
"""
    )
    ran = outside.pytest(tmp_path, tests, *options)
    assert (ran.status, passed(ran.said)) == (1, 1), ran.said
    assert "- farm: seed -" in ran.said
    assert "41: the same faults again with this seed" in ran.said
    assert ran.said.count("- farm: what happened, in seconds -") == 1
    lines = [re.sub(r"^ +\+\d+\.\d{3} ", "", line) for line in ran.said.splitlines()]
    for line in (
        "a: takes connections",
        "a session 1: opened",
        "a session 1: message sent ltx2_segment_start 0",
        "a: running -> killed",
        "c: takes connections",
    ):
        assert line in lines, line


@pytest.mark.parametrize(
    ("options", "ini", "check"),
    [
        ([], "", "seeds == [0, 0, 3]"),
        ([], "farm_seed = 5", "seeds == [5, 5, 3]"),
        (["--farm-seed", "6"], "farm_seed = 5", "seeds == [6, 6, 3]"),
        (["--farm-seed", "random"], "", "len(set(seeds)) == 3 and seeds[2] == 3"),
    ],
    ids=["neither", "settings", "command line", "random"],
)
def test_the_seed_comes_from_the_command_line_or_the_settings_where_no_marker_has_one(
    outside: Outside, tmp_path: Path, options: list[str], ini: str, check: str
) -> None:
    tests = f"""
import pytest

seeds = []

def test_one(farm):
    seeds.append(farm.seed)

def test_two(farm):
    seeds.append(farm.seed)

@pytest.mark.farm(seed=3)
def test_marked(farm):
    seeds.append(farm.seed)
    assert {check}
"""
    ran = outside.pytest(tmp_path, tests, *options, ini=ini)
    assert (ran.status, passed(ran.said)) == (0, 3), ran.said


def test_a_seed_that_is_none_is_refused_before_any_test(outside: Outside, tmp_path: Path) -> None:
    ran = outside.pytest(tmp_path, "def test_it(): pass", "--farm-seed", "x")
    assert (ran.status, "--farm-seed is a whole number or `random`, not 'x'" in ran.said) == (4, True)


def test_a_project_that_asks_for_no_farm_pays_for_one_file(outside: Outside, tmp_path: Path) -> None:
    tests = """
import sys

def test_nothing_was_imported():
    found = {name for name in sys.modules if name.split(".")[0] in ("emulator", "gateway")}
    assert found == {"emulator", "emulator.pytest_plugin"}
    assert not {"msgspec", "litestar", "uvicorn", "httpx", "websockets"} & set(sys.modules)
"""
    ran = outside.pytest(tmp_path, tests)
    assert (ran.status, passed(ran.said)) == (0, 1), ran.said
