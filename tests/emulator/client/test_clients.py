"""Both clients against a running farm; each test runs once with each."""

from __future__ import annotations

import asyncio
import inspect
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from emulator import client
from emulator.client import AsyncEmulator, Emulator, NotSeen, Unreachable
from emulator.control.server import ControlServer
from emulator.farm import Farm
from emulator.faults import Latency
from tests.emulator.sessions import session


class Both:
    """Either client: the blocking one in a thread, since the emulator runs in this loop."""

    def __init__(self, inner: Emulator | AsyncEmulator) -> None:
        self.inner = inner

    async def do(self, method: str, *args: Any, **options: Any) -> Any:
        call = getattr(self.inner, method)
        if isinstance(self.inner, Emulator):
            return await asyncio.to_thread(call, *args, **options)
        return await call(*args, **options)


@pytest.fixture
async def farm() -> AsyncIterator[Farm]:
    async with Farm(2) as running:
        yield running


@pytest.fixture
async def url(farm: Farm) -> AsyncIterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = ControlServer(farm, bound)
        running = asyncio.create_task(server.run())
        await server.wait_until_up()
        yield server.url
        server.stop()
        await running


@pytest.fixture(params=["blocking", "asynchronous"])
async def emulator(url: str, request: pytest.FixtureRequest) -> AsyncIterator[Both]:
    if request.param == "blocking":
        blocking = await asyncio.to_thread(Emulator(url).__enter__)
        yield Both(blocking)
        blocking.close()
    else:
        async with AsyncEmulator(url) as asynchronous:
            yield Both(asynchronous)


def test_both_have_the_same_methods_with_the_same_arguments_and_words() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: each for name, each in vars(kind).items() if callable(each) and name[0] != "_"}

    blocking, asynchronous = public(Emulator), public(AsyncEmulator)
    assert blocking.keys() == asynchronous.keys()
    for name, method in blocking.items():
        assert inspect.signature(method) == inspect.signature(asynchronous[name]), name
        assert method.__doc__ == asynchronous[name].__doc__ is not None, name
        assert inspect.iscoroutinefunction(asynchronous[name]), name


async def test_what_there_is(emulator: Both, farm: Farm) -> None:
    assert [replica.name for replica in await emulator.do("replicas")] == ["a", "b"]
    assert await emulator.do("urls") == {name: replica.url for name, replica in farm.replicas.items()}
    shown = await emulator.do("replica", "a")
    assert (shown.state, shown.ws_url) == ("running", farm.replicas["a"].ws_url)
    assert "stall" in await emulator.do("faults")
    async with session(shown.ws_url) as browser:
        await browser.open()
        assert [open_.replica for open_ in await emulator.do("sessions")] == ["a"]
        assert await emulator.do("sessions", "b") == []
        assert (await emulator.do("status")).replicas[0].sessions == 1


async def test_faults_by_value_and_by_name(emulator: Both) -> None:
    by_value = await emulator.do("arm", "a", Latency(seconds=0.5))
    assert by_value.faults["latency"]["seconds"] == 0.5
    by_name = await emulator.do("arm", "a", "stall", seconds=2, times=1)
    assert (by_name.faults["stall"]["seconds"], by_name.faults["stall"]["times"]) == (2, 1)
    assert list((await emulator.do("lift", "a", Latency)).faults) == ["stall"]
    assert (await emulator.do("lift", "a", "stall")).faults == {}
    await emulator.do("arm", "a", "stall")
    assert (await emulator.do("lift", "a")).faults == {}


async def test_life_and_death(emulator: Both) -> None:
    assert (await emulator.do("kill", "a")).state == "killed"
    assert (await emulator.do("restart", "a", warming_seconds=60)).warming
    assert (await emulator.do("pause", "a")).state == "paused"
    assert (await emulator.do("resume", "a")).state == "running"
    assert (await emulator.do("kill", "a", restart_after_seconds=60)).state == "killed"
    assert {replica.state for replica in await emulator.do("reset")} == {"running"}
    added = await emulator.do("add", capacity=1)
    assert (added.name, added.capacity) == ("c", 1)
    assert await emulator.do("remove", "c") is None


