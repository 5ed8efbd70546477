"""What all tests share: SIGTERM ends a run as Ctrl-C does, so that fixtures stop what they started, and what
they start does not ignore SIGINT.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """By default SIGTERM ends Python at once, and the processes under test would live on."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(signal.SIGTERM, _as_ctrl_c)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell does that to what it puts in the background, and whatever a test starts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def restore() -> None:
        signal.signal(signal.SIGTERM, before)

    config.add_cleanup(restore)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """What stands for SIGINT now, a running event loop's own handler included. A shell starts what it puts
    in the background with SIGINT ignored: then there is none.
    """
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
