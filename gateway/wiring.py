"""The composition root: the only place that names concrete adapters. Its lifespan is one TaskGroup."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from gateway.admission import Admission
from gateway.logs import log_line
from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.probes import HttpxProbe
from gateway.replicas.registry import ReplicaRegistry
from gateway.routes.health import HealthController
from gateway.routes.status import StatusController
from gateway.routes.stream import stream_route
from gateway.selection import Policy
from gateway.session.core import PassthroughCore
from gateway.session.opening import Opener
from gateway.session.roster import Roster
from gateway.session.service import SessionService
from gateway.session.watch import Limits
from gateway.settings import Settings

logger = logging.getLogger("streamhold")


class Gateway:
    """One gateway: its registry, its monitor, its sessions, and `app`, which serves them.

    Building it reads no file and no environment, and starts nothing; the app's lifespan does. Without its
    lifespan it still answers, with every replica unknown, and refuses sessions in band.
    """

    def __init__(self, settings: Settings, *, registry: ReplicaRegistry | None = None) -> None:
        self.settings = settings
        self.registry = registry or ReplicaRegistry(settings.router.endpoints())
        self.roster = Roster()
        policy = settings.router.health_policy()
        self._probe = HttpxProbe(policy)
        self.monitor = HealthMonitor(self.registry, policy, self._probe)
        self.app = Litestar(
            route_handlers=[
                stream_route(list(settings.session.paths), self._session_service()),
                HealthController,
                StatusController,
            ],
            dependencies={
                "registry": Provide(lambda: self.registry, sync_to_thread=False),
                "monitor": Provide(lambda: self.monitor, sync_to_thread=False),
                "settings": Provide(lambda: self.settings, sync_to_thread=False),
                "readiness": Provide(lambda: self.roster, sync_to_thread=False),
            },
            lifespan=[self._lifespan],
            openapi_config=OpenAPIConfig(
                title="Streamhold gateway",
                version=version("streamhold"),
                path="/schema",
                render_plugins=[JsonRenderPlugin(path="/openapi.json")],
            ),
            logging_config=None,
        )

    async def drain(self) -> None:
        """Return once no session is left, at the latest soon after the drain's deadline."""
        drain = self.settings.drain
        await self.roster.drain(timeout_seconds=drain.timeout_seconds, spread_seconds=drain.spread_seconds)

    def hurry(self) -> None:
        """End a drain that is under way: the sessions that are left are closed now."""
        self.roster.hurry()

    def _session_service(self) -> SessionService:
        session, clients = self.settings.session, self.settings.clients
        return SessionService(
            roster=self.roster,
            opener=Opener(
                admission=Admission(self.registry, Policy(self.settings.selection.policy)),
                evidence=self.monitor,
                proxies=clients.trusted_proxies,
                connect_timeout_seconds=session.connect_timeout_seconds,
                connect_attempts=session.connect_attempts,
                max_message_bytes=session.max_message_bytes,
            ),
            fresh=self.monitor.fresh,
            new_core=lambda: PassthroughCore(session.max_message_bytes),
            limits=Limits(
                idle_timeout_seconds=session.idle_timeout_seconds,
                ping_interval_seconds=session.ping_interval_seconds,
                ping_timeout_seconds=session.ping_timeout_seconds,
                slow_consumer_timeout_seconds=session.slow_consumer_timeout_seconds,
            ),
            max_sessions=self.settings.admission.max_sessions,
            tokens=[token.get_secret_value() for token in clients.tokens],
            allowed_origins=clients.allowed_origins,
            proxies=clients.trusted_proxies,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        async with self._probe, asyncio.TaskGroup() as tasks:
            health_loop = tasks.create_task(self.monitor.run())
            logger.info(
                log_line(
                    "gateway_started",
                    replicas=len(self.registry.all()),
                    policy=self.settings.selection.policy,
                    paths=",".join(self.settings.session.paths),
                )
            )
            try:
                yield
            finally:
                health_loop.cancel()


def build_app(settings: Settings, registry: ReplicaRegistry | None = None) -> Litestar:
    """The ASGI app of a gateway of its own."""
    return Gateway(settings, registry=registry).app
