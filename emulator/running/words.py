"""PURE. What a scenario plans and what happens in it, in the words of its verdict."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.faults import describe
from emulator.scenario import (
    Action,
    Client,
    ClientWhen,
    Kill,
    Lift,
    Pause,
    ReplicaWhen,
    Reset,
    Restart,
    Resume,
    Signal,
    StatusWhen,
    Step,
    When,
)


def action_in_words(action: Action) -> str:
    """What a step does, as in `kill a, b`."""
    match action:
        case Kill(restart_after=None):
            return f"kill {_names(action.replica)}"
        case Kill(restart_after=after, warming=warming):
            return f"kill {_names(action.replica)}, back after {after:g} s{_warming(warming)}"
        case Restart(after=after, warming=warming):
            away = f", away for {after:g} s" if after else ""
            return f"restart {_names(action.replica)}{away}{_warming(warming)}"
        case Pause(lasting=lasting):
            return f"pause {_names(action.replica)}" + (f" for {lasting:g} s" if lasting else "")
        case Resume():
            return f"resume {_names(action.replica)}"
        case Lift(fault=faults):
            return f"lift {_names(faults) if faults else 'all faults'} of {_names(action.replica)}"
        case Reset():
            return f"reset {_names(action.replica)}"
        case Signal(signal=name):
            return f"{name} to the gateway"
        case Client(session=sessions, do=what):
            return f"{_names(sessions)}: {what.replace('_', ' ')}"
        case _:
            armed = "; ".join(describe(fault) for fault in action.faults)
            return f"fault on {_names(action.replica)}: {armed}"


def _warming(seconds: float) -> str:
    return f", warming for {seconds:g} s" if seconds else ""


def step_in_words(step: Step) -> str:
    """All that a step does."""
    return "; ".join(action_in_words(action) for action in step.actions)


def trigger_in_words(at: float | None, when: When | None) -> str:
    """When something is due, as in `at 2 s`."""
    match when:
        case None:
            return f"at {at or 0.0:g} s"
        case ReplicaWhen(replica=replica, event=event, session=session, n=n):
            whose = f"session {session} of replica {replica}" if session is not None else f"replica {replica}"
            what = f"{event} at {whose}"
        case ClientWhen(session=session, event=event, n=n):
            what = f"{event} {when.type} at {session}" if when.type else f"{event} at {session}"
        case StatusWhen(status=status):
            n = 1
            what = "the gateway says " + ", ".join(f"{name} {said}" for name, said in status.items())
    often = f" for the {ordinal(n)} time" if n > 1 else ""
    later = f"{when.after:g} s after " if when.after else "when "
    return f"{later}{what}{often}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def counted(number: int, what: str) -> str:
    """As in `1 session`, `2 sessions`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
