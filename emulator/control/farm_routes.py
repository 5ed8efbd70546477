"""/farm, /sessions, /reset: all replicas at once."""

from __future__ import annotations

from litestar import MediaType, get, post

from emulator.console import exports
from emulator.control.answers import FarmStatus, OpenSession, ReplicaStatus
from emulator.control.description import operation
from emulator.control.given import TheFarm, TheFeed, TheSessions, status_of
from emulator.control.problems import NotListed

TAGS = ["farm"]


@get("/", sync_to_thread=False, include_in_schema=False)
def index() -> dict[str, str]:
    """Where to look first."""
    names = ("farm", "replicas", "sessions", "faults", "events", "player", "schema")
    return {name: f"/{name}" for name in names} | {"openapi": "/schema/openapi.json"}


@get("/farm", sync_to_thread=False, tags=TAGS, operation_id="showFarm", operation_class=operation())
def show_farm(farm: TheFarm, feed: TheFeed, sessions: TheSessions) -> FarmStatus:
    """Everything at a glance: replicas, open sessions, and where the event log stands."""
    return FarmStatus(
        replicas=[status_of(replica) for replica in farm.replicas.values()],
        sessions=sessions.open(),
        last_event=farm.log.last,
        waiting=feed.waiting,
    )


@get(
    "/sessions",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="listAllSessions",
    operation_class=operation(),
)
def list_all_sessions(sessions: TheSessions) -> list[OpenSession]:
    """The sessions that are open now on all replicas, the oldest first."""
    return sessions.open()


@get(
    "/environment",
    sync_to_thread=False,
    media_type=MediaType.TEXT,
    tags=TAGS,
    operation_id="showEnvironment",
    operation_class=operation(problems=[404]),
)
def show_environment(farm: TheFarm) -> str:
    """Lines for a shell with which a gateway finds the replicas, where they are listed in Cloud Map."""
    if not farm.environment:
        raise NotListed("the replicas are listed nowhere: start the emulator with --cloudmap")
    return "".join(f"{line}\n" for line in exports(farm.environment))


@post("/reset", status_code=200, tags=TAGS, operation_id="reset", operation_class=operation())
async def reset(farm: TheFarm) -> list[ReplicaStatus]:
    """No faults (those of the command line neither), every replica running. Sessions go on where they can;
    events and counters are kept."""
    await farm.reset()
    return [status_of(replica) for replica in farm.replicas.values()]


HANDLERS = (index, show_farm, list_all_sessions, show_environment, reset)
