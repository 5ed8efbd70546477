"""Rules between the values of a scenario: names, moments, and expectations that nothing can meet."""

from __future__ import annotations

import pytest

from emulator.scenario.checks import broken_rules
from emulator.scenario.reading import BrokenScenario, scenario_from


@pytest.mark.parametrize(
    ("text", "key", "told"),
    [
        ("timeline: [{at: 1s, kill: d}]", "timeline[0].kill", "there is no replica d; there are: a, b, c"),
        ("timeline: [{at: 1s, kill: [a, x*]}]", "timeline[0].kill", "there is no replica x*"),
        (
            "timeline: [{at: 1s, fault: {replica: a}}]",
            "timeline[0].fault",
            "arms nothing; name a fault",
        ),
        (
            "timeline: [{when: {replica: a, event: woken}, kill: a}]",
            "timeline[0].when.event",
            "nothing there sleeps: give a a scale_to_zero",
        ),
        (
            "replicas: {each: {b: {scale_to_zero: {}}}}\nexpect: {replicas: {a: {wakes: 1}}}",
            "expect.replicas.a.wakes",
            "nothing there sleeps",
        ),
        (
            "replicas: {scale_to_zero: {}}\nsessions: [{when: {replica: a, event: fell_asleep, session: 1}}]",
            "sessions[0].when.session",
            "fell_asleep belongs to no session; leave session out",
        ),
        (
            "timeline: [{when: {replica: q, event: open}, kill: a}]",
            "timeline[0].when.replica",
            "there is no replica q",
        ),
        (
            "timeline: [{when: {replica: a, session: 1, event: health}, kill: a}]",
            "timeline[0].when.session",
            "a probe belongs to no session",
        ),
        (
            "timeline: [{when: {session: s1, event: opened}, kill: a}]\nsessions: [{name: s}]",
            "timeline[0].when.session",
            "there is no session s1; there are: s",
        ),
        (
            "timeline: [{when: {session: s, event: opened}, kill: a}]",
            "timeline[0].when.session",
            "there is no session s; there are: none",
        ),
        (
            "timeline: [{when: {session: s, event: message}, kill: a}]\nsessions: [{name: s}]",
            "timeline[0].when",
            "needs type",
        ),
        (
            "timeline: [{when: {session: s, event: opened, type: x}, kill: a}]\nsessions: [{name: s}]",
            "timeline[0].when.type",
            "goes with the events message and error",
        ),
        (
            "timeline: [{when: {status: {z: healthy}}, kill: a}]",
            "timeline[0].when.status.z",
            "there is no replica z",
        ),
        (
            "timeline: [{at: 1s, client: {session: t, do: leave}}]",
            "timeline[0].client.session",
            "there is no session t",
        ),
        ("timeline: [{at: 1s, kill: there}]", "timeline[0].kill", "the step needs a when"),
        (
            "timeline: [{when: {status: {a: unhealthy}}, kill: [b, there]}]",
            "timeline[0].kill",
            "there is where an event happened",
        ),
        ("timeline: [{at: 61s, kill: a}]", "timeline[0].at", "after the deadline of 60 s: it never comes"),
        ("deadline: 5s\nlasts: 6s", "lasts", "after the deadline of 5 s"),
        ("sessions: [{at: 2m}]", "sessions[0].at", "it never comes"),
        ("expect: {status: {replicas: {a: healthy}, at: 2m}}", "expect.status.at", "it never comes"),
        (
            "replicas: {chunks: 100, chunk_bytes: 3000000}",
            "replicas",
            "makes segments of 100 chunks of 3000000 bytes; 268435456 bytes are the most",
        ),
        (
            "replicas: {chunks: 50, each: {b: {chunk_bytes: 8000000}}}",
            "replicas.each.b",
            "makes segments of 50 chunks of 8000000 bytes",
        ),
        ("replicas: {count: 2, each: {c: {}}}", "replicas.each.c", "there is no replica c; there are: a, b"),
        (
            "sessions: [{name: s, count: 2}, {name: s2}]",
            "sessions[1].name",
            "makes s2 twice; names of sessions differ",
        ),
        (
            "sessions: [{name: s, when: {session: s, event: opened}}]",
            "sessions[0].when",
            "waits for s, which it opens itself",
        ),
        (
            "sessions: [{name: s, when: {session: t, event: opened}}, {name: t}]",
            "sessions[0].when",
            "waits for t, which opens after it",
        ),
        ("expect: {sessions: {s: {}}}", "expect.sessions.s", "there is no session s; there are: none"),
        ("expect: {replicas: {d: {}}}", "expect.replicas.d", "there is no replica d"),
        (
            "sessions: [{}]\nexpect: {sessions: {s: {messages: {sesion_resumed: 1}}}}",
            "expect.sessions.s",
            "no message has the type sesion_resumed; did you mean session_resumed?",
        ),
        (
            "sessions: [{}]\nexpect: {sessions: {s: [{}, {served_by: [a, z]}]}}",
            "expect.sessions.s[1].served_by",
            "there is no replica z",
        ),
        (
            "expect: {replicas: {a: {messages: {snapshot_stat: 1}}}}",
            "expect.replicas.a",
            "did you mean snapshot_state?",
        ),
        (
            "expect: {replicas: {a: {saw: {port_opend: 1}}}}",
            "expect.replicas.a.saw.port_opend",
            "is no kind of event; did you mean port_opened?",
        ),
        ("expect: {replicas: {a: {struck: {abrt: 1}}}}", "expect.replicas.a.struck.abrt", "is no fault"),
        (
            "expect: {replicas: {a: {struck: {abort: 1}}}}",
            "expect.replicas.a.struck.abort",
            "nothing arms abort there",
        ),
        (
            "replicas: {each: {b: {faults: {abort: {}}}}}\nexpect: {replicas: {a: {struck: {abort: 1}}}}",
            "expect.replicas.a.struck.abort",
            "nothing arms abort there",
        ),
        (
            "expect: {status: {replicas: {d: healthy}}}",
            "expect.status.replicas.d",
            "there is no replica d",
        ),
        (
            "expect: {status: [{replicas: {a: healthy}}, {replicas: {d: healthy}}]}",
            "expect.status[1].replicas.d",
            "there is no replica d",
        ),
        ("expect: {gateway: {exit: 0}}", "expect.gateway.exit", "no step tells the gateway to end"),
    ],
)
def test_a_broken_rule_is_told(text: str, key: str, told: str) -> None:
    with pytest.raises(BrokenScenario) as broken:
        scenario_from(text)
    (only,) = broken.value.problems
    assert (only.key, only.place is not None) == (key, True)
    assert told in only.message


