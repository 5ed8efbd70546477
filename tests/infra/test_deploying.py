"""The table of numbers in docs/deploying.md is what the files and the gateway say."""

from __future__ import annotations

from gateway.granian_host import STOP_SECONDS
from gateway.session.roster import FAREWELL_SECONDS
from infra.locked import ROOT
from tests.infra.agreement import Sides, longest_stop, seconds, texts

PAGE = (ROOT / "docs" / "deploying.md").read_text()
SIDES = Sides.of(texts())
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.partition("## The numbers")[2].splitlines()
    if line.startswith("| ") and len(cells := line.strip("| ").split(" | ")) == 4
}


def test_the_farewells_are_those_of_the_gateway() -> None:
    assert f"+ {FAREWELL_SECONDS:g} s for the last closes" in PAGE
    assert f"+ {STOP_SECONDS:g} s until its worker ends" in PAGE


def test_the_table_has_the_drain_and_how_long_it_may_take() -> None:
    compose, kubernetes = SIDES.in_compose(), SIDES.in_kubernetes()
    for name in ("timeout_seconds", "spread_seconds"):
        there = f"{getattr(kubernetes.drain, name):g}"
        task = f"{float(SIDES.task_variable(f'GATEWAY_DRAIN__{name.upper()}')):g}"
        assert ROWS[f"`drain.{name}`"] == [f"{getattr(compose.drain, name):g} (default)", there, task]
    longest = f"{longest_stop(kubernetes):g} s"
    assert ROWS["a stop takes at most"] == [f"{longest_stop(compose):g} s", longest, longest]


def test_the_table_has_when_who_kills() -> None:
    grace = seconds(SIDES.compose["services"]["gateway"]["stop_grace_period"])
    whole = SIDES.pod["terminationGracePeriodSeconds"]
    before = SIDES.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert ROWS["killed after"] == [
        f"{grace:g} s (`stop_grace_period`)",
        f"{whole - before} s (`terminationGracePeriodSeconds` {whole}, less `preStop` {before})",
        f"{SIDES.task['StopTimeout']} s (`StopTimeout`)",
    ]


def test_the_table_has_port_user_and_routes() -> None:
    port = SIDES.dockerfile.environment("gateway")["GRANIAN_PORT"]
    assert ROWS["port"] == [port] * 3
    assert ROWS["user"] == [SIDES.dockerfile.last("gateway", "USER").partition(":")[0]] * 3
    life = SIDES.container["livenessProbe"]["httpGet"]["path"]
    assert all(cell.endswith(f"`{life}`") or f"`{life}` " in cell for cell in ROWS["restarted by"])
    assert ROWS["traffic by"][1].endswith(f"`{SIDES.container['readinessProbe']['httpGet']['path']}`")
    assert ROWS["traffic by"][2].endswith(f"`{SIDES.target_group()['HealthCheckPath']}`")
