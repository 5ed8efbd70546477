"""The player's files as the control server hands them out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from emulator.player.routes import _FOLDER, HANDLERS, PARTS


@pytest.fixture
def client() -> Iterator[TestClient[Litestar]]:
    # Without its own logging: that would make the whole process's logs more talkative, for good.
    with TestClient(Litestar(list(HANDLERS), openapi_config=None, logging_config=None)) as client:
        yield client


def test_the_page_comes_with_a_policy_that_keeps_it_at_home(client: TestClient[Litestar]) -> None:
    answer = client.get("/player")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_file_of_the_page_is_handed_out_and_no_other(client: TestClient[Litestar]) -> None:
    assert {file.name for file in _FOLDER.iterdir()} == set(PARTS)
    for name in set(PARTS) - {"index.html"}:
        assert client.get(f"/player/{name}").status_code == 200
    for name in ("index.html", "routes.py", "..%2Froutes.py", "nothing.js"):
        assert client.get(f"/player/{name}").status_code == 404


def test_nothing_comes_from_elsewhere() -> None:
    for name in PARTS:
        text = (_FOLDER / name).read_text()
        links = re.findall(r"(?:src|href)=\"([^\"]+)\"|from \"([^\"]+)\"|url\(([^)]+)\)", text)
        for link in (next(filter(None, found)) for found in links):
            assert link == "data:," or link.removeprefix("/player/") in PARTS, f"{name}: {link}"
        assert not re.search(r"https?://", text), name
        assert not re.search(r"\sstyle=|\son\w+=|innerHTML", text), f"{name}: what the policy forbids"
