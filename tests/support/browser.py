"""A browser without a window: Debian's Chromium, driven by Playwright (which brings none)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)
PATIENCE_MS = 60_000
DESK = (1280, 820)
PHONE = (360, 740)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A started one; scripts/debian installs it."""
    path = shutil.which("chromium")
    assert path is not None, "scripts/debian installs the browser"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def page_on(
    browser: Browser, url: str, size: tuple[int, int] = DESK, *, dark: bool = False
) -> AsyncIterator[Page]:
    """`url` in a tab of its own. What the page's scripts complained of fails the test in the end."""
    width, height = size
    page = await browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error" and "WebSocket connection" not in message.text:
            complaints.append(message.text)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(PATIENCE_MS)
    try:
        await page.goto(url)
        yield page
    except BaseException:
        sys.stdout.write(f"\n----- {url} said: {complaints}\n{await page.inner_text('body')}\n")
        raise
    finally:
        await page.close()
    assert complaints == []
