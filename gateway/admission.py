"""Which session may open, and on which replica: a choice and its lease in one step of the event loop."""

from __future__ import annotations

from collections.abc import Collection

from gateway.replicas.registry import Lease, ReplicaRegistry
from gateway.selection import AllFull, Chosen, NoneHealthy, Policy, choose


class Admission:
    """Places sessions by the policy. A place is held by its lease, from here to the session's end."""

    def __init__(self, registry: ReplicaRegistry, policy: Policy) -> None:
        self._registry = registry
        self._policy = policy
        self._ticket = 0

    def place(self, tried: Collection[str] = ()) -> Lease | AllFull | NoneHealthy:
        """A lease on a replica that is not among the URLs of `tried`, or why there is none.

        The first try of a session takes a ticket; its further tries go on from where that one stood.
        """
        choice = choose(self._policy, self._registry.candidates(exclude=tried), ticket=self._ticket)
        if not isinstance(choice, Chosen):
            return choice
        if not tried:
            self._ticket += 1
        return self._registry.lease(choice.candidate.url)
