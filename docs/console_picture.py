"""Takes the pictures of docs/images/console-*.png, in Chromium: a week of an invented shop, in light and dark."""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from picture_files import shrink
from playwright.sync_api import Browser

from console.browser import Served, chromium, log_in, served
from console.example_runs import OPERATOR, PACKS, ExampleRuns, MovableClock, fill_desk
from tercet.runtime import RuntimeOptions

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH, HEIGHT = 1280, 860
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def addresses(runs: ExampleRuns) -> dict[str, str]:
    """Return the page of every picture."""
    return {
        "inbox": "",
        "gate": f"/gates/{runs.refund_gate}",
        "sessions": "/sessions",
        "session": f"/sessions/{runs.purchase}",
        "compare": f"/compare?a={runs.paid}&b={runs.denied}",
        "metrics": "/metrics",
    }


def take(
    browser: Browser, desk: Served, runs: ExampleRuns, folder: Path, now: datetime, width: int = WIDTH
) -> None:
    """Take every picture in every colour scheme, as if no time passed while they are taken."""
    for scheme in SCHEMES:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": HEIGHT})
        context.clock.set_fixed_time(now)
        page = context.new_page()
        log_in(page, desk.login_link("user_finance_lead", roles=("finance_lead",), scopes=OPERATOR))
        for name, path in addresses(runs).items():
            page.goto(f"{desk.url}/console{path}", wait_until="networkidle")
            (folder / f"console-{name}-{scheme}.png").write_bytes(shrink(page.screenshot()))
        context.close()


def main() -> None:
    """Take the pictures; with words, into another folder and of other widths: FOLDER WIDTH ..."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else IMAGES
    clock = MovableClock()
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("REFUNDS", "SUPPLIERS", "LETTERS"):
            os.environ[f"TERCET_{name}_DB"] = str(Path(scratch, f"{name.lower()}.db"))
        with served(*PACKS, options=RuntimeOptions(clock=clock)) as desk, chromium() as browser:
            runs = desk.run(fill_desk(desk.desk, clock))
            now = datetime.fromtimestamp(clock.now() / 1000, UTC)
            for width in map(int, sys.argv[2:] or [WIDTH]):
                take(browser, desk, runs, folder, now, width)


if __name__ == "__main__":
    main()
