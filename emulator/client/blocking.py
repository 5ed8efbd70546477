"""The client for whoever may block: plain tests and scripts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from emulator.client import calls
from emulator.client.calls import ANSWER_SECONDS, DEFAULT_URL, Call, Sought
from emulator.client.errors import Unreachable
from emulator.control.answers import EventPage, FarmStatus, FaultDescription, OpenSession, ReplicaStatus
from emulator.events import DEFAULT_LIMIT, Event
from emulator.faults import Fault

T = TypeVar("T")


class Emulator:
    """A running emulator, through its control API at `url`. A context manager, which begins when it is
    entered; or it begins with its first call, and you call `close`."""

    def __init__(self, url: str = DEFAULT_URL, *, since: int | None = None) -> None:
        """`since`: the event after which it begins in place of that."""
        self.url = url
        self._since = since
        # Plain HTTP needs no certificates, and loading them takes longer than a request.
        self._http = httpx.Client(base_url=url, trust_env=False, verify=url.startswith("https:"))

    # What there is

    def replicas(self) -> list[ReplicaStatus]:
        """Every replica as it is now."""
        return self._do(calls.replicas())

    def replica(self, name: str) -> ReplicaStatus:
        """One replica as it is now."""
        return self._do(calls.replica(name))

    def urls(self) -> dict[str, str]:
        """Replica name to URL, as a gateway wants them."""
        return {replica.name: replica.url for replica in self.replicas()}

    def status(self) -> FarmStatus:
        """Everything at a glance."""
        return self._do(calls.status())

    def sessions(self, name: str | None = None) -> list[OpenSession]:
        """The sessions that are open now, the oldest first: on one replica or on all."""
        return self._do(calls.sessions(name))

    def faults(self) -> dict[str, FaultDescription]:
        """Every fault that can be armed, by name."""
        return self._do(calls.faults())

    # Faults

    def arm(self, name: str, fault: Fault | str, **fields: Any) -> ReplicaStatus:
        """The fault stands on the replica: `arm("a", Stall(seconds=2))` or `arm("a", "stall", seconds=2)`."""
        return self._do(calls.arm(name, fault, fields))

    def lift(self, name: str, fault: Fault | type[Fault] | str | None = None) -> ReplicaStatus:
        """The fault stands no longer; without one, none does."""
        return self._do(calls.lift(name, fault))

    # Life

    def kill(
        self, name: str, *, restart_after_seconds: float | None = None, warming_seconds: float = 0.0
    ) -> ReplicaStatus:
        """Every connection is reset and the port closed; it comes back if a time is given."""
        told = {"restart_after_seconds": restart_after_seconds, "warming_seconds": warming_seconds}
        return self._do(calls.command(name, "kill", **told))

    def restart(
        self, name: str, *, after_seconds: float = 0.0, warming_seconds: float = 0.0
    ) -> ReplicaStatus:
        """Killed if it runs, then back."""
        told = {"after_seconds": after_seconds, "warming_seconds": warming_seconds}
        return self._do(calls.command(name, "restart", **told))

    def pause(self, name: str, *, for_seconds: float | None = None) -> ReplicaStatus:
        """It stands still."""
        return self._do(calls.command(name, "pause", for_seconds=for_seconds))

    def resume(self, name: str) -> ReplicaStatus:
        """It goes on."""
        return self._do(calls.command(name, "resume"))

    def add(
        self,
        name: str | None = None,
        *,
        port: int = 0,
        capacity: int | None = None,
        warming_seconds: float = 0.0,
    ) -> ReplicaStatus:
        """One replica more, under the first free name and on a free port unless told otherwise."""
        return self._do(calls.add(name, port=port, capacity=capacity, warming_seconds=warming_seconds))

    def remove(self, name: str) -> None:
        """The replica is gone for good."""
        self._do(calls.remove(name))

    def reset(self) -> list[ReplicaStatus]:
        """No faults, every replica running."""
        return self._do(calls.reset())

    # Events

    def events(
        self,
        after: int = 0,
        *,
        replica: str | None = None,
        kinds: Sequence[str] = (),
        session: int | None = None,
        limit: int = DEFAULT_LIMIT,
        wait_seconds: float = 0.0,
    ) -> EventPage:
        """What the replicas saw since event number `after`, oldest first; waits for one if told to."""
        return self._do(
            calls.events(
                after,
                replica=replica,
                kinds=kinds,
                session=session,
                limit=limit,
                wait_seconds=wait_seconds,
            )
        )

    def last_event(self) -> int:
        """The number of the newest event: what comes later is `after` that."""
        return (self.status()).last_event

    def wait_for(
        self,
        kind: str,
        *,
        replica: str | None = None,
        session: int | None = None,
        n: int = 1,
        after_seq: int | None = None,
        deadline_seconds: float = 20.0,
        **detail: Any,
    ) -> Event:
        """The n-th event of this kind, once it was seen. What its detail has to say stands beside:
        `wait_for("state_changed", replica="a", before="killed")`. Raises NotSeen.

        What happened before the call counts as well, so that nothing is missed between a command and the wait
        for what comes of it: all since this client began, or what came after event number `after_seq`. Where
        the same may have happened before, take `last_event()` first, and wait for what comes after that."""
        self._begin()
        after = self._since if after_seq is None else after_seq
        sought = Sought(kind, replica, session, n, after or 0, detail)
        flow = calls.find(sought, deadline_seconds, time.monotonic)
        call = next(flow)
        while True:
            try:
                call = flow.send(self._do(call))
            except StopIteration as found:
                event: Event = found.value
                return event

    # Inside

    def close(self) -> None:
        """Its connections are closed."""
        self._http.close()

    def __enter__(self) -> Self:
        """Raises Unreachable."""
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        """From here on events count, unless they do already."""
        if self._since is None:
            self._since = (self._ask(calls.status())).last_event

    def _do(self, call: Call[T]) -> T:
        self._begin()
        return self._ask(call)

    def _ask(self, call: Call[T]) -> T:
        try:
            answer = self._http.request(
                call.method,
                call.path,
                params=call.query,
                json=call.body,
                timeout=ANSWER_SECONDS + call.wait_seconds,
            )
        except httpx.TransportError as error:
            raise Unreachable(f"no emulator answers at {self.url}: {str(error) or repr(error)}") from error
        return call.read(answer.status_code, answer.content)
