"""The composition root: the only place that names concrete adapters. Its lifespan is one TaskGroup."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib.metadata import version

from litestar import Litestar
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from gateway.admission import Admission
from gateway.discovery import cloudmap, ecs
from gateway.discovery.attributes import Defaults
from gateway.discovery.aws import AwsClient, AwsPlace
from gateway.discovery.belief import Patience
from gateway.discovery.fleet import FleetSource
from gateway.discovery.watch import Pace, ReplicaSource, ReplicaWatch
from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.backend import FleetBackend
from gateway.fleet.member import NOTHING
from gateway.fleet.spec import FleetSpec
from gateway.in_fleet import InFleet
from gateway.logs import log_line
from gateway.metrics.measuring import Counters, Moment
from gateway.metrics.reporter import EmfReporter
from gateway.replicas.events import RegistryEvent, ReplicaRemoved, StatusChanged
from gateway.replicas.model import ReplicaStatus
from gateway.replicas.monitor import HealthMonitor
from gateway.replicas.probes import HttpxProbe
from gateway.replicas.registry import ReplicaRegistry
from gateway.routes.health import HealthController
from gateway.routes.status import StatusController
from gateway.routes.stream import stream_route
from gateway.selection import Policy
from gateway.session.core import PassthroughCore, SessionCore
from gateway.session.opening import Opener
from gateway.session.protocol import client_id
from gateway.session.roster import Roster
from gateway.session.service import SessionService
from gateway.session.session import Parts
from gateway.session.shedding import Shedder, SheddingPolicy
from gateway.session.streaming import StreamingCore
from gateway.session.watch import Limits
from gateway.settings import Settings
from gateway.settings.meeting import DiscoverySettings, FleetSettings

logger = logging.getLogger("streamhold")


class Gateway:
    """One gateway: its registry, its monitor, its sessions, and `app`, which serves them.

    Building it reads no file and no environment, and starts nothing; the app's lifespan does. Without its
    lifespan it still answers, with every replica unknown, and refuses sessions in band.
    """

    def __init__(
        self, settings: Settings, *, registry: ReplicaRegistry | None = None, worker: int = 1
    ) -> None:
        """`worker` is the number of this process among those of one server."""
        self.settings = settings
        self.refusal: str | None = None
        """Why the lifespan did not begin, where that is the surroundings' fault and no defect."""
        self.registry = registry or ReplicaRegistry(
            settings.router.endpoints(),
            slow_start_seconds=settings.selection.slow_start_seconds,
            outlier=settings.outlier.policy(),
        )
        admission = settings.admission
        self.admission = Admission(
            self.registry,
            Policy(settings.selection.policy),
            max_sessions=admission.max_sessions,
            max_sessions_per_client=admission.max_sessions_per_client,
            queue_size=admission.queue_size,
            queue_timeout_seconds=admission.queue_timeout_seconds,
        )
        self.roster = Roster()
        policy = settings.router.health_policy()
        self._probe = HttpxProbe(policy)
        sleep_after = settings.router.cold_start.idle_seconds
        self.monitor = HealthMonitor(self.registry, policy, self._probe, sleep_after_seconds=sleep_after)
        self.fleets = _fleets(settings.fleet)
        self.shedder = self._shedder()
        self.in_fleet = self._in_fleet(worker)
        self._aws = _aws(settings.discovery)
        self.watch = self._replica_watch()
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
                "fleet": Provide(lambda: self.in_fleet, sync_to_thread=False),
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
        if self.in_fleet is not None:
            self.in_fleet.say_soon()  # by then the roster has begun
        await self.roster.drain(timeout_seconds=drain.timeout_seconds, spread_seconds=drain.spread_seconds)

    def hurry(self) -> None:
        """End a drain that is under way: the sessions that are left are closed now."""
        self.roster.hurry()

    def _session_service(self) -> SessionService:
        session, clients = self.settings.session, self.settings.clients
        affinity = self.settings.placed_by()
        opener = Opener(
            admission=self.admission,
            evidence=self.monitor,
            proxies=clients.trusted_proxies,
            connect_timeout_seconds=session.connect_timeout_seconds,
            connect_attempts=session.connect_attempts,
            max_message_bytes=session.max_message_bytes,
            wake_timeout_seconds=self.settings.router.cold_start.connect_timeout_seconds,
        )
        parts = Parts(
            opener=opener,
            records=self.registry,
            new_core=self._new_core,
            key_of_init=client_id if affinity.needs_init else None,
            limits=Limits(
                idle_timeout_seconds=session.idle_timeout_seconds,
                ping_interval_seconds=session.ping_interval_seconds,
                ping_timeout_seconds=session.ping_timeout_seconds,
                slow_consumer_timeout_seconds=session.slow_consumer_timeout_seconds,
                segment_stall_seconds=session.segment_stall_seconds,
            ),
            init_timeout_seconds=session.connect_timeout_seconds,
            can_queue=self.settings.admission.queue_size > 0,
        )
        return SessionService(
            roster=self.roster,
            parts=parts,
            fresh=self.monitor.fresh,
            admission=self.admission,
            key_of=lambda request, client: affinity.key_of(
                client_ip=client, query=request.query, headers=request.headers
            ),
            tokens=[token.get_secret_value() for token in clients.tokens],
            allowed_origins=clients.allowed_origins,
            proxies=clients.trusted_proxies,
        )

    def _in_fleet(self, worker: int) -> InFleet | None:
        """This gateway's part in a fleet; None where it is in none."""
        if self.fleets is None or not self.settings.joins_fleet:
            return None
        return InFleet(
            self.settings.fleet,
            self.fleets.store,
            registry=self.registry,
            admission=self.admission,
            roster=self.roster,
            monitor=self.monitor,
            max_sessions=self.settings.admission.max_sessions,
            worker=worker,
            more=self.shedder.report if self.shedder is not None else lambda: NOTHING,
        )

    def _shedder(self) -> Shedder | None:
        """What hands sessions back to the fleet; None where nothing is to."""
        fleet = self.settings.fleet
        if not (fleet.shed and self.settings.joins_fleet):
            return None
        cadence = fleet.cadence()
        policy = SheddingPolicy(
            tolerance=fleet.shed_tolerance,
            settle=timedelta(seconds=fleet.settle_seconds),
            per_second=fleet.shed_per_second,
            beat=cadence.every + cadence.beat_deadline(fleet.spec()),
        )
        return Shedder(
            policy, self.roster, load=lambda: self._sessions, waiting=lambda: self.admission.waiting
        )

    @property
    def _sessions(self) -> int:
        """On replicas, pending ones included."""
        return sum(replica.sessions for replica in self.registry.all())

    def _replica_watch(self) -> ReplicaWatch | None:
        """What follows a source of replicas; None where all are configured."""
        source: ReplicaSource | None = None
        if self.settings.discovery.kind == "fleet" and self.fleets is not None:
            source = self._fleet_source(self.fleets)
        elif self._aws is not None:
            source = _aws_source(self._aws, self.settings.discovery)
        if source is None:
            return None
        return ReplicaWatch(self.registry, source, configured=self.settings.router.endpoints())

    def _fleet_source(self, fleets: FleetBackend) -> ReplicaSource:
        fleet = self.settings.fleet
        spec = FleetSpec(self.settings.discovery.name, timedelta(seconds=fleet.ttl_seconds))
        pace = Pace(
            every_seconds=fleet.every_seconds,
            deadline_seconds=fleet.cadence().beat_deadline(spec).total_seconds(),
            # Whoever is alive has said so again within a ttl, even where the store was emptied.
            patience=Patience(confirm_seconds=fleet.ttl_seconds, settle_seconds=fleet.settle_seconds),
        )
        return FleetSource(fleets.store(spec), pace)

    def _emf_reporter(self) -> EmfReporter:
        metrics = self.settings.metrics
        return EmfReporter(
            self._moment,
            full_at_sessions=metrics.full_at_sessions or self.settings.admission.max_sessions,
            interval_seconds=metrics.interval_seconds,
            namespace=metrics.namespace,
            service=metrics.service,
        )

    def _moment(self) -> Moment:
        handed_back = self.shedder.handed_back if self.shedder is not None else 0
        counters = Counters(self.roster.resumes, handed_back)
        return Moment(self.registry.candidates(), self._sessions, self.admission.waiting, counters)

    def _new_core(self) -> SessionCore:
        session = self.settings.session
        if session.protocol == "passthrough":
            return PassthroughCore(session.max_message_bytes)
        return StreamingCore(
            session.max_message_bytes,
            resume=session.resume,
            resume_attempts=session.resume_attempts,
            max_state_bytes=session.max_state_bytes,
            snapshot_every=session.snapshot_every,
        )

    def _heard(self, event: RegistryEvent) -> None:
        match event:
            case StatusChanged(url=url, after=ReplicaStatus.UNHEALTHY) | ReplicaRemoved(url=url):
                self.roster.unhealthy(url, self.settings.session.on_unhealthy)
            case _:
                pass

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            if self.fleets is not None:
                await opened.enter_async_context(self.fleets)
            if self._aws is not None:
                await opened.enter_async_context(self._aws)
            if self.in_fleet is not None:
                await self._join(opened, self.in_fleet)
            await opened.enter_async_context(self._probe)
            tasks = await opened.enter_async_context(asyncio.TaskGroup())
            opened.callback(self.registry.subscribe(self._heard))
            if self.watch is not None:
                # Before the first probe round, which is then of the replicas that there are.
                await self.watch.look()
            loops = [tasks.create_task(self.monitor.run()), tasks.create_task(self.admission.run())]
            if self.watch is not None:
                loops.append(tasks.create_task(self.watch.run()))
            if self.in_fleet is not None:
                loops.append(tasks.create_task(self.in_fleet.run()))
                if self.shedder is not None and self.in_fleet.membership is not None:
                    loops.append(tasks.create_task(self.shedder.run(self.in_fleet.membership)))
            if self.settings.metrics.emf:
                loops.append(tasks.create_task(self._emf_reporter().run()))
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
                for loop in loops:
                    loop.cancel()

    async def _join(self, opened: AsyncExitStack, in_fleet: InFleet) -> None:
        """Afterwards the fleet has this gateway, until `opened` ends."""
        try:
            await opened.enter_async_context(in_fleet.joined())
        except (FleetUnavailable, FleetRefused) as error:
            self.refusal = f"the fleet at fleet.url cannot be joined: {error}"
            raise


