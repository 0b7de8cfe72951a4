"""One page for people about one run: self-contained HTML, without script, that needs no network.

`case` reads a run, the files of nouns make a `Page` of it (plain data, no HTML), and `rendering` prints that.
Words of plans, tools, models and people pass `wording` on their way, and are escaped once more when they are printed.
"""

from __future__ import annotations

from tercet.replay.report.case import Case, read_case
from tercet.replay.report.page import Page
from tercet.replay.report.rendering import render
from tercet.replay.report.telling import tell
from tercet.replay.report.wording import Wording

__all__ = ["Case", "Page", "Wording", "read_case", "render", "tell"]
