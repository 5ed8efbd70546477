"""Driven sessions against replicas themselves: what they say, how they read, how they end, what they keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from emulator.farm import Farm
from emulator.faults import Abort, CloseSession, NoSnapshot, Reject, Reset, UpgradeStatus
from emulator.running.client import Do, DrivenSession
from emulator.running.seen import SESSION_HEADER, SessionSeen
from tests.emulator.running.build import scenario
from tests.support.waiting import eventually


@dataclass
class Driven:
    """One session under way."""

    session: DrivenSession
    tasks: asyncio.TaskGroup
    others: asyncio.Event
    told: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def seen(self) -> SessionSeen:
        return self.session.seen

    def do(self, what: Do) -> None:
        self.session.do(what, self.tasks)

    @property
    def types(self) -> list[str]:
        return list(self.seen.sequence)

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.told]


@asynccontextmanager
async def driven(farm: Farm, plan: str = "") -> AsyncIterator[Driven]:
    """A session `s` with the plan's fields on replica a; inside it runs, after it is over."""
    of = scenario("sessions: [{name: s, " + plan + "}]")
    seen = SessionSeen("s", of.sessions[0])
    others = asyncio.Event()
    url = farm.replicas["a"].url.replace("http", "ws", 1)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        told: list[tuple[str, str | None]] = []

        def notice(name: str, event: str, kind: str | None) -> None:
            assert name == "s"
            told.append((event, kind))

        session = DrivenSession(seen, url, notice, loop.time, others)
        came = Driven(session, tasks, others, told)
        session.task = tasks.create_task(session.run())
        yield came
    assert seen.over


def details(farm: Farm, kind: str) -> list[Mapping[str, Any]]:
    """Of the events of this kind."""
    return [event.detail for event in farm.events().events if event.kind == kind]


async def finished(farm: Farm, plan: str = "") -> Driven:
    async with driven(farm, plan) as came:
        pass
    return came


async def test_a_session_asks_for_its_segments_and_closes() -> None:
    async with Farm(1) as farm:
        came = await finished(farm, "prompts: [a, b]")
        assert came.seen.through
        assert [segment.prompt for segment in came.seen.segments] == ["a", "b"]
        assert came.types.count("binary") == 2
        attempt = came.seen.attempts[0]
        assert str(attempt.ending) == "close 1000"
        assert attempt.ending is not None
        assert attempt.ending.by == "client"
        assert len(attempt.completed_at) == len(attempt.asked) == 2
        assert [event for event in came.events if event != "message"] == [
            "opened", "queued", "assigned",
            *("segment_start", "media", "segment_end") * 2,
            "closed",
        ]  # fmt: skip


async def test_its_upgrade_is_as_planned() -> None:
    async with Farm(1, subprotocols=["v2"]) as farm:
        came = await finished(
            farm, "path: /ws, query: room=1, headers: {X-Room: one, User-Agent: me}, subprotocols: [v1, v2]"
        )
        [upgrade] = details(farm, "upgrade_received")
        headers = dict(upgrade["headers"])
        assert (upgrade["path"], upgrade["query"]) == ("/ws", "room=1")
        assert (headers["X-Room"], headers["User-Agent"], headers[SESSION_HEADER]) == ("one", "me", "s")
        assert came.seen.attempts[0].subprotocol == "v2"


async def test_lines_of_its_script_are_sent_in_turn() -> None:
    async with Farm(1) as farm:
        plan = "prompts: [{send: {type: enhancement_updated, enabled: true}}, a, {send: {type: nothing}}, b]"
        came = await finished(farm, plan)
        prompt = "segment_prompt_source"
        assert [detail["type"] for detail in details(farm, "message_received")] == [
            "session_init_v2", "enhancement_updated", prompt, "nothing", prompt,
        ]  # fmt: skip
        assert [error["code"] for error in came.seen.attempts[0].story.errors] == ["invalid_message"]


async def test_a_session_without_init_is_closed_by_the_replica() -> None:
    async with Farm(1) as farm:
        came = await finished(farm, "init: null, prompts: [a]")
        ending = came.seen.attempts[0].ending
        assert ending is not None
        assert (ending.code, ending.by) == (1003, "gateway")
        assert not came.seen.through


async def test_prompts_may_be_sent_ahead() -> None:
    async with Farm(1, segment_seconds=0.2) as farm:
        async with driven(farm, "prompts: 4, ahead: 2") as came:
            await eventually(lambda: "segment_start" in came.events, "the first segment begins")
            await eventually(lambda: len(came.seen.attempts[0].asked) == 3, "two are ahead")
            assert came.seen.attempts[0].story.completed == 0
        assert came.seen.through


async def test_a_refused_upgrade_is_told_with_its_status() -> None:
    async with Farm(1, faults={"a": [UpgradeStatus(status=503)]}) as farm:
        came = await finished(farm)
        assert came.told == [("refused", "503")]
        assert came.seen.attempts[0].status == 503


async def test_a_redirect_is_not_followed() -> None:
    async with Farm(1, faults={"a": [UpgradeStatus(status=302)]}) as farm:
        assert (await finished(farm)).told == [("refused", "302")]


async def test_nobody_there_is_told_without_a_status() -> None:
    async with Farm(1) as farm:
        await farm.kill("a")
        came = await finished(farm)
        assert came.seen.attempts[0].status is None
        assert "Error" in (came.seen.attempts[0].fault or "")


