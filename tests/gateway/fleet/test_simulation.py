"""A small fleet in virtual time, with everything that can go wrong, and the same at every run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from scripts.benchmarks.fleet_scenes import Broken, Scene, Size
from scripts.benchmarks.fleet_simulation import SCENES, main, play
from scripts.benchmarks.fleet_world import Gateway, Weather
from tests.gateway.session.virtual_time import VirtualTimeLoop

SMALL = Size(gateways=10, replicas=25, capacity=3, seconds=120)


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("seed", range(3))
def test_the_invariants_hold(scene: str, seed: int) -> None:
    figures = play(scene, replace(SMALL, seed=seed))
    assert figures.beats > SMALL.gateways * 30
    assert figures.opened > 0
    assert figures.views_compared > 0


def test_the_same_seed_gives_the_same_story() -> None:
    one, again = (replace_cpu(play("storm", SMALL)) for _ in range(2))
    assert one == again
    assert replace_cpu(play("storm", replace(SMALL, seed=8))) != one


def replace_cpu(figures: object) -> object:
    figures.cpu_seconds = 0.0  # type: ignore[attr-defined]
    return figures


class Forgetful(Scene):
    """A fleet whose gateways believe that nobody else has a session."""

    def _serve(self, gateway: Gateway) -> None:
        gateway.forget_others()
        super()._serve(gateway)


class Hasty(Scene):
    """A fleet whose gateways hand over whatever they have, each time that they hear of the fleet."""

    def _heard(self, gateway: Gateway, sighting: object) -> None:
        if gateway.load:
            self._hand_over(gateway, gateway.load)


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (Forgetful("calm", SMALL, Weather()), "its gateway knew"),
        (Hasty("surplus", SMALL, Weather()), "still handing over"),
    ],
)
def test_an_invariant_that_does_not_hold_is_noticed(scene: Scene, said: str) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.raises(Broken, match=said):
        runner.run(scene.play())


def test_the_command_tells_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gateways", "5", "--replicas", "9", "--seconds", "40", "--scene", "calm"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("calm: every invariant held\n")
    assert "oldest report seconds" in said
