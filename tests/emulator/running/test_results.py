"""Verdicts for people and for CI servers."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from emulator.running.account import LONGEST_ACCOUNT, account_of
from emulator.running.junit import write_junit
from emulator.running.results import Result, lacking, summary
from emulator.running.seen import Moment
from tests.emulator.running.build import event, played, scenario, upgrade

SCENARIO = scenario("replicas: {count: 1}\nsessions: [{name: s}]")


def result(verdict: str, *findings: str, tail: str = "") -> Result:
    came = played(
        SCENARIO,
        events=[
            upgrade("a", 1, "s"),
            event("a", "session_opened", 1),
            event("a", "fault_struck", 1, fault="abort"),
        ],
    )
    came.tell(0.5, "s", "opened")
    came.gateway.tail = tail
    return Result(SCENARIO, verdict, 1.25, findings, came)  # type: ignore[arg-type]


def test_a_verdict_tells_what_was_wrong_and_what_happened() -> None:
    lines = list(result("failed", "session s: never came\nreally", tail="last words").lines(account=True))
    assert lines == [
        "FAIL  test  (1.2 s)",
        "      session s: never came",
        "        | really",
        "      what happened (seed 0; seconds since the beginning):",
        "         0.00  a  has s",
        "         0.00  a  fault abort strikes s",
        "         0.50  s  opened",
        "      the gateway's last lines:",
        "        | last words",
    ]


def test_what_others_wrote_is_fit_for_a_terminal() -> None:
    told = list(result("failed", "session s: close 1011 by\x1b[2J", tail="\ta\x1b[31mb").lines(account=False))
    assert told[1] == "      session s: close 1011 by\\x1b[2J"
    assert told[-1] == "        |       a\\x1b[31mb"


def test_a_scenario_that_passed_is_one_line() -> None:
    assert list(result("passed", tail="last words").lines(account=False)) == ["PASS  test  (1.2 s)"]


def test_a_long_account_loses_its_middle() -> None:
    came = played(SCENARIO)
    came.moments = [Moment(float(at), "s", f"thing {at}") for at in range(1000)]
    lines = account_of(came)
    assert len(lines) == LONGEST_ACCOUNT + 1
    assert "thing 0" in lines[0]
    assert "thing 999" in lines[-1]
    assert "(800 lines left out)" in lines[LONGEST_ACCOUNT // 2]


def test_the_summary_counts_verdicts() -> None:
    results = [result("passed"), result("failed", "x"), result("cannot", "x")]
    assert summary(results, 12.3) == (
        "3 scenarios: 1 passed, 1 failed, 1 not judged, as the gateway cannot (12 s)"
    )
    assert summary(results[:1], 1) == "1 scenario: 1 passed (1 s)"


def test_what_a_gateway_lacks_is_told_in_words() -> None:
    assert lacking(["resume", "queue"]) == (
        "cannot: the gateway does not move a running session to another replica;"
        " nor let clients wait while every replica is full"
    )


def test_junit_has_a_case_for_each_with_the_account(tmp_path: Path) -> None:
    path = tmp_path / "out.xml"
    results = [
        result("passed"),
        result("failed", "session s: \x1b[31mred\x1b[0m"),
        result("cannot", "cannot: x"),
    ]
    write_junit(path, results)
    suite = ElementTree.parse(path).getroot().find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    passed, failed, skipped = suite.findall("testcase")
    assert passed.get("name") == "test"
    assert "has s" in (passed.findtext("system-out") or "")
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "session s: ?[31mred?[0m"
    assert "what happened" in (failure.text or "")
    assert skipped.find("skipped") is not None