async def test_a_cut_connection_has_no_close_frame() -> None:
    async with Farm(1, faults={"a": [Abort()]}) as farm:
        ending = (await finished(farm)).seen.attempts[0].ending
        assert ending is not None
        assert (ending.code, ending.by) == (1006, "gateway")


async def test_it_comes_back_and_goes_on_where_it_was() -> None:
    async with Farm(1, faults={"a": [Abort(segment=1, times=1)]}) as farm:
        came = await finished(farm, "prompts: [a, b, c], reconnect: {times: 2, pause: 0s}")
        assert came.seen.through
        first, second = came.seen.attempts
        assert [len(first.completed), second.base, len(second.completed)] == [1, 1, 2]
        assert [segment.prompt for segment in came.seen.segments] == ["a", "b", "c"]
        assert "opened" in came.events[1:]


async def test_what_it_got_after_coming_back_is_what_it_would_have_got() -> None:
    async with Farm(1) as farm:
        plain = await finished(farm, "prompts: [a, b, c]")
        farm.set_fault("a", Reset(point="segment_end", times=1))
        again = await finished(farm, "prompts: [a, b, c], reconnect: {times: 1, pause: 0s}")
        assert len(again.seen.attempts) == 2
        assert [s.media for s in again.seen.segments] == [s.media for s in plain.seen.segments]


async def test_it_does_not_come_back_after_a_normal_close() -> None:
    async with Farm(1, faults={"a": [CloseSession(code=1000)]}) as farm:
        assert len((await finished(farm, "reconnect: {times: 3, pause: 0s}")).seen.attempts) == 1


async def test_it_comes_back_after_an_error_that_was_not_the_last_word() -> None:
    async with Farm(1, faults={"a": [NoSnapshot(), Abort(segment=1, times=1)]}) as farm:
        came = await finished(farm, "prompts: [a, b], reconnect: {times: 2, pause: 0s}")
        assert [error["code"] for error in came.seen.attempts[0].story.errors] == ["internal_error"]
        assert len(came.seen.attempts) == 2


async def test_it_does_not_come_back_when_told_that_this_does_not_help() -> None:
    async with Farm(1, faults={"a": [Reject()]}) as farm:
        assert len((await finished(farm, "reconnect: {times: 2, pause: 0s}")).seen.attempts) == 1


async def test_one_that_insists_comes_back_all_the_same() -> None:
    async with Farm(1, faults={"a": [Reject(times=2)]}) as farm:
        came = await finished(farm, "reconnect: {times: 3, pause: 0s, insist: true}")
        assert [error["retryable"] for error in came.seen.attempts[0].story.errors] == [False]
        assert len(came.seen.attempts) == 3
        assert came.seen.through


async def test_it_gives_up_after_so_many_times() -> None:
    async with Farm(1, faults={"a": [UpgradeStatus(status=503)]}) as farm:
        assert len((await finished(farm, "reconnect: {times: 2, pause: 0s}")).seen.attempts) == 3


async def test_it_leaves_without_a_word() -> None:
    async with Farm(1) as farm:
        ending = (await finished(farm, "then: leave")).seen.attempts[0].ending
        assert ending is not None
        assert (ending.code, ending.by) == (1006, "client")


async def test_it_stays_until_the_others_are_through() -> None:
    async with Farm(1) as farm:
        async with driven(farm, "then: stay") as came:
            await eventually(lambda: came.session.waits_for_others, "its script is through")
            assert not came.seen.over
            came.others.set()
        assert str(came.seen.attempts[0].ending) == "close 1000"


async def test_it_closes_with_its_own_code() -> None:
    async with Farm(1) as farm:
        await finished(farm, "code: 4001, reason: enough")
        await eventually(lambda: details(farm, "close_received"), "the replica has the close")
        assert details(farm, "close_received") == [{"code": 4001, "reason": "enough"}]


@pytest.mark.parametrize(("what", "code"), [("leave", 1006), ("close", 1000)])
async def test_it_can_be_told_to_leave_and_to_close(what: Do, code: int) -> None:
    async with Farm(1, segment_seconds=5) as farm:
        async with driven(farm) as came:
            await eventually(lambda: "segment_start" in came.events, "a segment begins")
            came.do(what)
        ending = came.seen.attempts[0].ending
        assert ending is not None
        assert (ending.code, ending.by) == (code, "client")
        assert not came.seen.through


async def test_one_that_reads_nothing_takes_nothing_until_the_play_is_over() -> None:
    async with Farm(1) as farm:
        async with driven(farm, "prompts: 2, read: stopped") as came:
            await eventually(lambda: came.session.waits_for_others, "it has stopped reading")
            assert came.types == []
            came.others.set()
            came.session.finish()
        assert "ltx2_stream_start" in came.types


async def test_one_that_stops_for_a_while_goes_on_by_itself() -> None:
    async with Farm(1) as farm:
        came = await finished(farm, "prompts: 2, read: {how: stopped, for: 0.3s}")
        assert came.seen.through
        first = came.seen.attempts[0]
        assert first.opened_at is not None
        assert first.first_message_at is not None
        assert first.first_message_at - first.opened_at >= 0.3


async def test_one_that_reads_slowly_takes_its_time() -> None:
    async with Farm(1) as farm:
        came = await finished(farm, "prompts: 1, read: {how: slow, bytes_per_second: 200000}")
        attempt = came.seen.attempts[0]
        assert attempt.opened_at is not None
        assert attempt.first_segment_at is not None
        # Nearly 50 KB of media, the last chunk of which nothing waits for.
        assert attempt.first_segment_at - attempt.opened_at > 0.15
