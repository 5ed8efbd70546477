"""The one door to AWS: calls by boto3, and in our words what went wrong with them.

Where AWS says that it is asked too often, has a fault of its own, or an answer is lost, the call is made
again, after waits that grow and are cut at random: those who were turned away together do not come back so.
boto3's own retries are off, for they would come on top. Every call is one that may arrive twice.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from infra.clock import Clock, SystemClock
from infra.errors import (
    Absent,
    AwsError,
    Credentials,
    Denied,
    InfraError,
    Interrupted,
    Refused,
    Throttled,
    Unchanged,
    Unreachable,
)
from infra.words import safe

IAM_PREFIXES = {"elbv2": "elasticloadbalancing"}
"""What policies call a service, where boto3 calls it by another name."""
ATTEMPTS = 6
FIRST_WAIT_SECONDS = 1.0
"""Before the second attempt, at most; each further wait may be twice as long."""
CONNECT_SECONDS = 5
READ_SECONDS = 30
THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
UNKNOWN_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
ABSENT = frozenset(
    {
        "ChangeSetNotFound",
        "ClusterNotFoundException",
        "ServiceNotFoundException",
        "StackNotFoundException",
        "TargetGroupNotFound",
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where AWS is."""

    region: str | None = None
    """None is what AWS_REGION or boto3's configuration says."""
    endpoint_url: str | None = None
    """Something else that speaks AWS's API; None is AWS itself."""


