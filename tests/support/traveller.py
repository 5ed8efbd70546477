"""A client that goes on in a new session, with the last state that it was shown, when it is handed back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from emulator.running.story import Story
from tests.support.long_session import After, LongSession, Prompt, Snapshot, Step
from tests.support.undisturbed import segment_hashes

HANDED_BACK = (1012, "rebalance_reconnect")


class Traveller:
    """Makes segments, and asks for the state after each: one and then none (idle), or one after the other
    (busy), until it is let go; then one more.
    """

    def __init__(self, name: str, url: Callable[[int], str], *, busy: bool = False) -> None:
        """`url` tells where its session of that number, from 0, goes to."""
        self.name = name
        self._url, self._busy = url, busy
        self._gate = asyncio.Event()
        self._made = 0
        """Whole segments of the sessions before this one."""
        self.stories: list[Story] = []
        """Of its sessions; the last one is under way until `run` has returned."""

    @property
    def moves(self) -> int:
        """How often it was handed back."""
        return len(self.stories) - 1

    @property
    def completed(self) -> int:
        return sum(story.completed for story in self.stories)

    def let_go(self) -> None:
        """It ends after its next segment."""
        self._gate.set()

    async def run(self) -> None:
        """Return once it has all that it wants, in however many sessions."""
        state: dict[str, object] | None = None
        while True:
            init = {"client_id": self.name} | ({"continuation_state": state} if state is not None else {})
            session = LongSession(self._url(len(self.stories)), self._steps(), init=init)
            self.stories.append(session.story)
            story = await session.run()
            self._made += story.completed
            if story.finished:
                return
            assert (story.close_code, story.close_reason) == HANDED_BACK, f"{self.name}: {story}"
            assert story.types[-1] == "going_away", str(story)
            assert len(story.snapshots) == story.completed, f"it was not shown all of its state: {story}"
            state = story.snapshots[-1] if story.snapshots else state

    def assert_undisturbed(self) -> None:
        """Its segments are, byte by byte, those of a single session."""
        for story in self.stories:
            assert (story.problems, story.errors, story.resumed) == ([], [], []), str(story)
        hashes = [each for story in self.stories for each in story.hashes]
        asked = [(self._prompt(number).text, number) for number in range(len(hashes))]
        assert hashes == segment_hashes(asked)

    def _steps(self) -> Iterator[Step]:
        number = self._made
        while not self._gate.is_set() and (self._busy or number == 0):
            yield self._prompt(number)
            yield Snapshot()
            number += 1
        yield After(self._gate)
        yield self._prompt(number)
        yield Snapshot()

    def _prompt(self, number: int) -> Prompt:
        return Prompt(f"{self.name} goes on {number}", number)


@asynccontextmanager
async def travelling(*travellers: Traveller) -> AsyncIterator[None]:
    """They live; at the end they are let go, and have got all that they wanted, undisturbed."""
    async with asyncio.TaskGroup() as tasks:
        for traveller in travellers:
            tasks.create_task(traveller.run())
        yield
        for traveller in travellers:
            traveller.let_go()
    for traveller in travellers:
        traveller.assert_undisturbed()
