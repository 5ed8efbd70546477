"""PURE. Replacing one gateway: which it is, what speaks against it, what is new, and when it is done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from infra.errors import Unfinished
from infra.service import Service, Task, target_words
from infra.words import counted, listed

SHORTEST_PREFIX = 4
FAILED_STARTS = 3
"""After so many new gateways that stopped again, the wait is over."""


def find_task(service: Service, text: str) -> Task:
    """The task that `text` means: an id, an ARN, or the unique beginning of an id. Raises Unfinished."""
    wanted = text.rpartition("/")[2]
    exact = [task for task in service.tasks if task.id == wanted]
    long_enough = len(wanted) >= SHORTEST_PREFIX
    found = exact or [task for task in service.tasks if long_enough and task.id.startswith(wanted)]
    present = listed([task.id for task in service.present]) if service.present else "none"
    match found:
        case [task]:
            return task
        case []:
            raise Unfinished(f"{service.name} has no task {wanted}", f"there is {present}")
        case _:
            raise Unfinished(f"several tasks begin with {wanted}: {listed([task.id for task in found])}")


def objections(service: Service, task: Task) -> list[str]:
    """What speaks against stopping the task now."""
    others = [one for one in service.present if one.id != task.id and one.to_stay]
    serving = [one for one in others if one.serves]
    found: list[str] = []
    if not serving:
        found.append(f"no gateway but {task.short} serves: until a new one does, clients find nobody")
    if service.rolling:
        found.append("a deployment is under way, which replaces tasks itself")
    if service.running < service.desired:
        found.append(f"only {service.running} of {counted(service.desired, 'gateway')} are running")
    found += [
        f"{one.short} does not serve: {one.last_status}, {target_words(one.target)}"
        for one in others
        if not one.serves
    ]
    return found


def beforehand(service: Service, task: Task, drain_seconds: str) -> list[str]:
    """What is going to happen."""
    left = len([one for one in service.serving if one.id != task.id])
    least = math.ceil(service.desired * service.minimum_percent / 100)
    lines = [
        f"stopping {task.id}: it gets no new sessions, open ones go on for up to {drain_seconds} s, "
        "then it is told to drain and to stop"
    ]
    if left < least:
        lines.append(f"until a new one serves there are {left}, below the {least} that deployments keep to")
    return lines


@dataclass(frozen=True, slots=True)
class Replacement:
    """One that is under way."""

    old_id: str
    drain_seconds: str
    bystanders: frozenset[str] = frozenset()
    """Tasks that have nothing to do with it: they served when it began, or were on their way out."""

    def done(self, service: Service) -> bool:
        """Whether the old one is gone, and as many serve as are wanted."""
        old = [task for task in service.present if task.id == self.old_id]
        return not old and len(service.serving) >= service.desired

    def failed_starts(self, service: Service) -> list[Task]:
        """New ones that stopped again."""
        return [task for task in service.tasks if not task.to_stay and self._is_new(task)]

    def _is_new(self, task: Task) -> bool:
        return task.id != self.old_id and task.id not in self.bystanders

    def states(self, service: Service) -> dict[str, str]:
        """In words, how each task is that has to do with it."""
        return {
            task.id: self._words(task)
            for task in service.tasks
            if task.id == self.old_id or self._is_new(task)
        }

    def news(self, before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
        """A line for each task whose words have changed."""
        return [
            f"{'old' if one == self.old_id else 'new'} {one[:8]}: {words}"
            for one, words in now.items()
            if before.get(one) != words
        ]

    def _words(self, task: Task) -> str:
        return self._old_words(task) if task.id == self.old_id else _new_words(task)

    def _old_words(self, task: Task) -> str:
        if task.gone:
            return "has stopped"
        if task.last_status == "STOPPING":
            return "told to stop (SIGTERM): it drains what is left"
        if not task.to_stay:
            return f"out of the load balancer, sessions go on for up to {self.drain_seconds} s"
        return "runs"


def _new_words(task: Task) -> str:
    if not task.to_stay:
        return f"stopped again: {task.stopped_reason or 'no reason given'}"
    if task.serves:
        return "serves"
    if task.last_status != "RUNNING":
        return task.last_status.lower()
    return f"running; behind the load balancer: {target_words(task.target)}"
