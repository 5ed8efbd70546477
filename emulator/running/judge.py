"""PURE. Holds what was seen against what the scenario expects; what does not fit comes back in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from emulator.running import judge_replicas, judge_sessions
from emulator.running.seen import Played, owners
from emulator.running.words import counted
from emulator.scenario import OfSession, StatusCheck, matching


def findings(played: Played, undisturbed: Mapping[str, Sequence[str]]) -> list[str]:
    """Everything that is not as expected, one a line; empty when the scenario has passed.

    `undisturbed` has the hash of each segment's media as it has to be, by session, for those whose media is
    looked at.
    """
    return [
        *_of_the_play(played),
        *_of_sessions(played, undisturbed),
        *_of_replicas(played),
        *_of_status(played),
    ]


def _of_the_play(played: Played) -> Iterator[str]:
    """What is wrong whatever is expected."""
    if played.overran:
        unfinished = [name for name, seen in played.sessions.items() if not seen.through]
        who = f"; sessions not through: {', '.join(unfinished)}" if unfinished else ""
        yield f"not through within {played.scenario.deadline:g} s, its deadline{who}"
    for what in played.waiting:
        yield f"{what}: never came"
    yield from played.not_done
    yield from _of_gateway(played)


def _of_gateway(played: Played) -> Iterator[str]:
    seen, expected = played.gateway, played.scenario.expect.gateway
    if not seen.started:
        return
    if expected.exit == "none":
        if seen.ended_at is not None:
            when = f"after {seen.ended_at:.1f} s"
            yield f"gateway: ended with status {seen.returncode} {when}, expected it to run on"
    elif seen.ended_at is None:
        yield f"gateway: still ran {expected.within:g} s after its signal, expected it to end"
    elif seen.returncode != expected.exit:
        yield f"gateway: ended with status {seen.returncode}, expected {expected.exit}"


def _of_sessions(played: Played, undisturbed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    served = judge_sessions.served_by(played.events, owners(played.events))
    for pattern, several in played.scenario.expect.sessions.items():
        for expected in several:
            verdicts: dict[str, list[str]] = {}
            for name in matching([pattern], played.scenario.session_names):
                seen = played.sessions.get(name)
                if seen is None or not seen.attempts:
                    verdicts[name] = ["was never opened"]
                else:
                    found = judge_sessions.findings(
                        seen, expected, served.get(name, []), undisturbed.get(name)
                    )
                    verdicts[name] = list(found)
            yield from _together(pattern, expected, verdicts)


def _together(pattern: str, expected: OfSession, verdicts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if expected.how_many is None:
        for name, found in verdicts.items():
            yield from (f"session {name}: {what}" for what in found)
        return
    fine = sum(not found for found in verdicts.values())
    if not expected.how_many.allows(fine):
        others = "; ".join(f"{name}: {found[0]}" for name, found in verdicts.items() if found)
        fit = f"{counted(fine, 'session')} of {len(verdicts)} as expected"
        yield f"sessions {pattern}: {fit}, not {expected.how_many}" + (f" ({others})" if others else "")


def _of_replicas(played: Played) -> Iterator[str]:
    for pattern, several in played.scenario.expect.replicas.items():
        for expected in several:
            found = matching([pattern], played.urls)
            for names in [found] if expected.together else [[name] for name in found]:
                events = [event for event in played.events if event.replica in names]
                who = f"replica {names[0]}" if len(names) == 1 else f"replicas {', '.join(names)}"
                yield from (f"{who}: {what}" for what in judge_replicas.findings(events, expected))


def _of_status(played: Played) -> Iterator[str]:
    for check, seen in zip(played.scenario.expect.status, played.statuses, strict=True):
        if not seen.held:
            yield f"status: {_said(seen.last)}, expected {_wanted(check)}"


def _said(last: Mapping[str, str] | None) -> str:
    if last is None:
        return "nothing was said of the replicas"
    return ", ".join(f"{name} {status}" for name, status in last.items()) or "none of the replicas is known"


def _wanted(check: StatusCheck) -> str:
    wanted = ", ".join(f"{name} {status}" for name, status in check.replicas.items())
    return f"{wanted} within {check.within:g} s" + (
        f" from {check.at:g} s on" if check.at is not None else ""
    )
