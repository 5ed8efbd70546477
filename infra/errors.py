"""PURE. Every way in which a command can end badly, each told in lines to whoever typed it.

InfraError
  Misused           the command line or the parameters; exit status 2
  Unfinished        the stacks are not, or do not become, what was asked for
  AwsError
    Absent          there is no such thing there
    Unchanged       nothing to do
    Throttled       AWS is asked too often
    Credentials     there are none, or AWS does not know them
    Denied          they may not do this
    Unreachable     no answer
      Interrupted   for now: lost on its way, or AWS has a fault of its own
    Refused         any other no, with AWS's own words
"""

from __future__ import annotations


class InfraError(Exception):
    """What ends a command. `lines` are for the reader; the first says what is wrong."""

    exit_status = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Misused(InfraError):
    """What was typed, or stands in the file of parameters, is wrong: nothing was done."""

    exit_status = 2


class Unfinished(InfraError):
    """What was asked for did not come about."""


class AwsError(InfraError):
    """AWS did not do what it was asked for."""


class Absent(AwsError):
    """There is no such thing there."""


class Unchanged(AwsError):
    """An update that would change nothing."""


class Throttled(AwsError):
    """AWS is asked too often, also after the waits between the attempts."""


class Credentials(AwsError):
    """There are none, or AWS does not know them."""


class Denied(AwsError):
    """The credentials are known, and may not do this."""


class Unreachable(AwsError):
    """No answer, or none that is AWS's."""


class Interrupted(Unreachable):
    """The answer was lost on its way, or AWS has a fault of its own: the next one may come."""


class Refused(AwsError):
    """AWS's own no."""

    def __init__(self, code: str, *lines: str) -> None:
        super().__init__(*lines)
        self.code = code
