"""PURE. Which farm a test asks for: the keywords of `@pytest.mark.farm`, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from emulator.faults import BadFault, Fault, Flaky, fault_from
from emulator.replica.scaling import ScaleToZero
from emulator.replica.spec import names_of, unknown_among
from emulator.wording import mismatch

Isolation = Literal["none", "process"]
Media = Literal["filler", "mp4"]
Faults = Mapping[str, Sequence[Fault]]


class BadMark(ValueError):
    """The text says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A farm's options; each is a keyword of the marker."""

    replicas: int | Sequence[str] = 3
    """How many, called a, b, c and so on; or their names."""
    capacity: int = 4
    """Sessions that each takes at a time."""
    seed: int = 0
    """Of everything random."""
    segment_seconds: float = 0.05
    """How long a segment takes."""
    flaky: Sequence[str] = ()
    """Names of replicas that break about half of their sessions."""
    faults: Mapping[str, Any] = field(default_factory=dict)
    """What stands from the start, by replica: `{"a": {"stall": {"seconds": 2}}}`, or faults as values."""
    scale_to_zero: Mapping[str, ScaleToZero] = field(default_factory=dict)
    """Those that sleep while nobody uses them: `{"a": {"idle_seconds": 60, "wake_seconds": 5}}`."""
    isolate: Isolation = "none"
    """`process`: each replica is a process of its own, so that kill and pause are real signals."""
    media: Media = "filler"
    """`mp4`: real video, which needs the extra `media`."""
    subprotocols: Sequence[str] = ()
    """What the replicas speak, best first."""
    ping_interval_seconds: float = 20.0
    """Between a replica's own pings."""
    ping_timeout_seconds: float = 20.0
    """Without any sign of life for this long after a ping, it closes the session."""

    def __post_init__(self) -> None:
        if not self.names or len(set(self.names)) != len(self.names):
            raise BadMark(f"replicas: one at least, and no name twice, not {self.replicas!r}")
        if unknown := unknown_among([*self.flaky, *self.faults, *self.scale_to_zero], self.names):
            raise BadMark(f"there is no replica {unknown[0]!r}; there are: {', '.join(self.names)}")
        self.standing()

    @property
    def names(self) -> list[str]:
        """Of the replicas, in order."""
        return names_of(self.replicas) if isinstance(self.replicas, int) else list(self.replicas)

    def standing(self) -> Faults:
        """The faults that stand from the start, by replica. Raises BadMark."""
        return {
            name: [
                *([Flaky()] if name in self.flaky else ()),
                *_faults_in(self.faults.get(name, {}), f"faults of {name}"),
            ]
            for name in self.names
        }


class _Sleep(msgspec.Struct, forbid_unknown_fields=True):
    """A `ScaleToZero` as it is written."""

    idle_seconds: Annotated[float, msgspec.Meta(ge=0)] = ScaleToZero().idle_seconds
    wake_seconds: Annotated[float, msgspec.Meta(ge=0)] = ScaleToZero().wake_seconds


Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]
_TYPES: Mapping[str, Any] = {
    "replicas": Count | list[str],
    "capacity": Count,
    "seed": int,
    "segment_seconds": Seconds,
    "flaky": list[str],
    "scale_to_zero": dict[str, _Sleep],
    "isolate": Isolation,
    "media": Media,
    "subprotocols": list[str],
    "ping_interval_seconds": Seconds,
    "ping_timeout_seconds": Seconds,
}


def wanted_from(
    marks: Iterable[tuple[Sequence[Any], Mapping[str, Any]]], *, replicas: int, seed: int
) -> Wanted:
    """The farm that a test's marks ask for, the nearest mark first; `replicas` and `seed` where none says so.
    Raises BadMark."""
    options: dict[str, Any] = {"replicas": replicas, "seed": seed}
    known = [entry.name for entry in dataclasses.fields(Wanted)]
    for positional, keywords in reversed(list(marks)):
        if positional:
            raise BadMark(f"it takes keywords only, as in replicas=3, not {positional[0]!r}")
        if unknown := [key for key in keywords if key not in known]:
            raise BadMark(f"there is no {unknown[0]!r}; there are: {', '.join(known)}")
        options |= keywords
    return Wanted(**{name: _checked(name, value) for name, value in options.items()})


def _checked(name: str, value: Any) -> Any:
    """The keyword's value, of the type that it has to have. Raises BadMark."""
    try:
        if name == "faults":
            return value
        converted = msgspec.convert(value, _TYPES[name])
        if name == "scale_to_zero":
            return {
                who: ScaleToZero(sleep.idle_seconds, sleep.wake_seconds) for who, sleep in converted.items()
            }
        return converted
    except msgspec.ValidationError as error:
        wrong = mismatch(value, _TYPES[name]) or f"{str(error).replace('`', '')}, not {value!r}"
        raise BadMark(f"{name}: {wrong}") from error


def _faults_in(told: Any, where: str) -> list[Fault]:
    """A fault, several of them, or their fields by name."""
    if isinstance(told, Fault):
        return [told]
    if isinstance(told, Mapping):
        try:
            return [fault_from(name, fields or {}) for name, fields in told.items()]
        except BadFault as error:
            raise BadMark(f"{where}: {error}") from error
    if isinstance(told, Sequence) and all(isinstance(each, Fault) for each in told):
        return list(told)
    example = '{"stall": {"seconds": 2}}'
    raise BadMark(f"{where}: fields by name, as in {example}, or faults as values, not {told!r}")
