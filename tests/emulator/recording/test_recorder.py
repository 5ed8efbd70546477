from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from emulator.recording.format import Answer, Binary, Closed
from emulator.recording.reading import read
from emulator.recording.recorder import Recorder


def test_every_line_is_there_before_the_next_thing_happens(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Recorder(file, "ws://x:1") as recorder:
        session = recorder.begin("/v1/stream?token=a&b=1", [("Cookie", "s"), ("A", "b")], ["v1", "x" * 50])
        session.answered(Answer(101, "v1"))
        session.passed("c", '{"type":"a"}')
        interrupted = read(file.read_bytes().splitlines(keepends=True))
        session.passed("s", b"abc")
        session.closed("c", Closed(1000, "done"))
    assert len(interrupted.conversations[0].steps) == 1
    (conversation,) = read(file.read_bytes().splitlines(keepends=True)).conversations
    assert [step.said for step in conversation.steps][1:] == [Binary.of(b"abc"), Closed(1000, "done")]
    assert conversation.upgrade is not None
    assert conversation.upgrade.query == "token=***&b=1"
    assert conversation.upgrade.headers == (("Cookie", "***"), ("A", "b"))
    assert conversation.upgrade.subprotocols == ("v1", "***")
    times = [step.at_seconds for step in conversation.steps if step.at_seconds is not None]
    assert len(times) == 3
    assert times == sorted(times)


def test_the_file_is_its_owners_and_never_one_that_was_there(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Recorder(file, "ws://x:1"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        Recorder(file, "ws://x:1")


def test_the_file_stays_within_its_limit_and_media_is_left_out_first(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    told: list[str] = []
    limit = 20_000
    with Recorder(file, "ws://x:1", limit_bytes=limit, on_limit=told.append) as recorder:
        session = recorder.begin("/", [], [])
        session.answered(Answer())
        for _ in range(20):
            session.passed("s", bytes(1000))
        session.passed("c", '{"type":"still whole"}')
        assert len(told) == 1
        assert "by length and hash" in told[0]
        for _ in range(200):
            session.passed("c", json.dumps({"type": "a", "text": "x" * 100}))
    assert len(told) == 2
    assert "nothing more" in told[1]
    assert file.stat().st_size <= limit + 100
    (conversation,) = read(file.read_bytes().splitlines(keepends=True)).conversations
    media = [step.said for step in conversation.steps if isinstance(step.said, Binary)]
    assert media[0] == Binary.of(bytes(1000))
    assert media[-1] == Binary(1000, media[0].sha256, None)
    assert "full" in json.loads(file.read_bytes().splitlines()[-1])


def test_requests_are_recorded_with_their_answers(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with Recorder(file, "ws://x:1") as recorder:
        recorder.http("GET", "/health?key=abc", 200, {"status": "ok"})
        recorder.begin("/", [], []).answered(Answer(503, body="busy"))
    recording = read(file.read_bytes().splitlines(keepends=True))
    assert [(entry.path, entry.body) for entry in recording.requests] == [
        ("/health?key=***", {"status": "ok"})
    ]
    assert recording.conversations[0].answer == Answer(503, None, (), "busy")


def test_the_file_has_no_more_lines_than_can_be_replayed(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    told: list[str] = []
    with Recorder(file, "ws://x:1", most_lines=5, on_limit=told.append) as recorder:
        session = recorder.begin("/", [], [])
        session.answered(Answer())
        for _ in range(5):
            session.passed("c", "x")
    assert told == ["its limit is reached: nothing more is recorded"]
    lines = file.read_bytes().splitlines()
    assert len(lines) == 6
    assert json.loads(lines[-1])["full"].endswith(" 5 lines")
