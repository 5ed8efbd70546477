"""The live view in a real terminal: a process, a pseudo terminal, and what is on it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest
from websockets.sync.client import connect

from tests.support.terminal import ENTERS, HIDES, LEAVES, SHOWS, Terminal

pytestmark = pytest.mark.e2e

COMMAND = [sys.executable, "-m", "emulator", "--port", "0", "--control-port", "0"]


class Emulator(Terminal):
    """`python -m emulator` in a terminal."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        columns: int = 100,
        lines: int = 30,
        env: dict[str, str] | None = None,
    ) -> None:
        self._ready = folder / "ready.json"
        super().__init__(
            [*COMMAND, "--ready-file", str(self._ready), *options], columns=columns, lines=lines, env=env
        )

    def serving(self) -> dict[str, str]:
        """Return once it runs: the URL of each replica, and of `control`."""
        self.until(self._ready.exists, "the replicas run")
        addresses = json.loads(self._ready.read_text())
        urls = {replica["name"]: replica["url"] for replica in addresses["replicas"]}
        return {**urls, "control": addresses["control"]}

    def shows(self, text: str) -> None:
        """Return once the text is in the picture."""
        self.until(lambda: text in self.picture, f"the picture shows {text!r}")

    def has_lines(self, count: int) -> None:
        """Return once the picture has so many."""
        self.until(lambda: len(self.picture.splitlines()) == count, f"the picture has {count} lines")

    def says(self, text: str) -> None:
        """Return once the text has come."""
        self.until(lambda: text in self.text, f"it says {text!r}")


def row(picture: str, first: str) -> list[str]:
    """The words of the line that begins with this word."""
    return next(line.split() for line in picture.splitlines() if line.split()[:1] == [first])


def assert_restored(terminal: Terminal) -> None:
    """The terminal is as before: plain screen, visible cursor, both switched for the last time to that."""
    written = terminal.written
    assert written.count(ENTERS) == written.count(LEAVES) > 0
    assert written.rfind(LEAVES) > written.rfind(ENTERS)
    assert written.rfind(SHOWS) > written.rfind(HIDES)


def test_it_appears_shows_a_session_and_a_fault_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with Emulator(tmp_path, "--segment-seconds", "0") as terminal:
        urls = terminal.serving()
        terminal.shows("3 replicas (3 running)")
        assert row(terminal.picture, "replica")[:2] == ["replica", "state"]
        with connect(urls["a"].replace("http", "ws") + "/v1/stream", proxy=None, max_size=None) as session:
            session.send(json.dumps({"type": "session_init_v2", "client_id": "\x1b[31mzoe"}))
            session.send(json.dumps({"type": "segment_prompt_source", "prompt": "a pier"}))
            terminal.shows("?[31mzoe")
            terminal.shows("1 segments")
            assert "1/4" in row(terminal.picture, "a")
            httpx.put(f"{urls['control']}/replicas/a/faults/reset", json={"point": "now"}, trust_env=False)
            terminal.shows("a session 1: fault reset strikes")
            terminal.shows("reset 1x")
        httpx.post(f"{urls['control']}/replicas/b/kill", trust_env=False)
        terminal.shows("2 running, 1 killed")
        assert row(terminal.picture, "b")[1] == "killed"
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        assert_restored(terminal)
        after = terminal.text.rpartition("1 sessions, 1 segments")[2]
        assert "stopping" in after
        assert "Traceback" not in terminal.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_the_terminal_restored(tmp_path: Path, number: signal.Signals) -> None:
    with Emulator(tmp_path) as terminal:
        terminal.serving()
        terminal.shows("3 replicas (")
        os.kill(terminal.pid, number)
        assert terminal.wait() == 0
        assert_restored(terminal)


