"""The one door to AWS: calls by boto3 in threads of their own, and in our words what went wrong with them.

1. boto3 blocks, and a thread cannot be cancelled: each call ends by the timeouts of its client. Few threads,
   for this gateway alone: a hung call holds up no probe and no session.
2. boto3's own retries are off. Whoever asks comes again soon anyway, and where AWS says that it is asked too
   often (throttling) nothing is sent until a growing wait is over, by whomever it is tried.
3. Credentials are found as boto3 finds them (variables, files, the task's role), anew after they were missing
   or refused.
4. boto3 is imported at the first call, in such a thread: it takes a while to load.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from gateway.clock import Clock, SystemClock
from gateway.discovery.backoff import Backoff
from gateway.errors import SourceUnavailable

THREADS = 2
"""One call at a time is made; the other is for the call that comes while one hangs."""
THROTTLED = frozenset(
    {
        "LimitExceededException",
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
"""Codes by which AWS says that it is asked too often."""
TOO_OFTEN = "throttled"
"""The cause of all of these."""
CREDENTIALS_REFUSED = frozenset(
    {
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
NOT_ALLOWED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})


@dataclass(frozen=True, slots=True)
class AwsPlace:
    """Where AWS is, and how long it may take."""

    region: str | None = None
    """None is what AWS_REGION or the configuration of boto3 says."""
    endpoint_url: str | None = None
    """Something else that speaks AWS's API; None is AWS itself."""
    timeout_seconds: float = 5.0
    """For the connect, and for each wait for a part of the answer."""


class Throttled(SourceUnavailable):
    """AWS says that it is asked too often."""


class CredentialsUnusable(SourceUnavailable):
    """There are none, or AWS does not know them."""


class AwsClient:
    """Calls of one service of AWS. A context manager: at its end the threads get no more work."""

    def __init__(
        self,
        service: str,
        place: AwsPlace,
        *,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """`service` is boto3's name for it."""
        self._service, self._place = service, place
        self._backoff = backoff if backoff is not None else Backoff()
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._rng = rng if rng is not None else random.Random()
        self._client: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._refusals = 0
        self._held_until: float | None = None

    async def __aenter__(self) -> Self:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"aws-{self._service}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """No call begins any more; one under way ends by its timeouts."""
        threads, self._threads = self._threads, None
        client, self._client = self._client, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        if client is not None:
            client.close()

    async def call(self, operation: str, **parameters: object) -> Mapping[str, Any]:
        """The answer to `operation`, by AWS's own names. Raises SourceUnavailable, in the reader's words.

        Cancel-safe: a call under way goes on in its thread, and its answer is dropped.
        """
        if self._threads is None:
            raise RuntimeError("AwsClient is a context manager: enter it before the first call")
        now = self._clock.monotonic()
        if self._held_until is not None and now < self._held_until:
            raise Throttled(
                f"{self._service} is left alone for {self._held_until - now:.0f} s more", cause=TOO_OFTEN
            )
        loop = asyncio.get_running_loop()
        try:
            answer = await loop.run_in_executor(self._threads, self._ask, operation, parameters)
        except Throttled:
            self._refusals += 1
            wait = self._backoff.seconds(self._refusals, self._rng.random())
            self._held_until = self._clock.monotonic() + wait
            raise
        self._refusals, self._held_until = 0, None
        return answer

    def _ask(self, operation: str, parameters: Mapping[str, object]) -> Mapping[str, Any]:
        """In a thread: the call itself."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            if self._client is None:
                self._client = self._new_client()
            method = getattr(self._client, _snake_case(operation))
        except BotoCoreError as error:
            raise self._failure(operation, error) from error
        try:
            answer = method(**parameters)
        except ClientError as error:
            raise self._refusal(operation, error.response) from error
        except BotoCoreError as error:
            raise self._failure(operation, error) from error
        except Exception as error:  # boto3's readers of answers fall over what is not AWS's in many ways
            raise not_aws(operation) from error
        if not isinstance(answer, dict):
            raise not_aws(operation)
        return answer

    def _new_client(self) -> Any:
        import boto3
        from botocore.config import Config

        place = self._place
        # AWS sets AWS_REGION in a task, and its other SDKs go by that. This one asks AWS_DEFAULT_REGION only.
        region = place.region or os.environ.get("AWS_REGION") or None
        session: Any = boto3.session.Session(region_name=region)
        config = Config(
            connect_timeout=place.timeout_seconds,
            read_timeout=place.timeout_seconds,
            max_pool_connections=THREADS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            user_agent_extra="streamhold",
        )
        client = session.client(self._service, endpoint_url=place.endpoint_url, config=config)
        host = urlsplit(client.meta.endpoint_url).hostname or ""
        if place.endpoint_url is None and host.startswith(self._service):
            return client
        # AWS has a part of some services at another host (data-servicediscovery...). What stands in for AWS
        # has one, whether it was named here or by AWS_ENDPOINT_URL.
        client.close()
        config = config.merge(Config(inject_host_prefix=False))
        return session.client(self._service, endpoint_url=place.endpoint_url, config=config)

    def _refusal(self, operation: str, response: Mapping[str, Any]) -> SourceUnavailable:
        """AWS answered with an error."""
        said = response.get("Error", {})
        code, message = str(said.get("Code", "")), _short(str(said.get("Message", "")))
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in THROTTLED or status == 429:
            return Throttled(f"AWS is asked too often ({code} for {operation})", cause=TOO_OFTEN)
        if code in CREDENTIALS_REFUSED:
            self._client = None
            return CredentialsUnusable(f"AWS refuses these credentials ({code}: {message})", cause=code)
        if code in NOT_ALLOWED:
            self._client = None
            needed = f"{self._service}:{operation}"
            said = f"these credentials need the permission {needed} ({code}: {message})"
            return CredentialsUnusable(said, cause=needed)
        return SourceUnavailable(
            f"{operation} failed ({code or status}: {message})", cause=code or str(status)
        )

    def _failure(self, operation: str, error: Exception) -> SourceUnavailable:
        """There is no answer, or nothing could be asked."""
        from botocore import exceptions

        missing = (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.NoAuthTokenError,
            exceptions.TokenRetrievalError,
            exceptions.ProfileNotFound,
        )
        if isinstance(error, missing):
            self._client = None  # it has looked for them once and for all
            hint = "give the task a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            said = f"there are no usable AWS credentials ({_short(str(error))}): {hint}"
            return CredentialsUnusable(said, cause="no_credentials")
        if isinstance(error, exceptions.NoRegionError):
            said = "no AWS region is known: set discovery.region or AWS_REGION"
            return SourceUnavailable(said, cause="no_region")
        return SourceUnavailable(f"{operation} failed: {_short(str(error))}")


def not_aws(operation: str) -> SourceUnavailable:
    """There is an answer, and it is no answer of AWS's."""
    return SourceUnavailable(f"{operation} is not answered as AWS does: who is asked?", cause="not_aws")


def _snake_case(operation: str) -> str:
    """boto3's name of the method for it."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")


def _short(text: str, most: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}..."
