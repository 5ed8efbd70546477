"""A replayed session is what the replica said, and a client that differs is told where."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from emulator.farm import Farm
from emulator.recording.format import PIECE_BYTES, line_of
from emulator.recording.reading import read
from emulator.recording.replay import Replay
from tests.emulator.recording.support import recorded
from tests.emulator.sessions import Finished, session
from tests.support.waiting import eventually

CASES = Path(__file__).parents[1] / "protocol" / "recorded-sessions.jsonl"
INIT = {"type": "session_init_v2"}


class Played:
    """A replay that runs, and what it said."""

    def __init__(self, replay: Replay, said: list[str]) -> None:
        self.replay = replay
        self.said = said
        self.url = f"ws://127.0.0.1:{replay.port}/v1/stream"
        self.http = f"http://127.0.0.1:{replay.port}"

    @property
    def tally(self) -> tuple[int, int]:
        """Sessions that matched, and that differed."""
        return self.replay.tally.matched, self.replay.tally.differed

    async def told(self, tally: tuple[int, int]) -> None:
        await eventually(lambda: self.tally == tally, f"matched and differed are {tally}: {self.said}")


@asynccontextmanager
async def played(
    lines: Sequence[bytes] | Sequence[Mapping[str, Any]],
    *,
    speed: float = float("inf"),
    client_seconds: float = 20.0,
) -> AsyncIterator[Played]:
    said: list[str] = []
    recording = read([line if isinstance(line, bytes) else line_of(line) for line in lines])
    async with Replay(recording, speed=speed, say=said.append, client_seconds=client_seconds) as replay:
        yield Played(replay, said)


def one(*steps: Mapping[str, Any], **more: Any) -> list[Mapping[str, Any]]:
    return [{"conversation": "one", "steps": list(steps), **more}]


async def talk(url: str) -> tuple[list[Finished], list[str]]:
    """Two segments and a snapshot; what came, and the end."""
    async with session(url, subprotocols=[Subprotocol("v1")]) as client:
        seen = [await client.open(client_id="me")]
        for prompt in ("a pier", "in rain"):
            await client.send({"type": "segment_prompt_source", "prompt": prompt})
            seen.append(await client.receive_until("ltx2_segment_complete"))
        await client.send({"type": "snapshot_state"})
        seen.append(await client.receive_until("continuation_state_snapshot"))
        await client.send({"type": "nonsense"})
        seen.append(await client.receive_until("error"))
        await client.send("not json")
        end = await client.to_the_end()
        return [*seen, end], [str(client.socket.subprotocol), str(end.code), end.reason]


async def test_a_client_sees_the_same_of_a_replay_as_of_the_replica(tmp_path: Path) -> None:
    async with Farm(1, subprotocols=["v1"]) as farm, recorded(tmp_path, farm.replicas["a"].url) as proxy:
        first = await talk(f"{proxy.url}/v1/stream")
        await eventually(lambda: proxy.read().conversations[0].steps[-1].side == "s", "the end is recorded")
    lines = (tmp_path / "recording.jsonl").read_bytes().splitlines(keepends=True)
    async with played(lines) as replay:
        again = await talk(replay.url)
        await replay.told((1, 0))
    assert again == first


async def test_the_recordings_of_the_real_server_can_be_replayed() -> None:
    lines = CASES.read_bytes().splitlines(keepends=True)
    conversations = [json.loads(line) for line in lines if b'"conversation"' in line]
    async with played(lines) as replay:
        for conversation in conversations:
            async with session(replay.url) as client:
                for step in conversation["steps"]:
                    match step:
                        case {"c": message} | {"c_text": message}:
                            await client.send(message)
                        case {"s": message}:
                            assert await client.receive() == message
                        case {"s_bytes": size}:
                            media = await client.receive()
                            assert isinstance(media, bytes)
                            assert len(media) == size
                        case {"s_close": [code, reason]}:
                            end = await client.to_the_end()
                            assert (1006 if end.code is None else end.code, end.reason) == (code, reason)
                        case _:
                            raise AssertionError(f"a step of no known kind: {step}")
        await replay.told((len(conversations), 0))
        async with httpx.AsyncClient(trust_env=False) as http:
            for line in lines:
                if b'"http"' in line:
                    request = json.loads(line)
                    answer = await http.get(replay.http + request["http"].split()[1])
                    assert (answer.status_code, answer.json()) == (request["status"], request["body"])


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (
            [INIT, {"prompt": "b"}],
            'at step 3 of 4 (line 1): at prompt: the client has "b", the recording has "a"',
        ),
        ([{**INIT, "n": 1}], "at step 1 of 4 (line 1): at n: the client has 1, the recording nothing"),
        (
            [INIT, {"prompt": "a"}, {"x": 1}],
            'at step 4 of 4 (line 1): the client says {"x": 1}, where the recording',
        ),
        ([INIT, "text"], 'at step 3 of 4 (line 1): the client said text, the recording has {"prompt":"a"}'),
    ],
)
async def test_a_client_that_differs_is_told_where(says: list[Any], told: str) -> None:
    steps: list[dict[str, Any]] = [
        {"c": INIT},
        {"s": {"type": "hello"}},
        {"c": {"prompt": "a"}},
        {"c_close": [1000, ""]},
    ]
    async with played(one(*steps)) as replay:
        async with session(replay.url) as client:
            await client.send(*says)
            end = await client.to_the_end()
        await replay.told((0, 1))
    assert (end.code, end.reason) == (1008, "replay: the client differs from the recording")
    assert any(f"session 1 DIFFERS {told}" in line for line in replay.said), replay.said


async def test_a_client_that_leaves_early_differs() -> None:
    async with played(one({"c": INIT}, {"s": {}}, {"c": {"prompt": "a"}})) as replay:
        async with session(replay.url) as client:
            await client.send(INIT)
            await client.receive()
        await replay.told((0, 1))
    assert 'the client closed with 1000, the recording has that it said {"prompt":"a"}' in replay.said[-1]


@pytest.mark.parametrize(
    ("steps", "code"),
    [([], 1000), ([{"c_close": [1000, ""]}], 1000), ([{"s": {}}, {"c_close": [1001, ""]}], 1001)],
)
async def test_a_client_that_leaves_as_recorded_matches(steps: list[Mapping[str, Any]], code: int) -> None:
    async with played(one({"c": INIT}, *steps)) as replay:
        async with session(replay.url) as client:
            await client.send(INIT)
            await client.socket.close(code)
        await replay.told((1, 0))


async def test_a_client_that_is_silent_is_told_so() -> None:
    async with played(one({"c": INIT}), client_seconds=0.05) as replay:
        async with session(replay.url) as client:
            assert (await client.to_the_end()).code == 1008
        await replay.told((0, 1))
    assert "at step 1 of 1 (line 1): the client did not go on within 0.05 s" in replay.said[-1]


async def test_what_is_said_early_waits_for_its_turn() -> None:
    steps: list[dict[str, Any]] = [
        {"c": {"n": 1}},
        {"s": {"n": 2}},
        {"c": {"n": 3}},
        {"s": {"n": 4}},
        {"s_close": [1000, "done"]},
    ]
    async with played(one(*steps)) as replay:
        async with session(replay.url) as client:
            await client.send({"n": 1}, {"n": 3})
            end = await client.to_the_end()
        await replay.told((1, 0))
    assert (end.messages, end.code, end.reason) == ([{"n": 2}, {"n": 4}], 1000, "done")


async def test_each_connection_gets_the_next_session_and_the_first_follows_the_last() -> None:
    lines = [*one({"s": {"n": 1}}), {"conversation": "two", "steps": [{"s": {"n": 2}}]}]
    async with played(lines) as replay:
        seen = []
        for _ in range(3):
            async with session(replay.url) as client:
                seen.append(await client.receive())
        await replay.told((3, 0))
    assert seen == [{"n": 1}, {"n": 2}, {"n": 1}]
    assert replay.said[0] == "session 1 plays 'one' (line 1)"


async def test_times_are_kept_and_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(round(seconds, 6))

    monkeypatch.setattr("emulator.recording.replay.pause", note)
    steps: list[dict[str, Any]] = [
        {"at": 1.0, "c": INIT},
        {"at": 1.5, "s": {}},
        {"s": {}},
        {"at": 3.5, "s": {}},
        {"at": 3.5, "s_close": [1000, ""]},
    ]
    async with played(one(*steps), speed=2.0) as replay, session(replay.url) as client:
        await client.send(INIT)
        await client.to_the_end()
        await replay.told((1, 0))
    assert waited == [0.25, 0.0, 1.0, 0.0]


async def test_a_refused_upgrade_is_refused_again() -> None:
    async with played(one(answer={"status": 401, "body": "who?", "headers": [["X-A", "b"]]})) as replay:
        with pytest.raises(InvalidStatus) as refused:
            await connect(replay.url, proxy=None)
        assert replay.tally == (1, 0)
    response = refused.value.response
    assert (response.status_code, response.body, response.headers["X-A"]) == (401, b"who?", "b")


async def test_another_path_and_a_missing_subprotocol_are_told() -> None:
    lines = one(upgrade={"path": "/ws"}, answer={"subprotocol": "v1"})
    async with played(lines) as replay:
        async with session(replay.url) as client:
            assert client.socket.subprotocol is None
    assert "session 1: the client asked for /v1/stream, the recording has /ws; it goes on" in replay.said
    assert any("has the subprotocol 'v1', which the client does not offer" in line for line in replay.said)


async def test_health_routes_answer_as_a_healthy_replica_where_none_was_recorded() -> None:
    async with played(one()) as replay, httpx.AsyncClient(trust_env=False) as http:
        ready = await http.get(f"{replay.http}/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert (await http.get(f"{replay.http}/nothing")).status_code == 404


async def test_a_question_for_the_state_that_was_not_recorded_is_no_difference() -> None:
    async with played(one({"c": INIT}, {"s": {}}, {"c": {"n": 1}}, {"s": {"n": 2}})) as replay:
        async with session(replay.url) as client:
            await client.send(INIT)
            await client.receive()
            await client.send({"type": "snapshot_state"}, {"n": 1})
            answer = await client.receive()
            assert isinstance(answer, dict)
            assert (answer["type"], answer["code"]) == ("error", "internal_error")
            assert await client.receive() == {"n": 2}
        await replay.told((1, 0))
    assert any("asked for the state, which was not recorded" in line for line in replay.said)


async def test_clients_are_told_1001_when_the_replay_ends() -> None:
    async with played(one({"c": INIT})) as replay:
        client = await connect(replay.url, proxy=None)
    await client.wait_closed()
    assert client.close_code == 1001
    assert replay.tally == (0, 0)
    assert replay.replay.tally.unfinished == 1
    assert replay.said[-1] == "session 1: not over when the replay was stopped"


async def test_a_large_message_of_which_only_the_length_is_known_is_one_message() -> None:
    size = 3 * PIECE_BYTES + 7
    async with played(one({"s_bytes": size}, {"s": {"n": 1}}, {"s_close": [1000, ""]})) as replay:
        async with session(replay.url) as client:
            media = await client.receive()
            assert isinstance(media, bytes)
            assert len(media) == size
            assert await client.receive() == {"n": 1}
        await replay.told((1, 0))


async def test_a_client_that_breaks_the_protocol_has_not_played_to_the_end() -> None:
    async with played(one({"s": {}})) as replay:
        async with session(replay.url) as client:
            await client.receive()
            client.socket.transport.write(b"\xff\x80\x00\x00\x00\x00")
            await replay.told((0, 1))
    assert "the client broke the WebSocket protocol: 1002" in replay.said[-1]
