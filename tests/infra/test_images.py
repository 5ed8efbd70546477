"""The programs of both images, built by the Dockerfile's own commands, run as the compose file has them: its
hosts and ports are replaced, and no container is around them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from infra.locked import ROOT
from tests.infra.contained import SOFT_FILES, Contained
from tests.infra.dockerfile import BuiltHere, read
from tests.support.ports import free_port
from tests.support.redis_server import RedisServer
from tests.support.streaming_client import drive_until_complete
from tests.support.waiting import eventually

DOCKERFILE = read((ROOT / "infra" / "Dockerfile").read_text())
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "infra" / "compose.yaml").read_text())[
    "services"
]

pytestmark = pytest.mark.e2e


def built(image: str, folder: Path) -> dict[str, str]:
    """The image's environment, with what it installs in `folder`."""
    here = BuiltHere(DOCKERFILE, ROOT, folder)
    here.build(f"{image}-venv")
    environment = DOCKERFILE.environment(image)
    own, _, rest = environment["PATH"].partition(":")
    assert rest == "$PATH"
    return environment | {"PATH": f"{here.place(own)}:/usr/local/bin:/usr/bin:/bin"}


def replaced(text: str, by: Mapping[str, str]) -> str:
    """`text` with the names of other services, and what listens on all addresses, made this machine's."""
    for said, here in by.items():
        text = text.replace(said, here)
    return text


@pytest.mark.timeout(300)
async def test_the_programs_of_the_images_run_as_compose_has_them(tmp_path: Path) -> None:
    gateway_environment = built("gateway", tmp_path / "gateway")
    emulator_environment = built("emulator", tmp_path / "emulator")
    (empty := tmp_path / "empty").mkdir(mode=0o555)
    valkey = RedisServer("valkey", tmp_path, options=SERVICES["valkey"]["command"][1:])
    here = {"valkey:6379": f"127.0.0.1:{valkey.port}", "0.0.0.0": "127.0.0.1", "=emulator": "=localhost"}
    try:
        assert asked(valkey, "CONFIG", "GET", "maxmemory-policy") == ["maxmemory-policy", "noeviction"]
        assert asked(valkey, *SERVICES["valkey"]["healthcheck"]["test"][2:]) == ["PONG"]

        command = [replaced(word, here) for word in SERVICES["emulator"]["command"]]
        command += ["--port=0", "--control-port=0"]
        async with Contained(command, emulator_environment, empty) as emulator:
            (port,) = re.findall(r"control API: http://127\.0\.0\.1:(\d+) ", await emulator.says("ready\n"))
            health = [replaced(word, {"9190": port}) for word in DOCKERFILE.health("emulator").command]
            assert await emulator.check(health) == 0

            environment = gateway_environment | SERVICES["gateway"]["environment"]
            environment = {name: replaced(value, here) for name, value in environment.items()}
            environment["GRANIAN_PORT"] = str(free_port())
            await gateway_serves(Contained(DOCKERFILE.command("gateway"), environment, empty))

            assert await emulator.stop() == 0
            assert await emulator.check(health) == 1
        assert list(empty.iterdir()) == []
    finally:
        valkey.kill()


async def gateway_serves(contained: Contained) -> None:
    """It is healthy while it runs and not before or after, finds the replicas, carries a session and ends in
    order, all without a file.
    """
    health = DOCKERFILE.health("gateway").command
    assert await contained.check(health) == 1
    url = f"127.0.0.1:{contained.environment['GRANIAN_PORT']}"
    async with contained as gateway, httpx.AsyncClient(trust_env=False) as client:

        async def healthy() -> bool:
            return await gateway.check(health) == 0

        async def ready() -> bool:
            return (await client.get(f"http://{url}/readyz")).status_code == 200

        async def known() -> list[str]:
            status = (await client.get(f"http://{url}/status")).json()
            return [each["name"] for each in status["replicas"] if each["status"] == "healthy"]

        async def all_known() -> bool:
            return sorted(await known()) == ["a", "b", "c"]

        await eventually(healthy, "the HEALTHCHECK passes", timeout=60)
        await eventually(ready, "it is ready", timeout=60)
        await eventually(all_known, "the announced replicas are healthy")
        assert (await drive_until_complete(f"ws://{url}/v1/stream", prompts=["a pier at dawn"])).completed
        assert may_open_as_much_as_it_could(gateway.pid)
        assert await gateway.stop() == 0
        assert await gateway.check(health) == 1
    assert "drain_ended" in gateway.output
    assert "Traceback" not in gateway.output


def may_open_as_much_as_it_could(pid: int) -> bool:
    """Granian raises the soft limit of open files to the hard one, so that a thousand sessions find room."""
    (worker,) = (each for each in psutil.Process(pid).children(recursive=True) if each.net_connections())
    soft, hard = worker.rlimit(psutil.RLIMIT_NOFILE)
    return SOFT_FILES < soft == hard


async def test_a_file_cannot_be_written_there(tmp_path: Path) -> None:
    """The proof that the test above proves something."""
    contained = Contained(["python3", "-V"], {"PATH": "/usr/local/bin:/usr/bin:/bin"}, tmp_path)
    written = ["python3", "-c", "from pathlib import Path; Path('file').write_text('a')"]
    assert await contained.check(["python3", "-c", "print('a')"]) == 0
    assert await contained.check(written) == 1


def asked(valkey: RedisServer, *words: str) -> list[str]:
    """What the server's own client gets, as the compose file's check uses it: it is the same as Redis's."""
    client = ["redis-cli", "-p", str(valkey.port), *words]
    return subprocess.run(client, capture_output=True, text=True, check=True, timeout=20).stdout.split()
