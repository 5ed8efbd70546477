from __future__ import annotations

import asyncio
import os
import signal
import socket

import psutil
import pytest

from emulator.events import EventLog
from emulator.farm import Farm, Isolation, NameTaken, PortBusy
from tests.emulator.sessions import session
from tests.support.waiting import eventually


async def test_a_hundred_replicas_run_side_by_side_and_each_takes_a_session() -> None:
    async with Farm(100) as farm:
        assert list(farm.replicas)[-1] == "cv"

        async def visit(url: str) -> bytes:
            async with session(url) as client:
                await client.open()
                return await client.segment("p")

        media = await asyncio.gather(*[visit(replica.ws_url) for replica in farm.replicas.values()])
        assert len(set(media)) == 1, "the same bytes on every replica"
    assert {replica.state for replica in farm.replicas.values()} == {"stopped"}


async def test_a_stopped_farm_leaves_no_port_task_or_process() -> None:
    tasks = asyncio.all_tasks()
    async with Farm(2, isolate="process") as farm:
        pids = [replica.pid for replica in farm.replicas.values()]
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
    assert asyncio.all_tasks() == tasks
    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    for replica in farm.replicas.values():
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind((replica.spec.host, replica.port))


async def test_a_busy_port_is_named_and_nothing_is_left_behind() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(PortBusy, match=f"port {port} of replica a cannot be opened"):
            async with Farm(2, port=port):
                pass


async def test_ports_follow_the_first_one() -> None:
    async with Farm(1) as probe:
        port = probe.replicas["a"].port
    async with Farm(1, port=port) as farm:
        assert farm.replicas["a"].url == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    "arguments", [{"replicas": 0}, {"replicas": ["x", "x"]}, {"replicas": 3, "port": 65534}]
)
def test_an_impossible_farm_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="replica"):
        Farm(**arguments)  # type: ignore[arg-type]


async def test_a_process_killed_by_somebody_else_is_noticed_and_can_be_restarted() -> None:
    async with Farm(1, isolate="process") as farm:
        a = farm.replicas["a"]
        assert a.pid is not None
        os.kill(a.pid, signal.SIGKILL)
        await eventually(lambda: a.status()["state"] == "killed", "the death is noticed")
        await farm.restart("a")
        async with session(a.ws_url) as client:
            await client.open()


async def test_isolated_replicas_are_processes_of_their_own() -> None:
    async with Farm(2, isolate="process") as farm:
        pids = {replica.pid for replica in farm.replicas.values()}
        assert len(pids | {os.getpid()}) == 3
        await farm.kill("a")
        async with session(farm.replicas["b"].ws_url) as client:
            await client.open()
            assert await client.segment("p")
        kinds = [event.kind for event in farm.events(replica="b").events]
        await eventually(
            lambda: "session_closed" in [event.kind for event in farm.events(replica="b").events],
            "the child's events reach the parent",
        )
        assert "upgrade_received" in kinds


async def test_the_event_log_is_bounded() -> None:
    async with Farm(1, event_capacity=5) as farm:
        async with session(farm.replicas["a"].ws_url) as client:
            await client.open()
        page = farm.events()
        assert isinstance(farm.log, EventLog)
        assert len(page.events) == 5
        assert page.dropped == page.last - 5


@pytest.mark.parametrize("isolate", ["none", "process"])
async def test_a_replica_joins_and_leaves_while_the_others_run(isolate: Isolation) -> None:
    async with Farm(["a", "c"], capacity=2, isolate=isolate) as farm:
        joined = await farm.add()
        assert (joined.name, joined.spec.capacity, list(farm.replicas)) == ("b", 2, ["a", "c", "b"])
        async with session(joined.ws_url) as client:
            await client.open()
            await farm.kill("b", restart_after_seconds=0)
            await eventually(lambda: joined.status()["state"] == "running", "what is due for it happens")
        async with session(joined.ws_url) as client:
            await client.open()
            await farm.remove("b")
            assert (await client.to_the_end()).code == 1001
        assert list(farm.replicas) == ["a", "c"]
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind((joined.spec.host, joined.port))


async def test_a_name_or_a_port_that_is_taken_is_refused_and_changes_nothing() -> None:
    async with Farm(2) as farm:
        with pytest.raises(NameTaken, match="'a' already"):
            await farm.add("a")
        with pytest.raises(PortBusy):
            await farm.add("x", port=farm.replicas["b"].port)
        assert list(farm.replicas) == ["a", "b"]
        async with session(farm.replicas["b"].ws_url) as client:
            await client.open()


async def test_the_last_replica_may_leave_and_another_join() -> None:
    async with Farm(1) as farm:
        await farm.remove("a")
        assert farm.replicas == {}
        joined = await farm.add(capacity=9)
        assert (joined.name, joined.spec.capacity) == ("a", 9)
