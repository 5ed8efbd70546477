"""PURE. What is wrong with a scenario although each of its values is right: names that nobody has, steps that
can never come, expectations that can never be met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from emulator.events import KINDS
from emulator.faults import CATALOGUE
from emulator.protocol.messages import ClientMessage, ServerMessage
from emulator.scenario.expectations import OfReplica, OfSession
from emulator.scenario.faults import FaultAction
from emulator.scenario.model import Scenario
from emulator.scenario.stage import MOST_SEGMENT_BYTES
from emulator.scenario.text import Path
from emulator.scenario.timeline import Action, Client, Signal
from emulator.scenario.values import THERE, Count, did_you_mean, matching
from emulator.scenario.when import OF_NO_SESSION, ClientWhen, ReplicaWhen, StatusWhen, When

Broken = tuple[Path, str]
"""Where, and what is wrong and would be right."""

_FROM_CLIENTS = {str(kind.__struct_config__.tag) for kind in get_args(ClientMessage)}
_FROM_REPLICAS = {str(kind.__struct_config__.tag) for kind in get_args(ServerMessage)}
_FROM_GATEWAYS = {"session_resumed", "going_away"}
_ANY = {"binary", "other"}


def broken_rules(
    scenario: Scenario, *, wrong: Iterable[Path] = (), unsure: Iterable[str] = ()
) -> Iterator[Broken]:
    """Every rule between values that `scenario` breaks. `wrong` are places that have been complained of, and
    have nothing or something else in them here: nothing is said of what that may bring about. `unsure` are
    sections (replicas, sessions) whose names are not known because of it."""
    checks = _Checks(scenario, wrong, frozenset(unsure))
    yield from checks.names()
    yield from checks.moments()
    yield from checks.expectations()


class _Checks:
    def __init__(self, scenario: Scenario, wrong: Iterable[Path], unsure: frozenset[str]) -> None:
        self._all = scenario
        self._wrong = {path[:length] for path in wrong for length in range(len(path) + 1)}
        """With all that holds it."""
        self._unsure = unsure
        self._sessions = scenario.session_names
        self._replicas = scenario.replicas.names

    # Names

    def names(self) -> Iterator[Broken]:
        """Names twice, and names that nobody has."""
        seen: set[str] = set()
        for index, entry in enumerate(self._all.sessions):
            if (twice := seen.intersection(entry.names)) and "sessions" not in self._unsure:
                yield ("sessions", index, "name"), f"makes {min(twice)} twice; names of sessions differ"
            seen.update(entry.names)
            if entry.when is not None:
                yield from self._trigger(entry.when, ("sessions", index, "when"))
        for pattern in self._all.replicas.each:
            yield from self._replica([pattern], ("replicas", "each", pattern))
        yield from self._sizes()
        for index, step in enumerate(self._all.timeline):
            if step.when is not None:
                yield from self._trigger(step.when, ("timeline", index, "when"))
            for action, key in step.named_actions():
                yield from self._action(action, ("timeline", index, key), step.when)

    def _sizes(self) -> Iterator[Broken]:
        """Segments that nobody could hold."""
        replicas = self._all.replicas
        places: list[tuple[Path, list[str]]] = [(("replicas",), self._replicas[:1])]
        places += [
            (("replicas", "each", pattern), matching([pattern], self._replicas)[:1])
            for pattern, own in replicas.each.items()
            if own.chunks is not None or own.chunk_bytes is not None
        ]
        for here, names in places:
            for plan in map(replicas.plan, names):
                if plan.chunks * plan.chunk_bytes > MOST_SEGMENT_BYTES:
                    size = f"{plan.chunks} chunks of {plan.chunk_bytes} bytes"
                    yield here, f"makes segments of {size}; {MOST_SEGMENT_BYTES} bytes are the most"
                    return

    def _action(self, action: Action, here: Path, when: When | None) -> Iterator[Broken]:
        match action:
            case Client(session=patterns):
                yield from self._session(patterns, (*here, "session"))
            case Signal():
                pass
            case _:
                yield from self._replica((name for name in action.replica if name != THERE), here)
                is_sure = not {(*here[:2], "when"), (*here[:2], "at")} & self._wrong
                if is_sure and THERE in action.replica and not isinstance(when, ReplicaWhen | ClientWhen):
                    yield here, "there is where an event happened; the step needs a when with one"
                if isinstance(action, FaultAction) and not action.faults:
                    yield here, "arms nothing; name a fault, as in {replica: b, stall: {}}"

    def _trigger(self, when: When, here: Path) -> Iterator[Broken]:
        match when:
            case ReplicaWhen():
                yield from self._replica([when.replica], (*here, "replica"))
                if when.event in OF_NO_SESSION and when.session is not None:
                    what = "a probe" if when.event == "health" else when.event
                    yield (*here, "session"), f"{what} belongs to no session; leave session out"
                if when.event in ("woken", "fell_asleep") and not self._sleeps(
                    matching([when.replica], self._replicas)
                ):
                    yield (*here, "event"), f"nothing there sleeps: give {when.replica} a scale_to_zero"
            case ClientWhen():
                yield from self._session([when.session], (*here, "session"))
                if when.type is not None and when.event not in ("message", "error"):
                    yield (*here, "type"), f"goes with the events message and error, not {when.event}"
                if when.event == "message" and when.type is None:
                    yield here, "needs type: the type of the message that is waited for"
                if when.event == "message" and when.type is not None:
                    yield from self._from_replica([when.type], here)
            case StatusWhen():
                yield from self._statuses(when.status, (*here, "status"))

    def _replica(self, patterns: Iterable[str], here: Path) -> Iterator[Broken]:
        yield from self._unknown("replica", patterns, self._replicas, here)

    def _session(self, patterns: Iterable[str], here: Path) -> Iterator[Broken]:
        yield from self._unknown("session", patterns, self._sessions, here)

    def _unknown(self, kind: str, patterns: Iterable[str], names: list[str], here: Path) -> Iterator[Broken]:
        if f"{kind}s" in self._unsure:
            return
        for pattern in patterns:
            if not matching([pattern], names):
                yield here, f"there is no {kind} {pattern}; there are: {_short(names) or 'none'}"

    def _statuses(self, wanted: Mapping[str, str], here: Path) -> Iterator[Broken]:
        for pattern in wanted:
            yield from self._replica([pattern], (*here, pattern))

    # Moments

    def moments(self) -> Iterator[Broken]:
        """What is due when the play is over already, and what waits for itself."""
        last = self._all.deadline
        moments: list[tuple[Path, float | None]] = [(("lasts",), self._all.lasts)]
        moments += [(("sessions", index, "at"), entry.at) for index, entry in enumerate(self._all.sessions)]
        moments += [(("timeline", index, "at"), step.at) for index, step in enumerate(self._all.timeline)]
        moments += [
            ((*self._status(index), "at"), check.at) for index, check in enumerate(self._all.expect.status)
        ]
        for here, moment in moments:
            if moment is not None and moment > last and ("deadline",) not in self._wrong:
                yield here, f"is {moment:g} s, after the deadline of {last:g} s: it never comes"
        yield from self._waits_for_itself()

    def _waits_for_itself(self) -> Iterator[Broken]:
        """Sessions open in their order, so one cannot wait for what a later one does."""
        opened: set[str] = set()
        for index, entry in enumerate(self._all.sessions):
            own = set(entry.names)
            if isinstance(entry.when, ClientWhen) and entry.when.session in self._sessions:
                waits_for = entry.when.session
                if waits_for in own:
                    yield ("sessions", index, "when"), f"waits for {waits_for}, which it opens itself"
                elif waits_for not in opened and not entry.together and "sessions" not in self._unsure:
                    text = "which opens after it; put it below, or make it together: true"
                    yield ("sessions", index, "when"), f"waits for {waits_for}, {text}"
            opened |= own

    # Expectations

    def expectations(self) -> Iterator[Broken]:
        """Expectations of nobody, of what does not exist, and of what the scenario does not bring about."""
        expect = self._all.expect
        for pattern, several in expect.sessions.items():
            here: Path = ("expect", "sessions", pattern)
            yield from self._session([pattern], here)
            for index, one in enumerate(several):
                yield from self._of_session(one, (*here, index) if len(several) > 1 else here)
        for pattern, wanted in expect.replicas.items():
            here = ("expect", "replicas", pattern)
            yield from self._replica([pattern], here)
            for index, each in enumerate(wanted):
                place = (*here, index) if len(wanted) > 1 else here
                yield from self._of_replica(each, place, matching([pattern], self._replicas))
        for index, check in enumerate(expect.status):
            yield from self._statuses(check.replicas, (*self._status(index), "replicas"))
        signals = any(step.gateway is not None for step in self._all.timeline)
        if expect.gateway.exit != "none" and not signals and ("timeline",) not in self._wrong:
            yield ("expect", "gateway", "exit"), "no step tells the gateway to end: give one gateway: SIGTERM"

    def _status(self, index: int) -> Path:
        """Where the expectation stands: alone, it needs no list around it."""
        here: Path = ("expect", "status")
        return (*here, index) if len(self._all.expect.status) > 1 else here

    def _of_session(self, expected: OfSession, here: Path) -> Iterator[Broken]:
        yield from self._from_replica([*expected.messages, *expected.order], here)
        for pattern in expected.served_by or ():
            yield from self._replica([pattern], (*here, "served_by"))

    def _from_replica(self, types: Iterable[str], here: Path) -> Iterator[Broken]:
        """A gateway may have messages of its own, so only what looks misspelt is refused."""
        known = _FROM_REPLICAS | _FROM_GATEWAYS | _ANY
        for name in types:
            guess = did_you_mean(name, sorted(known), always=False)
            if name not in known and guess:
                yield here, f"no message has the type {name}{guess}"

    def _of_replica(self, expected: OfReplica, here: Path, names: list[str]) -> Iterator[Broken]:
        for name in [*expected.messages, *expected.order]:
            if name not in _FROM_CLIENTS | _ANY and (
                guess := did_you_mean(name, sorted(_FROM_CLIENTS), always=False)
            ):
                yield here, f"no client's message has the type {name}{guess}"
        if expected.wakes is not None and _wants_some(expected.wakes) and not self._sleeps(names):
            yield (*here, "wakes"), "nothing there sleeps: put scale_to_zero under replicas, or under each"
        for kind in expected.saw:
            if kind not in KINDS:
                yield (*here, "saw", kind), f"is no kind of event{did_you_mean(kind, KINDS)}"
        for fault, count in expected.struck.items():
            place: Path = (*here, "struck", fault)
            if fault not in CATALOGUE:
                yield place, f"is no fault{did_you_mean(fault, CATALOGUE)}"
            elif self._knows_faults and not self._is_armed(fault, names) and _wants_some(count):
                yield place, f"nothing arms {fault} there: put it under replicas.faults, or into a step"

    def _sleeps(self, names: Iterable[str]) -> bool:
        """One of these replicas does, as far as all of them have been read."""
        if ("replicas",) in self._wrong:
            return True
        return any(self._all.replicas.plan(name).scale_to_zero is not None for name in names)

    @property
    def _knows_faults(self) -> bool:
        """Whether all that is armed anywhere has been read."""
        return not {("replicas",), ("timeline",)} & self._wrong

    def _is_armed(self, fault: str, names: list[str]) -> bool:
        """On one of these replicas at least, at some time."""
        armed = {name: {one.name for one in self._all.replicas.plan(name).faults} for name in names}
        for step in self._all.timeline:
            if step.fault is not None:
                aimed = names if THERE in step.fault.replica else matching(step.fault.replica, names)
                for name in aimed:
                    armed[name] |= {one.name for one in step.fault.faults}
        return any(fault in faults for faults in armed.values())


def _wants_some(count: Count) -> bool:
    return not count.allows(0)


def _short(names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])} ... {names[-1]}"
