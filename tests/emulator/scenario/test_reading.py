"""Scenario files: the scenario, or every problem with file, line, column, key and what would be right."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from emulator.faults import Stall
from emulator.scenario import ClientWhen, FaultAction, Kill, Pause, ReplicaWhen, Scenario
from emulator.scenario.reading import (
    EXAMPLE,
    MOST_TOLD,
    BrokenScenario,
    files_in,
    read_scenario,
    scenario_from,
)


def problems(text: str) -> list[str]:
    """What is told of a file with this text."""
    with pytest.raises(BrokenScenario) as broken:
        scenario_from(text, file="x.yaml")
    return [str(problem) for problem in broken.value.problems]


def test_a_scenario_is_read_whole() -> None:
    found = scenario_from(
        """
        seed: 7
        replicas: {count: 3, each: {b: {capacity: 1, faults: {stall: {seconds: 2s}}}}}
        sessions:
          - {name: s, count: 2, prompts: [a sunrise, {prompt: a storm, seed: 5}, {wait: 1s}]}
        timeline:
          - when: {replica: b, session: 1, event: segment_start, n: 2}
            kill: {replica: b, restart_after: 1s}
          - when: {session: s1, event: resumed}
            fault: {replica: c, stall: {for_seconds: 3}}
            pause: {replica: a, for: 2s}
        expect: {sessions: {s*: {resumed: some}}}
        """,
        file="some dir/Kill B.yaml",
    )
    assert found.name == "kill-b"
    assert found.session_names == ["s1", "s2"]
    assert found.replicas.plan("b").capacity == 1
    assert found.replicas.plan("b").faults == (Stall(seconds=2.0),)
    assert found.replicas.plan("a").faults == ()
    first, second = found.timeline
    assert first.when == ReplicaWhen(replica="b", event="segment_start", session=1, n=2)
    assert first.actions == (Kill(replica=("b",), restart_after=1.0),)
    assert second.when == ClientWhen(session="s1", event="resumed")
    fault, pause = second.actions
    assert isinstance(fault, FaultAction)
    assert fault.faults == (Stall(for_seconds=3.0),)
    assert pause == Pause(replica=("a",), lasting=2.0)
    assert found.needs == ("resume",)


def test_the_example_for_an_empty_file_is_right() -> None:
    assert scenario_from(EXAMPLE).expect.sessions["s"][0].segments == "all"


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    told = problems(
        "seed: '7'\n"
        "replicas: {count: 0}\n"
        "sessions:\n"
        "  - {name: s, prompts: [3], pause: soon}\n"
        "timeline:\n"
        "  - {at: 2s, kil: b}\n"
        "  - {at: 2s}\n"
        "  - {when: {replica: a, event: segment_strat}, kill: {replica: a, restart_aftr: 1s}}\n"
        "expect:\n"
        "  sessions: {s: {messages: {error: -1}, close: {cod: 1000}}}\n"
    )
    assert [line.partition(": ")[0] for line in told] == [
        f"x.yaml:{place}"
        for place in ("1:7", "2:19", "4:25", "4:36", "6:14", "7:5", "8:32", "8:67", "10:36", "10:49")
    ]
    assert told[0] == "x.yaml:1:7: seed: should be a whole number, not '7'"
    assert told[4] == "x.yaml:6:14: timeline[0].kil: is not a key here; did you mean kill?"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sesions: []", "1:1: sesions: is not a key here; did you mean sessions?"),
        (
            "replicas: {each: {a: {faults: {stal: {}}}}}",
            "1:32: replicas.each.a.faults.stal: is not a key here; did you mean stall?",
        ),
        (
            "replicas: {faults: {stall: {second: 1}}}",
            "1:29: replicas.faults.stall.second: is not a key here; did you mean seconds?",
        ),
        (
            "replicas: {faults: {latency: {seconds: -1}}}",
            "1:30: replicas.faults.latency: seconds must be 0 or more",
        ),
        (
            "replicas: {faults: {stall: {then: stop}}}",
            "1:35: replicas.faults.stall.then: should be 'continue' or 'reset', not 'stop'",
        ),
        (
            "timeline: [{at: 1s, fault: {replica: a, abort: {segment: x}}}]",
            "1:58: timeline[0].fault.abort.segment: should be a whole number or null, not 'x'",
        ),
        (
            "replicas: {faults: {stall: {for_seconds: soon}}}",
            "replicas.faults.stall.for_seconds: should be a duration such as 2s",
        ),
        ("replicas: {faults: {abort: 3}}", "should be a mapping of the fault's fields"),
        ("timeline: [{kill: a}]", "1:12: timeline[0]: should have one trigger"),
        ("timeline: [{at: 1s, when: {session: s, event: opened}, kill: a}]", "should have one trigger"),
        ("timeline: [{when: {event: open}, kill: a}]", "should have replica and event, session and event"),
        ("timeline: [{when: 3, kill: a}]", "should be a mapping with replica and event, session and event"),
        ("timeline: [{when: {replca: a, event: open}, kill: a}]", "or status; did you mean replica?"),
        ("timeline: [{when: {replica: a}, kill: a}]", "1:19: timeline[0].when: needs event"),
        (
            "timeline: [{at: 1s, lift: {replica: a, fault: stal}}]",
            "has no 'stal' to choose; did you mean stall?",
        ),
        ("sessions: [{prompts: [{promt: x}]}]", "should have one of the keys prompt, send, binary_bytes and"),
        ("sessions: [{prompts: [{promt: x}]}]", "; did you mean prompt?"),
        ("sessions: [{prompts: [3]}]", "should be text, or a mapping with prompt, send"),
        ("sessions: [{prompts: {}}]", "or a number of them from 0 to 10000, not a mapping"),
        (
            "sessions: [{prompts: [{prompt: x, sed: 1}]}]",
            "prompts[0].sed: is not a key here; did you mean se",
        ),
        ("sessions: [{headers: {x: 3}}]", "1:26: sessions[0].headers.x: should be text, not 3"),
        ("sessions: [{headers: {'a b': c}}]", "should be the name of a header"),
        ("sessions: [{code: 1006}]", "should be a code that may be sent"),
        ("sessions: [{subprotocols: [a b]}]", "1:28: sessions[0].subprotocols[0]: should be a subproto"),
        ('replicas: {subprotocols: ["a\\r\\nX: y"]}', "should be a subprotocol: letters, digits and signs"),
        (f"sessions: [{{reason: {'é' * 62}}}]", "sessions[0].reason: should have at most 123 bytes in UTF-8"),
        ("sessions: [{name: t}, {at: 1s, when: {session: t, event: opened}}]", "has both at and when"),
        ("name: Kill It", "1:7: name: should be a name of small letters"),
        ("description: |\n  two\n  lines\n", "should be one line"),
        ("gateway: {needs: [queu]}", "has no 'queu' to choose; did you mean queue?"),
        ("gateway: {environment: {A-B: 1}}", "should be the name of an environment variable"),
        (
            "sessions: [{}]\nexpect: {sessions: {s: {errors: nine}}}",
            "has no 'nine' to choose; did you mean none?",
        ),
        (
            "sessions: [{}]\nexpect: {sessions: {s: {errors: 9}}}",
            "should be none, some, a list of codes, or a mapping of",
        ),
        (
            "sessions: [{}]\nexpect: {sessions: {s: {close: x}}}",
            "should be none, a code, a list of codes, or a mapping with",
        ),
        (
            "sessions: [{}]\nexpect: {sessions: {s: {refused: x}}}",
            "should be none, an HTTP status, or a list of them, not 'x'",
        ),
        (
            "sessions: [{}]\nexpect: {sessions: {s: {segments: al}}}",
            "should be all, a number, none, some, or a mapping with",
        ),
        ("expect: {gateway: {exit: x}}", "should be none, or an exit status, not 'x'"),
        ("sessions: [{}]\nexpect: {sessions: {s: {refused: 99}}}", "should be 100 or more, not 99"),
        ("replicas: {segment_cap: 99999999999}", "should be at most 1000000000, not 99999999999"),
        (
            'gateway: {environment: {A: "x\\0y"}}',
            "1:28: gateway.environment.A: should be text without a zero byte",
        ),
        (f"gateway: {{environment: {{A: {'x' * 100_001}}}}}", "should have at most 100000 bytes"),
        ("gateway: {environment: {A: [.nan]}}", "1:29: gateway.environment.A[0]: should be a finite number"),
        ("sessions: [{init: {a: {b: -.inf}}}]", "1:27: sessions[0].init.a.b: should be a finite number"),
        (
            "sessions: [{prompts: [{send: {a: .nan}}]}]",
            "sessions[0].prompts[0].send.a: should be a finite num",
        ),
        ('sessions: [{prompts: ["\\ud800"]}]', "1:23: sessions[0].prompts[0]: should be text that UTF-8 can"),
        ('sessions: [{prompts: [{send: "\\ud800"}]}]', "should be text that UTF-8 can carry"),
        ('gateway: {environment: {A: "\\ud800"}}', "should be text that UTF-8 can carry"),
        ('"\\e[2Jx": 1', r"1:1: \x1b[2Jx: is not a key here"),
        (
            "sessions: [{name: u, count: 2}]\ntimeline: [{at: 0, client: {session: v, do: leave}}]",
            "are: u1, u2",
        ),
        ("expect: {status: {within: 1s}}", "needs replicas"),
        ("expect: {status: {replicas: {a: sick}}}", "should be 'healthy', 'unhealthy' or 'unknown'"),
        (
            "- a\n- b\n",
            "x.yaml:1:1: should be a mapping with keys such as sessions: and timeline:, not a list",
        ),
        ("kill\n", "not a single value"),
        ("", "x.yaml:1:1: is empty; this would do:"),
        ("# nothing\n", "is empty; this would do:"),
        ("seed: 1\nseed: 2\n", "x.yaml:2:1: seed: is already given on line 1; keep one"),
        ('description: "\\ud800"', "should be text that UTF-8 can carry"),
    ],
)
def test_a_problem_says_where_it_is_and_what_would_be_right(text: str, told: str) -> None:
    (only,) = problems(text)
    assert told in only


def test_a_wrong_value_hides_no_rule_about_the_others() -> None:
    told = problems("seed: x\ntimeline:\n  - {at: 99s, kill: d}\n")
    assert len(told) == 3
    assert "there is no replica d; there are: a, b, c" in told[-1] + told[-2]


def test_what_refers_to_what_is_wrong_elsewhere_is_told_in_the_same_go() -> None:
    told = problems(
        "replicas: {capcity: 2, count: 2}\n"
        "sessions:\n"
        "  - {name: s, count: 2, pausee: 1s, at: 1s, when: {session: q, event: opened}}\n"
        "timeline:\n"
        "  - {when: {replica: a, event: opne}, kill: [there, c]}\n"
        "  - {kil: a}\n"
        "  - {at: x, client: {session: s3, do: leav}, restart: c}\n"
        "expect:\n"
        "  sessions: {t: {errors: 3}, s1: {closed: 3, served_by: [c]}}\n"
        "  replicas: {a: [{struck: {abrt: 1}, sesions: 1}], c: {}}\n"
        "  status: [{replicas: {c: healthy}, witin: 3s}, {replicas: {c: healthy}}]\n"
    )
    assert [line.partition(": ")[2].partition(": ")[0] for line in told] == [
        "replicas.capcity",
        "sessions[0]",
        "sessions[0].pausee",
        "sessions[0].when.session",
        "timeline[0].when.event",
        "timeline[0].kill",
        "timeline[1]",
        "timeline[1].kil",
        "timeline[2].at",
        "timeline[2].client.do",
        "timeline[2].restart",
        "expect.sessions.t",
        "expect.sessions.t.errors",
        "expect.sessions.s1.closed",
        "expect.sessions.s1.served_by",
        "expect.replicas.a.struck.abrt",
        "expect.replicas.a[0].sesions",
        "expect.replicas.c",
        "expect.status[0].witin",
        "expect.status[1].replicas.c",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "sessions: [{nam: s, count: 2}]\ntimeline: [{at: 0, client: {session: s1, do: leave}}]",
        "sessions: [{name: s, cout: 2}]\nexpect: {sessions: {s2: {}}}",
        "sessions: [{name: 3}, {name: t}]\nexpect: {sessions: {s: {}}}",
        "sessions: [s]\nexpect: {sessions: {s: {}}}",
        "replicas: {cnt: 5}\ntimeline: [{at: 0, kill: e}]",
        "replicas: {faults: {abrt: {}}}\nexpect: {replicas: {a: {struck: {abort: 1}}}}",
        "timeline: [{at: 0, fault: {replica: a, abrt: {}}}]\nexpect: {replicas: {a: {struck: {abort: 1}}}}",
        "timeline: [{at: 0, gatewy: SIGTERM}]\nexpect: {gateway: {exit: 0}}",
        "timeline: [{when: {replica: a, event: opne}, kill: there}]",
        "deadline: x\nlasts: 99s",
    ],
)
def test_what_may_be_because_of_something_wrong_is_not_complained_of(text: str) -> None:
    assert len(problems(text)) == 1


def test_names_of_a_broken_section_are_not_complained_of() -> None:
    (only,) = problems("replicas: {count: x}\ntimeline:\n  - {at: 1s, kill: d}\n")
    assert "replicas.count" in only


def test_a_duplicate_is_told_beside_the_other_problems() -> None:
    assert len(problems("seed: 1\nseed: 2\ndeadline: never\n")) == 2


def test_a_file_is_read_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "two-moves.yaml"
    file.write_text("﻿seed: 1\n", encoding="utf-8")
    assert read_scenario(file) == Scenario(name="two-moves", seed=1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("# a\nseed: ü\n".encode("latin-1"), "x.yaml:2:7: is not UTF-8 text; save it as UTF-8"),
        ("seed: 1\n".encode("utf-16"), "x.yaml:1:1: is UTF-16 text; save it as UTF-8"),
        (b"# " + b"x" * 1024 * 1024, "x.yaml:1:1: is above 1024 KiB"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused_whole(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(BrokenScenario) as broken:
        read_scenario(file)
    assert told in str(broken.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, told in (
        (tmp_path, "is a directory"),
        (tmp_path / "none.yaml", "there is no such file"),
        (Path(os.devnull), "is a device"),
        (tmp_path / "a\0b", "is not the name of a file"),
    ):
        with pytest.raises(BrokenScenario, match=told):
            read_scenario(path)


def test_a_file_of_the_largest_size_is_told_of_in_a_moment() -> None:
    text = "timeline:\n" + "  - {at: 1s, kil: a}\n" * 3000
    began = time.monotonic()
    with pytest.raises(BrokenScenario) as broken:
        scenario_from(text, file="x.yaml")
    assert len(broken.value.problems) == 3000
    *_, last = str(broken.value).splitlines()
    assert last == f"x.yaml: and {3000 - MOST_TOLD} more problems"
    assert time.monotonic() - began < 30


def test_a_directory_stands_for_its_scenarios(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt"):
        (tmp_path / name).write_text("")
    found = files_in([tmp_path, Path("x.yaml")])
    assert [path.name for path in found] == ["a.yml", "b.yaml", "x.yaml"]
