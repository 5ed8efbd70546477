"""`deploy`: the stacks are what the templates and the parameters say. Safe to rerun, and to interrupt.

What is under way already is awaited, and then decided anew; what failed at its creation is removed first,
once that is agreed to. Only one thing is done at a time, so that whatever interrupts it leaves a state that
the next run reads from AWS alone.
"""

from __future__ import annotations

import uuid

from infra.errors import Refused, Unfinished
from infra.parameters import changed_values
from infra.stack import Await, RemoveFirst, Review, Stack, Stuck, Update, next_step, succeeded
from infra.waiting import await_stack
from infra.work import Part, Work, refuse_incomplete

PLANNED = "streamhold-plan-"
"""What the names of a plan's change sets begin with."""
DELETED = frozenset({"DELETE_COMPLETE", "DELETE_FAILED"})
IN_ANOTHER_STATE = "can not be updated"
"""AWS's words where a stack is no longer in the state that was seen."""
CHANGED_MEANWHILE = frozenset({"AlreadyExistsException", "OperationInProgressException"})


def deploy(work: Work) -> int:
    """Exit status 0 once both stacks are whole. Raises InfraError."""
    existing = {part: work.stack(part) for part in work.templates}
    refuse_incomplete(work, existing)
    data = existing["data"]
    for part in work.parts:
        stack = _deploy(work, part, data)
        if part == "data":
            data = stack
        work.watch.telling.lines(f"  {name}: {value}" for name, value in stack.outputs.items())
    return 0


def _deploy(work: Work, part: Part, data: Stack | None) -> Stack:
    """The stack once it is whole: looked at, one step, looked at again."""
    while True:
        stack = work.stack(part)
        try:
            done = _step(work, part, stack, data)
        except Refused as refused:
            if refused.code not in CHANGED_MEANWHILE and IN_ANOTHER_STATE not in refused.lines[0]:
                raise
            name = work.stack_name(part)
            work.watch.telling.line(f"{name}: is being made or changed already; looking again")
            work.watch.clock.sleep(work.watch.pace.every_seconds)
            continue
        if done is not None:
            return done


def _step(work: Work, part: Part, stack: Stack | None, data: Stack | None) -> Stack | None:
    """One step, and the stack where it was the last one."""
    name, say = work.stack_name(part), work.watch.telling.line
    match next_step(stack), stack:
        case Await(), Stack():
            say(f"{name}: {stack.status}, begun before this command; waiting for it")
            await_stack(work.stacks, stack.id, work.watch)
            return None
        case Review(), Stack():
            _clear_review(work, stack)
            return None
        case RemoveFirst(why), Stack():
            _remove_failed(work, stack, why)
            return None
        case Stuck(why, remedy), Stack():
            raise Unfinished(f"{name} is {stack.status}: {why}", *work.failure(stack)[1:], remedy)
        case Update(), Stack():
            return _update(work, part, stack, data)
        case _:
            return _create(work, part, data)


def _create(work: Work, part: Part, data: Stack | None) -> Stack:
    name = work.stack_name(part)
    parameters = work.parameters(part, None, data)
    work.watch.telling.line(f"{name}: creating")
    stack_id = work.stacks.create(name, work.templates[part], parameters, _token())
    return _ended(work, stack_id, "CREATE")


def _update(work: Work, part: Part, stack: Stack, data: Stack | None) -> Stack:
    name, say = work.stack_name(part), work.watch.telling.line
    template = work.templates[part]
    parameters = work.parameters(part, stack, data)
    if not work.stacks.update(name, template, parameters, _token()):
        say(f"{name}: nothing to change")
        return stack
    say(f"{name}: updating")
    work.watch.telling.lines(f"  {one}" for one in changed_values(template, parameters, stack.parameters))
    return _ended(work, stack.id, "UPDATE")


def _ended(work: Work, stack_id: str, verb: str) -> Stack:
    """The stack once our own operation on it has ended. Raises Unfinished where it failed."""
    stack = await_stack(work.stacks, stack_id, work.watch)
    if succeeded(stack.status, verb):
        work.watch.telling.line(f"{stack.name}: {verb.lower()}d")
        return stack
    after = {
        "ROLLBACK_COMPLETE": "what had been created was removed again; the next deploy removes the rest",
        "UPDATE_ROLLBACK_COMPLETE": "it is again what it was before; mend the cause, then deploy again",
    }
    raise Unfinished(*work.failure(stack), *filter(None, [after.get(stack.status)]))


def _clear_review(work: Work, stack: Stack) -> None:
    """Remove a stack that consists of change sets, those of others once that is agreed to."""
    others = [one for one in work.stacks.proposals(stack.id) if not one.startswith(PLANNED)]
    if others:
        work.watch.telling.confirm(
            f"{stack.name} has nothing but change sets that are not ours ({', '.join(others)}): remove them?",
            stack.name,
            agreed=work.yes,
        )
    work.watch.telling.line(f"{stack.name}: removing what an interrupted plan left")
    remove(work, stack)


def _remove_failed(work: Work, stack: Stack, why: str) -> None:
    """Remove what is left of a failed creation or deletion, once that is agreed to."""
    work.watch.telling.line(f"{stack.name} is {stack.status}: {why}, so it can only be deleted")
    work.watch.telling.lines(f"  {line}" for line in work.failure(stack)[1:])
    work.watch.telling.confirm(f"delete {stack.name} and create it anew?", stack.name, agreed=work.yes)
    remove(work, stack)


def remove(work: Work, stack: Stack) -> None:
    """The stack is gone. Raises Unfinished with what keeps it."""
    work.watch.telling.line(f"{stack.name}: deleting")
    work.stacks.delete(stack.id)
    left = await_stack(work.stacks, stack.id, work.watch, until=DELETED)
    if left.status != "DELETE_COMPLETE":
        raise Unfinished(*work.failure(left), "mend what the reason says, then this command again")
    work.watch.telling.line(f"{stack.name}: deleted")


def _token() -> str:
    return f"streamhold-{uuid.uuid4()}"
