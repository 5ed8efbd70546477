"""Becomes the command that it is given, which gets SIGTERM once whoever started it is gone.

A script of its own, `python -I -S tied.py PARENT COMMAND...`. The kernel keeps the wish over the exec; only
Linux knows it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)
    os.execvp(command[0], command)
