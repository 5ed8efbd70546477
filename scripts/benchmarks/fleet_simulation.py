"""python -m scripts.benchmarks.fleet_simulation: a large fleet in virtual time, its invariants and its cost.

Three scenes, each the same at every run with the same seed:

- calm: sessions come and go near the replicas' capacity, and nothing fails;
- storm: the same, while calls are lost and slow, gateways are stopped, killed and replaced, and the store is
  down, emptied and on a clock that jumps;
- surplus: all sessions are on a tenth of the gateways, which hand over what `excess` says.

What must hold, or the exit status is 1:

1. Whoever holds the same view names the same owner for a unit, and the shares of a total add up to it.
2. A replica refuses a session only where enough of what it has was opened unseen: since the reports that the
   asking gateway went by, or by gateways that were not in its view. In the calm, no report is older than two
   beats.
3. Nobody hands over anything while the fleet is not settled or its own view is old, or to below the mean.
4. The surplus is gone after some beats, and stays gone; no session is handed over again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from scripts.benchmarks.fleet_scenes import Broken, Figures, Scene, Size
from scripts.benchmarks.fleet_world import Weather
from tests.gateway.session.virtual_time import VirtualTimeLoop

SCENES: dict[str, Callable[[Size], Scene]] = {
    "calm": lambda size: Scene("calm", size, Weather()),
    "storm": lambda size: Scene("storm", size, Weather(loss=0.02, delay_seconds=0.15)),
    "surplus": lambda size: Scene("surplus", size, Weather(loss=0.01, delay_seconds=0.02)),
}


def play(scene: str, size: Size) -> Figures:
    """The figures of one scene. Raises Broken where an invariant did not hold."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(SCENES[scene](size).play())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.benchmarks.fleet_simulation")
    parser.description = (
        "Plays a fleet of gateways in virtual time, checks what must hold, and prints its cost."
    )
    spreads = ("dealt", "none")
    parser.add_argument(
        "--spread", choices=spreads, default=spreads[0], help="how free places are shared out"
    )
    for name, default in asdict(Size()).items():
        if name == "spread":
            continue
        parser.add_argument(f"--{name}", type=type(default), default=default, metavar="N")
    parser.add_argument("--scene", action="append", choices=list(SCENES), help="this scene (all); repeatable")
    chosen = vars(parser.parse_args(arguments))
    scenes = chosen.pop("scene") or list(SCENES)
    size = Size(**chosen)
    for scene in scenes:
        try:
            figures = play(scene, size)
        except Broken as broken:
            print(f"{scene}: BROKEN {broken}", file=sys.stderr)
            return 1
        print(f"{scene}: every invariant held")
        for name, value in asdict(figures).items():
            if name != "scene" and value:
                print(f"  {name.replace('_', ' '):32} {value}")
        if figures.cpu_seconds:
            beat_ms = figures.cpu_seconds / figures.beats * 1000
            print(f"  {'cpu ms a beat, world included':32} {beat_ms:.2f}")
    return 0


if __name__ == "__main__":
    logging.getLogger("streamhold").setLevel(logging.CRITICAL)
    sys.exit(main())
