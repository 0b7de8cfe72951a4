"""`check` warns about extras that a pack needs and that are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tercet.packs.checking import check_folder
from tercet.packs.checks import tools

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "extra", "library"),
    [
        ("mcp", "mcp", "mcp"),
        ("http", "http", "httpx2"),
        ("local", "local-model", "xllamacpp"),
        ("letters", "locales", "babel"),
        ("code", "adversarial", "hypothesis"),
        ("refunds", "", ""),
    ],
)
def test_a_missing_extra_is_named_with_its_command(
    example: str, extra: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for each extra, as a warning: the pack may be made for another machine."""

    def lack_all(name: str) -> None:
        del name

    monkeypatch.setattr(tools, "find_spec", lack_all)
    found = [each for each in check_folder(EXAMPLES / example) if each.code == "extra_missing"]
    assert [each.severity for each in found] == ["warning"] * bool(extra)
    for each in found:
        assert library in each.message
        assert f"'./tercet[{extra}]'" in (each.remedy or "")
        assert each.file


def test_nothing_is_said_of_extras_that_are_installed() -> None:
    """The development environment has them all."""
    assert not [each for each in check_folder(EXAMPLES / "mcp") if each.code == "extra_missing"]
