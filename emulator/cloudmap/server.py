"""AWS's API on a port of this process: moto, in threads that end with it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

BACKLOG = 128
POLL_SECONDS = 0.05
"""How soon it notices that it is to end."""


@contextmanager
def aws_on(bound: socket.socket) -> Iterator[str]:
    """Its URL, for as long as the block lasts. `bound` has the address, and is not listening yet."""
    # Moto's own threaded server never comes back from a port that is taken: it gets one that is ours already.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    bound.listen(BACKLOG)
    host, port = bound.getsockname()[:2]
    server = make_server(
        host,
        port,
        DomainDispatcherApplication(create_backend_app),
        threaded=True,
        request_handler=MotoRequestHandler,
        fd=bound.fileno(),
    )
    serving = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": POLL_SECONDS}, name="aws", daemon=True
    )
    serving.start()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.shutdown()
        serving.join()
