"""`--cloudmap` on the command line: what is refused, and in which words; what is printed."""

from __future__ import annotations

import argparse
import shlex
import socket
import sys

import pytest

from emulator.cli import cloudmapped, serve
from emulator.cli.cloudmapped import NotListed, attributes_given, environment
from emulator.console import exports
from tests.support.ports import free_port

FREE = ["--port", "0", "--control-port", "0"]


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ([], {}),
        (["a:primary=true"], {"a": {"primary": "true"}}),
        (["*:weight=2", "b:weight=3", "b:weight=4"], {"*": {"weight": "2"}, "b": {"weight": "4"}}),
        (["a:note=x=y:z"], {"a": {"note": "x=y:z"}}),
    ],
)
def test_attributes_are_given_by_replica(written: list[str], given: dict[str, dict[str, str]]) -> None:
    assert attributes_given(written, ["a", "b"]) == given


@pytest.mark.parametrize("written", ["primary=true", "a:primary", "a:=x", ":a=b", ""])
def test_attributes_in_another_form_are_refused(written: str) -> None:
    with pytest.raises(NotListed, match="written as REPLICA:KEY=VALUE"):
        attributes_given([written], ["a"])


@pytest.mark.parametrize(
    "written",
    [
        "a:k\x1b=x",
        "a:k k=x",
        "a:k=\n",
        "a:k= x",
        "a:k=é",
        "a:" + "k" * 256 + "=x",
        "a:k=" + "x" * 1025,
    ],
)
def test_attributes_that_cloud_map_would_refuse_are_refused(written: str) -> None:
    with pytest.raises(NotListed, match="Cloud Map takes keys of"):
        attributes_given([written], ["a"])


def test_attributes_of_nobody_are_refused() -> None:
    with pytest.raises(NotListed, match="there is no such replica; there are: a, b"):
        attributes_given(["z:primary=true"], ["a", "b"])


def test_the_environment_is_printed_for_a_shell() -> None:
    said = dict(
        word.partition("=")[::2]
        for line in exports(environment("http://127.0.0.1:9199"))
        for word in shlex.split(line)[1:]
    )
    assert said == environment("http://127.0.0.1:9199")


def said_by(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What a start that fails says: one line."""
    assert serve.main([*FREE, *options]) == 1
    told = capsys.readouterr().err
    assert told.startswith("emulator: ")
    assert told.count("\n") == 1
    return told


@pytest.mark.parametrize(
    "option",
    ["--cloudmap-port=0", "--cloudmap-notice=1", "--cloudmap-then=unhealthy", "--cloudmap-attribute=a:b=c"],
)
def test_its_options_want_it(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert "is for --cloudmap, which is missing" in said_by(capsys, option)


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        told = said_by(capsys, "--cloudmap", "--cloudmap-port", str(port))
    assert f"port {port} of AWS's API cannot be opened on 127.0.0.1" in told
    assert "choose another with --cloudmap-port" in told


def test_without_the_extra_it_is_told_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "emulator.cloudmap.server", raising=False)
    monkeypatch.setitem(sys.modules, "moto.moto_server.werkzeug_app", None)
    assert "pip install -e '.[emulator,cloudmap]'" in said_by(capsys, "--cloudmap")


def test_the_options_are_in_the_help() -> None:
    parser = argparse.ArgumentParser()
    cloudmapped.add_arguments(parser)
    assert "needs the extra `cloudmap`" in " ".join(parser.format_help().split())
