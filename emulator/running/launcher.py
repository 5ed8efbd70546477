"""Becomes the command that it is given, which ends when whoever started it is gone, however that came about.

A script of its own and without imports from here, so that it starts in a moment: `python -I -S launcher.py
PARENT COMMAND...`. The kernel keeps the wish over the exec; only Linux knows it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_FOUND = 127
"""The exit status of a shell for what cannot be run."""


def main(parent: int, command: list[str]) -> int:
    """Returns only when the command cannot be run."""
    # Whoever was started in the background of a shell ignores SIGINT, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            return NOT_FOUND
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        sys.stderr.write(f"{command[0]}: {problem.strerror}\n")
    return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
