"""PURE. The timeline of a scenario: steps, each with one trigger and with what is done then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from emulator.faults import CATALOGUE
from emulator.scenario.faults import FaultAction
from emulator.scenario.values import Duration, OneOrMore, Part, Patterns
from emulator.scenario.when import AnyWhen

PartT = TypeVar("PartT", bound=Part)


class _OnReplicas(Part):
    replica: Patterns
    """Which: a name, a pattern, a list of them, or `there`: where it happened that the step waits for (of a
    session's event, its replica)."""


class Kill(_OnReplicas):
    """Every connection is reset and the port closed."""

    restart_after: Duration | None = None
    """It comes back after so long; left out is not by itself."""
    warming: Duration = 0.0
    """It is warming for so long once it is back."""


class Restart(_OnReplicas):
    """It is killed if it runs, and comes back."""

    after: Duration = 0.0
    """How long it is away."""
    warming: Duration = 0.0
    """It is warming for so long once it is back."""


class Pause(_OnReplicas):
    """It stands still: takes connections, reads and writes nothing."""

    lasting: Annotated[Duration, Field(gt=0)] | None = Field(default=None, validation_alias="for")
    """How long; left out is until it is resumed."""


class Resume(_OnReplicas):
    """It goes on after a pause."""


if TYPE_CHECKING:
    FaultName = str
else:
    FaultName = Literal[tuple(CATALOGUE)]


class Lift(_OnReplicas):
    """Faults stand no longer."""

    fault: OneOrMore[FaultName] | None = None
    """Their names; left out is all."""


class Reset(_OnReplicas):
    """It is as new: no faults, running."""


SignalName = Literal["SIGTERM", "SIGINT", "SIGKILL", "SIGSTOP", "SIGCONT", "SIGHUP"]


class Signal(Part):
    """A signal to the gateway, which the runner has to have started itself."""

    signal: SignalName = "SIGTERM"
    """Which."""


class Client(Part):
    """Something that a driven session does now, whatever its script says."""

    session: Patterns
    """Which: a name, a pattern, or a list of them."""
    do: Literal["leave", "close", "stop_reading", "read"]
    """It cuts its connection, it closes in order, it takes nothing any more, it reads again."""


def _aimed(written: object) -> object:
    return {"replica": written} if isinstance(written, str | list) else written


def _signalled(written: object) -> object:
    return {"signal": written} if isinstance(written, str) else written


Action = Kill | Restart | Pause | Resume | FaultAction | Lift | Reset | Signal | Client
"""What a step can do."""


class Step(Part):
    """One trigger (`at` or `when`) and at least one action; they are done in the order of this table. A step
    whose trigger never comes fails the scenario."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["at"]}, {"required": ["when"]}], "minProperties": 2}
    )

    at: Duration | None = None
    """So long after the beginning."""
    when: AnyWhen | None = None
    """When this happens, the first time."""
    reset: Annotated[Reset, BeforeValidator(_aimed, json_schema_input_type=Patterns | Reset)] | None = None
    """Replicas are as new."""
    lift: Annotated[Lift, BeforeValidator(_aimed, json_schema_input_type=Patterns | Lift)] | None = None
    """Faults are lifted."""
    fault: FaultAction | None = None
    """Faults are armed: `{replica: b, stall: {seconds: 2}}`."""
    kill: Annotated[Kill, BeforeValidator(_aimed, json_schema_input_type=Patterns | Kill)] | None = None
    """Replicas die."""
    restart: Annotated[Restart, BeforeValidator(_aimed, json_schema_input_type=Patterns | Restart)] | None = (
        None
    )
    """Replicas come back."""
    pause: Annotated[Pause, BeforeValidator(_aimed, json_schema_input_type=Patterns | Pause)] | None = None
    """Replicas stand still."""
    resume: Annotated[Resume, BeforeValidator(_aimed, json_schema_input_type=Patterns | Resume)] | None = None
    """Replicas go on."""
    client: Client | None = None
    """Driven sessions do something."""
    gateway: (
        Annotated[Signal, BeforeValidator(_signalled, json_schema_input_type=SignalName | Signal)] | None
    ) = None
    """The gateway gets a signal."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.at is None) == (self.when is None):
            raise ValueError("should have one trigger: at (a time) or when (an event)")
        if not self.actions:
            names = [name for name in type(self).model_fields if name not in ("at", "when")]
            raise ValueError(f"does nothing; give it one of {', '.join(names)}")
        return self

    @property
    def actions(self) -> tuple[Action, ...]:
        """In the order in which they are done."""
        return tuple(action for action, _ in self.named_actions())

    def named_actions(self) -> Iterator[tuple[Action, str]]:
        """The actions, each with its key."""
        for name in type(self).model_fields:
            value: Any = getattr(self, name)
            if name not in ("at", "when") and value is not None:
                yield value, name
