"""PURE. Where a fleet's entries are kept, as a port. One behaviour suite runs over every adapter.

Time is the store's alone: expiry, `since` and a view's `at` never depend on a member's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from gateway.errors import FleetRefused
from gateway.fleet.encoding import encode_payload, microseconds
from gateway.fleet.member import NOTHING, MemberState, Report, checked_id
from gateway.fleet.spec import FleetSpec
from gateway.fleet.view import FleetView


@dataclass(frozen=True, slots=True)
class Beat:
    """What a member says in one beat."""

    member_id: str
    """Whose entry this is."""
    state: MemberState = MemberState.SERVING
    """Where the member is in its life."""
    report: Report = field(default_factory=lambda: NOTHING, hash=False)
    """What it says of itself."""
    incarnation: str = ""
    """Names the process behind the id: no second process has the same. Text without tab or newline."""
    number: int = 0
    """How many beats this incarnation has begun before: one that comes late does not undo a newer one."""
    ttl: timedelta | None = None
    """How long the entry lives; the spec's ttl where this is None. No other entry lives shorter by it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a beat returns."""

    view: FleetView
    """Everyone alive, the entry just written included."""
    found: str | None
    """The incarnation that had written the entry before; None where there was none, or it had expired."""
    written: bool
    """False where a later beat of the same incarnation had been applied already: then nothing was written."""


class FleetStore(Protocol):
    """One fleet in one store.

    FleetRefused means that nothing was sent. FleetUnavailable, and cancelling a call, leave open whether it
    was applied: each call may be made again.
    """

    @property
    def spec(self) -> FleetSpec:
        """The fleet that this is."""
        ...

    async def beat(self, beat: Beat) -> Answer:
        """Afterwards the entry is written and lives for its ttl, expired entries are removed, and the answer
        has all that are left.

        `since` stays what it was for as long as an entry of that id was alive, whoever wrote it.
        """
        ...

    async def view(self) -> FleetView:
        """Everyone alive. Writes nothing."""
        ...

    async def leave(self, member_id: str, *, incarnation: str | None = None) -> bool:
        """Afterwards the id has no entry, and the result says whether it had a live one.

        With `incarnation`, an entry of another one stays, and the result is False.
        """
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """A beat that may be sent: everything in it as the store takes it."""

    member_id: bytes
    incarnation: bytes
    number: int
    ttl_us: int
    usual_ttl_us: int
    payload: bytes


def checked_beat(beat: Beat, spec: FleetSpec) -> Checked:
    """The beat as it is sent. Raises FleetRefused for whatever breaks a rule."""
    ttl = beat.ttl if beat.ttl is not None else spec.ttl
    if ttl < timedelta(milliseconds=1):
        raise FleetRefused(f"an entry's ttl should be at least a millisecond, not {ttl}")
    if not 0 <= beat.number < 2**53:
        raise FleetRefused(f"a beat's number should be from 0 to 2**53, not {beat.number}")
    return Checked(
        checked_id(beat.member_id).encode(),
        checked_incarnation(beat.incarnation),
        beat.number,
        microseconds(ttl),
        microseconds(spec.ttl),
        encode_payload(MemberState(beat.state), beat.report, spec.report_max_bytes),
    )


def checked_incarnation(incarnation: str) -> bytes:
    """The incarnation as it is sent; FleetRefused where it could not be read back."""
    if "\t" in incarnation or "\n" in incarnation:
        raise FleetRefused(f"an incarnation should have no tab and no newline: {incarnation!r}")
    return incarnation.encode()


def read_incarnation(found: bytes | None) -> str | None:
    """The incarnation as a store returns it."""
    return found.decode(errors="replace") if found is not None else None
