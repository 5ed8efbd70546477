from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest

from gateway.fleet.instance import instance_id
from gateway.fleet.member import checked_id
from tests.support.processes import ROOT

FORKED = """
import os, sys
from gateway import instance_id
mine = instance_id()
if os.fork() == 0:
    print(instance_id(), flush=True)
    os._exit(0)
os.wait()
print(mine)
"""


def test_it_is_host_pid_and_nonce_and_stays_the_same() -> None:
    host, pid, nonce = instance_id().rsplit(":", 2)
    assert host == socket.gethostname()
    assert pid == str(os.getpid())
    assert re.fullmatch("[0-9a-f]{16}", nonce)
    assert instance_id() == instance_id()


def test_every_process_has_its_own_forked_ones_too() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", FORKED], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    ids = {instance_id(), *told[0], *told[1]}
    assert len(ids) == 5
    assert len({each.rsplit(":", 1)[1] for each in ids}) == 5


@pytest.mark.parametrize("name", ["a{b}", "a\tb", ""])
def test_an_odd_host_name_makes_no_unfit_id(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    assert checked_id(instance_id())
