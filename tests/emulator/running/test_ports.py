"""Ports that are chosen for a gateway before it starts."""

from __future__ import annotations

import random
import socket
import subprocess
import sys

import pytest

from emulator.running import ports
from emulator.running.ports import NoFreePort, is_free, reserved_ports
from tests.support.processes import ROOT


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> range:
    """A few ports that nobody has: all that there is to choose from."""
    lowest = random.randrange(ports.HIGHEST, 32_700)
    monkeypatch.setattr(ports, "LOWEST", lowest)
    monkeypatch.setattr(ports, "HIGHEST", lowest + 5)
    return range(lowest, lowest + 5)


def test_a_reserved_port_is_free_for_any_server_and_given_to_no_other() -> None:
    with reserved_ports() as first, reserved_ports() as second:
        assert first != second
        with socket.socket() as server:
            server.bind(("127.0.0.1", first))
            server.listen()
            assert not is_free(first)


def test_a_row_is_reserved_as_one(narrow: range) -> None:
    with reserved_ports(4) as first:
        assert set(range(first, first + 4)) <= set(narrow)
        with pytest.raises(NoFreePort, match="no 2 ports in a row"), reserved_ports(2):
            pass


def test_what_is_let_go_can_be_had_again(narrow: range) -> None:
    for _ in range(3):
        with reserved_ports(4):
            pass


def test_another_process_gets_none_of_ours(narrow: range) -> None:
    asks = (
        "from emulator.running import ports\n"
        f"ports.LOWEST, ports.HIGHEST = {narrow.start}, {narrow.stop}\n"
        "try:\n"
        "    with ports.reserved_ports(2) as first: print('got', first)\n"
        "except ports.NoFreePort: print('none')\n"
    )

    def answer() -> str:
        done = subprocess.run(
            [sys.executable, "-c", asks], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout.split()[0]

    with reserved_ports(4):
        assert answer() == "none"
    assert answer() == "got"
