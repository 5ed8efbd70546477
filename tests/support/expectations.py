"""What several end-to-end tests expect of a client's session."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.support.peer import Ending, Peer
from tests.support.raw_client import HandshakeRefusedError, connect
from tests.support.scripted_replica import ScriptedReplica


async def refusal(port: int, target: str = "/v1/stream") -> HandshakeRefusedError:
    """The HTTP answer to an upgrade that must be refused."""
    with pytest.raises(HandshakeRefusedError) as raised:
        await connect(port, target)
    return raised.value


async def told_in_band(client: Peer, code: str, *, retryable: bool = True) -> Ending:
    """The end of a session, after the one `error` message that must come before it."""
    message = json.loads(await client.recv())
    assert (message["type"], message["code"], message["retryable"]) == ("error", code, retryable)
    assert message["message"]
    ending = await client.ended()
    assert client.received_messages == 1
    return ending


def first_choice(first: ScriptedReplica, *others: ScriptedReplica) -> list[Mapping[str, object]]:
    """Replica settings in which `first` gets every session that it can take."""
    return [{"url": first.url, "primary": True}, *({"url": other.url} for other in others)]