def test_it_follows_the_size_of_its_window_also_where_it_is_tiny(tmp_path: Path) -> None:
    # COLUMNS and LINES, as some shells export them, must not pin the size.
    with Emulator(
        tmp_path, "--replicas", "40", columns=120, lines=60, env={"COLUMNS": "120", "LINES": "60"}
    ) as terminal:
        terminal.serving()
        terminal.shows("connects")
        terminal.has_lines(60)
        terminal.resize(50, 12)
        terminal.has_lines(12)
        assert max(len(line) for line in terminal.picture.splitlines()) <= 50
        terminal.shows(" more: ")
        for columns, lines in ((10, 3), (1, 1), (80, 2)):
            terminal.resize(columns, lines)
            terminal.has_lines(lines)
        terminal.resize(120, 60)
        terminal.shows("connects")
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        assert_restored(terminal)


def test_a_window_without_a_size_is_taken_for_an_ordinary_one(tmp_path: Path) -> None:
    with Emulator(tmp_path, columns=0, lines=0) as terminal:
        terminal.serving()
        terminal.has_lines(24)


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(tmp_path: Path) -> None:
    with Emulator(tmp_path) as terminal:
        urls = terminal.serving()
        terminal.shows("3 replicas (")
        process = psutil.Process(terminal.pid)
        os.kill(terminal.pid, signal.SIGTSTP)
        terminal.until(lambda: process.status() == psutil.STATUS_STOPPED, "it is stopped")
        terminal.until(lambda: terminal.written.count(LEAVES) == 1, "the terminal is given back")
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.until(lambda: terminal.written.count(ENTERS) == 2, "it takes the terminal again")
        httpx.post(f"{urls['control']}/replicas/a/kill", trust_env=False)
        terminal.shows("1 killed")
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        assert_restored(terminal)


@pytest.mark.parametrize(
    ("options", "env"), [(["--plain"], {}), ([], {"TERM": "dumb"}), ([], {"TERM": ""}), (["--json"], {})]
)
def test_lines_take_its_place_where_it_is_not_wanted(
    tmp_path: Path, options: list[str], env: dict[str, str]
) -> None:
    with Emulator(tmp_path, *options, env=env) as terminal:
        urls = terminal.serving()
        httpx.post(f"{urls['control']}/replicas/a/kill", trust_env=False)
        terminal.says('"control"' if options == ["--json"] else "a: running -> killed")
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.written


@pytest.mark.parametrize(("env", "colours"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color_is_heeded(tmp_path: Path, env: dict[str, str], colours: bool) -> None:
    with Emulator(tmp_path, env=env) as terminal:
        terminal.serving()
        terminal.shows("running")
        assert (b"\x1b[32m" in terminal.written) is colours


def test_warnings_wait_for_the_plain_screen(tmp_path: Path) -> None:
    with Emulator(tmp_path, "--isolate", "process", "--replicas", "1") as terminal:
        urls = terminal.serving()
        terminal.shows("1 replicas")
        children = psutil.Process(terminal.pid).children()
        assert len(children) == 1
        # A fault that is set while the replica's process stands still gets no answer in time: a warning.
        children[0].suspend()
        httpx.put(f"{urls['control']}/replicas/a/faults/stall", trust_env=False, timeout=20)
        terminal.shows("does not answer")
        children[0].resume()
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        assert_restored(terminal)
        assert b"WARNING emulator: replica a" in terminal.written.rpartition(LEAVES)[2]


def test_many_replicas_cost_little_while_nothing_happens(tmp_path: Path) -> None:
    with Emulator(tmp_path, "--replicas", "200", columns=160, lines=50) as terminal:
        terminal.serving()
        terminal.shows("200 replicas (200 running)")
        process = psutil.Process(terminal.pid)
        pictures, before = terminal.written.count(b"\x1b[H"), sum(process.cpu_times()[:2])
        time.sleep(2.0)
        # Nothing changes, so nothing is drawn; what is left is looking for a change.
        assert terminal.written.count(b"\x1b[H") - pictures <= 1
        assert sum(process.cpu_times()[:2]) - before < 1.0
