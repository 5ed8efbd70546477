"""Whole plays, with a replica in the gateway's place: when sessions open, steps are done, and it ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from emulator.farm import Farm
from emulator.running import stage
from emulator.running.judge import findings
from emulator.running.play import CannotPlay, LacksStatus, Standing, Unfit, play
from emulator.running.seen import Played
from emulator.running.suite import Suite, about_seconds
from tests.emulator.running.build import scenario
from tests.support.http_peer import answer, http_peer, keep_answering
from tests.support.ports import free_port
from tests.support.waiting import eventually

SILENT = "replicas: {count: 1, segment_seconds: 0, capacity: 20}\n"


async def played(text: str) -> Played:
    """Replica a is the gateway: it serves where the gateway is said to be."""
    port = free_port()
    async with asyncio.timeout(40):
        return await play(scenario(text), Standing(f"http://127.0.0.1:{port}", port))


def said(came: Played) -> list[str]:
    return [f"{moment.who}: {moment.what}" for moment in sorted(came.moments, key=lambda each: each.at)]


async def test_sessions_run_and_the_play_ends_with_them() -> None:
    came = await played(
        SILENT + "sessions: [{name: s, count: 3, prompts: 2}]\nexpect: {sessions: {'*': {segments: all}}}"
    )
    assert findings(came, {}) == []
    assert all(seen.through and seen.over for seen in came.sessions.values())
    assert came.ended_at is not None
    assert came.ended_at < 20


async def test_each_session_opens_when_the_one_before_has_heard_something() -> None:
    came = await played(SILENT + "sessions: [{name: s, count: 3}]")
    sessions = list(came.sessions.values())
    for before, after in itertools.pairwise(sessions):
        first_message_at = before.attempts[0].first_message_at
        assert first_message_at is not None
        assert first_message_at <= after.attempts[0].began_at


async def test_a_session_opens_at_its_event() -> None:
    came = await played(SILENT + "sessions: [{name: s}, {name: late, when: {session: s, event: closed}}]")
    assert (came.sessions["s"].attempts[0].ended_at or 99) <= came.sessions["late"].attempts[0].began_at


@pytest.mark.parametrize("isolate", ["none", "process"])
@pytest.mark.parametrize(
    ("event", "last"),
    [
        ("init", None),
        ("segment_start", "ltx2_segment_start"),
        ("segment", "binary"),
        ("segment_end", "ltx2_segment_complete"),
    ],
)
async def test_nothing_is_sent_between_an_event_and_its_kill(
    isolate: str, event: str, last: str | None
) -> None:
    came = await played(
        f"replicas: {{count: 1, segment_seconds: 0, isolate: {isolate}}}\n"
        "sessions: [{name: s, prompts: 3, ahead: 3}]\n"
        f"timeline: [{{when: {{replica: a, session: 1, event: {event}}}, kill: a}}]"
    )
    attempt = came.sessions["s"].attempts[0]
    assert attempt.sequence[-1:] == ([] if last is None else [last])
    assert attempt.story.completed == (1 if event == "segment_end" else 0)
    assert "step: kill a" in said(came)


async def test_a_fault_that_is_armed_at_an_event_strikes_there() -> None:
    came = await played(
        SILENT + "sessions: [{name: s, prompts: 2}]\n"
        "timeline: [{when: {replica: a, event: segment_start, n: 2},"
        " fault: {replica: a, close: {code: 4000, point: segment_start}}}]\n"
        "expect: {sessions: {s: {close: 4000, segments: 1}}}"
    )
    assert findings(came, {}) == []


async def test_steps_are_done_in_time_and_in_order() -> None:
    came = await played(
        SILENT + "lasts: 0.3s\n"
        "timeline: [{at: 0.2s, resume: a}, {at: 0.1s, pause: a},"
        " {at: 0.2s, fault: {replica: a, refuse: {}}, lift: a}]"
    )
    assert said(came) == [
        "step: pause a",
        "step: resume a",
        "step: lift all faults of a; fault on a: refuse",
    ]
    assert came.ended_at is not None
    assert came.ended_at >= 0.3


async def test_what_cannot_be_done_is_told() -> None:
    came = await played(SILENT + "timeline: [{at: 0s, kill: a}, {at: 0.1s, pause: a}]")
    assert findings(came, {}) == ["step 2 (pause a): replica a is killed, and cannot be paused"]


async def test_a_step_whose_event_never_comes_is_told_without_waiting_for_the_deadline() -> None:
    came = await played(
        SILENT + "sessions: [{name: s}]\n"
        "timeline: [{when: {session: s, event: resumed}, kill: a}]\ndeadline: 39s"
    )
    assert not came.overran
    assert findings(came, {}) == ["step 1 (kill a) when resumed at s: never came"]
    assert came.waiting_steps == [1]


async def test_sessions_behind_one_that_never_opens_are_not_waited_for() -> None:
    came = await played(
        SILENT + "sessions: [{name: s}, {name: never, when: {session: s, event: resumed}}, {name: behind}]\n"
        "deadline: 39s"
    )
    assert list(came.sessions) == ["s"]
    assert findings(came, {}) == ["the opening of never when resumed at s: never came"]


async def test_the_deadline_ends_a_play_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    came = await played(
        "replicas: {count: 1, segment_seconds: 30}\nsessions: [{name: s}]\ndeadline: 0.5s\n"
        "expect: {sessions: {s: {segments: none}}}"
    )
    assert findings(came, {}) == ["not through within 0.5 s, its deadline; sessions not through: s"]
    assert came.ended_at is not None
    assert came.ended_at < stage.END_SECONDS


async def test_whoever_stays_closes_when_the_others_are_through() -> None:
    came = await played(SILENT + "sessions: [{name: stays, then: stay}, {name: s, prompts: 3, pause: 0.1s}]")
    stays, other = came.sessions["stays"].attempts[0], came.sessions["s"].attempts[0]
    assert (other.ended_at or 0) <= (stays.ended_at or 0)
    assert str(stays.ending) == "close 1000"


async def test_a_client_does_what_a_step_says() -> None:
    came = await played(
        "replicas: {count: 1, segment_seconds: 5}\nsessions: [{name: s}]\n"
        "timeline: [{when: {session: s, event: segment_start}, client: {session: s, do: leave}}]\n"
        "expect: {sessions: {s: {close: {code: 1006, by: client}}}}"
    )
    assert findings(came, {}) == []


async def test_the_same_seed_makes_a_flaky_replica_the_same_again() -> None:
    text = (
        "seed: 5\nreplicas: {count: 1, segment_seconds: 0, capacity: 9, faults: {flaky: {health: 0}}}\n"
        "sessions: [{name: s, count: 6}]"
    )
    first, second = [
        [str(seen.attempts[0].ending) for seen in (await played(text)).sessions.values()] for _ in range(2)
    ]
    assert first == second
    assert "close 1000" in first
    assert set(first) != {"close 1000"}


async def test_a_gateway_that_tells_no_status_is_found_out() -> None:
    with pytest.raises(LacksStatus):
        await played("expect: {status: {replicas: {a: healthy}}}")


async def test_a_port_that_is_taken_names_the_flag() -> None:
    port = free_port()
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", port)
    async with server:
        told = f"port {port} of replica a .*something else listens at {port}, .*stop it"
        with pytest.raises(CannotPlay, match=told):
            await play(scenario(SILENT), Standing(f"http://127.0.0.1:{port}", port))


@asynccontextmanager
async def gateway_of(*urls: str, **fields: object) -> AsyncIterator[str]:
    """Says on every path that it has these replicas, and that they are healthy."""
    entries = [{"url": url, "status": "healthy", **fields} for url in urls]
    async with http_peer(keep_answering(answer(json.dumps({"replicas": entries}).encode()))) as peer:
        yield peer.url


async def test_a_gateway_of_other_replicas_is_found_out() -> None:
    async with gateway_of("http://10.0.0.7:8000") as url:
        told = "its replicas are http://10.0.0.7:8000, and not those of the scenario, http://127.0.0.1"
        with pytest.raises(CannotPlay, match=told):
            await play(scenario(SILENT), Standing(url, free_port()))


async def test_a_gateway_that_is_set_up_otherwise_is_not_judged() -> None:
    port = free_port()
    own = f"http://127.0.0.1:{port}"
    async with gateway_of(own, max_sessions=4) as url:
        with pytest.raises(Unfit, match="it has max_sessions: 4 for replica a, where the scenario needs 20"):
            await play(scenario(SILENT), Standing(url, port))
    async with Farm(1) as others:
        theirs = others.replicas["a"].url
        async with gateway_of(own, theirs, max_sessions=20) as url:
            with pytest.raises(
                Unfit, match=f"it has a replica that is not the scenario's and runs, {theirs}"
            ):
                await play(scenario(SILENT), Standing(url, port))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("replicas: {count: 1}", 0.0),
        ("lasts: 3s\ntimeline: [{at: 2s, kill: a}]", 3.0),
        ("timeline: [{at: 2s, kill: a}]\nexpect: {status: {at: 4s, replicas: {a: healthy}}}", 4.0),
        ("replicas: {segment_seconds: 1}\nsessions: [{at: 2s, prompts: [a, {wait: 3}, b], pause: 4s}]", 11.0),
        ("sessions: [{name: t, prompts: 0}, {when: {session: t, event: closed, after: 5}, prompts: 0}]", 5.0),
    ],
)
def test_how_long_a_play_takes_at_least_is_known_before(text: str, seconds: float) -> None:
    assert about_seconds(scenario(text)) == seconds


async def test_a_failure_for_want_of_a_setting_is_no_verdict() -> None:
    port = free_port()
    text = "replicas: {count: 1}\nsessions: [{}]\ngateway: {environment: {SPEED: 9}}\n"
    async with gateway_of(f"http://127.0.0.1:{port}", max_sessions=4) as url:
        wants = scenario(text + "expect: {sessions: {s: {segments: all}}}")
        (result,) = await Suite([wants], Standing(url, port)).run()
    assert result.verdict == "cannot"
    assert result.findings[0] == (
        "cannot: session s: 0 segments of 1 complete, but the gateway runs already: it may not have SPEED=9,"
        " which --start-gateway would give it"
    )
    (result,) = await Suite(
        [scenario(text + "expect: {sessions: {s: {segments: all}}}")],
        Standing(f"http://127.0.0.1:{port}", port),
    ).run()
    assert (result.verdict, result.notes) == (
        "passed",
        ("it may not have SPEED=9, which --start-gateway would give it",),
    )


async def test_nothing_of_a_play_is_left_when_it_is_cancelled() -> None:
    port = free_port()
    text = "replicas: {count: 1, segment_seconds: 30}\nsessions: [{name: s}]"
    playing = asyncio.ensure_future(play(scenario(text), Standing(f"http://127.0.0.1:{port}", port)))
    before = asyncio.all_tasks()
    await eventually(lambda: len(asyncio.all_tasks()) > len(before) + 5, "it is under way")
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing
    assert asyncio.all_tasks() <= before
