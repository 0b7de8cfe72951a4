"""docs/cli.md says what the commands are."""

from __future__ import annotations

import re
import runpy

from tercet.cli.main import COMMANDS

from .harness import ROOT

page = runpy.run_path(str(ROOT / "docs" / "cli_page.py"))["page"]


def test_the_page_is_up_to_date() -> None:
    """The page is what `make api` writes."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page()


def test_every_command_and_option_is_on_the_page() -> None:
    """No command can be added without being documented."""
    text = page()
    assert all(f"## tercet {name}\n" in text for name in COMMANDS)
    assert all(
        option in text
        for option in (
            "--intent",
            "--input",
            "--plan",
            "--snapshot",
            "--safety-mode",
            "--journal",
            "--status",
            "--pack",
            "--note",
            "--happened",
            "--did-not-happen",
            "--value",
            "--actors",
            "--digest",
            "--tool-calls",
            "--extend",
            "--older-than",
            "--shadow",
            "--request-key",
            "--ttl",
            "--name",
            "--json",
        )
    )


def test_each_sentence_of_the_page_is_a_line() -> None:
    """However the help is wrapped in the source, no line of prose ends in the middle of a sentence."""
    prose = re.sub(r"^```.*?^```$", "", page(), flags=re.MULTILINE | re.DOTALL).splitlines()
    lines = [line for line in prose if line and not line.startswith(("#", "|", "<!--"))]
    assert len(lines) > 100
    assert [line for line in lines if not line.endswith((".", "?", ":"))] == []