async def test_events_by_page_and_as_they_come(emulator: Both, farm: Farm) -> None:
    page = await emulator.do("events", kinds=["port_opened"], limit=1)
    assert [event.kind for event in page.events] == ["port_opened"]
    later = await emulator.do("events", farm.log.last, replica="b", wait_seconds=0.01)
    assert later.events == []

    async def visit() -> None:
        async with session(farm.replicas["b"].ws_url) as browser:
            await browser.open()
            await browser.segment("one")
            await browser.segment("two")

    async with asyncio.TaskGroup() as group:
        group.create_task(visit())
        event = await emulator.do(
            "wait_for", "message_sent", replica="b", session=1, n=2, type="ltx2_segment_start"
        )
    assert event.detail["segment_idx"] == 1


async def test_what_happened_before_the_client_began_is_not_what_it_waits_for(url: str, farm: Farm) -> None:
    await farm.replicas["a"].kill()
    await farm.replicas["a"].restart()
    async with AsyncEmulator(url) as entered:
        await farm.replicas["a"].kill()
        await farm.replicas["a"].restart()
        second = await entered.wait_for("state_changed", replica="a", before="killed")
        first = await entered.wait_for("state_changed", replica="a", before="killed", after_seq=0)
        assert second.seq > first.seq
        mark = await entered.last_event()
        with pytest.raises(NotSeen, match=rf"seen 0 times after event {mark}\."):
            await entered.wait_for(
                "state_changed", replica="a", before="killed", after_seq=mark, deadline_seconds=0.01
            )


async def test_a_client_that_nobody_entered_begins_with_its_first_call(url: str, farm: Farm) -> None:
    await farm.replicas["a"].kill()
    emulator = AsyncEmulator(url)
    await emulator.restart("a")
    event = await emulator.wait_for("state_changed", replica="a")
    assert event.detail["after"] == "running"
    await emulator.close()


async def test_what_does_not_come_is_told_with_what_came(emulator: Both) -> None:
    with pytest.raises(NotSeen, match=r"session_opened on replica a; .* \d+ a port_opened"):
        await emulator.do("wait_for", "session_opened", replica="a", deadline_seconds=0.01)


@pytest.mark.parametrize(
    ("kind", "text", "call"),
    [
        ("UnknownReplica", "there are: a, b", ("kill", "zz")),
        ("UnknownFault", "there are: refuse", ("arm", "a", "stahl")),
        ("BadRequest", "its fields: probability", ("arm", "a", "stall", {"secs": 1})),
        ("BadRequest", "there are no events 'died'", ("events", {"kinds": ["died"]})),
        ("Conflict", "choose another name", ("add", "a")),
    ],
)
async def test_a_no_has_a_class_and_says_what_would_be_right(
    emulator: Both, kind: str, text: str, call: tuple[Any, ...]
) -> None:
    options = call[-1] if isinstance(call[-1], dict) else {}
    with pytest.raises(getattr(client, kind), match=text):
        await emulator.do(*[part for part in call if part is not options], **options)


@pytest.mark.parametrize("kind", [Emulator, AsyncEmulator])
async def test_where_nobody_answers_the_address_is_told(kind: type[Any]) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = "http://{}:{}".format(*silent.getsockname())
        with pytest.raises(Unreachable, match=f"no emulator answers at {url}"):
            await Both(kind(url)).do("replicas")


async def test_a_wait_of_many_seconds_is_not_cut_by_a_timeout_of_the_transport(url: str) -> None:
    began = time.monotonic()
    async with AsyncEmulator(url) as emulator:
        waiting = asyncio.create_task(emulator.wait_for("fault_armed", deadline_seconds=60))
        while (await emulator.status()).waiting == 0:
            assert time.monotonic() - began < 20
        await emulator.arm("a", "latency")
        assert (await waiting).replica == "a"
