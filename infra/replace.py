"""`replace`: one gateway drains and ends, and another serves in its place. Safe to rerun: a task that is
already being stopped is waited for.
"""

from __future__ import annotations

from infra.errors import Unfinished
from infra.gateways import Gateways
from infra.replacing import FAILED_STARTS, Replacement, beforehand, find_task, objections
from infra.stack import Stack, in_progress
from infra.work import Work


def replace(work: Work, wanted: str) -> int:
    """Exit status 0 once another gateway serves. Raises InfraError."""
    stack = work.stack("service")
    if stack is None:
        raise Unfinished(f"there is no {work.stack_name('service')} in {work.aws.region}")
    gateways = Gateways.of(work.aws, stack)
    service = gateways.seen()
    task = find_task(service, wanted)
    replacement = Replacement(
        task.id,
        gateways.drain_seconds(),
        frozenset(one.id for one in service.tasks if one.serves or not one.to_stay),
    )
    if task.to_stay:
        _refuse(work, stack, objections(service, task))
        work.watch.telling.lines(beforehand(service, task, replacement.drain_seconds))
        gateways.stop(task.id)
    else:
        work.watch.telling.line(f"{task.id} is being stopped, or has been; waiting")
    _await(work, gateways, replacement)
    return 0


def _refuse(work: Work, stack: Stack, against: list[str]) -> None:
    """Raise Unfinished for what speaks against it, unless that is agreed to."""
    if in_progress(stack.status):
        against = [f"{stack.name} is {stack.status}", *against]
    if not against:
        return
    if not work.yes:
        raise Unfinished(*against, "nothing was stopped; --yes does it all the same")
    work.watch.telling.lines(f"all the same: {one}" for one in against)


def _await(work: Work, gateways: Gateways, replacement: Replacement) -> None:
    """Return once it is done; what happens meanwhile is told."""
    told: dict[str, str] = {}

    def look() -> bool:
        nonlocal told
        service = gateways.seen()
        now = replacement.states(service)
        stamp = f"{work.watch.clock.now():%H:%M:%S}"
        work.watch.telling.lines(f"  {stamp}  {line}" for line in replacement.news(told, now))
        told = now
        failed = replacement.failed_starts(service)
        if len(failed) >= FAILED_STARTS:
            raise Unfinished(
                f"{len(failed)} new gateways stopped again",
                *dict.fromkeys(task.stopped_reason for task in failed if task.stopped_reason),
                *(f"ECS: {event}" for event in service.events),
            )
        if not replacement.done(service):
            return False
        counts = f"{len(service.serving)} of {service.desired}"
        work.watch.telling.line(f"{replacement.old_id} is replaced: {counts} serve")
        return True

    work.watch.until(look, "the replacement")
