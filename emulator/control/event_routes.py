"""/events: what the replicas saw; by page, by page as soon as there is one, or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.datastructures import ResponseHeader
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter
from litestar.types import ASGIApp, Receive, Scope, Send

from emulator.control.answers import EventPage
from emulator.control.description import operation
from emulator.control.feed import Feed, TooManyWaiting, Waiter
from emulator.control.given import TheFarm, TheFeed, replica_named
from emulator.control.problems import BadQuery, Crowded
from emulator.events import DEFAULT_LIMIT, KINDS, Event, EventLog, Wanted
from emulator.farm import Farm
from emulator.wording import did_you_mean

MAX_LIMIT = 10_000
MAX_WAIT_SECONDS = 60.0
STREAM_BATCH = 100
"""Events that a stream takes from the log at a time: what a slow reader makes it hold."""
QUIET_SECONDS = 15.0
"""Without an event for so long a stream says that it lives."""
TAGS = ["events"]
NARROWING = ("after", "replica", "kind", "session")
"""The parameters that say which events."""
AnyRequest = Request[Any, Any, Any]

After = Annotated[int, QueryParameter(ge=0, description="Only events with a higher number.")]
OfReplica = Annotated[str | None, QueryParameter(description="Only this replica's.")]
OfKinds = Annotated[
    list[str] | None,
    QueryParameter(description="Only of this kind, as in `GET /events/kinds`; repeatable."),
]
OfSession = Annotated[
    int | None,
    QueryParameter(ge=1, description="Only of this session, as the replica counts them."),
]


@get(
    "/events",
    tags=TAGS,
    operation_id="listEvents",
    operation_class=operation(problems=[400, 404, 429]),
)
async def events(
    farm: TheFarm,
    feed: TheFeed,
    request: AnyRequest,
    after: After = 0,
    replica: OfReplica = None,
    kind: OfKinds = None,
    session: OfSession = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=MAX_LIMIT, description="At most this many.")
    ] = DEFAULT_LIMIT,
    wait_seconds: Annotated[
        float,
        QueryParameter(
            ge=0,
            le=MAX_WAIT_SECONDS,
            description="Without an event to tell, wait so long for one; the answer comes with the first.",
        ),
    ] = 0.0,
) -> EventPage:
    """What the replicas saw, oldest first. Ask again with `after` set to the answer's `last`."""
    _check_names(request, *NARROWING, "limit", "wait_seconds")
    wanted = _wanted(farm, feed.log, after, replica, kind, session)
    page = _page(feed.log, after, wanted, limit)
    if page.events or not wait_seconds:
        return page
    try:
        with feed.waiter(wanted) as waiter:
            await _pause_while_there(request.receive, waiter, wait_seconds)
    except TooManyWaiting as error:
        raise Crowded(
            f"{feed.waiting} requests wait for events already: ask without wait_seconds, or later",
            headers={"Retry-After": "1"},
        ) from error
    return _page(feed.log, after, wanted, limit)


@get(
    "/events/stream",
    tags=TAGS,
    operation_id="streamEvents",
    operation_class=operation(problems=[400, 404, 429]),
    responses={
        200: ResponseSpec(
            str,
            media_type="text/event-stream",
            generate_examples=False,
            description="Server-sent events: `id` is the number, `event` the kind, `data` the event as JSON.",
        )
    },
    response_headers=[ResponseHeader(name="Cache-Control", value="no-store", documentation_only=True)],
)
async def stream(
    farm: TheFarm,
    feed: TheFeed,
    request: AnyRequest,
    after: After = 0,
    replica: OfReplica = None,
    kind: OfKinds = None,
    session: OfSession = None,
    last_event_id: Annotated[
        int | None,
        HeaderParameter(name="Last-Event-ID", ge=0, description="In place of `after`: the browser is back."),
    ] = None,
) -> ASGIApp:
    """Every event as it comes, as server-sent events, from the one after `after` on; without an end."""
    after = after if last_event_id is None else last_event_id
    _check_names(request, *NARROWING)
    wanted = _wanted(farm, feed.log, after, replica, kind, session)
    if feed.is_full:
        raise Crowded(f"{feed.waiting} requests wait for events already: come later")
    return EventStream(feed, after, wanted)


@get(
    "/events/kinds",
    sync_to_thread=False,
    tags=TAGS,
    operation_id="listEventKinds",
    operation_class=operation(),
)
def kinds() -> dict[str, str]:
    """The kinds of events, with what their detail says."""
    return dict(KINDS)


class EventStream:
    """An ASGI answer that lasts until the client leaves or the server stops."""

    def __init__(self, feed: Feed, after: int, wanted: Wanted) -> None:
        self._feed = feed
        self._after = after
        self._wanted = wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        with self._feed.waiter(self._wanted) as waiter:
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(waiter, send))
                leaving = group.create_task(until_gone(receive))
                await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
                telling.cancel()
                leaving.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, waiter: Waiter, send: Send) -> None:
        while not self._feed.closed:
            page = _page(self._feed.log, self._after, self._wanted, STREAM_BATCH)
            self._after = page.last
            lines = b"".join(as_message(event) for event in page.events)
            if not lines and not await waiter.pause(QUIET_SECONDS):
                lines = b": nothing new\n\n"
            if lines:
                await send({"type": "http.response.body", "body": lines, "more_body": True})


def as_message(event: Event) -> bytes:
    """The event as a server-sent one."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), msgspec.json.encode(event))


async def until_gone(receive: Receive) -> None:
    """Return once the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pause_while_there(receive: Receive, waiter: Waiter, seconds: float) -> None:
    """Return once woken, after so long, or as soon as the client has left."""
    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(until_gone(receive))
        leaving.add_done_callback(lambda _: waiter.wake())
        await waiter.pause(seconds)
        leaving.cancel()


def _page(log: EventLog, after: int, wanted: Wanted, limit: int) -> EventPage:
    page = log.page(after, replica=wanted.replica, kinds=wanted.kinds, session=wanted.session, limit=limit)
    return EventPage(list(page.events), page.last, page.dropped)


def _check_names(request: AnyRequest, *known: str) -> None:
    """A parameter that nobody reads would be taken for one that narrows nothing down."""
    if unknown := [name for name in request.query_params if name not in known]:
        hint = did_you_mean(unknown[0], known)
        raise BadQuery(f"{unknown[0]}: is no parameter here{hint}; there are: {', '.join(known)}")


def _wanted(
    farm: Farm,
    log: EventLog,
    after: int,
    replica: str | None,
    of_kinds: Sequence[str] | None,
    session: int | None,
) -> Wanted:
    if replica is not None:
        replica_named(farm, replica)
    for kind in of_kinds or ():
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS)
            raise BadQuery(f"kind: there are no events {kind!r}{hint}; there are: {', '.join(KINDS)}")
    if after > log.last:
        raise BadQuery(
            f"after: {after} is higher than the newest event's number, {log.last}: the emulator was started "
            "anew; begin with 0"
        )
    return Wanted(replica, frozenset(of_kinds or ()), session)


HANDLERS = (events, stream, kinds)
