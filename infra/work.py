"""What every command on the stacks is given, and what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from infra.aws import Aws
from infra.errors import Misused
from infra.parameters import NOTHING, Given, Sent, missing_from, resolved, sent
from infra.rules import broken_rules
from infra.stack import RemoveFirst, Stack, failure_lines, last_operation, next_step
from infra.stacks import Stacks
from infra.template import Template
from infra.waiting import Watch
from infra.words import listed

Part = Literal["data", "service"]
PARTS: tuple[Part, ...] = ("data", "service")
"""In the order in which they are created: what the first puts out, the second takes."""


@dataclass(frozen=True, slots=True)
class Work:
    """Which stacks, by what, and how it is told."""

    name: str
    aws: Aws
    stacks: Stacks
    watch: Watch
    templates: Mapping[Part, Template]
    parts: tuple[Part, ...] = PARTS
    given: Given = NOTHING
    yes: bool = False

    def stack_name(self, part: Part) -> str:
        return f"{self.name}-{part}"

    def stack(self, part: Part) -> Stack | None:
        return self.stacks.stack(self.stack_name(part))

    def fed(self, part: Part) -> tuple[str, ...]:
        """The parameters of a part that the part before it puts out, unless they are given."""
        if part == "data":
            return ()
        wanted = self.templates[part].parameters
        return tuple(
            one for one in self.templates["data"].outputs if one in wanted and one not in self.given.values
        )

    def put_out(self, part: Part, data: Stack | None) -> Mapping[str, str]:
        """Their values, as far as `data` has them."""
        outputs = data.outputs if data is not None else {}
        return {name: outputs[name] for name in self.fed(part) if name in outputs}

    def parameters(self, part: Part, stack: Stack | None, data: Stack | None) -> tuple[Sent, ...]:
        """What the stack is to be sent. Raises Misused when something has to be given."""
        template = self.templates[part]
        had = stack.parameters if stack is not None else {}
        put_out = self.put_out(part, data)
        if missing := missing_from(template, self.given, had=had, put_out=put_out):
            raise Misused(*missing_lines({name: [self.stack_name(part)] for name in missing}))
        return sent(template, self.given, had=had, put_out=put_out)

    def values(self, part: Part, stack: Stack | None) -> Mapping[str, str | None]:
        """What each parameter will be, as far as can be told now."""
        had = stack.parameters if stack is not None else {}
        return resolved(self.templates[part], self.given, had=had, to_come=self.fed(part))

    def failure(self, stack: Stack) -> Sequence[str]:
        """What went wrong with the last operation on a stack."""
        events = last_operation(self.stacks.events(stack.id))
        return failure_lines(stack.name, stack.status, events, stack.reason)


def missing_lines(missing: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each parameter that has to be given, with the stacks that need it."""
    return [
        f"{name} has to be given, for {listed(stacks)}: --parameter {name}=VALUE"
        for name, stacks in missing.items()
    ]


def refuse_incomplete(work: Work, existing: Mapping[Part, Stack | None]) -> None:
    """Raise Misused with all that has to be given and every rule that is broken, before anything is done."""
    missing: dict[str, list[str]] = {}
    broken: list[str] = []
    for part in work.parts:
        stack = existing[part]
        # One that has to be deleted first keeps nothing.
        kept = stack is not None and not isinstance(next_step(stack), RemoveFirst)
        had = stack.parameters if stack is not None and kept else {}
        # What the data stack will put out, it need not have put out yet.
        to_come: Sequence[str] = ()
        if "data" in work.parts or existing["data"] is not None:
            to_come = work.fed(part)
        for name in missing_from(work.templates[part], work.given, had=had, put_out=to_come):
            missing.setdefault(name, []).append(work.stack_name(part))
        values = resolved(work.templates[part], work.given, had=had, to_come=to_come)
        broken += [
            f"{work.stack_name(part)}: {rule}" for rule in broken_rules(work.templates[part].rules, values)
        ]
    if missing or broken:
        raise Misused(*missing_lines(missing), *broken)
