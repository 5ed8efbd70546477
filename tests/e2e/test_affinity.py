"""Sessions with the same key go to the same replica, and only those of a replica that went go elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.held_clients import clients_of
from tests.support.long_session import Prompt, live
from tests.support.undisturbed import assert_undisturbed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

REAL = ("--isolate", "process", "--segment-seconds", "0.02")
KEYS = [f"user-{number}" for number in range(6)]
PROMPTS = [Prompt("scene", 1)]


@dataclass(frozen=True, slots=True)
class Client:
    """How one client shows its key."""

    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    client_id: str = "tests"


def client_with(affinity: str, key: str) -> Client:
    match affinity:
        case "query:room":
            return Client(query=f"?other=1&room={key}")
        case "header:X-Room":
            return Client(headers={"x-room": key})
        case "cookie:room":
            return Client(headers={"Cookie": f"theme=dark; room={key}"})
        case "client_ip":
            return Client(headers={"X-Forwarded-For": f"192.0.2.{KEYS.index(key) + 1}"})
        case _:
            return Client(client_id=key)


async def served_by(emulator: EmulatorProcess, gateway: GatewayProcess, client: Client) -> str:
    """The replica that a whole session of this client has run on."""
    before = await emulator.sessions_total()
    story = await live(
        gateway.ws + client.query, PROMPTS, init={"client_id": client.client_id}, headers=client.headers
    )
    assert_undisturbed(story, PROMPTS)
    after = await emulator.sessions_total()
    (name,) = [name for name in after if after[name] > before[name]]
    return name


async def placed(
    emulator: EmulatorProcess, gateway: GatewayProcess, affinity: str, keys: Sequence[str] = KEYS
) -> dict[str, str]:
    """The replica of each key."""
    return {key: await served_by(emulator, gateway, client_with(affinity, key)) for key in keys}


def settings_for(affinity: str, policy: str) -> dict[str, object]:
    return {
        "affinity__key": affinity,
        "selection__policy": policy,
        "clients__trusted_proxies": ["127.0.0.1/32"],
    }


@pytest.mark.parametrize(
    ("affinity", "policy"),
    [
        ("query:room", "round_robin"),
        ("header:X-Room", "least_sessions"),
        ("cookie:room", "priority"),
        ("client_ip", "weighted"),
        ("init:client_id", "p2c"),
    ],
)
async def test_a_key_stays_and_only_those_of_a_replica_that_went_move(
    tmp_path: Path, affinity: str, policy: str
) -> None:
    async with EmulatorProcess(tmp_path, *REAL) as emulator:
        settings = settings_for(affinity, policy)
        async with GatewayProcess(tmp_path, emulator.settings(), settings=settings) as gateway:
            at_first = await placed(emulator, gateway, affinity)
            assert await placed(emulator, gateway, affinity) == at_first
            gone = at_first[KEYS[0]]
            await emulator.kill(gone)
            await gateway.until_status(emulator.urls[gone], "unhealthy")
            without = await placed(emulator, gateway, affinity)
            for key, name in at_first.items():
                assert without[key] != gone
                assert name in (gone, without[key]), "a key moved whose replica is there"
            await emulator.restart(gone)
            await gateway.until_status(emulator.urls[gone], "healthy")
            assert await placed(emulator, gateway, affinity) == at_first


async def test_keys_are_where_they_were_after_the_gateways_restart(tmp_path: Path) -> None:
    settings = settings_for("query:room", "round_robin")
    async with EmulatorProcess(tmp_path, *REAL) as emulator:
        found = []
        for _ in range(2):
            async with GatewayProcess(tmp_path, emulator.settings(), settings=settings) as gateway:
                found.append(await placed(emulator, gateway, "query:room", KEYS[:4]))
    assert found[0] == found[1]


async def test_the_rendezvous_policy_places_by_the_same_key(tmp_path: Path) -> None:
    settings = settings_for("query:room", "rendezvous")
    async with EmulatorProcess(tmp_path, *REAL) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=settings) as gateway:
            at_first = await placed(emulator, gateway, "query:room", KEYS[:4])
            assert await placed(emulator, gateway, "query:room", KEYS[:4]) == at_first


async def test_a_full_replica_gives_its_keys_to_the_next_in_rank_and_takes_them_back(tmp_path: Path) -> None:
    settings = settings_for("init:client_id", "round_robin")
    async with EmulatorProcess(tmp_path, *REAL) as emulator:
        rooms: dict[str, Mapping[str, object]] = {name: {"max_sessions": 1} for name in emulator.urls}
        gateway = GatewayProcess(tmp_path, emulator.settings(**rooms), settings=settings)
        async with gateway, clients_of(gateway) as clients:
            key = client_with("init:client_id", "user-0")
            home = await served_by(emulator, gateway, key)
            held = clients.come("user-0")
            await held.until_served()
            elsewhere = [await served_by(emulator, gateway, key) for _ in range(2)]
            assert elsewhere[0] != home
            assert elsewhere[1] == elsewhere[0], "the next in rank is the same each time"
            held.let_go()
            await held.over()
            await gateway.until_no_sessions()
            assert await served_by(emulator, gateway, key) == home


async def test_a_lost_session_goes_to_the_next_in_rank(tmp_path: Path) -> None:
    settings = settings_for("init:client_id", "round_robin")
    async with EmulatorProcess(tmp_path, *REAL) as emulator:
        gateway = GatewayProcess(tmp_path, emulator.settings(), settings=settings)
        async with gateway, clients_of(gateway) as clients:
            home = await served_by(emulator, gateway, client_with("init:client_id", "user-0"))
            held = clients.come("user-0")
            await held.until_served()
            await emulator.kill(home)
            await gateway.until_status(emulator.urls[home], "unhealthy")
            next_home = await served_by(emulator, gateway, client_with("init:client_id", "user-0"))
            held.let_go()
            await held.over()
            held.assert_served()
            assert [message["replica"] for message in held.story.resumed] == [next_home]


@pytest.mark.parametrize("affinity", ["query:room", "header:X-Room", "cookie:room", "init:client_id"])
async def test_without_a_key_the_policy_decides(tmp_path: Path, affinity: str) -> None:
    settings = settings_for(affinity, "round_robin")
    async with EmulatorProcess(tmp_path, *REAL) as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=settings) as gateway:
            nameless = Client(client_id="")
            names = {await served_by(emulator, gateway, nameless) for _ in range(3)}
    assert names == {"a", "b", "c"}


async def test_with_an_early_accept_the_first_subprotocol_is_answered_and_asked_for(tmp_path: Path) -> None:
    settings = settings_for("init:client_id", "round_robin")
    async with EmulatorProcess(tmp_path, *REAL, "--subprotocol", "v2", "--subprotocol", "v1") as emulator:
        async with GatewayProcess(tmp_path, emulator.settings(), settings=settings) as gateway:
            async with connect(gateway.ws, proxy=None, subprotocols=["v1", "v2"]) as client:  # type: ignore[list-item]
                assert client.subprotocol == "v1"
                await client.send('{"type":"session_init_v2","client_id":"user-0"}')
                assert "queue_status" in str(await client.recv())
            answered = [
                event["detail"]["subprotocol"]
                for name in emulator.urls
                for event in await emulator.events(name)
                if event["kind"] == "upgrade_answered"
            ]
    assert answered == ["v1"]
