"""PURE. What changes about replicas, as the registry tells it to those who listen."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.replicas.model import ReplicaStatus


@dataclass(frozen=True, slots=True)
class ReplicaJoined:
    url: str


@dataclass(frozen=True, slots=True)
class ReplicaRemoved:
    """The replica is no longer listed; its sessions are still there, where it has any."""

    url: str


@dataclass(frozen=True, slots=True)
class ReplicaGone:
    """The replica was removed, and its last lease has ended."""

    url: str


@dataclass(frozen=True, slots=True)
class StatusChanged:
    url: str
    before: ReplicaStatus
    after: ReplicaStatus
    reason: str


@dataclass(frozen=True, slots=True)
class PlaceFreed:
    """The replica may take a session that it could not take before: a lease ended, here or at
    another gateway, it became healthy, its limit rose, it is no longer draining, removed, refusing or
    ejected. It may still be full.
    """

    url: str


@dataclass(frozen=True, slots=True)
class ReplicaSlept:
    """The replica is left in peace from now on, and takes sessions by being woken."""

    url: str


@dataclass(frozen=True, slots=True)
class ReplicaWoke:
    """The replica sleeps no longer: a session has reached it, or has tried for long enough."""

    url: str


@dataclass(frozen=True, slots=True)
class PlacesWithdrawn:
    """The replica takes no new session: somebody drains it, or it was removed."""

    url: str


RegistryEvent = (
    ReplicaJoined
    | ReplicaRemoved
    | ReplicaGone
    | ReplicaSlept
    | ReplicaWoke
    | StatusChanged
    | PlaceFreed
    | PlacesWithdrawn
)
