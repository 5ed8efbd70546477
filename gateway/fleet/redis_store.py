"""A fleet in Redis, Valkey or what speaks like them: one script a call, the server's clock for everything.

redis-py's own defaults would let a beat hang for 14 s on a server that does not answer. Here each try to
connect and each reply may take `timeout_seconds`, and one more try follows: it covers a server that was
restarted behind an idle connection, and one that is no primary any more: that is asked for by its name again.
Who calls sets the deadline for the whole.

What a user of the server needs, where there are access lists (`redis_scripts.COMMANDS`):

    ACL SETUSER fleet on >PASSWORD ~{fleet:* -@all +eval +evalsha +time +zadd ...

With `rediss://` the connection is TLS, and the server's certificate and name are verified;
`ssl_ca_certs=PATH` in the URL's query names the authority. A cluster needs `cluster=True`: both keys are in
one slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from textwrap import shorten
from typing import Any, Protocol, cast

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ConnectionError,
    NoScriptError,
    ReadOnlyError,
    RedisClusterException,  # is no RedisError
    RedisError,
    TimeoutError,
)

from gateway.errors import FleetRefused, FleetUnavailable
from gateway.fleet.encoding import decode_entry, moment
from gateway.fleet.redis_config import RedisFleetConfig
from gateway.fleet.redis_scripts import CLOCK, beat_script, leave_script, view_script
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Answer, Beat, checked_beat, checked_incarnation, read_incarnation
from gateway.fleet.view import FleetView
from gateway.logs import hide_passwords

TIMEOUT_SECONDS = 1.0
"""How long a connect, and each reply, may take where nothing else is said."""

_MOST_SAID = 400
"""Characters of a server's words that are told."""


class RedisClient(Protocol):
    """What the store needs of a client. `open_client` makes one; any of redis-py's that returns bytes will
    do.
    """

    async def evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any: ...

    async def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any: ...

    async def aclose(self) -> None: ...


def open_client(url: str, *, timeout_seconds: float = TIMEOUT_SECONDS, cluster: bool = False) -> RedisClient:
    """A client that fails in time. It connects when it is first used; `await client.aclose()` ends it.

    Raises FleetRefused for a URL that is not redis://, rediss:// or unix://, and for one that no cluster has.
    """
    options: dict[str, Any] = {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "protocol": 2,
        "driver_info": None,
        "retry": Retry(NoBackoff(), 1, (ConnectionError, TimeoutError, ReadOnlyError)),
    }
    try:
        if cluster:
            return cast("RedisClient", RedisCluster.from_url(url, **options))
        return cast("RedisClient", Redis.from_url(url, **options))
    except (ValueError, RedisError, RedisClusterException) as error:
        raise FleetRefused(f"the fleet's url cannot be used: {hide_passwords(str(error))}") from error


class _Script:
    """A script by its digest, and by its text where the server does not know it (any more)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sha = sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, client: RedisClient, keys: Sequence[str], *args: bytes | int) -> Any:
        try:
            try:
                return await client.evalsha(self._sha, len(keys), *keys, *args)
            except NoScriptError:
                return await client.eval(self._text, len(keys), *keys, *args)
        except (RedisError, RedisClusterException, OSError) as error:
            raise _unavailable(str(error) or type(error).__name__) from error
        except Exception as error:
            # What the library makes of bytes that are no answer, and of options that no connection takes.
            raise _unavailable(f"{type(error).__name__}: {error}") from error


def _unavailable(said: str) -> FleetUnavailable:
    """With what was said, as far as a line has room for it."""
    if "unauthenticated" in said:  # what a server without a password from us says to more than ten words
        said = "the server asks for a password"
    told = shorten(hide_passwords(said), _MOST_SAID, placeholder=" ...")
    return FleetUnavailable(f"the fleet's store gave no usable answer: {told}")


class RedisFleetStore:
    """A `FleetStore` over a client that its owner closes after the last call."""

    def __init__(
        self, client: RedisClient, spec: FleetSpec, config: RedisFleetConfig, *, clock: str = CLOCK
    ) -> None:
        """`clock` is the piece of script that tells the time: the server's, unless a test moves it."""
        self._client = client
        self._spec = spec
        self._keys = config.keys(spec)
        self._beat = _Script(beat_script(clock))
        self._view = _Script(view_script(clock))
        self._leave = _Script(leave_script(clock))

    @property
    def spec(self) -> FleetSpec:
        return self._spec

    async def beat(self, beat: Beat) -> Answer:
        said = checked_beat(beat, self._spec)
        args = (said.member_id, said.incarnation, said.number, said.ttl_us, said.usual_ttl_us, said.payload)
        reply = await self._beat.run(self._client, self._keys, *args)
        with _as_the_script_replies():
            now, found, written, entries = reply
            return Answer(_decode(now, entries), read_incarnation(found), written == 1)

    async def view(self) -> FleetView:
        reply = await self._view.run(self._client, self._keys)
        with _as_the_script_replies():
            now, expired, entries = reply
            return _decode(now, entries, frozenset(expired))

    async def leave(self, member_id: str, *, incarnation: str | None = None) -> bool:
        args = [member_id.encode()]
        if incarnation is not None:
            args.append(checked_incarnation(incarnation))
        return bool(await self._leave.run(self._client, self._keys, *args) == 1)


@contextmanager
def _as_the_script_replies() -> Iterator[None]:
    """Raises FleetUnavailable for a reply that is not one of the script's: something else answers there."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise _unavailable("its reply is none of the script's; is it Redis?") from error


def _decode(now: bytes, entries: Sequence[bytes], expired: frozenset[bytes] = frozenset()) -> FleetView:
    """The view in a script's reply: the entries are a flat list of ids and entries."""
    pairs = zip(entries[::2], entries[1::2], strict=True)
    found = (decode_entry(*pair) for pair in pairs if pair[0] not in expired)
    return FleetView(moment(int(now)), tuple(member for member in found if member is not None))
