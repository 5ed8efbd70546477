"""What happens to a simulated fleet, and what must hold meanwhile: the invariants of `fleet_simulation`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from random import Random

from gateway.fleet.sighting import Sighting
from scripts.benchmarks.fleet_world import (
    DEADLINE_SECONDS,
    EVERY,
    Gateway,
    Road,
    Server,
    Session,
    Weather,
    now,
)

SETTLE = timedelta(seconds=20)
TOLERANCE = 0.2
QUEUE_SECONDS = 30.0
"""How long a client waits for a place."""
LAST_SECONDS = 60.0
FULL_SECONDS = 1.0
"""How long a replica that refused a session counts as full."""
LASTS_SECONDS = 40.0
"""How long a session lasts in the mean."""
CALM_STALENESS_SECONDS = 2 * EVERY.total_seconds() + 3 * DEADLINE_SECONDS
"""How old a report may be that is gone by: its view is a beat old at most, and it was that in the view."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the fleet is, and for how long it is watched."""

    gateways: int = 200
    replicas: int = 500
    capacity: int = 4
    seconds: float = 180.0
    seed: int = 7
    spread: str = "dealt"
    """`dealt` or `none`: how gateways keep from all taking the same free place."""


@dataclass(slots=True)
class Figures:
    """What a scene found; the same for the same size and seed, but for `cpu_seconds`."""

    scene: str
    beats: int = 0
    lost_calls: int = 0
    opened: int = 0
    waited: int = 0
    gave_up_waiting: int = 0
    mean_wait_seconds: float = 0.0
    places_in_use_percent: float = 0.0
    handed_over: int = 0
    most_moves_of_a_session: int = 0
    refused_by_replicas: int = 0
    refused_a_second_at_last: float = 0.0
    """In the last minute: by then clients have been waiting for long."""
    oldest_report_seconds: float = 0.0
    views_compared: int = 0
    first_without_surplus_seconds: float = 0.0
    largest_load: int = 0
    mean_load: float = 0.0
    reply_bytes: int = 0
    cpu_seconds: float = 0.0


class Broken(Exception):
    """An invariant did not hold."""