class Aws:
    """AWS's services at one place, with whatever credentials boto3 finds."""

    def __init__(self, place: Place, clock: Clock | None = None) -> None:
        """Raises InfraError where boto3 is not installed, or no region is known."""
        try:
            import boto3
        except ImportError:
            raise InfraError("boto3 is not installed: pip install '.[aws]' in a clone") from None
        from botocore.exceptions import BotoCoreError

        self._place = place
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._clients: dict[str, Any] = {}
        try:
            # AWS's other SDKs go by AWS_REGION; this one asks AWS_DEFAULT_REGION only.
            region = place.region or os.environ.get("AWS_REGION") or None
            self._session: Any = boto3.session.Session(region_name=region)
        except BotoCoreError as error:
            raise self._failure("boto3's configuration", error) from None
        self.region = str(self._session.region_name or "")
        if not self.region:
            raise InfraError("no AWS region is known: add --region, or set AWS_REGION")

    def call(self, service: str, operation: str, **parameters: object) -> Mapping[str, Any]:
        """The answer to `operation`, by boto3's name of its method. Raises AwsError."""
        wait = FIRST_WAIT_SECONDS
        for _ in range(ATTEMPTS - 1):
            try:
                return self._ask(service, operation, parameters)
            except (Throttled, Interrupted):
                self._clock.sleep(wait * random.uniform(0.5, 1))
                wait *= 2
        return self._ask(service, operation, parameters)

    def _ask(self, service: str, operation: str, parameters: Mapping[str, object]) -> Mapping[str, Any]:
        """One attempt."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            method = getattr(self._client(service), operation)
        except BotoCoreError as error:
            raise self._failure(_action(service, operation), error) from None
        except ValueError as error:
            # An endpoint that is no URL.
            raise Unreachable(safe(str(error))) from None
        try:
            answer = method(**parameters)
        except ClientError as error:
            raise self._refusal(service, operation, error.response) from None
        except BotoCoreError as error:
            raise self._failure(_action(service, operation), error) from None
        except Exception:  # noqa: BLE001 - boto3's readers of answers fall over a page of HTML in many ways
            raise self._not_aws(_action(service, operation)) from None
        whole: Mapping[str, Any] = _whole(answer, lambda: self._not_aws(_action(service, operation)))
        return whole

    def pages(
        self, service: str, operation: str, key: str, token: str, **parameters: object
    ) -> Iterator[Mapping[str, Any]]:
        """Everything under `key`, page by page; `token` is the name of the parameter for the next one."""
        answer_token = token
        while True:
            answer = self.call(service, operation, **parameters)
            yield from answer.get(key) or ()
            following = answer.get(answer_token)
            if not following:
                return
            parameters[token] = following

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            from botocore.config import Config

            config = Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"total_max_attempts": 1, "mode": "standard"},
                user_agent_extra="streamhold",
            )
            client = self._session.client(service, endpoint_url=self._place.endpoint_url, config=config)
            _ = urlsplit(client.meta.endpoint_url).port  # raises ValueError where it is none
            self._clients[service] = client
        return self._clients[service]

    def _refusal(self, service: str, operation: str, response: Mapping[str, Any]) -> AwsError:
        """AWS answered with an error."""
        said = response.get("Error", {})
        code, message = str(said.get("Code", "")), safe(str(said.get("Message", "")))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        needed = _action(service, operation)
        if code in THROTTLED or status == 429:
            return Throttled(f"AWS is asked too often ({code} for {needed}): try again in a minute")
        if code in UNKNOWN_CREDENTIALS:
            # Not the message: it can quote the request, session token and all.
            return Credentials(
                f"AWS refuses these credentials ({code})",
                f"are they of this account, not expired, and is {self.region} enabled for it?",
            )
        if code in DENIED:
            return Denied(f"these credentials need the permission {needed}", message)
        if code in ABSENT or "does not exist" in message:
            return Absent(message or code)
        if "No updates are to be performed" in message or "didn't contain changes" in message:
            return Unchanged(message)
        if isinstance(status, int) and status >= 500:
            return Interrupted(f"AWS has a fault of its own ({code or status} for {needed}: {message})")
        return Refused(code, f"{needed} was refused ({code or status}: {message})")

    def _failure(self, what: str, error: Exception) -> AwsError:
        """There is no answer, or nothing could be asked."""
        from botocore import exceptions

        missing = (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.NoAuthTokenError,
            exceptions.TokenRetrievalError,
            exceptions.ProfileNotFound,
            exceptions.SSOError,
            exceptions.UnauthorizedSSOTokenError,
        )
        if isinstance(error, missing):
            return Credentials(
                f"there are no usable AWS credentials ({safe(str(error))})",
                "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or sign in",
            )
        if isinstance(error, exceptions.ParamValidationError | exceptions.InvalidRegionError):
            return Refused(type(error).__name__, safe(str(error)))
        if isinstance(error, exceptions.ConnectionClosedError | exceptions.ReadTimeoutError):
            return Interrupted(f"the answer to {what} was lost: {safe(str(error), 200)}")
        nobody = exceptions.EndpointConnectionError | exceptions.ConnectTimeoutError
        if isinstance(error, nobody):
            return self._no_answer(error)
        return Unreachable(f"{what} failed: {safe(str(error))}")

    def _not_aws(self, what: str) -> Unreachable:
        """There is an answer, and it is no answer of AWS's."""
        if self._place.endpoint_url is not None:
            where = safe(self._place.endpoint_url)
            return Unreachable(f"{where} answers, but not as AWS does: is --endpoint-url right?")
        return Unreachable(f"the answer to {what} is not one of AWS's: what stands between here and AWS?")

    def _no_answer(self, error: Exception) -> AwsError:
        """Nobody there."""
        if self._place.endpoint_url is not None:
            where = safe(self._place.endpoint_url)
            return Unreachable(f"nothing answers at {where}: is --endpoint-url right?")
        lines = [f"AWS does not answer in the region {safe(self.region)}: {safe(str(error), 200)}"]
        known = {
            region
            for partition in self._session.get_available_partitions()
            for region in self._session.get_available_regions("cloudformation", partition)
        }
        if self.region not in known:
            lines.append(f"boto3 knows no region {safe(self.region)}: is --region right?")
        return Unreachable(*lines)


class _Whole(dict[str, Any]):
    """A part of an answer. What AWS always sends and this one lacks raises what `lacking` makes."""

    __slots__ = ("_lacking",)

    def __init__(self, parts: Mapping[str, Any], lacking: Callable[[], Exception]) -> None:
        super().__init__(parts)
        self._lacking = lacking

    def __missing__(self, key: str) -> Any:
        raise self._lacking()


def _whole(value: Any, lacking: Callable[[], Exception]) -> Any:
    """`value`, in which each mapping is a `_Whole`."""
    match value:
        case dict():
            return _Whole({key: _whole(one, lacking) for key, one in value.items()}, lacking)
        case list():
            return [_whole(one, lacking) for one in value]
        case _:
            return value


def _action(service: str, operation: str) -> str:
    """The call as a policy names it: `ecs:StopTask`."""
    name = "".join(part.capitalize() for part in operation.split("_"))
    return f"{IAM_PREFIXES.get(service, service)}:{name}"
