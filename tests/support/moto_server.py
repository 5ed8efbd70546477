"""moto as a server of this process: AWS's API over real HTTP, with nothing of an earlier test in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

import tests.support.moto_more_types  # noqa: F401 - more types for its CloudFormation


@contextmanager
def moto_server() -> Iterator[str]:
    """Its URL. What it holds is gone at the end, although it is the process's."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        moto_api_backend.reset()
