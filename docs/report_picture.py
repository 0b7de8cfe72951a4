"""Takes the pictures of docs/images/report-*.png, in Chromium: of a real `tercet demo`, and of a letter that was repaired."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page, sync_playwright

HOME = Path(__file__).resolve().parent.parent
IMAGES = HOME / "docs" / "images"
WIDTH, HEIGHT = 1120, 1500
MOST_BYTES = 300_000


LETTER = {"order_id": "ord_4471", "faults": ["total", "claim", "key", "section"]}


def tercet(*words: str) -> Any:
    """What a command says as JSON."""
    command = [sys.executable, "-m", "tercet", *words, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(HOME / "src")}
    return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)  # noqa: S603 - our own command


def report(folder: Path) -> Path:
    """The report of the refund that the demo paid."""
    story = tercet("demo", "--yes", "--dir", str(folder / "demo"))
    page = folder / "report.html"
    tercet("report", story["waiting"]["session_id"], "--journal", story["journal"], "-o", str(page))
    return page


def letter(folder: Path) -> Path:
    """The report of a letter that was repaired by rules."""
    journal, page = f"sqlite:///{folder / 'letters.db'}", folder / "letter.html"
    asked = ("--intent", "letters.write", "--input", json.dumps(LETTER))
    run = tercet("run", str(HOME / "examples" / "letters"), *asked, "--journal", journal)
    tercet("report", run["session_id"], "--journal", journal, "-o", str(page))
    return page


@contextmanager
def shown(page: Path, scheme: Literal["light", "dark"]) -> Generator[Page]:
    """A page in a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT})
        found = context.new_page()
        found.goto(page.as_uri())
        yield found
        browser.close()


def demand_small(path: Path) -> None:
    """A picture must not make a page slow."""
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has become too large for a page: {path.stat().st_size:,} bytes")


def take(page: Path, scheme: Literal["light", "dark"]) -> None:
    """One picture of the upper part of a page."""
    path = IMAGES / f"report-{scheme}.png"
    with shown(page, scheme) as found:
        found.screenshot(path=path)
    demand_small(path)


def take_quality(page: Path) -> None:
    """One picture of the section about quality, its turns folded."""
    path = IMAGES / "report-quality.png"
    with shown(page, "light") as found:
        found.evaluate("document.querySelectorAll('#quality .turn').forEach(each => { each.open = false; })")
        found.locator("#quality").screenshot(path=path)
    demand_small(path)


def main() -> None:
    """Takes the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        page = report(Path(folder))
        take(page, "light")
        take(page, "dark")
        take_quality(letter(Path(folder)))


if __name__ == "__main__":
    main()
