"""What is alive inside the processes of a tree, asked from outside (see inside/sitecustomize.py)."""

from __future__ import annotations

import json
import socket
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import RunningProcess


@dataclass(frozen=True, slots=True)
class Alive:
    """Counts over the whole tree."""

    tasks: Counter[str]
    """Unfinished asyncio tasks by the name of their coroutine."""
    objects: Counter[str]
    """The gateway's objects that live as long as a session does."""


class Window:
    """Opens the processes that are started with `env`."""

    def __init__(self) -> None:
        # Not pytest's own folder: a Unix socket's path has to be short.
        self._folder = tempfile.TemporaryDirectory(prefix="look-")
        self.env = {
            "TESTS_LOOK_INSIDE": self._folder.name,
            "PYTHONPATH": str(Path(__file__).parent / "inside"),
        }

    def look(self, process: RunningProcess) -> Alive:
        """What is alive now in every process of the tree."""
        alive = Alive(Counter(), Counter())
        for member in process.tree():
            address = f"{self._folder.name}/{member.pid}"
            if not Path(address).exists():
                continue  # a helper process that is no Python of ours
            with socket.socket(socket.AF_UNIX) as asked:
                asked.settimeout(10)
                asked.connect(address)
                with asked.makefile("rb") as answer:
                    told = json.load(answer)
            alive.tasks.update(told["tasks"])
            alive.objects.update(told["objects"])
        return alive

    def close(self) -> None:
        self._folder.cleanup()