@pytest.mark.parametrize(
    "text",
    [
        "timeline: [{at: 60s, kill: '*'}]",
        "timeline: [{when: {replica: '*', event: open}, kill: there}]",
        "timeline: [{when: {replica: a, event: open}, fault: {replica: there, abort: {}}}]\n"
        "expect: {replicas: {a: {struck: {abort: 1}}}}",
        "sessions: [{name: s, when: {session: t, event: opened}, together: true}, {name: t}]",
        "sessions: [{name: t}, {name: s, when: {session: t, event: closed}}]",
        "sessions: [{}]\nexpect: {sessions: {s: {messages: {a_message_of_its_own: 0, session_resumed: 1}}}}",
        "expect: {replicas: {a: {struck: {abort: none}}}}",
        "replicas: {faults: {abort: {}}}\nexpect: {replicas: {'*': {struck: {abort: some}}}}",
        "timeline: [{at: 0, fault: {replica: b, abort: {}}}]\nexpect: {replicas: {b: {struck: {abort: 1}}}}",
        "timeline: [{at: 1s, gateway: SIGTERM}]\nexpect: {gateway: {exit: 0}}",
        "replicas: {each: {b: {scale_to_zero: {}}}}\n"
        "timeline: [{when: {replica: '*', event: woken}, kill: b}]\nexpect: {replicas: {'*': {wakes: 1}}}",
        "expect: {replicas: {a: {wakes: none}}}",
    ],
)
def test_what_may_be_is_not_complained_of(text: str) -> None:
    assert list(broken_rules(scenario_from(text))) == []
