"""What AWS asks of a gateway, and what the gateway asks of AWS, as it happens: the calls of discovery, the
gateway's own routes, and the command of the container's health check.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from litestar.testing import AsyncTestClient

from gateway.discovery import cloudmap, ecs
from gateway.discovery.attributes import Defaults
from gateway.discovery.aws import AwsClient, AwsPlace
from gateway.discovery.belief import Patience
from gateway.discovery.watch import Pace, ReplicaSource
from gateway.settings import Settings
from gateway.settings.sections import HealthCheckSettings, ReplicaSettings, RouterSettings
from gateway.wiring import Gateway
from tests.infra.deployed import CLOUDMAP, KINDS, container, service
from tests.support.fake_aws import fake_aws, with_credentials
from tests.support.ports import free_port
from tests.support.waiting import eventually

PACE = Pace(5, 10, Patience(10, 60))
DEFAULTS = Defaults(port=8000)


def granted(kind: str) -> set[str]:
    """The actions that the task role has for this kind of discovery."""
    policies = service(**KINDS[kind]).properties("TaskRole")["Policies"]
    return {
        action
        for policy in policies
        for statement in policy["PolicyDocument"]["Statement"]
        for action in statement["Action"]
    }


async def test_the_calls_for_cloud_map_are_those_that_the_role_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_credentials(monkeypatch)
    with fake_aws() as aws:
        aws.operations["DiscoverInstancesRevision"] = lambda asked: {"InstancesRevision": 1}
        aws.operations["DiscoverInstances"] = lambda asked: {"Instances": [], "InstancesRevision": 1}
        async with client(cloudmap.SERVICE, aws.url) as aws_client:
            named = cloudmap.CloudMapService("streaming", "replicas", DEFAULTS)
            await everything_asked(cloudmap.CloudMapSource(aws_client, named, PACE))
        assert {f"{cloudmap.SERVICE}:{operation}" for operation, _ in aws.asked} == granted("cloudmap")
        # The role's condition is on these very names.
        names = {(asked["NamespaceName"], asked["ServiceName"]) for _, asked in aws.asked}
        assert names == {("streaming", "replicas")}


async def test_the_calls_for_ecs_are_those_that_the_role_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    with_credentials(monkeypatch)
    arns = [f"arn:aws:ecs:eu-central-1:123456789012:task/gpus/t{number}" for number in range(3)]

    def listed(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        return (
            {"taskArns": arns[:2], "nextToken": "more"}
            if "nextToken" not in asked
            else {"taskArns": arns[2:]}
        )

    with fake_aws() as aws:
        aws.operations["ListTasks"] = listed
        aws.operations["DescribeTasks"] = lambda asked: {
            "tasks": [{"taskArn": arn, "lastStatus": "RUNNING", "containers": []} for arn in asked["tasks"]]
        }
        async with client(ecs.SERVICE, aws.url) as aws_client:
            source = ecs.EcsSource(aws_client, ecs.EcsService("gpus", "replicas", DEFAULTS), PACE)
            await everything_asked(source)
            del arns[1:]  # two leave, and are looked at once more
            await everything_asked(source)
        assert {f"{ecs.SERVICE}:{operation}" for operation, _ in aws.asked} == granted("ecs")
        assert {asked["cluster"] for _, asked in aws.asked} == {"gpus"}


async def everything_asked(source: ReplicaSource) -> None:
    """The port has no other questions."""
    assert {name for name in vars(ReplicaSource) if not name.startswith("_")} == {
        "kind",
        "listing",
        "pace",
        "revision",
    }
    await source.revision()
    await source.listing()


def client(name: str, url: str) -> AwsClient:
    return AwsClient(name, AwsPlace("eu-central-1", url), rng=random.Random(7))


async def test_the_load_balancer_finds_a_gateway_well_whose_replicas_are_all_down() -> None:
    path = service(**CLOUDMAP).properties("TargetGroup")["HealthCheckPath"]
    down = f"http://127.0.0.1:{free_port()}"
    check = HealthCheckSettings(interval_seconds=0.05, timeout_seconds=1)
    router = RouterSettings(replicas=(ReplicaSettings(url=down),), health_check=check)
    gateway = Gateway(Settings(router=router))
    async with AsyncTestClient(gateway.app) as asked:

        async def well() -> bool:
            return (await asked.get(path)).status_code == 200

        await eventually(well, "ready by itself after the first round of probes")
        assert (await asked.get(path.partition("?")[0])).status_code == 503, "for its replicas' sake"
        gateway.roster.draining = True
        answer = await asked.get(path)
        assert (answer.status_code, answer.json()["reason"]) == (503, "draining")


@contextmanager
def answering(status: int) -> Iterator[int]:
    """The port of a server that answers so to /healthz, and with 404 to the rest."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def exit_status(port: int, **more: str) -> int:
    """Of the container's health check, at a gateway on `port`, with `more` variables."""
    _, python, *arguments = container(service(**CLOUDMAP))["HealthCheck"]["Command"]
    assert python == "python"
    command, variables = [sys.executable, *arguments], {**os.environ, **more, "GRANIAN_PORT": str(port)}
    return subprocess.run(command, env=variables, capture_output=True, timeout=30, check=False).returncode


def test_the_containers_health_check_tells_a_gateway_that_lives_from_one_that_does_not() -> None:
    with answering(200) as port:
        assert exit_status(port) == 0
    with answering(500) as port:
        assert exit_status(port) != 0
    assert exit_status(free_port()) != 0


def test_the_containers_health_check_asks_no_proxy() -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with answering(200) as port:
        assert exit_status(port, http_proxy=nobody, HTTP_PROXY=nobody, no_proxy="", NO_PROXY="") == 0
