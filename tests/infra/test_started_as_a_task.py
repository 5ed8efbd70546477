"""A gateway with the very variables that its task has: it starts, is found well, counts for the autoscaling,
and ends by itself before ECS would kill it.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from emulator.farm import Farm
from tests.infra.deployed import KINDS, container, environment, service
from tests.support.gateway_process import GatewayProcess


@pytest.mark.e2e
async def test_the_process_of_a_task(tmp_path: Path) -> None:
    async with Farm(replicas=1) as farm:
        replicas = json.dumps([{"url": farm.replicas["a"].url, "max_sessions": 4}])
        stack = service(**{**KINDS["static"], "ReplicasJson": replicas, "MaxSessions": "4"})
        # But for where it listens.
        given = {name: value for name, value in environment(stack).items() if not name.startswith("GRANIAN_")}
        asked = stack.properties("TargetGroup")["HealthCheckPath"]
        async with GatewayProcess(tmp_path, env=given, wait_for=asked, cwd=tmp_path) as gateway:
            await gateway.until_status(farm.replicas["a"].url, "healthy")
            async with connect(gateway.ws) as client:
                await client.send('{"type": "session_init_v2"}')
                await client.recv()
                began = time.monotonic()
                gateway.send_signal(signal.SIGTERM)
                await gateway.until(lambda: "drain_started" in gateway.output(), "it drains")
                assert await gateway.answers(asked, 503)
            assert await gateway.wait() == 0
            assert time.monotonic() - began < container(stack)["StopTimeout"]
            (line,) = [one for one in gateway.output().splitlines() if one.startswith('{"_aws"')]
    wanted = stack.properties("UtilisationPolicy")["TargetTrackingScalingPolicyConfiguration"]
    metric, told = wanted["CustomizedMetricSpecification"], json.loads(line)
    assert told["_aws"]["CloudWatchMetrics"][0]["Namespace"] == metric["Namespace"]
    assert told[metric["Dimensions"][0]["Name"]] == metric["Dimensions"][0]["Value"]
    assert told[metric["MetricName"]] == 0, "its last line, without a session"
