"""A fleet in this process's memory: the same model as the scripts in Redis, on a clock that can be moved.

For tests, for simulations, and for a single gateway that is to run as in a fleet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.clock import Clock, SystemClock
from gateway.fleet.encoding import decode_entry, moment
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Answer, Beat, checked_beat, checked_incarnation, read_incarnation
from gateway.fleet.view import FleetView

_SECOND_US = 1_000_000
_HEAD = re.compile(rb"(\d+)\t([^\t]*)\t(\d+)\t")
"""What the store itself writes and reads of an entry: since, incarnation, number."""


@dataclass(slots=True)
class MemoryTables:
    """What a store holds of one fleet: the two keys of Redis."""

    expiries: dict[bytes, int] = field(default_factory=dict)
    """Microsecond at which each entry expires, by id."""
    entries: dict[bytes, bytes] = field(default_factory=dict)
    """The entries, by id."""
    gone_at_us: int | None = None
    """When both tables go, whatever is in them; a full millisecond."""


class MemoryServer:
    """Fleets by name, and the clock that all of them go by: what one Redis is to many processes."""

    def __init__(self, now_us: Callable[[], int] | None = None, *, clock: Clock | None = None) -> None:
        """`now_us` tells the time in microseconds since the epoch; without it, `clock` does."""
        told: Clock = clock if clock is not None else SystemClock()
        self.now_us = now_us or (lambda: round(told.time() * _SECOND_US))
        self._tables: dict[str, MemoryTables] = {}

    def tables(self, name: str) -> MemoryTables:
        """The tables of the fleet of that name, empty once their time has come."""
        tables = self._tables.setdefault(name, MemoryTables())
        if tables.gone_at_us is not None and self.now_us() >= tables.gone_at_us:
            tables = self._tables[name] = MemoryTables()
        return tables

    def flush(self) -> None:
        """Afterwards no fleet has an entry."""
        self._tables.clear()


class MemoryFleetStore:
    """A `FleetStore` over a `MemoryServer`. No call waits, or fails unless it is refused."""

    def __init__(self, spec: FleetSpec, server: MemoryServer | None = None) -> None:
        self._spec = spec
        self._server = server if server is not None else MemoryServer()

    @property
    def spec(self) -> FleetSpec:
        return self._spec

    async def beat(self, beat: Beat) -> Answer:
        said = checked_beat(beat, self._spec)
        now, tables = self._server.now_us(), self._server.tables(self._spec.name)
        _drop_expired(tables, now)
        _repair(tables, now + said.usual_ttl_us)
        since, found, written = now, None, True
        if head := _HEAD.match(tables.entries.get(said.member_id, b"")):
            found = head[2]
            since = min(int(head[1]), now)
            written = not (found == said.incarnation and int(head[3]) > said.number)
        if written:
            fields = (b"%d" % since, said.incarnation, b"%d" % said.number, said.payload)
            tables.expiries[said.member_id] = now + said.ttl_us
            tables.entries[said.member_id] = b"\t".join(fields)
        _set_end(tables)
        return Answer(_view(tables, now), read_incarnation(found), written)

    async def view(self) -> FleetView:
        return _view(self._server.tables(self._spec.name), self._server.now_us())

    async def leave(self, member_id: str, *, incarnation: str | None = None) -> bool:
        now, tables = self._server.now_us(), self._server.tables(self._spec.name)
        key = member_id.encode()
        if (entry := tables.entries.get(key)) is None:
            return False
        if incarnation is not None:
            head = _HEAD.match(entry)
            if head is None or head[2] != checked_incarnation(incarnation):
                return False
        del tables.entries[key]
        expiry = tables.expiries.pop(key, None)
        _set_end(tables)
        return expiry is None or expiry > now


def _drop_expired(tables: MemoryTables, now: int) -> None:
    for member_id in [each for each, expiry in tables.expiries.items() if expiry <= now]:
        del tables.expiries[member_id]
        tables.entries.pop(member_id, None)


def _repair(tables: MemoryTables, expiry: int) -> None:
    """What one lost table left behind; see the scripts' fourth rule."""
    if len(tables.expiries) == len(tables.entries):
        return
    for member_id in tables.entries:
        tables.expiries.setdefault(member_id, expiry)
    for member_id in [each for each in tables.expiries if each not in tables.entries]:
        del tables.expiries[member_id]


def _set_end(tables: MemoryTables) -> None:
    """Both tables live a second longer than their last entry. Without any they are gone already."""
    if tables.expiries:
        tables.gone_at_us = -(-(max(tables.expiries.values()) + _SECOND_US) // 1000) * 1000


def _view(tables: MemoryTables, now: int) -> FleetView:
    expired = {each for each, expiry in tables.expiries.items() if expiry <= now}
    found = (decode_entry(*item) for item in tables.entries.items() if item[0] not in expired)
    return FleetView(moment(now), tuple(member for member in found if member is not None))
