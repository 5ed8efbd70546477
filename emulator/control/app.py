"""The control API over a running farm: JSON over HTTP, for people with curl and for tests. Loopback only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Litestar, Request
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, ControllerRouterHandler

from emulator.control import event_routes, farm_routes, fault_routes, replica_routes
from emulator.control.description import CONFIG, complete
from emulator.control.feed import Feed
from emulator.control.front import Front
from emulator.control.lines import JsonLine
from emulator.control.problems import tell, tell_defect
from emulator.control.sessions import Sessions
from emulator.farm import Farm
from emulator.player import routes as player_routes

HANDLERS: Sequence[ControllerRouterHandler] = (
    *farm_routes.HANDLERS,
    *replica_routes.HANDLERS,
    *fault_routes.HANDLERS,
    *event_routes.HANDLERS,
    *player_routes.HANDLERS,
)
"""Every route; a further one needs no more than its line here."""


def build_control(farm: Farm, feed: Feed, sessions: Sessions) -> ASGIApp:
    """The API. `sessions` hears the farm's log from its first event on, whoever subscribes it."""
    return Front(_routes(farm, feed, sessions))


def _routes(farm: Farm, feed: Feed, sessions: Sessions) -> Litestar:
    return Litestar(
        route_handlers=list(HANDLERS),
        dependencies={
            "farm": Provide(lambda: farm, sync_to_thread=False),
            "feed": Provide(lambda: feed, sync_to_thread=False),
            "sessions": Provide(lambda: sessions, sync_to_thread=False),
        },
        before_request=_before,
        response_class=JsonLine,
        exception_handlers={HTTPException: tell, Exception: tell_defect},
        openapi_config=CONFIG,
        logging_config=None,
    )


def _before(request: Request[Any, Any, Any]) -> None:
    if request.scope["path"].startswith("/schema"):
        # Made when it is first asked for: most farms live and die without that.
        complete(request.app)
