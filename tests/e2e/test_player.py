"""The player page in a real browser: what people see when a replica dies under a session."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page

from tests.support.artifacts import artifact
from tests.support.browser import PHONE, chromium, page_on
from tests.support.emulator_process import EmulatorProcess
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

VIDEO = ("--media", "mp4", "--segment-seconds", "0.4")
REAL = ("--isolate", "process")
"""Each replica a process of its own: a kill is a signal."""
MOST_HELD_SECONDS = 40
"""More than the page keeps behind the playhead and asks for ahead of it."""


def player(emulator: EmulatorProcess, gateway: str, *, autoplay: bool = True) -> str:
    return f"{emulator.control}/player?gateway={quote(gateway, safe='')}&autoplay={int(autoplay)}"


def replica(emulator: EmulatorProcess, name: str) -> str:
    """Where the replica itself takes sessions, without a gateway."""
    return emulator.urls[name].replace("http", "ws", 1) + "/v1/stream"


async def of_video(page: Page, what: str) -> float:
    """A property of the video element. Not by a function that waits in the page: its policy lets nobody
    evaluate text there."""
    return float(await page.evaluate(f"document.getElementById('video').{what}"))


async def until_played(page: Page, seconds: float) -> None:
    async def is_there() -> bool:
        return await of_video(page, "currentTime") >= seconds

    await eventually(is_there, f"{seconds:g} s were played", timeout=60, every=0.1)


async def serving(page: Page) -> str:
    """The replica that serves, once the page shows one."""
    await page.wait_for_selector("#serving:not([data-replica=''])")
    return str(await page.get_attribute("#serving", "data-replica"))


async def complaint(page: Page, text: str) -> None:
    """Return once the page complains so."""
    await page.locator("#notice:not([hidden])", has_text=text).wait_for()


async def fits(page: Page) -> bool:
    """Nothing is wider than the window."""
    return bool(await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


async def test_video_goes_on_when_the_replica_that_serves_is_killed(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *VIDEO, *REAL, "--watermark") as emulator, chromium() as browser:
        async with GatewayProcess(tmp_path, emulator.in_order()) as gateway:
            async with page_on(browser, player(emulator, gateway.ws)) as page:
                await until_played(page, 1.5)
                assert await serving(page) == "a"
                await emulator.kill("a")
                died_at = await of_video(page, "currentTime")
                await page.wait_for_selector("#moves li[data-replica=b]")
                assert "a to b" in await page.inner_text("#moves li")
                assert await serving(page) == "b"
                await page.wait_for_selector("#replicas li[data-name=a][data-state=killed]")
                await page.wait_for_selector("#replicas li[data-name=b][data-serves=true]")
                await until_played(page, died_at + 6)
                await page.screenshot(path=artifact("player.png"))

                # This time with half of a segment on the screen already.
                await emulator.arm("b", "kill", point="segment")
                await page.wait_for_selector("#moves li[data-replica=c]")
                assert await serving(page) == "c"

                # Past all that can have been in hand at its death, faster than it would: what is behind goes.
                await page.evaluate("document.getElementById('video').playbackRate = 3")
                await until_played(page, died_at + 16)
                assert await of_video(page, "buffered.start(0)") > 0
                held = await page.evaluate(
                    "(({buffered: b}) => b.end(b.length - 1) - b.start(0))(document.getElementById('video'))"
                )
                assert held < MOST_HELD_SECONDS
                assert await of_video(page, "buffered.length") == 1, "there is no hole where it moved"
                assert await page.is_hidden("#notice")

                await page.get_by_role("button", name="Bring back replica a").click()
                await page.wait_for_selector("#replicas li[data-name=a][data-state=running]")


async def test_a_phone_plays_prompts_that_are_typed(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, *VIDEO, replicas=2) as emulator, chromium() as browser:
        address = player(emulator, replica(emulator, "a"), autoplay=False)
        async with page_on(browser, address, PHONE, dark=True) as page:
            assert await fits(page)
            await page.get_by_role("button", name="Connect").click()
            await page.wait_for_selector("#send:not([disabled])")
            for number, prompt in enumerate(("a lighthouse in fog", "the lamp is lit", "a boat answers")):
                await page.get_by_role("textbox", name="Prompt").fill(prompt)
                await page.get_by_role("button", name="Send").click()
                await page.wait_for_selector(f"#strip li[data-part=whole] >> text='{number}'")
            await until_played(page, 2.2)
            assert await serving(page) == "a"
            assert await fits(page)
            await page.screenshot(path=artifact("player-phone.png"), full_page=True)
            await page.get_by_role("button", name="Disconnect").click()
            assert await page.inner_text("#state") == "ended"
            assert await page.is_hidden("#notice")


async def test_the_page_says_in_words_what_went_wrong(tmp_path: Path) -> None:
    async with EmulatorProcess(tmp_path, replicas=1) as emulator, chromium() as browser:
        nobody = f"ws://127.0.0.1:{free_port()}/v1/stream"
        async with page_on(browser, player(emulator, nobody)) as page:
            await complaint(page, "nobody listens there (code 1006)")

            gateway = page.get_by_role("textbox", name="Gateway")
            await gateway.fill("127.0.0.1:8000")
            await page.get_by_role("button", name="Connect").click()
            await page.wait_for_selector("#gateway[aria-invalid=true]")
            await complaint(page, "must begin with ws://")

            await emulator.arm("a", "reject", times=1)
            await gateway.fill(replica(emulator, "a"))
            await page.get_by_role("button", name="Connect").click()
            await complaint(page, "the replica is full (code 1013, session_rejected)")

            # Filler: bytes that say they are video.
            await page.get_by_role("button", name="Connect").click()
            await complaint(page, "Start it with --media mp4")
            await page.wait_for_selector("#state[data-state=ended]")
