"""Takes the pictures of docs/images/report-*.png: the report of a real `tercet demo`, in Chromium, light and dark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import sync_playwright

HOME = Path(__file__).resolve().parent.parent
IMAGES = HOME / "docs" / "images"
WIDTH, HEIGHT = 1120, 1500
MOST_BYTES = 300_000


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


def take(page: Path, scheme: Literal["light", "dark"]) -> None:
    """One picture of the upper part of a page."""
    path = IMAGES / f"report-{scheme}.png"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT})
        shown = context.new_page()
        shown.goto(page.as_uri())
        shown.screenshot(path=path)
        browser.close()
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has become too large for a page: {path.stat().st_size:,} bytes")


def main() -> None:
    """Takes both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        page = report(Path(folder))
        take(page, "light")
        take(page, "dark")


if __name__ == "__main__":
    main()
