"""What every store does: in memory, in Redis 7 and in Valkey 9, on a clock that the test moves."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from gateway.errors import FleetRefused
from gateway.fleet.encoding import moment
from gateway.fleet.member import MemberState, ReportValue
from gateway.fleet.spec import FleetSpec
from gateway.fleet.store import Answer, Beat, FleetStore
from gateway.fleet.view import FleetView
from tests.gateway.fleet.stages import BEGIN_US, SPEC, MemoryStage, RedisStage, Stage
from tests.gateway.fleet.views import seconds

SECOND = 1_000_000


async def beat(store: FleetStore, name: str, **said: object) -> Answer:
    return await store.beat(Beat(name, incarnation=f"process of {name}", **said))  # type: ignore[arg-type]


def ids(view: FleetView) -> list[str]:
    return [member.id for member in view.members]


async def test_a_beat_writes_ones_entry_and_returns_everyones(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "b", report={"load": 1})
    stage.move(SECOND)
    answer = await beat(store, "a", state=MemberState.STARTING)
    assert answer.view.at == moment(BEGIN_US + SECOND)
    assert [(each.id, each.state, each.since, each.report) for each in answer.view.members] == [
        ("a", "starting", moment(BEGIN_US + SECOND), {}),
        ("b", "serving", moment(BEGIN_US), {"load": 1}),
    ]
    assert (answer.found, answer.written) == (None, True)


async def test_a_view_reads_and_writes_nothing(stage: Stage) -> None:
    store = stage.store()
    assert await store.view() == FleetView(moment(BEGIN_US))
    answer = await beat(store, "a")
    before = stage.tables()
    assert await store.view() == answer.view
    stage.move(10 * SECOND)
    assert ids(await store.view()) == []
    assert stage.tables() == before


async def test_since_is_kept_over_beats_and_states(stage: Stage) -> None:
    store = stage.store()
    for state in MemberState:
        answer = await beat(store, "a", state=state)
        assert [(each.state, each.since) for each in answer.view.members] == [(state, moment(BEGIN_US))]
        stage.move(9_999_999)


@pytest.mark.parametrize(("passed_us", "alive"), [(9_999_999, True), (10_000_000, False)])
async def test_an_entry_lives_for_its_ttl_to_the_microsecond(
    stage: Stage, passed_us: int, alive: bool
) -> None:
    store = stage.store()
    await beat(store, "a")
    stage.move(passed_us)
    assert ids(await store.view()) == (["a"] if alive else [])
    assert ids((await beat(store, "b")).view) == (["a", "b"] if alive else ["b"])
    assert sorted(stage.tables().entries) == ([b"a", b"b"] if alive else [b"b"])


async def test_whoever_comes_back_after_the_ttl_is_a_new_member(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    await beat(store, "b", ttl=seconds(100))
    stage.move(10 * SECOND)
    answer = await beat(store, "a", number=7)
    assert {each.id: each.since for each in answer.view.members} == {
        "a": moment(BEGIN_US + 10 * SECOND),
        "b": moment(BEGIN_US),
    }
    assert answer.found is None


async def test_an_entrys_own_ttl_shortens_nobody_elses_life(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    await beat(store, "b", state=MemberState.DRAINING, ttl=seconds(2))
    stage.move(2 * SECOND)
    assert ids(await store.view()) == ["a"]
    stage.move(8 * SECOND - 1)
    assert ids(await store.view()) == ["a"]


async def test_the_keys_end_a_second_after_the_last_entry(stage: Stage) -> None:
    store = stage.store()
    stage.move(1)  # so that the second is no full millisecond
    await beat(store, "a", ttl=seconds(30))
    await beat(store, "b")
    last = -(-(BEGIN_US + 1 + 31 * SECOND) // 1000)
    assert stage.tables().gone_at_us == last * 1000
    if isinstance(stage, RedisStage):
        assert stage.ends_ms() == [last, last]
    assert await store.leave("a")
    assert stage.tables().gone_at_us == -(-(BEGIN_US + 1 + 11 * SECOND) // 1000) * 1000


async def test_the_tables_are_gone_once_their_end_has_come() -> None:
    stage = MemoryStage()
    await beat(stage.store(), "a")
    stage.move(11 * SECOND - 1)
    assert stage.tables().entries
    stage.move(1)
    assert not stage.tables().entries


async def test_who_leaves_is_gone_at_once(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    await beat(store, "b")
    assert await store.leave("a") is True
    assert ids(await store.view()) == ["b"]
    assert await store.leave("a") is False
    assert await store.leave("nobody") is False
    assert await store.leave("b") is True
    assert not stage.tables().entries
    assert not stage.tables().expiries


async def test_an_expired_entry_cannot_leave(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    stage.move(10 * SECOND)
    assert await store.leave("a") is False


async def test_only_its_own_incarnation_can_leave_with_an_incarnation(stage: Stage) -> None:
    store = stage.store()
    await store.beat(Beat("a", incarnation="old"))
    await store.beat(Beat("a", incarnation="new"))
    assert await store.leave("a", incarnation="old") is False
    assert ids(await store.view()) == ["a"]
    assert await store.leave("a", incarnation="new") is True
    assert await store.leave("a", incarnation="new") is False


async def test_a_beat_tells_who_wrote_the_entry_before(stage: Stage) -> None:
    store = stage.store()
    found = [(await store.beat(Beat("a", incarnation=name))).found for name in ("x", "x", "y", "x", "")]
    assert found == [None, "x", "x", "y", "x"]


async def test_a_beat_that_was_overtaken_writes_nothing(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a", number=2, report={"load": 2})
    stage.move(SECOND)
    late = await beat(store, "a", number=1, report={"load": 1})
    assert late.written is False
    assert late.view.members[0].report == {"load": 2}
    assert ids(late.view) == ["a"]
    stage.move(9 * SECOND)
    assert ids(await store.view()) == []


async def test_the_same_beat_twice_is_one_beat(stage: Stage) -> None:
    store = stage.store()
    one = await beat(store, "a", number=1, report={"load": 1})
    again = await beat(store, "a", number=1, report={"load": 1})
    assert again.written
    assert again.view == one.view


async def test_another_incarnation_is_never_overtaken(stage: Stage) -> None:
    store = stage.store()
    await store.beat(Beat("a", incarnation="old", number=900))
    stage.move(SECOND)
    answer = await store.beat(Beat("a", incarnation="new", number=0, report={"load": 0}))
    assert answer.written
    assert answer.found == "old"
    assert (answer.view.members[0].report, answer.view.members[0].since) == ({"load": 0}, moment(BEGIN_US))


@pytest.mark.parametrize(
    "report",
    [
        {"a": 0, "b": -0.0, "c": 0.1, "d": 1.0, "e": 1e300, "f": 5e-324},
        {"a": 2**53 + 1, "b": -(2**63), "c": 10**30},
        {"a": "", "b": "\t\n{}", "ü": "größe \N{WHALE}", "": '"\\', "0": "1"},
    ],
)
async def test_a_report_comes_back_exactly(stage: Stage, report: dict[str, ReportValue]) -> None:
    answer = await beat(stage.store(), "a", report=report)
    (member,) = answer.view.members
    assert member.report == report
    assert [repr(value) for value in member.report.values()] == [repr(value) for value in report.values()]


@pytest.mark.parametrize("name", ["größe", "a b", "\N{WHALE}", "%d", "[a]", "-inf", "0", "'"])
async def test_any_fit_id_is_kept_as_it_is(stage: Stage, name: str) -> None:
    store = stage.store()
    await beat(store, name)
    assert ids((await beat(store, name)).view) == [name]
    assert await store.leave(name)


@pytest.mark.parametrize(
    "refused",
    [
        Beat("a\tb"),
        Beat("a\nb"),
        Beat("{a"),
        Beat("a}"),
        Beat(""),
        Beat("a", report={"x": True}),
        Beat("a", report={"x": math.nan}),
        Beat("a", report={"x": math.inf}),
        Beat("a", report={"x": "y" * 200}),
        Beat("a", report={"x": [1]}),  # type: ignore[dict-item]
        Beat("a", incarnation="x\ty"),
        Beat("a", ttl=timedelta(0)),
        Beat("a", number=-1),
        Beat("a", number=2**53),
    ],
)
async def test_a_beat_that_breaks_a_rule_is_refused_before_anything_is_sent(
    stage: Stage, refused: Beat
) -> None:
    store = stage.store()
    await beat(store, "b")
    before = _commands(stage), stage.tables()
    with pytest.raises(FleetRefused):
        await store.beat(refused)
    assert (_commands(stage), stage.tables()) == before


def _commands(stage: Stage) -> int:
    """How many scripts the server has run."""
    if not isinstance(stage, RedisStage):
        return 0
    stats = stage.redis.info("commandstats")
    assert isinstance(stats, dict)
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


async def test_without_the_expiries_everyone_gets_one_more_ttl(stage: Stage) -> None:
    store = stage.store()
    for name in "abc":
        await beat(store, name)
        stage.move(SECOND)
    stage.lose("z")
    assert ids(await store.view()) == ["a", "b", "c"]
    answer = await beat(store, "b", number=1, ttl=seconds(9))  # its own ttl is nobody else's
    assert [(each.id, each.since) for each in answer.view.members] == [
        (name, moment(BEGIN_US + index * SECOND)) for index, name in enumerate("abc")
    ]
    stage.move(5 * SECOND)
    await beat(store, "b", number=2)
    stage.move(5 * SECOND)
    assert ids((await beat(store, "b", number=3)).view) == ["b"]
    assert list(stage.tables().entries) == [b"b"]


async def test_without_the_entries_everyone_comes_back_as_new(stage: Stage) -> None:
    store = stage.store()
    for name in "ab":
        await beat(store, name)
    stage.move(SECOND)
    stage.lose("h")
    assert ids(await store.view()) == []
    answer = await beat(store, "a", number=1)
    assert [(each.id, each.since) for each in answer.view.members] == [("a", moment(BEGIN_US + SECOND))]
    assert answer.found is None
    assert list(stage.tables().expiries) == [b"a"]
    assert ids((await beat(store, "b", number=1)).view) == ["a", "b"]


async def test_after_a_flush_everyone_comes_back_as_new(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    stage.move(SECOND)
    stage.flush()
    assert ids(await store.view()) == []
    answer = await beat(store, "a", number=1)
    assert answer.view.members[0].since == moment(BEGIN_US + SECOND)


async def test_a_clock_that_goes_back_leaves_no_since_in_the_future(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    await beat(store, "b")
    stage.move(-3600 * SECOND)
    answer = await beat(store, "a", number=1)
    assert {each.id: each.since for each in answer.view.members} == {
        "a": moment(BEGIN_US - 3600 * SECOND),
        "b": moment(BEGIN_US),
    }


async def test_a_clock_that_jumps_ahead_expires_everyone_else(stage: Stage) -> None:
    store = stage.store()
    await beat(store, "a")
    await beat(store, "b")
    stage.move(3600 * SECOND)
    assert ids((await beat(store, "a", number=1)).view) == ["a"]


async def test_what_is_no_entry_is_passed_over_and_replaced(stage: Stage) -> None:
    store = stage.store()
    stage.write(b"stranger", b"hello", expiry_us=BEGIN_US + 5 * SECOND)
    stage.write(b"a", b"hello", expiry_us=BEGIN_US + 5 * SECOND)
    assert await store.leave("a", incarnation="process of a") is False
    answer = await beat(store, "a")
    assert ids(answer.view) == ["a"]
    assert (answer.found, answer.view.members[0].since) == (None, moment(BEGIN_US))
    stage.move(5 * SECOND)
    await beat(store, "a", number=1)
    assert list(stage.tables().entries) == [b"a"]


async def test_a_member_of_a_later_version_is_there(stage: Stage) -> None:
    store = stage.store()
    entry = b'%d\tother\t1\t2\tresting\t{"load":1}\tmore' % BEGIN_US
    stage.write(b"later", entry, expiry_us=BEGIN_US + 5 * SECOND)
    (_, later) = (await beat(store, "a")).view.members
    assert (later.id, later.state, later.report) == ("later", "draining", {})


async def test_fleets_of_different_names_do_not_meet(stage: Stage) -> None:
    streamers = FleetSpec("streamers", SPEC.ttl)
    await beat(stage.store(), "a")
    assert ids((await beat(stage.store(streamers), "b")).view) == ["b"]
    assert ids(await stage.store().view()) == ["a"]


async def test_a_large_fleet_comes_whole_and_goes_whole(stage: Stage) -> None:
    for index in range(9000):  # more than a script could pass as arguments of one call
        if isinstance(stage, RedisStage):
            break
        stage.write(b"m%d" % index, b"%d\t\t0\t1\tserving\t{}" % BEGIN_US, expiry_us=BEGIN_US + SECOND)
    if isinstance(stage, RedisStage):
        z, h = stage.config.keys(SPEC)
        names = [b"m%d" % index for index in range(9000)]
        stage.redis.zadd(z, dict.fromkeys(names, BEGIN_US + SECOND))
        stage.redis.hset(h, mapping=dict.fromkeys(names, b"%d\t\t0\t1\tserving\t{}" % BEGIN_US))
    store = stage.store()
    assert len((await beat(store, "a")).view.members) == 9001
    stage.move(SECOND)
    assert ids((await beat(store, "a", number=1)).view) == ["a"]
