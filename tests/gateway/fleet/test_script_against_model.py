"""The scripts in Redis and the model in memory do the same, whatever is done to both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.errors import FleetRefused
from gateway.fleet.member import MemberState
from gateway.fleet.redis_store import open_client
from gateway.fleet.store import Answer, Beat, FleetStore
from tests.gateway.fleet.conftest import Servers
from tests.gateway.fleet.stages import BEGIN_US, MemoryStage, RedisStage, Stage
from tests.support.redis_server import KINDS, Kind


@dataclass(frozen=True)
class Leave:
    member_id: str
    incarnation: str | None


@dataclass(frozen=True)
class Move:
    microseconds: int


@dataclass(frozen=True)
class Lose:
    key: str


@dataclass(frozen=True)
class Look:
    pass


@dataclass(frozen=True)
class Write:
    """An entry that no store wrote, with or without an expiry."""

    member_id: bytes
    entry: bytes
    expires_in_us: int | None


Step = Beat | Leave | Move | Lose | Look | Write

names = st.sampled_from(["a", "b", "ü", "%s", "a\tb"])
incarnations = st.sampled_from(["", "x", "y"])
beats = st.builds(
    Beat,
    names,
    st.sampled_from(MemberState),
    st.dictionaries(st.sampled_from(["load", "n"]), st.integers() | st.floats() | st.text(max_size=4)),
    incarnations,
    st.integers(0, 5),
    st.none() | st.timedeltas(timedelta(0), timedelta(seconds=40)),
)
entries = st.sampled_from(
    [
        b"",
        b"hello",
        b"%d\tx\t3\t1\tserving\t{}" % BEGIN_US,
        b"%d\tx\t3\t9\tasleep\t?\t?" % (BEGIN_US + 10**9),
        b"7\t\t\t1\tserving\t{}",
        b"007\ty\t1\t1\tserving\t{}",
    ]
)
steps = st.lists(
    beats
    | beats
    | st.builds(Leave, names, st.none() | incarnations)
    | st.builds(Move, st.integers(0, 12_000_000) | st.integers(-30_000_000, 60_000_000))
    | st.builds(Lose, st.sampled_from(["z", "h", "all"]))
    | st.builds(Look)
    | st.builds(Write, names.map(str.encode), entries, st.none() | st.integers(-5_000_000, 20_000_000)),
    max_size=14,
)


async def take(step: Step, stage: Stage, store: FleetStore, now_us: int) -> object:
    """What the step returned, or how it was refused."""
    match step:
        case Beat():
            try:
                return await store.beat(step)
            except FleetRefused as refusal:
                return str(refusal)
        case Leave(member_id, incarnation):
            return await store.leave(member_id, incarnation=incarnation)
        case Move(microseconds):
            stage.move(microseconds)
        case Lose("all"):
            stage.flush()
        case Lose(key):
            stage.lose(key)
        case Look():
            return await store.view()
        case Write(member_id, entry, expires_in_us):
            expiry = None if expires_in_us is None else now_us + expires_in_us
            stage.write(member_id, entry, expiry_us=expiry)
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_script_and_model_agree(kind: Kind, servers: Servers) -> None:
    server = servers[kind]

    async def play(stage: RedisStage, these: Sequence[Step]) -> None:
        stage.begin()
        memory = MemoryStage()
        in_memory, in_redis = memory.store(), stage.store()
        for step in these:
            now_us = memory.now_us
            expected = await take(step, memory, in_memory, now_us)
            assert await take(step, stage, in_redis, now_us) == expected
            model, found = memory.tables(), stage.tables()
            assert (found.expiries, found.entries) == (model.expiries, model.entries)
            if isinstance(expected, Answer) and model.expiries:
                assert stage.ends_ms() == [(model.gone_at_us or 0) // 1000] * 2

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        client = open_client(server.url, timeout_seconds=10)
        stage = RedisStage(server, client)

        @settings(
            max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
        )
        @given(steps)
        # What is left has had its time already.
        @example([Beat("a", MemberState.STARTING, {}), Write(b"b", b"", -1_000_000), Leave("a", None)])
        def agree(these: list[Step]) -> None:
            loop.run_until_complete(play(stage, these))

        try:
            agree()
        finally:
            stage.close()
            runner.run(client.aclose())
