"""Who serves a port already, from the kernel's tables and from real sockets."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.listeners import Listener, another_server, listening_in, met_by
from tests.support.processes import ROOT

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 523162 1 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4
"""
TABLE_6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A \
00000000:00000000 00:00000000 00000000     0        0 77 1 0 100 0 0 10 0
   1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A \
00000000:00000000 00:00000000 00000000     0        0 78 1 0 100 0 0 10 0
"""


def test_those_that_listen_are_read_from_the_kernels_table() -> None:
    assert list(listening_in(TABLE)) == [Listener("127.0.0.1", 8080, "523162"), Listener("0.0.0.0", 22, "11")]
    assert list(listening_in(TABLE_6)) == [Listener("::1", 8080, "77"), Listener("::", 80, "78")]
    assert list(listening_in("")) == list(listening_in("header\n  oops\n")) == []


@pytest.mark.parametrize(
    ("own", "other", "meet"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("::1", "::", True),
        ("::", "::1", True),
        ("::1", "::2", False),
        ("0.0.0.0", "::", False),
    ],
)
def test_two_meet_where_a_client_may_land_on_either(own: str, other: str, meet: bool) -> None:
    mine, theirs = Listener(own, 80, "1"), Listener(other, 80, "2")
    assert met_by([mine], [theirs]) == ([theirs] if meet else [])
    assert met_by([mine], [Listener(other, 81, "2")]) == []


def test_a_socket_that_one_has_oneself_is_no_others() -> None:
    mine = Listener("127.0.0.1", 80, "1")
    assert met_by([mine], [mine]) == []


@contextmanager
def shared_port(port: int = 0) -> Iterator[socket.socket]:
    """Bound as Granian binds."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(("127.0.0.1", port))
        yield bound


LISTENS = """
import socket, sys
bound = socket.socket()
bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
bound.bind(("127.0.0.1", int(sys.argv[1])))
bound.listen()
print("listens", flush=True)
sys.stdin.read()
"""
LOOKS = """
import socket, sys
from gateway.listeners import another_server
bound = socket.socket()
bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
bound.bind(("127.0.0.1", int(sys.argv[1])))
other = another_server()
print(other and f"{other.is_certain} {other.line}")
"""
THROUGH_A_MAIN = """
import subprocess, sys
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]]).returncode)
"""


@contextmanager
def another_process(port: int) -> Iterator[int]:
    """Its number, while it listens there."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listens\n"
        yield process.pid
        process.communicate()


def looked(port: int, *, under_a_main_of_its_own: bool) -> str:
    """What a worker is told that has bound the port."""
    command = [sys.executable, "-c", LOOKS, str(port)]
    if under_a_main_of_its_own:
        command = [sys.executable, "-c", THROUGH_A_MAIN, LOOKS, str(port)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.strip()


def test_another_server_is_found_by_its_process_and_another_worker_is_none() -> None:
    with shared_port() as own:
        port = own.getsockname()[1]
        assert looked(port, under_a_main_of_its_own=True) == "None"
        with another_process(port) as pid:
            told = looked(port, under_a_main_of_its_own=True)
            # A sister of the other one: both are this process's children.
            assert looked(port, under_a_main_of_its_own=False) == "None"
    assert told.startswith(f"True process {pid} serves 127.0.0.1:{port} already, ")


def test_a_server_whose_process_is_out_of_sight_is_only_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.listeners._owners", lambda inode: [])
    with shared_port() as own, another_process(port := own.getsockname()[1]):
        other = another_server()
    assert other is not None
    assert not other.is_certain
    assert other.line.startswith(f"another process serves 127.0.0.1:{port} already, ")


def test_one_that_listens_itself_is_no_other() -> None:
    with shared_port() as own:
        own.listen()
        assert another_server() is None
