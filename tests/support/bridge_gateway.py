"""A plain bridge as a gateway under test: `python -m tests.support.bridge_gateway HOW` may spoil what passes.

Listens on GRANIAN_PORT, and takes all sessions to the first of REPLICA_URLS. What clients get, by HOW:

- `honest`: pass all as it is.
- `flip`: change one byte of each second binary message.
- `drop`: leave out the second binary message of a session.
- `twice`: send the second binary message of a session twice.
- `swap`: send the second and third binary message in the other order.
- `mute`: leave out `ltx2_segment_complete`.
- `renumber`: tell of each segment by the number after its own.
- `extra`: put an `error` of its own before the first segment.
- `abrupt`: end without a close frame where the replica closed.
- `recode`: close with 1001 where the replica, or the client, closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from http import HTTPStatus

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

Frame = str | bytes


class Spoiler:
    """What becomes of the messages to one client."""

    def __init__(self, how: str) -> None:
        self._how = how
        self._binaries = 0
        self._held: Frame | None = None

    def of(self, frame: Frame) -> list[Frame]:
        if isinstance(frame, str):
            return self._of_text(frame)
        self._binaries += 1
        second = self._binaries == 2
        match self._how:
            case "flip" if self._binaries % 2 == 0:
                return [frame[:-1] + bytes([frame[-1] ^ 1])]
            case "drop" if second:
                return []
            case "twice" if second:
                return [frame, frame]
            case "swap" if second:
                self._held = frame
                return []
            case "swap" if self._held is not None:
                held, self._held = self._held, None
                return [frame, held]
            case _:
                return [frame]

    def _of_text(self, frame: str) -> list[Frame]:
        message = json.loads(frame)
        kind = message["type"]
        if self._how == "mute" and kind == "ltx2_segment_complete":
            return []
        if self._how == "renumber" and "segment_idx" in message:
            return [json.dumps({**message, "segment_idx": message["segment_idx"] + 1})]
        if self._how == "extra" and kind == "ltx2_stream_start":
            error = {"type": "error", "code": "internal_error", "message": "boo", "retryable": True}
            return [json.dumps(error), frame]
        return [frame]


async def bridge(client: ServerConnection, how: str) -> None:
    """One session, from its handshake to its end."""
    replica_url = os.environ["REPLICA_URLS"].split(",")[0].split()[0].replace("http://", "ws://")
    assert client.request is not None
    async with connect(replica_url + client.request.path, max_size=None) as replica:
        spoiler = Spoiler(how)

        async def to_client() -> None:
            async for frame in whole(replica):
                for each in spoiler.of(frame):
                    await client.send(each)
            code = replica.close_code or 1006
            if how == "abrupt":
                client.transport.abort()
            else:
                await client.close(1001 if how == "recode" else code, replica.close_reason or "")

        async def to_replica() -> None:
            async for frame in whole(client):
                await replica.send(frame)
            await replica.close(client.close_code or 1001)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(to_client())
            tasks.create_task(to_replica())


async def whole(peer: ServerConnection | ClientConnection) -> AsyncIterator[Frame]:
    """The messages until the connection ends, in whatever way."""
    try:
        while True:
            yield await peer.recv()
    except ConnectionClosed:
        return


def answer(client: ServerConnection, request: Request) -> Response | None:
    """Plain requests get a 200."""
    return None if request.headers.get("Upgrade") else client.respond(HTTPStatus.OK, "{}\n")


async def main(how: str) -> None:
    async def session(client: ServerConnection) -> None:
        await bridge(client, how)

    port = int(os.environ["GRANIAN_PORT"])
    async with serve(session, "127.0.0.1", port, process_request=answer, max_size=None) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
