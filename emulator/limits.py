"""How many files this process may hold: every port and every connection is one."""

from __future__ import annotations

import resource

SPARE_FILES = 256
"""For all that is no replica's: the control API, logs, libraries, clients in the same process."""
FILES_PER_REPLICA = 2
"""The listener, and what keeps the port while it is closed."""
FILES_PER_PROCESS = 6
"""Pipes to and from a replica in a process of its own."""


class TooFewFiles(OSError):
    """The system lets this process hold fewer files than are needed at the least."""

    def __init__(self, needed: int, hard: int) -> None:
        super().__init__(
            f"{needed} open files are needed and this process may have {hard}: "
            f"start fewer replicas, or raise the limit (`ulimit -Hn {needed}` as root, LimitNOFILE under "
            "systemd, --ulimit nofile under Docker)"
        )


def files_needed(replicas: int, *, sessions: int = 0, isolated: bool = False) -> int:
    """How many files so many replicas and sessions take in this process."""
    if isolated:
        # The connections are held by the replicas' own processes.
        return SPARE_FILES + replicas * (FILES_PER_REPLICA + FILES_PER_PROCESS)
    return SPARE_FILES + replicas * FILES_PER_REPLICA + sessions


def make_room(needed: int, *, at_least: int | None = None) -> int:
    """The soft limit is `needed` or more, as far as the hard one allows; tells what it is.

    Raises TooFewFiles when even the hard limit is below `at_least` (by default `needed`). A limit that is
    high enough already is left alone.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    floor = needed if at_least is None else at_least
    if hard != resource.RLIM_INFINITY and hard < floor:
        raise TooFewFiles(floor, hard)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return needed if soft == resource.RLIM_INFINITY else soft
    wanted = needed if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:
        # A kernel may allow less than the hard limit says.
        if soft < floor:
            raise TooFewFiles(floor, soft) from error
        return soft
    return wanted
