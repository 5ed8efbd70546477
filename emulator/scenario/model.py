"""PURE. A scenario: what breaks when, who is connected meanwhile, and what has to come of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from emulator.scenario.expectations import Expectations
from emulator.scenario.sessions import Sessions
from emulator.scenario.stage import NEEDS, Gateway, Need, Replicas
from emulator.scenario.timeline import Step
from emulator.scenario.values import FILE_NAME, LINE, Duration, Part
from emulator.scenario.when import StatusWhen

DEFAULT_DEADLINE_SECONDS = 60.0


class Scenario(Part):
    """One failure, played and judged."""

    name: Annotated[StrictStr, Field(pattern=FILE_NAME)] = "scenario"
    """In verdicts and reports; left out is the file's name."""
    description: Annotated[StrictStr, Field(max_length=300, pattern=LINE)] = ""
    """What fails and what is expected, in one line."""
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] = 0
    """Of everything random: the same seed draws the same failures for the sessions of each replica."""
    deadline: Annotated[Duration, Field(gt=0)] = DEFAULT_DEADLINE_SECONDS
    """The play is stopped then, and judged as it stands; what is not through is a failure."""
    lasts: Duration = 0.0
    """The play lasts so long at least, although sessions and steps are through."""
    replicas: Replicas = Replicas()
    """What is broken."""
    gateway: Gateway = Gateway()
    """What stands before them."""
    sessions: tuple[Sessions, ...] = ()
    """Who is connected, in the order of opening."""
    timeline: tuple[Step, ...] = ()
    """What happens, and when. Steps of the same moment are done in the order of the file."""
    expect: Expectations = Expectations()
    """What has to come of it."""

    @property
    def session_names(self) -> list[str]:
        """Of all driven sessions, in the order of opening."""
        return [name for entry in self.sessions for name in entry.names]

    @property
    def needs(self) -> tuple[Need, ...]:
        """What a gateway has to be able to do for this: what is said, and what follows from the rest."""
        found = {*self.gateway.needs, *self._implied()}
        return tuple(need for need in NEEDS if need in found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is right, and hardly meant, in words."""
        if self.expect.holds_anything:
            return ()
        text = "it expects nothing: whatever its sessions and replicas see, it passes"
        return (f"{text}; say under expect what should come of it",)

    def _implied(self) -> Iterator[Need]:
        triggers = [step.when for step in self.timeline] + [entry.when for entry in self.sessions]
        if self.expect.status or any(isinstance(when, StatusWhen) for when in triggers):
            yield "status"
        for expected in (one for several in self.expect.sessions.values() for one in several):
            if expected.resumed is not None and not expected.resumed.allows(0):
                yield "resume"
        if any(step.gateway is not None for step in self.timeline) and self.expect.gateway.exit == 0:
            yield "drain"
