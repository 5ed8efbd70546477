"""Who may ask the control API, by the two headers that say."""

from __future__ import annotations

import pytest

from emulator.control.guard import refusal


def headers(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in pairs]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
@pytest.mark.parametrize("port", ["", ":80", ":9190", ":65535"])
def test_this_machine_may_ask_and_its_own_page(name: str, port: str) -> None:
    host = name + port
    assert refusal(headers(("host", host))) is None
    assert refusal(headers(("host", host), ("origin", f"http://{host.lower()}"))) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "127.0.0.1:",
        "127.0.0.1:evil",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:9190:9190",
        "127.0.0.1:\xb2",
        "user@127.0.0.1",
        "127.0.0.1/",
        "[::1",
        "[::1].evil.example",
        "[::1]evil",
        "[::1]:evil",
        "[::2]",
        "[127.0.0.1]",
        "::1",
        "127.0.0.1, evil.example",
        "127.1",
    ],
)
def test_another_host_may_not(host: str) -> None:
    why = refusal(headers(("host", host)))
    assert why is not None
    assert "127.0.0.1, localhost, [::1] only" in why


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "https://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:9191",
        "http://localhost:9190",
        "https://127.0.0.1:9190",
        "http://127.0.0.1:evil",
        "http://127.0.0.1:9190/",
        "http://127.0.0.1:9190.evil.example",
        "http://127.0.0.1:9190, https://evil.example",
        "http://[",
    ],
)
def test_the_page_of_another_server_may_not(origin: str) -> None:
    why = refusal(headers(("host", "127.0.0.1:9190"), ("origin", origin)))
    assert why is not None
    assert "only the emulator's own pages" in why


@pytest.mark.parametrize(
    "twice",
    [
        [("host", "127.0.0.1"), ("host", "127.0.0.1")],
        [("host", "127.0.0.1"), ("origin", "http://127.0.0.1"), ("origin", "https://evil.example")],
        [("host", "127.0.0.1"), ("origin", "http://127.0.0.1"), ("origin", "http://127.0.0.1")],
    ],
)
def test_one_header_is_enough(twice: list[tuple[str, str]]) -> None:
    why = refusal(headers(*twice))
    assert why is not None
    assert why.startswith("a request has one header ")


def test_no_host_is_none_of_ours() -> None:
    assert refusal([]) is not None
