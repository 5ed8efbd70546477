"""`python -m emulator`: replicas to break by hand, or one of the commands.

Without a command it is `serve`. Each command is a file of its own, imported when it is asked for.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: of the command that the first argument names, of serving replicas without one; 130
    when Ctrl-C ended it before it could end in order."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _command(words)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _command(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        return COMMANDS[words[0]](words[1:])
    for flag, command in FLAGS.items():
        if any(word == flag or word.startswith(f"{flag}=") for word in words):
            return command(words)
    if words and not words[0].startswith("-"):
        return _unknown(words[0])
    return _serve(words)


def _unknown(word: str) -> int:
    from emulator.scenario.text import printable
    from emulator.wording import did_you_mean

    known = ", ".join(COMMANDS)
    hint = did_you_mean(word, COMMANDS)
    print(f"emulator: there is no command {printable(word)}{hint}; there are: {known}", file=sys.stderr)
    return 2


def _serve(words: Sequence[str]) -> int:
    from emulator.cli import serve

    return serve.main(words)


def _run(words: Sequence[str]) -> int:
    from emulator.cli import run

    return run.main(words)


def _validate(words: Sequence[str]) -> int:
    from emulator.cli import scenarios

    return scenarios.validate(words)


def _list(words: Sequence[str]) -> int:
    from emulator.cli import scenarios

    return scenarios.list_scenarios(words)


def _record(words: Sequence[str]) -> int:
    from emulator.cli import record

    return record.main(words)


def _replay(words: Sequence[str]) -> int:
    from emulator.cli import replay

    return replay.main(words)


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "serve": _serve,
    "run": _run,
    "validate": _validate,
    "list": _list,
}
"""By the first argument."""

FLAGS: Mapping[str, Callable[[Sequence[str]], int]] = {"--record": _record, "--replay": _replay}
"""What to do instead of serving replicas, by an option among the arguments."""
