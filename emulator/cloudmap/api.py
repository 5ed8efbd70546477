"""The calls of Cloud Map's API that list replicas, in a thread of their own: boto3 blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from emulator.cloudmap.entries import Instance

if TYPE_CHECKING:
    from types_boto3_servicediscovery import ServiceDiscoveryClient

ResultT = TypeVar("ResultT")

KEY_ID, SECRET = "emulator", "emulator"
"""What is no account's."""
REGION = "us-east-1"
TIMEOUT_SECONDS = 5.0


class CloudMapUnavailable(Exception):
    """The call was not answered, or not as it should; the text says how."""


class Service:
    """A service of Cloud Map, made where it is not there. An async context manager; its calls come one after
    the other.
    """

    def __init__(self, url: str, *, namespace: str, service: str) -> None:
        """`url` is where the API is."""
        self._url, self._namespace, self._service = url, namespace, service
        self._thread: ThreadPoolExecutor | None = None
        self._client: ServiceDiscoveryClient | None = None
        self._id = ""

    async def __aenter__(self) -> Self:
        """Raises CloudMapUnavailable."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cloudmap")
        self._id = await self._call(self._find_or_make)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    async def register(self, instance: Instance) -> None:
        """It is listed, and healthy or not as it says."""
        await self._call(partial(self._register, instance))

    async def set_health(self, id: str, *, healthy: bool) -> None:
        """The instance of that id is listed so."""
        await self._call(partial(self._set_health, id, healthy))

    async def deregister(self, id: str) -> None:
        """No instance has that id."""
        await self._call(partial(self._deregister, id))

    # In the thread

    def _register(self, instance: Instance) -> None:
        self._connected().register_instance(
            ServiceId=self._id, InstanceId=instance.id, Attributes=dict(instance.attributes)
        )
        if not instance.healthy:
            self._set_health(instance.id, healthy=False)

    def _set_health(self, id: str, healthy: bool) -> None:
        self._connected().update_instance_custom_health_status(
            ServiceId=self._id, InstanceId=id, Status="HEALTHY" if healthy else "UNHEALTHY"
        )

    def _deregister(self, id: str) -> None:
        client = self._connected()
        try:
            client.deregister_instance(ServiceId=self._id, InstanceId=id)
        except client.exceptions.InstanceNotFound:
            return

    def _find_or_make(self) -> str:
        client = self._connected()
        namespace = _id_of(self._namespace, client.list_namespaces()["Namespaces"])
        if namespace is None:
            client.create_http_namespace(Name=self._namespace)
            namespace = _id_of(self._namespace, client.list_namespaces()["Namespaces"])
        inside = client.list_services(Filters=[{"Name": "NAMESPACE_ID", "Values": [namespace or ""]}])
        service = _id_of(self._service, inside["Services"])
        if service is not None:
            return service
        made = client.create_service(
            Name=self._service,
            NamespaceId=namespace or "",
            HealthCheckCustomConfig={"FailureThreshold": 1},
        )
        return made["Service"]["Id"]

    def _connected(self) -> ServiceDiscoveryClient:
        if self._client is None:
            self._client = boto3.session.Session().client(
                "servicediscovery",
                region_name=REGION,
                endpoint_url=self._url,
                aws_access_key_id=KEY_ID,
                aws_secret_access_key=SECRET,
                config=Config(
                    connect_timeout=TIMEOUT_SECONDS,
                    read_timeout=TIMEOUT_SECONDS,
                    inject_host_prefix=False,
                    proxies={},
                    retries={"total_max_attempts": 1, "mode": "standard"},
                ),
            )
        return self._client

    async def _call(self, ask: Callable[[], ResultT]) -> ResultT:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, ask)
        except (BotoCoreError, ClientError) as error:
            raise CloudMapUnavailable(str(error)) from error


def _id_of(name: str, listed: Iterable[Mapping[str, Any]]) -> str | None:
    return next((str(one["Id"]) for one in listed if one["Name"] == name), None)
