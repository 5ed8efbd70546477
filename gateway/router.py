"""The gateway from Python, without a file or an environment: its app for a server or a test client, or a
whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.replicas.config import RouterConfig
from gateway.replicas.registry import ReplicaRegistry

if TYPE_CHECKING:
    from litestar import Litestar

# Imports wait for the call: `from gateway import *` touches both names, and neither the web framework nor
# the server has any business in a program that only wants the registry.


def build_router_app(config: RouterConfig, *, registry: ReplicaRegistry | None = None) -> Litestar:
    """An ASGI app for the replicas of `config`; its lifespan runs the health loop.

    `registry`, when given, holds the replicas instead of one made from `config.replicas`. Without its
    lifespan the app still answers `/status`, with every replica as the registry has it, and refuses sessions
    in band.
    """
    from gateway.settings import Settings
    from gateway.wiring import build_app

    return build_app(Settings.for_router(config), registry)


def run_router(config: RouterConfig) -> None:
    """Serve on `config.host` and `config.port` until a signal ends it.

    Raises SystemExit, after a line on stderr, where this host cannot keep a gateway running or the address
    cannot be bound.
    """
    from gateway.settings import Settings, runtime_or_exit

    settings = Settings.for_router(config)
    runtime = runtime_or_exit(settings)
    from gateway.granian_host import serve

    serve(settings, runtime, workers=1)
