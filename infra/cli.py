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
from infra.clock import SystemClock
from infra.deploy import deploy
from infra.destroy import destroy
from infra.errors import InfraError, Misused
from infra.parameters import Given, laid_over, read_file, read_pairs, wrong_in
from infra.plan import plan
from infra.stacks import Stacks
from infra.telling import Telling
from infra.template import Template, TemplateError, read_template
from infra.waiting import Pace, Watch
from infra.words import safe
from infra.work import PARTS, Part, Work

TEMPLATES = Path(__file__).parent
COMMANDS: Mapping[str, Callable[[Work], int]] = {"plan": plan, "deploy": deploy, "destroy": destroy}
_AFTER_CTRL_C = {
    "plan": "nothing was changed",
    "status": "nothing was changed",
    "deploy": "AWS goes on with what has begun: the same command again waits for it, and does the rest",
    "destroy": "AWS goes on with what has begun: the same command again waits for it, and does the rest",
    "replace": "AWS goes on with what has begun: the same command again waits for it",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command of `arguments` (the process's own by default); the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status = _run(options)
        sys.stdout.flush()
    except InfraError as error:
        complain(error.lines)
        return error.exit_status
    except BrokenPipeError:
        # The reader of our output has gone (`status | head`). Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        complain(["", f"no longer watching; {_AFTER_CTRL_C[options.command]}"])
        return 128 + signal.SIGINT
    return status


def complain(lines: Sequence[str]) -> None:
    """Tell what is wrong, on stderr."""
    for line in lines:
        sys.stderr.write(f"infra: {line}\n" if line else "\n")
    sys.stderr.flush()


def _run(options: argparse.Namespace) -> int:
    # What can be told wrong without AWS is told first.
    parts = PARTS if options.only is None else (options.only,)
    templates = _templates(Path(options.templates))
    given = _given(options, {part: templates[part] for part in parts})
    telling = Telling(sys.stdout, sys.stdin if sys.stdin is not None and sys.stdin.isatty() else None)
    watch = Watch(telling, Pace(options.every, options.timeout), SystemClock())
    aws = Aws(Place(options.region, options.endpoint_url))
    telling.line(f"{options.name} in {aws.region}")
    work = Work(options.name, Stacks(aws), watch, templates, parts, given, options.yes)
    return COMMANDS[options.command](work)


def _templates(directory: Path) -> dict[Part, Template]:
    found: dict[Part, Template] = {}
    for part in PARTS:
        path = directory / f"{part}.yaml"
        try:
            found[part] = read_template(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise Misused(f"{path} cannot be read: {reason}") from None
        except TemplateError as error:
            raise Misused(f"{path} is no template: {error}") from None
    return found


def _given(options: argparse.Namespace, templates: Mapping[Part, Template]) -> Given:
    """What the file and the command line give. Raises Misused with everything that is wrong with it."""
    below, problems = Given({}, {}), list[str]()
    if options.parameters is not None:
        try:
            text = Path(options.parameters).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise Misused(f"{safe(options.parameters)} cannot be read: {reason}") from None
        below, problems = read_file(text, safe(options.parameters))
    above, more = read_pairs(options.parameter)
    given = laid_over(below, above)
    problems += [*more, *wrong_in(given, {f"{part}.yaml": one for part, one in templates.items()})]
    if problems:
        raise Misused(*problems)
    return given


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra",
        description="The gateway on AWS, by two CloudFormation stacks: NAME-data and NAME-service.",
        epilog="Credentials are found as boto3 finds them: variables, AWS_PROFILE, files, roles.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _command(commands, "plan", "show what deploy would do, and change nothing", parameters=True)
    _command(commands, "deploy", "create or update the stacks, and wait for them", parameters=True)
    _command(commands, "destroy", "delete the stacks, the service's first")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    told: str,
    *,
    parameters: bool = False,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=told, description=f"{told[0].upper()}{told[1:]}.")
    told = "what the stacks' names begin with (default: streamhold)"
    command.add_argument("--name", type=_name, default="streamhold", help=told)
    command.add_argument("--region", help="AWS region (default: AWS_REGION, or the profile's)")
    command.add_argument("--endpoint-url", metavar="URL", help="something else that speaks AWS's API")
    command.add_argument(
        "--only", choices=PARTS, help="one of the two stacks (default: both, as far as there is a choice)"
    )
    command.add_argument(
        "--templates", metavar="DIRECTORY", default=str(TEMPLATES), help="your own data.yaml and service.yaml"
    )
    command.add_argument("--yes", action="store_true", help="agree to every question beforehand")
    command.add_argument(
        "--every", type=_positive, default=5.0, metavar="SECONDS", help="between looks at AWS (default: 5)"
    )
    command.add_argument(
        "--timeout", type=_positive, default=3600.0, metavar="SECONDS", help="for each wait (default: 3600)"
    )
    if parameters:
        told = "a parameter; may be repeated"
        command.add_argument("--parameter", action="append", default=[], metavar="KEY=VALUE", help=told)
        told = "a YAML file of parameters: a line KEY: VALUE each"
        command.add_argument("--parameters", metavar="FILE", help=told)
    else:
        command.set_defaults(parameter=[], parameters=None)
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
