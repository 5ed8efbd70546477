"""`plan`: what a deployment would do, asked of AWS by change sets that are deleted again. It changes nothing.

A change set of a stack that is not there makes one in the state REVIEW_IN_PROGRESS: that is deleted, too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from infra.changes import Change, changes_lines, changes_of, created_by, summary
from infra.deploy import PLANNED
from infra.errors import Unchanged, Unfinished
from infra.parameters import Sent, changed_values
from infra.stack import Await, RemoveFirst, Stack, Stuck, Update, next_step
from infra.words import listed
from infra.work import Part, Work, refuse_incomplete

NO_CHANGES = ("didn't contain changes", "No updates are to be performed")
"""How AWS says that a change set is empty."""


def plan(work: Work) -> int:
    """Exit status 0 when the whole plan could be told."""
    existing = {part: work.stack(part) for part in work.templates}
    refuse_incomplete(work, existing)
    whole = [_plan(work, part, existing[part], existing["data"]) for part in work.parts]
    work.watch.telling.line("nothing was changed; `python -m infra deploy` with the same arguments does it")
    return 0 if all(whole) else 1


def _plan(work: Work, part: Part, stack: Stack | None, data: Stack | None) -> bool:
    """Tell what would become of one stack; whether that could be told."""
    name, say = work.stack_name(part), work.watch.telling.line
    step = next_step(stack)
    status = stack.status if stack is not None else ""
    match step:
        case Await():
            say(f"{name}: {status}; what a deployment would do can be told once that has ended")
            return False
        case Stuck(why, remedy):
            say(f"{name} is {status}: {why}")
            say(f"  {remedy}")
            return False
        case RemoveFirst(why):
            say(f"{name} is {status}: {why}; a deployment would ask, delete it, and create it anew:")
            work.watch.telling.lines(changes_lines(_created(work, part)))
            return True
        case Update():
            assert stack is not None
            return _plan_change(work, part, stack, data)
        case _:
            return _plan_creation(work, part, stack, data)


def _plan_creation(work: Work, part: Part, stack: Stack | None, data: Stack | None) -> bool:
    name, say = work.stack_name(part), work.watch.telling.line
    awaited = [one for one in work.fed(part) if one not in work.put_out(part, data)]
    if awaited and "data" in work.parts:
        created = _created(work, part)
        say(f"{name}: would be created: {summary(created)}, by the template. AWS itself cannot be asked")
        say(f"before {work.stack_name('data')} is there, which puts out its {listed(awaited)}")
        work.watch.telling.lines(changes_lines(created))
        return True
    parameters = work.parameters(part, None, data)
    changes = _asked(work, part, parameters, "CREATE")
    say(f"{name}: would be created: {summary(changes)}")
    work.watch.telling.lines(changes_lines(changes))
    return True


def _created(work: Work, part: Part) -> list[Change]:
    """What a new stack would have, told by its template alone."""
    return created_by(work.templates[part], work.values(part, None))


def _plan_change(work: Work, part: Part, stack: Stack, data: Stack | None) -> bool:
    name, say = work.stack_name(part), work.watch.telling.line
    parameters = work.parameters(part, stack, data)
    changes = _asked(work, part, parameters, "UPDATE")
    values = changed_values(work.templates[part], parameters, stack.parameters)
    if not changes and not values:
        say(f"{name}: nothing to change")
        return True
    say(f"{name}: would be updated: {summary(changes) or 'no resource changes'}")
    work.watch.telling.lines(f"  {one}" for one in values)
    work.watch.telling.lines(changes_lines(changes))
    return True


def _asked(
    work: Work, part: Part, parameters: tuple[Sent, ...], kind: Literal["CREATE", "UPDATE"]
) -> list[Change]:
    """What AWS says that would change."""
    try:
        with _change_set(work, part, parameters, kind) as change_set:
            return changes_of(work.stacks.proposed(change_set)) if change_set else []
    except Unchanged:
        return []


@contextmanager
def _change_set(
    work: Work, part: Part, parameters: tuple[Sent, ...], kind: Literal["CREATE", "UPDATE"]
) -> Iterator[str | None]:
    """A change set for as long as the block lasts; None for one that AWS found empty."""
    stacks, name = work.stacks, f"{PLANNED}{uuid.uuid4().hex}"
    change_set, stack_id = stacks.propose(work.stack_name(part), work.templates[part], parameters, name, kind)
    try:
        yield change_set if _made(work, change_set) else None
    finally:
        stacks.withdraw(change_set)
        left = stacks.stack(stack_id)
        if left is not None and left.status == "REVIEW_IN_PROGRESS":
            _leave_nothing(work, left)


def _made(work: Work, change_set: str) -> bool:
    """Whether the change set has changes, once AWS has made it."""
    states: list[tuple[str, str]] = []

    def look() -> bool:
        states.append(work.stacks.proposal(change_set))
        return not states[-1][0].endswith(("_PENDING", "_IN_PROGRESS"))

    work.watch.until(look, "the change set")
    status, reason = states[-1]
    if status == "CREATE_COMPLETE":
        return True
    if any(words in reason for words in NO_CHANGES):
        return False
    raise Unfinished("AWS refuses this change", reason or status)


def _leave_nothing(work: Work, stack: Stack) -> None:
    """Delete a stack that is made of change sets alone, unless somebody else's is among them."""
    others = [one for one in work.stacks.proposals(stack.id) if not one.startswith(PLANNED)]
    if others:
        work.watch.telling.line(
            f"{stack.name} is left as it was: it has change sets that are not ours ({', '.join(others)})"
        )
    else:
        work.stacks.delete(stack.id)
