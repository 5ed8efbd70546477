"""What goes wrong with a request, and the one shape in which it is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from litestar import Request, Response
from litestar.enums import ParamType
from litestar.exceptions import HTTPException

from emulator.control.answers import Problem
from emulator.control.lines import JsonLine
from emulator.wording import in_words

logger = logging.getLogger("emulator")


class Refused(HTTPException):
    """A request is not followed. Each class is a line in the API's description."""

    error = "bad_request"


class UnknownReplica(Refused):
    status_code = 404
    error = "unknown_replica"


class UnknownFault(Refused):
    status_code = 404
    error = "unknown_fault"


class NotListed(Refused):
    status_code = 404
    error = "not_listed"


class BadRequestBody(Refused):
    status_code = 400
    error = "bad_body"


class BadQuery(Refused):
    status_code = 400
    error = "bad_query"


class Forbidden(Refused):
    status_code = 403
    error = "forbidden"


class WrongState(Refused):
    """The replica, or the farm, is in no state for that."""

    status_code = 409
    error = "wrong_state"


class NameTaken(Refused):
    status_code = 409
    error = "name_taken"


class PortTaken(Refused):
    status_code = 409
    error = "port_busy"


class Crowded(Refused):
    status_code = 429
    error = "too_many_waiting"


_ERRORS: Mapping[int, str] = {400: "bad_query", 404: "not_found", 405: "method_not_allowed"}
"""What the routing itself finds wrong."""

PROBLEM_CODES = frozenset(
    [Refused.error, *(kind.error for kind in Refused.__subclasses__()), *_ERRORS.values(), "internal_error"]
)
"""Every `error` that an answer may name."""


def tell(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """The answer to a request that was refused."""
    code = error.error if isinstance(error, Refused) else _ERRORS.get(error.status_code, "bad_request")
    detail, path = error.detail, request.scope["path"]
    if isinstance(error.extra, list) and error.extra:
        # The routing found a parameter wrong, and says which.
        detail = "; ".join(_parameter(request, entry) for entry in error.extra)
    elif error.status_code == 413:
        detail = "the body is too large: no request needs that much"
    elif code == "not_found":
        detail = f"there is no {path}; the routes are described at /schema"
    elif code == "method_not_allowed":
        detail = f"{path} does not take {request.method}; the routes are described at /schema"
    return _answer(Problem(error.status_code, code, detail), error.headers)


def _parameter(request: Request[Any, Any, Any], found: Mapping[str, Any]) -> str:
    """What is wrong with a parameter, by the name and the value that the request has for it."""
    name = str(found.get("key"))
    if found.get("source") == ParamType.HEADER:
        name = "-".join(word.capitalize() for word in name.split("_")).replace("-Id", "-ID")
        return f"{name}: {in_words(str(found.get('message')), request.headers.get(name))}"
    return f"{name}: {in_words(str(found.get('message')), request.query_params.get(name))}"


def tell_defect(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """The answer after a defect of ours, whose traceback is in the log."""
    logger.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return _answer(Problem(500, "internal_error", "a defect of the emulator: its log tells more"), None)


def _answer(problem: Problem, headers: Mapping[str, str] | None) -> Response[Problem]:
    return JsonLine(problem, status_code=problem.status, headers=dict(headers or {}))
