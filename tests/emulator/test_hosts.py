from __future__ import annotations

import argparse

import pytest

from emulator.cli import values
from emulator.cli.hosts import control_host, warning
from emulator.replica.spec import base_url


@pytest.mark.parametrize(
    ("host", "control"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("::1", "::1"),
        ("0.0.0.0", "0.0.0.0"),
        ("::", "::"),
        ("127.0.0.2", "127.0.0.1"),
        ("192.0.2.7", "127.0.0.1"),
        ("2001:db8::7", "127.0.0.1"),
        ("emulator", "127.0.0.1"),
    ],
)
def test_the_control_api_listens_where_requests_can_name_it(host: str, control: str) -> None:
    assert control_host(host) == control


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_nothing_is_said_where_only_this_machine_gets_in(host: str) -> None:
    assert warning(host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_opens_the_control_api_to_others_is_warned(host: str) -> None:
    said = str(warning(host))
    assert f"--host {host}" in said
    assert "control API. It has no password" in said


@pytest.mark.parametrize("host", ["192.0.2.7", "emulator"])
def test_who_opens_only_the_replicas_is_told_so(host: str) -> None:
    said = str(warning(host))
    assert "can use the replicas; the control API stays on 127.0.0.1" in said
    assert "password" not in said


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9101"),
        ("emulator", "http://emulator:9101"),
        ("2001:db8::7", "http://[2001:db8::7]:9101"),
        ("0.0.0.0", "http://127.0.0.1:9101"),
        ("::", "http://[::1]:9101"),
        ("0:0::0", "http://[::1]:9101"),
    ],
)
def test_an_address_that_stands_for_all_is_shown_as_one(host: str, url: str) -> None:
    assert base_url(host, 9101) == url


@pytest.mark.parametrize("host", ["0.0.0.0", "emulator", "a-b.c_d", "::", "2001:db8::7", "::ffff:192.0.2.7"])
def test_a_host_is_an_address_or_a_name(host: str) -> None:
    assert values.host(host) == host


@pytest.mark.parametrize(
    "text",
    ["", "0.0.0.0:9101", "http://a", "a/b", "[::1]", "a b", ":", "a\n", "\N{GREEK SMALL LETTER ALPHA}"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be an address or a name without a port"):
        values.host(text)
