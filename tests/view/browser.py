"""A real browser for tests of pages: Chromium, as this machine has it."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
Scheme = Literal["light", "dark"]


def executable() -> str:
    """Return where Chromium is; skip the test where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine: apt-get install chromium")
    return found


@contextmanager
def launched() -> Generator[Browser]:
    """Chromium, without a window."""
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


@dataclass  # not frozen: the browser's library marks the objects whose methods it calls
class Visit:
    """A page that was opened, and what it tried to do."""

    page: Page
    address: str
    requests: list[str] = field(default_factory=list[str])
    """Every address that was asked for but the page's own."""
    blocked: list[str] = field(default_factory=list[str])
    """Those of them that the page's own policy held back."""
    complaints: list[str] = field(default_factory=list[str])
    """What stood on the console, and dialogs that came up."""

    def watch(self) -> None:
        """Take note of everything that the page tries."""
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)

    def _asked(self, request: Request) -> None:
        if request.url != self.address:
            self.requests.append(request.url)

    def _failed(self, request: Request) -> None:
        if request.failure == "csp":
            self.blocked.append(request.url)

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def run(self, script: str) -> Any:
        """What a script of the test's own finds out; no policy of the page holds it back."""
        return self.page.evaluate(script)


@contextmanager
def visit(browser: Browser, file: Path, *, scheme: Scheme = "light", width: int = 1120) -> Generator[Visit]:
    """A page out of a file."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    try:
        seen = Visit(context.new_page(), file.as_uri())
        seen.watch()
        seen.page.goto(seen.address)
        seen.page.wait_for_load_state("networkidle")
        yield seen
    finally:
        context.close()
