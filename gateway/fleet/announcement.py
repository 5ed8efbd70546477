"""PURE. What a streamer says of itself in a fleet, and how it is read.

A report has these keys; any other is left for later versions, and `load` is for whoever looks at the fleet:

    url        where it is reached, as in http://host:8000
    name       what people call it; without it, host:port
    capacity   sessions that it takes at once; 0 takes none now, without it there is no limit
    load       sessions that it has, whoever sent them
    weight     its share beside the others' under a weighted policy; without it, 1
    primary    1 for one that gets sessions before the others
    cold_start 1 for one that sleeps until somebody needs it, and is announced by somebody else

Who may write into the fleet decides where sessions go: the store's access lists are what keeps others out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from gateway.errors import FleetRefused
from gateway.fleet.member import FleetMember, Report, ReportValue
from gateway.fleet.view import LOAD
from gateway.replicas.endpoint import ReplicaEndpoint, is_finite, is_whole

FLEET = "replicas"
"""What the streamers' fleet is called unless somebody says otherwise: the default of `discovery.name`."""
NAMESPACE = "streamhold"
"""As in `fleet.namespace`."""
TTL = timedelta(seconds=10)
"""As in `fleet.ttl_seconds`."""

URL, NAME, CAPACITY, WEIGHT, PRIMARY = "url", "name", "capacity", "weight", "primary"
COLD_START = "cold_start"


@dataclass(frozen=True, slots=True)
class Announcement:
    """A streamer as it announces itself. Raises FleetRefused where no gateway would take it for a replica."""

    url: str
    """HTTP base URL under which the gateways reach it."""
    name: str | None = None
    """What people call it; None is host:port."""
    capacity: int | None = None
    """Sessions that it takes at once; 0 takes none now, None is no limit."""
    weight: float = 1.0
    """Its share beside the others' under a weighted policy."""
    primary: bool = False
    """Gets sessions before the others as long as it is healthy."""
    cold_start: bool = False
    """Sleeps while nobody needs it: somebody else announces it."""
    endpoint: ReplicaEndpoint = field(init=False)
    """The replica that this is for a gateway."""

    def __post_init__(self) -> None:
        if self.capacity is not None and not (is_whole(self.capacity) and self.capacity >= 0):
            raise FleetRefused(f"{CAPACITY} should be a whole number of 0 or more, not {self.capacity!r}")
        if not is_finite(self.weight):
            raise FleetRefused(f"{WEIGHT} should be a finite number, not {self.weight!r}")
        endpoint = ReplicaEndpoint(
            self.url,
            self.name,
            bool(self.primary),
            float(self.weight),
            self.capacity or None,
            bool(self.cold_start),
        )
        for place, message in endpoint.problems():
            # Before an @ may be a password, and a URL that is none gives no way to tell where it ends.
            private = place == URL and "@" in str(self.url)
            raise FleetRefused("the url has a user name or a password in it" if private else message)
        object.__setattr__(self, "endpoint", endpoint)

    @property
    def has_places(self) -> bool:
        """Whether it takes any session at all."""
        return self.capacity != 0

    def report(self, load: int | None = None) -> Report:
        """What its member reports, with the sessions that it has where that is known."""
        said: dict[str, ReportValue] = {URL: self.url}
        if self.name is not None:
            said[NAME] = self.name
        if self.capacity is not None:
            said[CAPACITY] = self.capacity
        if load is not None:
            said[LOAD] = load
        if self.weight != 1:
            said[WEIGHT] = float(self.weight)
        if self.primary:
            said[PRIMARY] = 1
        if self.cold_start:
            said[COLD_START] = 1
        return said


def read_announcement(member: FleetMember) -> Announcement:
    """What `member` announces. Raises FleetRefused, in the reader's words, where it is no replica."""
    report = member.report
    url, name = report.get(URL), report.get(NAME)
    if url is None:
        raise FleetRefused(f"it announces no {URL}")
    if not isinstance(url, str):
        raise FleetRefused(f"{URL} should be text, as in http://host:8000, not {url!r}")
    if name is not None and not isinstance(name, str):
        raise FleetRefused(f"{NAME} should be text, not {name!r}")
    return Announcement(
        url, name, _capacity(report), _weight(report), _truth(PRIMARY, report), _truth(COLD_START, report)
    )


def _truth(key: str, report: Report) -> bool:
    value = report.get(key, 0)
    if value not in (0, 1):
        raise FleetRefused(f"{key} should be 0 or 1, not {value!r}")
    return value == 1


def _capacity(report: Report) -> int | None:
    capacity = report.get(CAPACITY)
    if isinstance(capacity, float) and capacity.is_integer():
        return int(capacity)
    if capacity is None or is_whole(capacity):
        return capacity  # type: ignore[return-value]
    raise FleetRefused(f"{CAPACITY} should be a whole number of 0 or more, not {capacity!r}")


def _weight(report: Report) -> float:
    weight = report.get(WEIGHT, 1.0)
    if isinstance(weight, str):
        raise FleetRefused(f"{WEIGHT} should be a number of 0 or more, not {weight!r}")
    return weight
