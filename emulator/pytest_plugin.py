"""The pytest plugin: fixtures `farm`, `replica` and `scenario`, and the marker `farm`.

Installed with the package, through its entry point. A project that asks for none of the fixtures pays for
this file alone: all that they need is imported by the first one that is used.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from emulator.running.results import Result
    from emulator.testing import OneReplica, RunningFarm, Wanted

MARK = "farm(replicas=3, flaky=[...], faults={...}, seed=N, ...): the replicas that the fixture `farm` starts"
RANDOM = "random"
FARMS: pytest.StashKey[list[RunningFarm]] = pytest.StashKey()
"""Those that a test has had."""
TOLD: pytest.StashKey[str] = pytest.StashKey()
"""Of a scenario that failed in a test."""


class PlayScenario(Protocol):
    """What the fixture `scenario` is."""

    def __call__(
        self,
        file: str | Path,
        *,
        gateway: str | None = None,
        start_gateway: str | None = None,
        port: int | None = None,
        seed: int | None = None,
    ) -> Result:
        """The scenario was played and all was as it expects; otherwise the test has failed, with the verdict.

        `file` is beside the test's own file, or one of those that the emulator brings (`kill.yaml`). Either
        `gateway`, the URL of one that runs with its replicas from `port` (9101) on, or `start_gateway`, the
        command that starts a fresh one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("farm", "replicas of the streaming server")
    group.addoption(
        "--farm-seed",
        metavar="N",
        help=f"seed of the fixture `farm` where its marker has none: a whole number, or `{RANDOM}` (0)",
    )
    parser.addini("farm_seed", f"seed of the fixture `farm`: a whole number, or `{RANDOM}`", default="0")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    _seed(config)


@pytest.fixture
def farm(request: pytest.FixtureRequest) -> Iterator[RunningFarm]:
    """Replicas of the streaming server that run beside the test, as its marker `farm` wants them: `urls()`,
    `kill("a")`, `arm("b", "stall", seconds=2)`, `wait_for("session_opened")` and so on; `farm.aio` has the
    same methods to be awaited."""
    wanted = _wanted(request)
    from emulator.testing import running_farm

    with running_farm(wanted) as running:
        request.node.stash.setdefault(FARMS, []).append(running)
        yield running


@pytest.fixture
def replica(request: pytest.FixtureRequest, farm: RunningFarm) -> OneReplica:
    """The one replica of a farm of one: `url`, `kill()`, `arm("stall", seconds=2)` and so on."""
    from emulator.testing import OneReplica

    names = farm.wanted.names
    if len(names) != 1:
        pytest.fail(f"the fixture `replica` is for one, and this test wants {len(names)}: use `farm`", False)
    return OneReplica(farm, names[0])


@pytest.fixture
def scenario(request: pytest.FixtureRequest) -> PlayScenario:
    """Plays a scenario file against a gateway, and fails the test with its verdict:
    `scenario("kill.yaml", start_gateway="granian gateway.app:app")`."""
    try:
        from emulator.testing import scenarios
    except ImportError as error:
        _fail_without_the_extra("scenario", error)

    def play(
        file: str | Path,
        *,
        gateway: str | None = None,
        start_gateway: str | None = None,
        port: int | None = None,
        seed: int | None = None,
    ) -> Result:
        _check_no_loop()
        try:
            path = scenarios.found(file, request.path.parent)
            return scenarios.play(path, scenarios.venue(gateway, start_gateway, port), seed=seed)
        except (scenarios.Failed, scenarios.NotPlayed) as problem:
            told = f"scenario {file}: {problem}"
        # Not inside the except, where the other exception, with the same text, would be shown as its cause.
        request.node.stash[TOLD] = told
        pytest.fail(told, pytrace=False)

    return play


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and TOLD in item.stash:
        _shorten_summary(report, item.stash[TOLD])
    if report.failed:
        for running in item.stash.get(FARMS, []):
            told = f"{running.seed}: the same faults again with this seed"
            report.sections.append(("farm: seed", told))
            report.sections.append(("farm: what happened, in seconds", "\n".join(running.timeline())))
    return report


def _shorten_summary(report: pytest.TestReport, told: str) -> None:
    """Pytest's summary has one line of what was told; where it does not cut that itself, as in CI, it would
    have the whole account once more."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and told in crash.message:
        crash.message = told.splitlines()[0]


def _wanted(request: pytest.FixtureRequest) -> Wanted:
    try:
        from emulator.testing import BadMark, wanted_from
    except ImportError as error:
        _fail_without_the_extra("farm", error)
    marks = [(mark.args, mark.kwargs) for mark in request.node.iter_markers("farm")]
    count = 1 if "replica" in request.fixturenames else 3
    try:
        return wanted_from(marks, replicas=count, seed=_seed(request.config))
    except BadMark as error:
        pytest.fail(f"@pytest.mark.farm: {error}", pytrace=False)


def _fail_without_the_extra(fixture: str, error: ImportError) -> NoReturn:
    text = (
        f"the fixture `{fixture}` needs the extra: pip install 'PATH[emulator]', PATH being a clone ({error})"
    )
    pytest.fail(text, pytrace=False)


def _check_no_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "scenario(...) would stop this event loop until it was played: await asyncio.to_thread(scenario, ...)"
    )


def _seed(config: pytest.Config) -> int:
    """Where the marker says nothing."""
    told = config.getoption("--farm-seed")
    where = "--farm-seed"
    if told is None:
        told, where = config.getini("farm_seed"), "farm_seed"
    if told == RANDOM:
        # Not the tests' own generator, which they may have seeded.
        return random.SystemRandom().randrange(2**31)
    try:
        return int(told)
    except ValueError:
        raise pytest.UsageError(f"{where} is a whole number or `{RANDOM}`, not {told!r}") from None
