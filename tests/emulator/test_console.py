from __future__ import annotations

from emulator import console
from emulator.farm import Farm
from emulator.faults import Flaky


async def test_the_banner_says_where_everything_is_and_how_to_break_it() -> None:
    async with Farm(2, faults={"b": [Flaky()]}) as farm:
        text = "\n".join(console.banner(farm, "http://127.0.0.1:9190"))
        for replica in farm.replicas.values():
            assert f"{replica.url}   ws://127.0.0.1:{replica.port}/v1/stream" in text
    assert "flaky" in text
    assert "curl -X POST http://127.0.0.1:9190/replicas/a/kill" in text
