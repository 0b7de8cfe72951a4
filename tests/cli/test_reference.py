"""docs/cli.md says what the commands are."""

from __future__ import annotations

from tercet.cli.main import COMMANDS
from tercet.cli.reference import page

from .harness import ROOT


def test_the_page_is_up_to_date() -> None:
    """The page is what `python -m tercet.cli.reference > docs/cli.md` makes."""
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
            "--happened, --did-not-happen",
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
