"""Who serves already where this process is about to.

Granian's sockets may share their port (SO_REUSEPORT): a second server on the same one starts without a word,
and clients land on either. A worker is told of the other one here, from Linux's own tables. It loads the
application when its own socket is bound and does not listen yet, so whoever listens there is another worker
of the same server, or another server. Which of the two is told by the process that has the socket; where none
is found that has it (it may be in another container), the other server is only likely.

Elsewhere than on Linux nothing is known, and nobody is found.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

PROC = Path("/proc")
_LISTENS = "0A"
"""The kernel's number for the state (include/net/tcp_states.h)."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens, or is about to."""

    host: str
    port: int
    inode: str
    """Its number, the same in every process that has it."""

    def meets(self, other: Listener) -> bool:
        """Whether a client of one may land on the other."""
        if self.port != other.port or (":" in self.host) != (":" in other.host):
            return False
        return self.host == other.host or any(
            ip_address(host).is_unspecified for host in (self.host, other.host)
        )


@dataclass(frozen=True, slots=True)
class OtherServer:
    """Another server has the port that this process has bound."""

    line: str
    """What people are told."""
    is_certain: bool
    """Its process is known, and is none of this server's."""


def another_server() -> OtherServer | None:
    """The other server on the port that this process has bound; None where there is none."""
    own = list(_bound_here())
    doubtful: OtherServer | None = None
    for found in met_by(own, [*_listening("tcp"), *_listening("tcp6")]) if own else ():
        owners = _owners(found.inode)
        if not owners:
            doubtful = OtherServer(_told("another process", found), is_certain=False)
        elif not any(_is_of_this_server(pid) for pid in owners):
            return OtherServer(_told(f"process {owners[0]}", found), is_certain=True)
    return doubtful


def met_by(own: Collection[Listener], listening: Collection[Listener]) -> list[Listener]:
    """Those that listen which are none of our own sockets, and take clients from one of them."""
    ours = {each.inode for each in own}
    return [
        other for other in listening if other.inode not in ours and any(other.meets(each) for each in own)
    ]


def _told(who: str, found: Listener) -> str:
    host = f"[{found.host}]" if ":" in found.host else found.host
    told = f"{who} serves {host}:{found.port} already, and clients would land on either"
    return f"{told}: end it, or choose another port"


def listening_in(table: str) -> Iterator[Listener]:
    """Those that listen in a table such as /proc/net/tcp."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENS:
            address, _, port = fields[1].partition(":")
            yield Listener(_host(address), int(port, 16), fields[9])


def _host(address: str) -> str:
    """The address as people write it: the kernel shows words of 32 bits, each in its own order of bytes."""
    words = [bytes.fromhex(address[at : at + 8]) for at in range(0, len(address), 8)]
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return str(ip_address(packed))


def _listening(table: str) -> Iterator[Listener]:
    try:
        text = (PROC / "self" / "net" / table).read_text()
    except OSError:
        return
    yield from listening_in(text)


def _bound_here() -> Iterator[Listener]:
    """This process's TCP sockets that are bound to a port and connected to nobody."""
    for number, inode in _sockets_of("self"):
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
            if found.type == socket.SOCK_STREAM and found.family in (socket.AF_INET, socket.AF_INET6):
                host, port = found.getsockname()[:2]
                if port and not _is_connected(found):
                    yield Listener(str(ip_address(host.partition("%")[0])), port, inode)


def _is_connected(found: socket.socket) -> bool:
    try:
        found.getpeername()
    except OSError:
        return False
    return True


def _owners(inode: str) -> list[int]:
    """The processes that have the socket, among those that may be looked at."""
    pids: list[int] = []
    with suppress(OSError):
        pids = sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal())
    return [pid for pid in pids if inode in {found for _, found in _sockets_of(str(pid))}]


def _is_of_this_server(pid: int) -> bool:
    """Whether it is this worker, its main process, or another worker of that."""
    main = os.getppid()
    return pid in (os.getpid(), main) or _parent_of(pid) == main


def _parent_of(pid: int) -> int | None:
    try:
        # The name in parentheses may have spaces and parentheses of its own.
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _sockets_of(process: str) -> Set[tuple[int, str]]:
    """The file descriptors that are sockets, with their inodes."""
    found = set()
    with suppress(OSError):
        for entry in (PROC / process / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    found.add((int(entry.name), target[8:-1]))
    return found
