"""Every way in which a session can be refused or ended by the gateway, with what the client sees of it.

    StreamholdError
    ├── SettingsInvalid          our reader's fault: the configuration; exit status 1
    ├── RuntimeRefused           our reader's fault: the host cannot run a long-lived process; exit status 1
    ├── FleetRefused             our caller's fault: a fleet, an id or a report that breaks a rule
    ├── FleetUnavailable         the store's fault: no usable answer, or none in time
    ├── SourceUnavailable        the fault of what lists replicas: no usable answer
    └── SessionEnded             a session that the gateway ends or refuses, by whose fault:
        ├── ReplicaFault         NoHealthyReplica, ReplicaLost (PoisonSuspected), ReplicasFull, QueueTimedOut
        ├── UpgradeRefused       a replica answered the upgrade with a status
        ├── ClientFault          MessageTooBig, IdleTimeout, PingTimeout, SlowConsumer, ClientRefused
        └── GatewayFault         GatewayDraining, GatewayRestarting, HandedBack, InternalError

`code` is the wire code of an in-band `error` message (None where none is sent), `close_code` and
`close_reason` are those of the close frame (RFC 6455, section 7.4), `http_status` answers where the upgrade
has not been accepted yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


class StreamholdError(Exception):
    """The root of what Streamhold raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the configuration, in the reader's words."""

    source: str
    """The file's path, or the environment variable's name."""
    key: str
    """Dotted path of the setting, as in `router.health_check.interval_seconds`; empty for the file as a
    whole.
    """
    message: str
    """What is wrong, and what would be right."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.key, self.message) if part)


class SettingsInvalid(StreamholdError):
    """The configuration cannot be used; `problems` has every reason, not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RuntimeRefused(StreamholdError):
    """The runtime mode does not allow the long-running steps that this configuration needs."""


class FleetRefused(StreamholdError, ValueError):
    """A fleet, a member's id, its report or its cadence breaks a rule; nothing was sent."""


class FleetUnavailable(StreamholdError):
    """The fleet's store gave no usable answer. What was asked of it may have been done all the same."""


class SourceUnavailable(StreamholdError):
    """What lists the replicas gave no usable answer; nothing was changed by asking."""

    def __init__(self, message: str, *, cause: str = "unanswered") -> None:
        """`cause` is one word for what has to be done about it, the same for every text that says so. How a
        network fails, one time by a reset and another by a timeout, is one cause.
        """
        super().__init__(message)
        self.cause = cause


class SessionEnded(StreamholdError):
    """The gateway refuses or ends a session."""

    code: ClassVar[str | None] = None
    close_code: ClassVar[int]
    close_reason: ClassVar[str]
    http_status: ClassVar[int]
    retryable: ClassVar[bool]
    message: ClassVar[str]


class ReplicaFault(SessionEnded):
    """No replica could take or keep the session."""

    http_status = 503
    retryable = True


class NoHealthyReplica(ReplicaFault):
    """No replica is healthy, or none of those tried gave an HTTP answer."""

    code = "gpu_unavailable"
    close_code = 1013
    close_reason = "no_healthy_replica"
    message = "no healthy replica is available; try again later"


class ReplicasFull(ReplicaFault):
    """Replicas are healthy, but none has room for one more session."""

    code = "gpu_unavailable"
    close_code = 1013
    close_reason = "queue_full"
    message = "every replica is at its session limit and the queue is full; try again later"


class QueueTimedOut(ReplicaFault):
    """The session waited for a place, and none came in time."""

    code = "gpu_unavailable"
    close_code = 1013
    close_reason = "queue_timeout"
    message = "no replica had room in time; try again later"


class ReplicaLost(ReplicaFault):
    """The replica went away in mid-session."""

    code = "worker_failed"
    close_code = 1011
    close_reason = "replica_lost"
    message = "the replica that served this session was lost"


class PoisonSuspected(ReplicaLost):
    """Two replicas in a row went away while they worked on the same request; a third is spared."""

    retryable = False
    message = "two replicas in a row were lost over this request"


class UpgradeRefused(SessionEnded):
    """A replica answered the upgrade with a status; seen in band only after an early accept."""

    code = "gpu_unavailable"
    close_code = 1008
    close_reason = "upstream_refused"
    http_status = 502
    retryable = False
    message = "the replica refused this session"

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"a replica answered the upgrade with {status}")


class ClientFault(SessionEnded):
    """The client broke a limit."""

    http_status = 400
    retryable = False


class ClientRefused(ClientFault):
    """The origin or the token is not allowed; told by status, before the upgrade."""

    close_code = 1008
    close_reason = "client_refused"
    http_status = 403
    message = "this client may not open a session"


class MessageTooBig(ClientFault):
    """A message above session.max_message_bytes, from either side."""

    close_code = 1009
    close_reason = "message_too_big"
    http_status = 413
    message = "a message was larger than this gateway carries"


class IdleTimeout(ClientFault):
    """No message in either direction for session.idle_timeout_seconds."""

    close_code = 1001
    close_reason = "idle_timeout"
    message = "nothing was sent in either direction for too long"


class PingTimeout(ClientFault):
    """No pong within session.ping_timeout_seconds."""

    close_code = 1011
    close_reason = "ping_timeout"
    message = "no pong came in time"


class SlowConsumer(ClientFault):
    """A side took nothing for session.slow_consumer_timeout_seconds while data waited for it."""

    close_code = 1008
    close_reason = "slow_consumer"
    message = "a side of this session took nothing for too long"


class GatewayFault(SessionEnded):
    """The gateway itself is the reason."""

    retryable = True


class GatewayDraining(GatewayFault):
    """A new session while the gateway drains; told by status, before the upgrade."""

    close_code = 1012
    close_reason = "gateway_restarting"
    http_status = 503
    message = "this gateway is draining; connect again to reach another"


class GatewayRestarting(GatewayFault):
    """The drain deadline came while the session was open."""

    close_code = 1012
    close_reason = "gateway_restarting"
    http_status = 503
    message = "this gateway is going away; connect again"


class HandedBack(GatewayFault):
    """This gateway has more sessions than the others, and this client loses nothing by connecting again."""

    close_code = 1012
    close_reason = "rebalance_reconnect"
    http_status = 503
    message = "other gateways have fewer sessions; connect again, with the last continuation state"


class InternalError(GatewayFault):
    """A defect of ours; its traceback is in the log."""

    code = "internal_error"
    close_code = 1011
    close_reason = "internal_error"
    http_status = 500
    message = "the gateway failed on this session"
