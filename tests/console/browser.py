"""A console that real browsers reach: a service in a thread of its own, and Chromium with one page for each person."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from console.desk import ConsoleDesk, open_console
from tercet.packs.pack import Pack
from tercet.service.server import listen

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
T = TypeVar("T")


class Served:
    """A desk in another thread: `run` runs a coroutine there."""

    def __init__(self, desk: ConsoleDesk, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.desk = desk
        self.url = url
        self._loop = loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine where the desk is, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def login_link(self, actor: str, then: str = "/console", **more: Any) -> str:
        """Return a link that logs a person in."""

        async def make() -> str:
            return await self.desk.site.login_path(await self.desk.key(actor, **more), then)

        return self.url + self.run(make())


@asynccontextmanager
async def _listening(*packs: Pack, **settings: Any) -> AsyncGenerator[tuple[ConsoleDesk, str]]:
    async with open_console(None, *packs, **settings) as desk:
        bound = listen("127.0.0.1", 0)
        config = uvicorn.Config(desk.running.app, log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server._serve([bound]))  # pyright: ignore[reportPrivateUsage] - without signals
        yield desk, f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        desk.running.http.is_closing.set()
        await serving


@contextmanager
def served(*packs: Pack, **settings: Any) -> Generator[Served]:
    """Serve the refund desk, or other packs, with its console on a free port, in a thread."""
    ready: list[Served] = []
    has_begun = threading.Event()
    ending: list[Callable[[], object]] = []
    failed: list[BaseException] = []

    async def main() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        ending.append(lambda: loop.call_soon_threadsafe(end.set))
        async with _listening(*packs, **settings) as (desk, url):
            ready.append(Served(desk, url, loop))
            has_begun.set()
            await end.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            failed.append(error)
        finally:
            has_begun.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert has_begun.wait(300)
    if failed:
        raise failed[0]
    try:
        yield ready[0]
    finally:
        ending[0]()
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def chromium() -> Generator[Browser]:
    """A browser, for all tests of a module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def log_in(page: Page, link: str) -> None:
    """Follow a login link."""
    page.goto(link)
    page.get_by_role("button", name="Continue").press("Enter")
    page.wait_for_load_state("networkidle")


@dataclass
class Watched:
    """What pages did that they must not: errors and other words in the browser's console, dialogs, requests to other hosts."""

    url: str
    errors: list[str] = field(default_factory=list[str])
    is_refusal_expected: bool = False
    """Whether an answer with an error status is part of the story: browsers write a line about each."""

    def watch(self, page: Page) -> Page:
        """Watch a page from now on."""
        page.on("console", lambda message: self._add(message.text))
        page.on("pageerror", lambda error: self._add(str(error)))
        page.on("request", lambda request: self._request(request.url))

        def dialog(shown: Any) -> None:
            self._add(f"dialog: {shown.message}")
            shown.dismiss()

        page.on("dialog", dialog)
        return page

    def _request(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.url).netloc:
            self._add(f"request: {url}")

    def _add(self, text: str) -> None:
        if not (self.is_refusal_expected and text.startswith("Failed to load resource")):
            self.errors.append(text)