class Scene:
    """One scene: the world, and what is checked in it."""

    def __init__(self, name: str, size: Size, weather: Weather) -> None:
        self.size, self.weather = size, weather
        self.figures = Figures(name)
        self.rng = Random(f"{name} {size.seed}")
        self.server = Server()
        self.gateways: list[Gateway] = []
        self.in_use: Counter[int] = Counter()
        self.calm = name == "calm"
        self.hands_over = name == "surplus"
        self._numbers = count()
        self._last_handed_over = self._waited_seconds = self._places_in_use = 0.0
        self._looks = 0
        self._refused: Counter[int] = Counter()
        self._breach: Broken | None = None

    def _hold(self, condition: bool, what: str) -> None:
        """End the scene, with the virtual time, where `condition` is false."""
        if not condition and self._breach is None:
            self._breach = Broken(f"at {now():.3f} s: {what}")

    async def _pass(self, seconds: float) -> None:
        """Return after so much time, or once an invariant has not held."""
        end = now() + seconds
        while True:
            if self._breach is not None or now() >= end:
                return
            await asyncio.sleep(min(1.0, end - now()))

    def start_gateway(self, tasks: asyncio.TaskGroup) -> Gateway:
        road = Road(self.server, self.weather, Random(f"road {next(self._numbers)} {self.size.seed}"))
        name = f"g{next(self._numbers):05d}"
        off_seconds = self.rng.uniform(-1e6, 1e6)
        # A session that was handed over takes any free place: what is looked at there is who has how many.
        spread = "none" if self.hands_over else self.size.spread
        gateway = Gateway(name, road, self.size.replicas, self.size.capacity, off_seconds, spread=spread)
        gateway.task = tasks.create_task(gateway.live(self._heard))
        self.gateways.append(gateway)
        return gateway

    def kill_gateway(self, gateway: Gateway) -> None:
        """SIGKILL: its sessions end, its entry stays until it expires."""
        gateway.road.dead = True
        gateway.begun = False
        gateway.road.running.set()
        self.gateways.remove(gateway)
        for replica, held in gateway.sessions.items():
            self.in_use[replica] -= len(held)
        if gateway.task is not None:
            gateway.task.cancel()

    async def all_begun(self) -> None:
        """Return once everybody sees everybody serve."""
        while True:
            await asyncio.sleep(0.5)
            if all(gateway.begun and self._is_served(gateway) for gateway in self.gateways):
                return

    def _is_served(self, gateway: Gateway) -> bool:
        return len(gateway.membership.sighting.view.serving()) == len(self.gateways)

    def arrive(self, gateway: Gateway) -> None:
        """A client comes to `gateway` for the first time; it stands behind those who wait there."""
        gateway.line.append(now())
        self._serve(gateway)

    def return_to(self, gateway: Gateway, session: Session) -> None:
        """A client that was handed over comes to `gateway`, and does not give up."""
        while (replica := gateway.choose(self.rng)) is not None:
            session.replica = replica
            if self._open(gateway, session):
                return
        asyncio.get_running_loop().call_later(1, self._come_back, session)

    def _serve(self, gateway: Gateway) -> None:
        """Whoever waits at `gateway` gets what it believes to be free, and what is."""
        while gateway.line and gateway.awake:
            waited_seconds = now() - gateway.line[0]
            if waited_seconds > QUEUE_SECONDS:
                self.figures.gave_up_waiting += 1
            elif (replica := gateway.choose(self.rng)) is None:
                return
            elif self._open(gateway, session := Session(replica)):
                lasts = self.rng.expovariate(1 / LASTS_SECONDS)
                asyncio.get_running_loop().call_later(lasts, self._end, gateway, session)
                self.figures.waited += waited_seconds > 0
                self._waited_seconds += waited_seconds
            else:
                continue
            gateway.line.popleft()

    def _open(self, gateway: Gateway, session: Session) -> bool:
        """Whether the replica takes the session. It refuses where it is full, which its gateway cannot have
        known.
        """
        replica, figures = session.replica, self.figures
        above = self.in_use[replica] + 1 - self.size.capacity
        if above > 0:
            unseen = self._unseen(gateway, replica)
            self._hold(unseen >= above, f"replica {replica} is full, and its gateway knew")
            figures.refused_by_replicas += 1
            self._refused[int(now())] += 1
            gateway.refusing_until[replica] = now() + FULL_SECONDS
            return False
        gateway.open(session)
        self.in_use[replica] += 1
        figures.opened += 1
        return True

    def _end(self, gateway: Gateway, session: Session) -> None:
        if not gateway.road.dead and gateway.end(session):
            self.in_use[session.replica] -= 1
            self._serve(gateway)

    def _unseen(self, gateway: Gateway, replica: int) -> int:
        """Sessions of others on `replica` that `gateway` could not know of."""
        unseen, view = 0, gateway.membership.sighting.view
        members = {member.id: member for member in view.members}
        for other in self.gateways:
            if other is gateway:
                continue
            member = members.get(other.name)
            if member is None:
                unseen += len(other.sessions.get(replica, ()))
                continue
            reported_at = float(member.report["at"])
            unseen += sum(1 for at in other.opened.get(replica, ()) if at > reported_at)
            if self.calm:
                age = now() - reported_at
                self.figures.oldest_report_seconds = max(self.figures.oldest_report_seconds, age)
                self._hold(
                    age <= CALM_STALENESS_SECONDS, f"{gateway.name} goes by a report of {age:.3f} s ago"
                )
        return unseen

    def _heard(self, gateway: Gateway, sighting: Sighting) -> None:
        if not self.hands_over:
            self._serve(gateway)
            return
        excess = gateway.membership.excess(TOLERANCE, SETTLE)
        if not excess:
            return
        self._hold(sighting.settled(SETTLE), f"{gateway.name} hands over before the fleet has settled")
        self._hold(gateway.membership.fresh, f"{gateway.name} hands over by an old view")
        loads = [int(member.report["load"]) for member in sighting.view.serving()]
        mean = sum(loads) / len(loads)
        self._hold(gateway.load - excess > mean - 1, f"{gateway.name} hands over to below the mean")
        self._hand_over(gateway, excess)

    def _hand_over(self, gateway: Gateway, excess: int) -> None:
        held = [session for each in gateway.sessions.values() for session in each]
        self._last_handed_over = now()
        for session in self.rng.sample(held, min(excess, len(held))):
            gateway.end(session)
            self.in_use[session.replica] -= 1
            session.moves += 1
            self.figures.handed_over += 1
            self.figures.most_moves_of_a_session = max(self.figures.most_moves_of_a_session, session.moves)
            back = self.rng.uniform(0.2, 1.0)
            asyncio.get_running_loop().call_later(back, self._come_back, session)

    def _come_back(self, session: Session) -> None:
        if awake := [gateway for gateway in self.gateways if gateway.awake]:
            self.return_to(self.rng.choice(awake), session)

    def compare_views(self, unit: str) -> None:
        """Everyone who holds the same view gives the same answers."""
        alike: dict[str, list[Gateway]] = defaultdict(list)
        for gateway in self.gateways:
            if gateway.begun:
                alike[gateway.membership.sighting.view.hash].append(gateway)
        for holders in alike.values():
            views = [gateway.membership.sighting.view for gateway in (holders[0], holders[-1])]
            owners = {tuple(member.id for member in view.rank(unit)[:2]) for view in views}
            self._hold(len(owners) == 1, f"{unit} has the owners {owners} in one view")
            serving = views[0].serving()
            shares = [views[0].share(self.size.replicas, member.id) for member in serving]
            self._hold(sum(shares) == (self.size.replicas if serving else 0), "the shares do not add up")
            self.figures.views_compared += len(holders)

    async def sessions_come(self) -> None:
        """Clients come for as long as the scene lasts, more than there is room for."""
        rate = self.size.replicas * self.size.capacity / LASTS_SECONDS * 1.3
        while True:
            await asyncio.sleep(self.rng.expovariate(rate))
            awake = [gateway for gateway in self.gateways if gateway.awake]
            if awake:
                self.arrive(self.rng.choice(awake))

    async def time_passes(self) -> None:
        """Replicas that refused are asked again, and who has waited too long gives up."""
        while True:
            await asyncio.sleep(FULL_SECONDS)
            for gateway in self.gateways:
                self._serve(gateway)

    async def views_are_compared(self) -> None:
        for number in count():
            await asyncio.sleep(5)
            self.compare_views(f"unit-{number}")
            self._looks += 1
            self._places_in_use += self.in_use.total() / (self.size.replicas * self.size.capacity)

    async def it_storms(self, tasks: asyncio.TaskGroup) -> None:
        """Something happens every two seconds."""
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / 2))
            gateway = self.rng.choice(self.gateways)
            match self.rng.randrange(8):
                case 0 | 1:
                    self.kill_gateway(gateway)
                    self.start_gateway(tasks)
                case 2 | 3 | 4:
                    gateway.road.running.clear()
                    stopped_for = self.rng.choice([1, 4, 9, 25])
                    asyncio.get_running_loop().call_later(stopped_for, gateway.road.running.set)
                case 5:
                    self.server.up.clear()
                    down_for = self.rng.choice([1, 5, 15])
                    asyncio.get_running_loop().call_later(down_for, self.server.up.set)
                case 6:
                    self.server.flush()
                case _:
                    self.server.ahead_seconds += self.rng.choice([-30, -2, 2, 30])

    async def surplus_goes(self) -> None:
        """All sessions are on a tenth of the gateways; return once nothing has been handed over for long."""
        few = self.gateways[: max(1, len(self.gateways) // 10)]
        for number in range(self.size.replicas * self.size.capacity * 9 // 10):
            session = Session(number % self.size.replicas)
            few[number % len(few)].open(session)
            self.in_use[session.replica] += 1
        begun_at = self._last_handed_over = now()
        await self._pass(self.size.seconds)
        quiet = now() - self._last_handed_over
        self._hold(quiet > self.size.seconds / 4, f"still handing over {quiet:.0f} s before the end")
        self.figures.first_without_surplus_seconds = round(self._last_handed_over - begun_at, 1)
        loads = [gateway.load for gateway in self.gateways]
        mean = sum(loads) / len(loads)
        expected = self.size.replicas * self.size.capacity * 9 // 10
        self._hold(sum(loads) == expected, f"{expected} sessions were there, {sum(loads)} are left")
        self._hold(
            max(loads) <= mean * (1 + TOLERANCE), f"a load of {max(loads)} is left, the mean is {mean:.1f}"
        )

    async def play(self) -> Figures:
        """The whole scene. Raises Broken."""
        started = time.process_time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self.size.gateways):
                self.start_gateway(tasks)
                await asyncio.sleep(self.rng.uniform(0, 2 * EVERY.total_seconds() / self.size.gateways))
            await self.all_begun()
            loops = [tasks.create_task(self.views_are_compared())]
            if self.hands_over:
                await self.surplus_goes()
            else:
                loops += [tasks.create_task(self.sessions_come()), tasks.create_task(self.time_passes())]
                if not self.calm:
                    loops.append(tasks.create_task(self.it_storms(tasks)))
                await self._pass(self.size.seconds)
            self._finish(started)
            for loop in loops:
                loop.cancel()
            for gateway in tuple(self.gateways):
                self.kill_gateway(gateway)
        if self._breach is not None:
            raise self._breach
        return self.figures

    def _finish(self, started: float) -> None:
        loads = [gateway.load for gateway in self.gateways]
        figures = self.figures
        figures.largest_load, figures.mean_load = max(loads), round(sum(loads) / len(loads), 1)
        figures.beats, figures.lost_calls = self.server.beats, self.server.lost
        figures.oldest_report_seconds = round(figures.oldest_report_seconds, 3)
        last = sum(many for second, many in self._refused.items() if second >= now() - LAST_SECONDS)
        figures.refused_a_second_at_last = round(last / LAST_SECONDS, 1)
        if not self.hands_over:
            figures.mean_wait_seconds = round(self._waited_seconds / max(1, figures.waited), 1)
            figures.places_in_use_percent = round(100 * self._places_in_use / max(1, self._looks), 1)
        figures.reply_bytes = self.server.reply_bytes()
        figures.cpu_seconds = round(time.process_time() - started, 1)