def _fleets(fleet: FleetSettings) -> FleetBackend | None:
    """Where this gateway's fleets are kept; None where it is in none."""
    if fleet.backend == "none":
        return None
    url = fleet.url.get_secret_value() if fleet.url is not None else None
    return FleetBackend(fleet.backend, url, namespace=fleet.namespace, cluster=fleet.cluster)


def _aws(discovery: DiscoverySettings) -> AwsClient | None:
    """Where AWS is asked for replicas; None where it is not."""
    place = AwsPlace(discovery.region, discovery.endpoint_url, discovery.timeout_seconds)
    match discovery.kind:
        case "cloudmap":
            return AwsClient(cloudmap.SERVICE, place)
        case "ecs":
            return AwsClient(ecs.SERVICE, place)
        case "static" | "fleet":
            return None


def _aws_source(client: AwsClient, discovery: DiscoverySettings) -> ReplicaSource:
    defaults = Defaults(discovery.port, discovery.scheme)
    service = discovery.service or ""
    is_ecs = discovery.kind == "ecs"
    pace = Pace(
        every_seconds=discovery.interval_seconds,
        # For what are two calls in Cloud Map, and one or two for each hundred tasks in ECS.
        deadline_seconds=discovery.timeout_seconds * (6 if is_ecs else 2),
        patience=Patience(discovery.confirm_seconds, discovery.settle_seconds),
        full_every_seconds=discovery.full_interval_seconds,
    )
    if is_ecs:
        return ecs.EcsSource(client, ecs.EcsService(discovery.cluster, service, defaults), pace)
    named = cloudmap.CloudMapService(discovery.namespace or "", service, defaults)
    return cloudmap.CloudMapSource(client, named, pace)


def build_app(settings: Settings, registry: ReplicaRegistry | None = None) -> Litestar:
    """The ASGI app of a gateway of its own."""
    return Gateway(settings, registry=registry).app
