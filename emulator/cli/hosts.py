"""PURE. Where replicas and the control API listen, and what is said of it.

Replicas listen wherever they are told to. The control API answers only to requests that name this machine, as
`control/guard` has it. So it follows the replicas to one of those, or to all addresses, which is what a
container with a published port needs; to any other one it does not, where nobody could ask it.
"""

from __future__ import annotations

from emulator.control.guard import OWN_HOSTS
from emulator.replica.spec import LOOPBACK, is_any, is_loopback


def control_host(host: str) -> str:
    """Where the control API listens beside replicas on `host`."""
    return host if host in OWN_HOSTS or is_any(host) else LOOPBACK


def warning(host: str) -> str | None:
    """What people should know before others can reach this machine's replicas; None where none can."""
    if is_loopback(host):
        return None
    text = f"--host {host}: whoever reaches this machine there can use the replicas"
    if not is_any(host):
        return f"{text}; the control API stays on {LOOPBACK}"
    return (
        f"{text}, and connect to the control API. It has no password, and answers only to requests that name "
        f"this machine ({', '.join(OWN_HOSTS)}): that keeps web pages out, and no program. Let only people "
        "that you trust reach its port"
    )
