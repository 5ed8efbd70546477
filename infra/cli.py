"""`python -m infra`: plans, deploys, shows and removes the gateway's stacks on AWS.

Exit status 0 when all is well, 1 when it is not (the reason is on stderr, in lines that begin with `infra:`),
2 when the command line or a parameter is wrong. Ctrl-C ends the watching alone: AWS goes on.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.aws import Aws, Place
from infra.clock import Clock, SystemClock
from infra.deploy import deploy
from infra.destroy import destroy
from infra.errors import InfraError, Misused
from infra.parameters import NOTHING, Given, laid_over, missing_from, read_file, read_pairs, wrong_in
from infra.plan import plan
from infra.replace import replace
from infra.stacks import Stacks
from infra.status import status
from infra.telling import Telling
from infra.template import Template, TemplateError, read_template
from infra.waiting import Pace, Watch
from infra.words import safe
from infra.work import PARTS, Part, Work

TEMPLATES = Path(__file__).parent
COMMANDS: Mapping[str, Callable[[Work], int]] = {
    "plan": plan,
    "deploy": deploy,
    "status": status,
    "destroy": destroy,
}
MOST_BYTES = 1 << 20
"""Of a file that is read: a template is smaller by far, and parameters even more so."""
_AFTER_CTRL_C = {
    "plan": "nothing was changed",
    "status": "nothing was changed",
    "deploy": "AWS goes on with what has begun: the same command again waits for it, and does the rest",
    "destroy": "AWS goes on with what has begun: the same command again waits for it, and does the rest",
    "replace": "AWS goes on with what has begun: the same command again waits for it",
}


def main(arguments: Sequence[str] | None = None, *, clock: Clock | None = None) -> int:
    """Run the command of `arguments` (the process's own by default); the exit status."""
    options = _parser().parse_args(arguments)
    try:
        ended = _run(options, clock if clock is not None else SystemClock())
        sys.stdout.flush()
    except InfraError as error:
        complain(error.lines)
        return error.exit_status
    except BrokenPipeError:
        # The reader of our output has gone (`status | head`). Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is not None:
            # Of boto3's configuration: our own files are told of where they are read.
            complain([f"{safe(str(error.filename))} cannot be read: {reason}"])
            return 1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        complain([f"stdout cannot be written: {reason}; {_AFTER_CTRL_C[options.command]}"])
        return 1
    except KeyboardInterrupt:
        complain(["", f"no longer watching; {_AFTER_CTRL_C[options.command]}"])
        return 128 + signal.SIGINT
    return ended


def complain(lines: Sequence[str]) -> None:
    """Tell what is wrong, on stderr."""
    for line in lines:
        sys.stderr.write(f"infra: {line}\n" if line else "\n")
    sys.stderr.flush()


def _run(options: argparse.Namespace, clock: Clock) -> int:
    # What can be told wrong without AWS is told first.
    parts = PARTS if options.only is None else (options.only,)
    templates = _templates(Path(options.templates or TEMPLATES))
    given = _given(options, templates, parts)
    if sys.stdout is None:
        raise Misused("there is no stdout to tell anything on")
    telling = Telling(sys.stdout, sys.stdin if sys.stdin is not None and sys.stdin.isatty() else None)
    watch = Watch(telling, Pace(options.every, options.timeout), clock)
    aws = Aws(Place(options.region, options.endpoint_url), clock)
    telling.line(f"{options.name} in {aws.region}")
    work = Work(options.name, aws, Stacks(aws), watch, templates, parts, given, options.yes)
    if options.command == "replace":
        return replace(work, options.task)
    return COMMANDS[options.command](work)


def _templates(directory: Path) -> dict[Part, Template]:
    found: dict[Part, Template] = {}
    for part in PARTS:
        path = directory / f"{part}.yaml"
        try:
            found[part] = read_template(_text_of(path))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise Misused(f"{path} cannot be read: {reason}") from None
        except TemplateError as error:
            raise Misused(f"{path} is no template: {error}") from None
    return found


def _text_of(path: Path) -> str:
    """Raises OSError, UnicodeDecodeError, and Misused for what goes on and on."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Misused(f"{safe(str(path))} cannot be read: it has more than {MOST_BYTES} bytes")
    return content.decode("utf-8")


def _given(options: argparse.Namespace, templates: Mapping[Part, Template], parts: Sequence[Part]) -> Given:
    """What the file and the command line give. Raises Misused with everything that is wrong with it.

    What only another part takes than those in question is no mistake: one file serves for all.
    """
    below, problems = NOTHING, list[str]()
    if options.parameters is not None:
        try:
            text = _text_of(Path(options.parameters))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise Misused(f"{safe(options.parameters)} cannot be read: {reason}") from None
        below, problems = read_file(text, safe(options.parameters))
    above, more = read_pairs(getattr(options, "parameter", None) or [])
    given = laid_over(below, above)
    problems += [*more, *wrong_in(given, {f"{part}.yaml": one for part, one in templates.items()})]
    if problems:
        raise Misused(*problems, *_perhaps_missing(given, templates, parts))
    return given


def _perhaps_missing(given: Given, templates: Mapping[Part, Template], parts: Sequence[Part]) -> list[str]:
    """A line for each parameter that new stacks would need, too: AWS is not asked whether they are new."""
    missing: dict[str, None] = {}
    for part in parts:
        put_out = templates["data"].outputs if part == "service" else ()
        missing |= dict.fromkeys(missing_from(templates[part], given, put_out=put_out))
    return [f"{name} has to be given, too, unless the stack is there and has it" for name in missing]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra",
        description="The gateway on AWS, by two CloudFormation stacks: NAME-data and NAME-service.",
        epilog="Credentials are found as boto3 finds them: variables, AWS_PROFILE, files, roles.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    plan_command = _command(commands, "plan", "show what deploy would do, and change nothing")
    deploy_command = _command(commands, "deploy", "create or update the stacks, and wait for them")
    _command(commands, "status", "show stacks, gateways and their health; exit status 0 when all is well")
    replace_command = _command(commands, "replace", "let one gateway drain and end, and wait for another")
    replace_command.add_argument("task", metavar="TASK", help="its id, or the beginning of it")
    destroy_command = _command(commands, "destroy", "delete the stacks, the service's first")
    for command in (plan_command, deploy_command, destroy_command):
        command.add_argument("--only", choices=PARTS, help="one of the two stacks (default: both)")
    for command in (plan_command, deploy_command):
        told = "a parameter; may be repeated"
        command.add_argument("--parameter", action="append", metavar="KEY=VALUE", help=told)
        told = "a YAML file of parameters: a line KEY: VALUE each"
        command.add_argument("--parameters", metavar="FILE", help=told)
        told = "your own data.yaml and service.yaml"
        command.add_argument("--templates", metavar="DIRECTORY", help=told)
    for command in (deploy_command, replace_command, destroy_command):
        command.add_argument("--yes", action="store_true", help="agree to every question beforehand")
    parser.set_defaults(only=None, parameters=None, templates=None, yes=False)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, told: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=told, description=f"{told[0].upper()}{told[1:]}.")
    told = "what the stacks' names begin with (default: streamhold)"
    command.add_argument("--name", type=_name, default="streamhold", help=told)
    command.add_argument("--region", help="AWS region (default: AWS_REGION, or the profile's)")
    command.add_argument("--endpoint-url", metavar="URL", help="something else that speaks AWS's API")
    told = "between looks at AWS (default: 5)"
    command.add_argument("--every", type=_positive, default=5.0, metavar="SECONDS", help=told)
    told = "for each wait (default: 3600)"
    command.add_argument("--timeout", type=_positive, default=3600.0, metavar="SECONDS", help=told)
    return command


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9-]{0,99}", text):
        raise argparse.ArgumentTypeError("should begin with a letter, and have letters, digits and - alone")
    return text


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e7:
        raise argparse.ArgumentTypeError(f"should be a number of seconds above 0, not {text!r}")
    return number
