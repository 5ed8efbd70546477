"""PURE. What a scenario is played on: the replicas, and the gateway before them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints

from emulator.faults import Fault
from emulator.protocol.script import MAX_STEPS, Generation
from emulator.replica.scaling import ScaleToZero
from emulator.replica.spec import names_of
from emulator.scenario.faults import Faults
from emulator.scenario.values import MOST, VARIABLE, Duration, Part, Pattern, Subprotocol, matching

MOST_REPLICAS = 500
MOST_CHUNK_BYTES = 64 * 1024 * 1024
MOST_SEGMENT_BYTES = 256 * 1024 * 1024
MOST_VARIABLE_BYTES = 100_000
"""Linux takes a little more for one, and some megabytes for all."""

Need = Literal["retry", "resume", "queue", "probes", "status", "drain", "sleep"]
"""What a gateway may be able to do beyond carrying a session."""
NEEDS: dict[Need, str] = {
    "retry": "try another replica when one does not take a connection",
    "resume": "move a running session to another replica",
    "queue": "let clients wait while every replica is full",
    "probes": "ask the replicas' health routes, and keep sessions from the unhealthy ones",
    "status": "tell on GET /status what it thinks of each replica",
    "drain": "end in order when it is told to, and let sessions go on until then",
    "sleep": "leave replicas alone that sleep, and wake one when a session needs it",
}
"""What each need means."""


class Sleep(Part):
    """How a replica scales to zero: asleep it costs nothing, and whatever comes wakes it, a probe too."""

    idle: Duration = 60.0
    """Without a request or a session for so long, it sleeps."""
    wake: Duration = 5.0
    """From what wakes it until it is warm; whoever came waits so long."""


class _Traits(Part):
    """What one replica or all of them may be given; left out is the default or what all have."""

    capacity: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """Sessions at a time (4); one more is refused in band."""
    segment_seconds: Duration | None = None
    """How long a segment takes (0.2)."""
    steps: Annotated[StrictInt, Field(ge=1, le=MAX_STEPS)] | None = None
    """Messages `step_complete` of a segment (4)."""
    chunks: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """Binary messages of a segment after the first (3)."""
    chunk_bytes: Annotated[StrictInt, Field(ge=1, le=MOST_CHUNK_BYTES)] | None = None
    """Size of each of them (16384)."""
    segment_cap: Annotated[StrictInt, Field(ge=1, le=MOST)] | None = None
    """Segments after which the replica ends a session; left out is no end."""
    session_timeout: Annotated[Duration, Field(gt=0)] | None = None
    """Silence of the client after which the replica ends its session (120)."""
    subprotocols: tuple[Subprotocol, ...] | None = None
    """WebSocket subprotocols that it speaks, best first (none)."""
    ping_interval: Annotated[Duration, Field(gt=0)] | None = None
    """Between its own pings (20)."""
    ping_timeout: Annotated[Duration, Field(gt=0)] | None = None
    """Without any sign of life for this long after a ping, it closes the session (20)."""
    scale_to_zero: Sleep | None = None
    """It sleeps while nobody uses it; left out is never. `{}` is with the defaults."""
    gateway: dict[str, Any] | None = None
    """More keys of its entry in GATEWAY_ROUTER__REPLICAS, beside url, name and max_sessions, such as
    `{primary: true}`; they win. `max_sessions` is the capacity unless it is given here, and `cold_start` is
    true for one that scales to zero."""
    faults: Faults = Faults()
    """Faults that stand from the start, by name."""


class Own(_Traits):
    """What is different about one replica."""


class Plan(Part):
    """One replica, with all that was left out filled in."""

    name: str
    capacity: int
    segment_seconds: float
    steps: int
    chunks: int
    chunk_bytes: int
    segment_cap: int | None
    session_timeout: float
    subprotocols: tuple[str, ...]
    ping_interval: float
    ping_timeout: float
    scale_to_zero: Sleep | None
    gateway: dict[str, Any]
    """Keys of its entry in GATEWAY_ROUTER__REPLICAS, without url and name."""
    faults: tuple[Any, ...]
    """Fault values, which stand from the start."""

    @property
    def generation(self) -> Generation:
        """How it generates."""
        return Generation(
            segment_seconds=self.segment_seconds,
            steps=self.steps,
            chunks=self.chunks,
            chunk_bytes=self.chunk_bytes,
            segment_cap=self.segment_cap,
            session_timeout_seconds=self.session_timeout,
        )

    @property
    def scaling(self) -> ScaleToZero | None:
        """How it sleeps."""
        sleep = self.scale_to_zero
        return None if sleep is None else ScaleToZero(idle_seconds=sleep.idle, wake_seconds=sleep.wake)


_DEFAULTS: dict[str, Any] = {
    "capacity": 4,
    "segment_seconds": 0.2,
    "steps": 4,
    "chunks": 3,
    "chunk_bytes": 16384,
    "segment_cap": None,
    "session_timeout": 120.0,
    "subprotocols": (),
    "ping_interval": 20.0,
    "ping_timeout": 20.0,
    "scale_to_zero": None,
}


class Replicas(_Traits):
    """The replicas: called a, b, c and so on, all alike but for what `each` says."""

    count: Annotated[StrictInt, Field(ge=1, le=MOST_REPLICAS)] = 3
    """How many."""
    isolate: Literal["none", "process"] = "none"
    """`process` makes each one a process of its own, so that kill and pause are real signals."""
    media: Literal["filler", "mp4"] = "filler"
    """What segments are made of: bytes that only look random, or real video (needs the extra `media`)."""
    each: dict[Pattern, Own] = Field(default_factory=dict)
    """What is different about some, by name or pattern; where several fit, later ones win."""

    @property
    def names(self) -> list[str]:
        """Of all replicas, in order."""
        return names_of(self.count)

    def plan(self, name: str) -> Plan:
        """The replica of that name."""
        layers: list[_Traits] = [self, *(own for key, own in self.each.items() if matching([key], [name]))]
        traits = dict(_DEFAULTS)
        entry: dict[str, Any] = {}
        faults: dict[str, Fault] = {}
        for layer in layers:
            traits |= {key: value for key in _DEFAULTS if (value := getattr(layer, key)) is not None}
            entry |= layer.gateway or {}
            faults |= {fault.name: fault for fault in layer.faults.faults}
        cold = {"cold_start": True} if traits["scale_to_zero"] is not None else {}
        entry = {"max_sessions": traits["capacity"], **cold, **entry}
        return Plan(name=name, **traits, gateway=entry, faults=tuple(faults.values()))


def as_variable(value: Any) -> str:
    """An environment variable's value, as a process gets it."""
    return value if isinstance(value, str) else json.dumps(value)


def _passable(value: Any) -> Any:
    text = as_variable(value)
    if "\0" in text:
        raise ValueError("should be text without a zero byte, which no environment variable can have")
    if len(text.encode()) > MOST_VARIABLE_BYTES:
        raise ValueError(f"should have at most {MOST_VARIABLE_BYTES} bytes, as an environment variable")
    return value


class Gateway(Part):
    """The gateway before the replicas. The environment is for `--start-gateway` only."""

    environment: dict[
        Annotated[str, StringConstraints(pattern=VARIABLE)], Annotated[Any, AfterValidator(_passable)]
    ] = Field(default_factory=dict)
    """Variables for its process; lists and mappings become JSON, true and false stay so."""
    needs: tuple[Need, ...] = ()
    """What a gateway has to be able to do, beside what follows from the rest of the scenario."""
    wait_for: Literal["ready", "listening"] = "ready"
    """When the play begins: once `GET /readyz` of the gateway is 200 (or it has no such route), or once its
    port is open. `listening` is for scenarios that begin without a healthy replica."""
