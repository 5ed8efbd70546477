"""PURE. What a replica is: its name, its port, how much it takes and how it generates."""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address

from emulator.protocol.script import Generation
from emulator.replica.scaling import ScaleToZero

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Above what an init message with an image of 32 MiB needs."""
SESSION_PATHS = ("/v1/stream", "/ws")
HEALTH_PATHS = ("/health", "/healthz", "/readyz", "/status")
MAX_PORT = 65535
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica."""

    name: str
    host: str = LOOPBACK
    """An address or a name of this machine, or all of its addresses (0.0.0.0, ::)."""
    port: int = 0
    """0 for any free one."""
    capacity: int = 4
    """Sessions at a time; one more is accepted and then rejected in band."""
    seed: int = 0
    """Of every random draw."""
    generation: Generation = field(default_factory=Generation)
    subprotocols: tuple[str, ...] = ()
    """What it speaks, best first; it answers the first one that the client offers, or none."""
    ping_interval_seconds: float = 20.0
    """Between its own pings."""
    ping_timeout_seconds: float = 20.0
    """Without any sign of life for this long after a ping, the session is closed."""
    scale_to_zero: ScaleToZero | None = None
    """It sleeps while nobody uses it; None for one that never does."""

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise ValueError(f"capacity must be 1 or more, not {self.capacity}")
        if not 0 <= self.port <= MAX_PORT:
            raise ValueError(f"port must be 0 to {MAX_PORT}, not {self.port}")


def is_any(host: str) -> bool:
    """Whether `host` stands for every address of this machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def base_url(host: str, port: int) -> str:
    """How what listens on `host` is reached, from this machine where that is every address."""
    if is_any(host):
        host = "::1" if ":" in host else LOOPBACK
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def name_of(index: int) -> str:
    """a to z, then aa, ab and so on; `index` counts from 0."""
    name = ""
    index += 1
    while index > 0:
        index, letter = divmod(index - 1, 26)
        name = string.ascii_lowercase[letter] + name
    return name


def names_of(count: int) -> list[str]:
    """The first `count` names."""
    return [name_of(index) for index in range(count)]


def unknown_among(wanted: Iterable[str], names: Iterable[str]) -> list[str]:
    """The wanted names that no replica has."""
    known = set(names)
    return [name for name in wanted if name not in known]
