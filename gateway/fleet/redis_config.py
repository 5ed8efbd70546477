"""PURE. Where a fleet is in Redis: two keys under one hash tag, so that a cluster keeps them together."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.fleet.spec import FleetSpec, checked_name


@dataclass(frozen=True, slots=True)
class RedisFleetConfig:
    """Where one fleet's keys are, among whatever else that Redis holds.

    A fleet is one for the whole service: nothing here could split it by client or tenant.
    """

    namespace: str
    """First part of the keys: tells one application's fleets from another's. Text without tab, newline or
    brace.
    """

    def __post_init__(self) -> None:
        checked_name(self.namespace, "a fleet's namespace")

    def keys(self, spec: FleetSpec) -> tuple[str, str]:
        """The sorted set of ids by expiry, and the hash of entries by id. No two fleets share one: a fleet's
        name has no colon.
        """
        tag = f"{{fleet:{self.namespace}:{spec.name}}}"
        return f"{tag}:z", f"{tag}:h"
