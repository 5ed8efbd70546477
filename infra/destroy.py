"""`destroy`: the stacks are gone, the service's first. Nothing there is success, and a rerun goes on."""

from __future__ import annotations

from collections.abc import Iterable

from infra.deploy import remove
from infra.errors import Unfinished
from infra.stack import Stack, in_progress
from infra.template import TemplateError, read_template
from infra.waiting import await_stack
from infra.words import counted, listed
from infra.work import Part, Work


def destroy(work: Work) -> int:
    """Exit status 0 once nothing is there. Raises InfraError."""
    say = work.watch.telling.line
    parts = tuple(reversed(work.parts))
    found = [(part, stack) for part in parts if (stack := work.stack(part)) is not None]
    _refuse_protected(stack for _, stack in found)
    for part in parts:
        if part not in [there for there, _ in found]:
            say(f"{work.stack_name(part)}: not there")
    if not found:
        return 0
    for part, stack in found:
        _tell_what_goes(work, part, stack)
    names = listed([stack.name for _, stack in found])
    question = f"delete {names}? sessions that are open end with it"
    work.watch.telling.confirm(question, work.name, agreed=work.yes)
    for part, _ in found:
        _destroy(work, part)
    return 0


def _refuse_protected(stacks: Iterable[Stack]) -> None:
    protected = [stack.name for stack in stacks if stack.protected]
    if protected:
        raise Unfinished(
            f"{listed(protected)}: protected against deletion; nothing was deleted",
            *(
                f"aws cloudformation update-termination-protection --no-enable-termination-protection "
                f"--stack-name {name}"
                for name in protected
            ),
        )


def _tell_what_goes(work: Work, part: Part, stack: Stack) -> None:
    """What the stack has, and what of it stays."""
    say = work.watch.telling.line
    text = work.stacks.template_text(stack.id)
    try:
        template = read_template(text) if text else work.templates[part]
    except TemplateError:
        template = work.templates[part]
    say(f"{stack.name}: {stack.status}, {counted(len(template.resources), 'resource')}")
    for one in template.resources:
        if one.kept is not None:
            say(f"  {one.name} ({one.type}) {one.kept}: it goes on costing what it costs")


def _destroy(work: Work, part: Part) -> None:
    """The stack is gone, also where somebody else was at it."""
    stack = work.stack(part)
    if stack is None:
        work.watch.telling.line(f"{work.stack_name(part)}: gone")
        return
    # A creation may be broken off by a deletion; nothing else may.
    if in_progress(stack.status) and stack.status != "CREATE_IN_PROGRESS":
        work.watch.telling.line(f"{stack.name}: {stack.status}, begun before; waiting for it")
        stack = await_stack(work.stacks, stack.id, work.watch)
        if stack.status == "DELETE_COMPLETE":
            work.watch.telling.line(f"{stack.name}: deleted")
            return
    remove(work, stack)
