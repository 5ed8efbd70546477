"""PURE. A stack as AWS tells of it, and what its state means for whoever wants to deploy or remove it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from infra.words import safe


@dataclass(frozen=True, slots=True)
class Stack:
    """One at one moment."""

    name: str
    id: str
    status: str
    reason: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    protected: bool = False
    """Against deletion, by CloudFormation's termination protection."""


@dataclass(frozen=True, slots=True)
class StackEvent:
    """What happened to a resource of a stack, or to the stack itself."""

    id: str
    at: datetime
    resource: str
    type: str
    status: str
    reason: str = ""
    whole: bool = False
    """Of the stack itself."""


# -- what comes next


@dataclass(frozen=True, slots=True)
class Create:
    """There is none."""


@dataclass(frozen=True, slots=True)
class Update:
    """It is there, and whole."""


@dataclass(frozen=True, slots=True)
class Await:
    """Something is under way that has to end first."""


@dataclass(frozen=True, slots=True)
class RemoveFirst:
    """What is there can only be deleted."""

    why: str


@dataclass(frozen=True, slots=True)
class Review:
    """Only change sets are there: somebody's plan, or what an interrupted one left."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Only a person gets it out of there."""

    why: str
    remedy: str


Step = Create | Update | Await | RemoveFirst | Review | Stuck

_SETTLED = frozenset(
    {
        "CREATE_COMPLETE",
        "IMPORT_COMPLETE",
        "IMPORT_ROLLBACK_COMPLETE",
        "UPDATE_COMPLETE",
        "UPDATE_FAILED",
        "UPDATE_ROLLBACK_COMPLETE",
    }
)
_ONLY_DELETED = {
    "ROLLBACK_COMPLETE": "its creation failed, and what had been created was removed again",
    "ROLLBACK_FAILED": "its creation failed, and not all that had been created could be removed again",
    "CREATE_FAILED": "its creation failed half way",
    "DELETE_FAILED": "not all of it could be deleted",
}


def next_step(stack: Stack | None) -> Step:
    """What a deployment has to do first with a stack in this state."""
    if stack is None or stack.status == "DELETE_COMPLETE":
        return Create()
    status = stack.status
    if status == "REVIEW_IN_PROGRESS":
        return Review()
    if in_progress(status):
        return Await()
    if status in _SETTLED:
        return Update()
    if status in _ONLY_DELETED:
        return RemoveFirst(_ONLY_DELETED[status])
    if status == "UPDATE_ROLLBACK_FAILED":
        return Stuck(
            "an update failed, and AWS could not go back to what was there before",
            f"mend what the reason says, then: aws cloudformation continue-update-rollback --stack-name "
            f"{stack.name}; after that, this command again",
        )
    return Stuck("that is no state to go on from", "look at it in the console of CloudFormation")


def in_progress(status: str) -> bool:
    """Whether AWS works on the stack. A change set alone is no work."""
    return status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"


def succeeded(status: str, verb: str) -> bool:
    """Whether `verb`, such as CREATE, came to its end."""
    return status == f"{verb}_COMPLETE"


def is_well(stack: Stack) -> bool:
    """Whether it is what was last asked for."""
    return stack.status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")


# -- what happened

_BEGINNINGS = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS", "IMPORT_IN_PROGRESS")
_CONSEQUENCES = ("cancelled", "canceled")
"""In the reasons of what failed only because something else had."""


def last_operation(newest_first: Iterable[StackEvent]) -> list[StackEvent]:
    """The events of the stack's last operation, in their order."""
    found: list[StackEvent] = []
    for event in newest_first:
        found.append(event)
        if event.whole and event.status in _BEGINNINGS:
            break
    return found[::-1]


def first_failure(events: Sequence[StackEvent]) -> StackEvent | None:
    """What failed first, for a reason of its own."""
    failed = [event for event in events if event.status.endswith("_FAILED")]
    own = [event for event in failed if not any(word in event.reason.lower() for word in _CONSEQUENCES)]
    parts = [event for event in own if not event.whole]
    return next(iter(parts or own or failed), None)


def unfinished(events: Iterable[StackEvent]) -> list[str]:
    """The resources that AWS is at, by the events of an operation in their order."""
    last = {event.resource: event.status for event in events if not event.whole}
    return [resource for resource, status in last.items() if status.endswith("_IN_PROGRESS")]


def event_line(event: StackEvent) -> str:
    """One line of progress."""
    what = event.status.lower().replace("_", " ")
    who = "the stack itself" if event.whole else f"{event.resource} ({event.type})"
    # The reason is news where something failed, and a formula elsewhere.
    why = f": {safe(event.reason)}" if event.reason and event.status.endswith("_FAILED") else ""
    return f"  {event.at:%H:%M:%S}  {what:<20}  {who}{why}"


def failure_lines(name: str, status: str, events: Sequence[StackEvent], reason: str = "") -> tuple[str, ...]:
    """What went wrong with a stack, the first cause first."""
    lines = [f"{name} is {status}"]
    failed = first_failure(events)
    if failed is not None:
        why = safe(failed.reason) or "no reason given"
        lines.append(f"first to fail: {failed.resource} ({failed.type}): {why}")
    elif reason:
        lines.append(safe(reason))
    return tuple(lines)
