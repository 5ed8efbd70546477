"""The results as a JUnit file, the form that CI servers read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from emulator.running.results import Result

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that may not stand in XML, as a terminal's colours."""


def write_junit(path: Path, results: Sequence[Result]) -> None:
    """One test case a scenario is in the file. Raises OSError."""
    suite = TestSuite("scenarios")
    for result in results:
        suite.add_testcase(_case(result))
    report = JUnitXml()
    report.add_testsuite(suite)
    report.write(str(path), pretty=True)


def _case(result: Result) -> TestCase:
    case = TestCase(result.scenario.name, "scenarios", round(result.seconds, 3))
    text = _clean("\n".join(result.lines(account=True)))
    if result.verdict == "failed":
        failure = Failure(_clean(result.findings[0].splitlines()[0]), "failed")
        failure.text = text
        case.result = [failure]
    elif result.verdict == "cannot":
        case.result = [Skipped(_clean(result.findings[0]))]
    case.system_out = text
    return case


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
