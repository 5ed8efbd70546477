"""PURE. What may stand in a request's body, and what is said of one that may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from emulator.wording import NAME_PATTERN, shown, unknown_field, wrong_value

Seconds = Annotated[float, msgspec.Meta(ge=0)]
MoreThanNothing = Annotated[float, msgspec.Meta(gt=0)]


class BadBody(ValueError):
    """The text says what would be right."""


class KillBody(msgspec.Struct, forbid_unknown_fields=True):
    """How a replica dies."""

    restart_after_seconds: Seconds | None = None
    """It comes back after so long; null for not by itself."""
    warming_seconds: Seconds = 0.0
    """How long it is warming once back."""


class RestartBody(msgspec.Struct, forbid_unknown_fields=True):
    """How a replica comes back; one that runs is killed first."""

    after_seconds: Seconds = 0.0
    """How long it is away."""
    warming_seconds: Seconds = 0.0
    """How long it is warming once back."""


class PauseBody(msgspec.Struct, forbid_unknown_fields=True):
    """How long a replica stands still."""

    for_seconds: MoreThanNothing | None = None
    """Null for until it is resumed."""


class NewReplica(msgspec.Struct, forbid_unknown_fields=True):
    """A replica that joins; what is left out is as the others have it."""

    name: Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)] | None = None
    """Letters, digits, - and _; null for the first free one of a, b, c and so on."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """0 for any free one."""
    capacity: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Sessions that it takes at a time; null for as many as the first replica did."""
    warming_seconds: Seconds = 0.0
    """How long it is warming at first."""


BodyT = TypeVar("BodyT", bound=msgspec.Struct)


def object_in(raw: bytes) -> Mapping[str, Any]:
    """The JSON object in a body; an empty one for none. Raises BadBody."""
    if not raw.strip():
        return {}
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        reason = str(error).removeprefix("JSON is malformed: ")
        raise BadBody(f"the body must be a JSON object or empty, and is no JSON: {reason}") from error
    if not isinstance(body, dict):
        raise BadBody(f"the body must be a JSON object or empty, not {shown(body)}")
    return body


def body_in(raw: bytes, kind: type[BodyT]) -> BodyT:
    """What the body says, with the defaults for what is left out. Raises BadBody."""
    fields = object_in(raw)
    if (unknown := unknown_field(fields, kind)) is not None:
        raise BadBody(f"the body {unknown}")
    try:
        return msgspec.convert(fields, type=kind)
    except msgspec.ValidationError as error:
        raise BadBody(wrong_value(fields, kind) or str(error)) from error
