"""What a process tree has used: its CPU seconds and its memory, by the kernel's own books."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a process tree holds."""

    rss: int
    """Resident pages, those shared between its processes counted once for each."""
    pss: int
    """Resident pages, shared ones split among those who share them."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores do what."""

    proxy: frozenset[int]
    load: frozenset[int]

    @classmethod
    def split(cls) -> "Cores":
        """The last usable core for the proxy, the others for load and backend; a single one is shared."""
        usable = sorted(os.sched_getaffinity(0))
        return cls(proxy=frozenset(usable[-1:]), load=frozenset(usable[:-1] or usable))

    @property
    def shared(self) -> bool:
        return self.proxy == self.load


@contextmanager
def pinned(cores: frozenset[int]) -> Iterator[None]:
    """The calling thread, and what it starts meanwhile, runs on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class ProcessTree:
    """A process and its living descendants; the CPU of reaped ones counts through their parent."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def processes(self) -> list[psutil.Process]:
        return [self._root, *self._root.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """User and system time so far. The kernel reports it in steps of 10 ms."""
        total = 0.0
        for process in self.processes():
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def rss(self) -> int:
        """Cheap enough to be sampled while traffic runs."""
        return sum(process.memory_info().rss for process in self.processes())

    def memory(self) -> Memory:
        """Walks the page tables, so not while CPU is being measured."""
        rss = pss = 0
        for process in self.processes():
            info = process.memory_full_info()
            rss += info.rss
            pss += info.pss
        return Memory(rss=rss, pss=pss)


def own_cpu_seconds() -> float:
    """User and system time of this process: the load generator and the backend."""
    times = os.times()
    return times.user + times.system
