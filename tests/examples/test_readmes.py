"""The commands on the pages of the examples do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pages import Command, demand_lines, read_blocks, read_command, read_lines
from tercet.cli.main import app

ROOT = Path(__file__).parents[2]
SHOWN = [
    (page, read_command(line, shown))
    for page in sorted((ROOT / "examples").rglob("README.md"))
    for block in read_blocks(page)
    if block.language in {"sh", "console"}
    for line, shown in read_lines(block)
    if line.startswith("tercet ")
    and not line.endswith("# as the model answers")  # tested by what must hold in any case
]


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[" ".join(command.words) for _, command in SHOWN])
def test_a_command_ends_as_its_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: Path, command: Command
) -> None:
    """Each command line on a page of the examples exits with the code beside it, or with 0, and prints what it shows."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    monkeypatch.setenv("TERCET_RUNBOOK_DB", str(tmp_path / "runbook.db"))
    monkeypatch.setenv("TERCET_NEWCOMERS_DB", str(tmp_path / "newcomers.db"))
    result = CliRunner().invoke(app, command.words)
    assert result.exit_code == command.code, f"{page}: {result.output}"
    demand_lines(list(command.shown), result.output, f"{page}: {' '.join(command.words)}")


def test_every_plan_is_on_the_page() -> None:
    """The table of plans names each file, and no other."""
    folder = ROOT / "examples" / "refunds"
    named = set(
        re.findall(r"^\| `(\w+\.json)`", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert named == {path.name for path in (folder / "plans").iterdir()}


def test_each_example_has_one_command() -> None:
    """The page of examples has a heading for each folder, and under each heading one block with one command."""
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    heads, bodies = (
        re.findall(r"^## (.+)$", page, re.MULTILINE),
        re.split(r"^## .+$", page, flags=re.MULTILINE),
    )
    for head, body in zip(heads, bodies[1:], strict=True):
        (block,) = re.findall(r"^```console\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        assert len(re.findall(r"^\$ ", block, re.MULTILINE)) == 1, head
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/README.md")}
    assert {link for head in heads for link in re.findall(r"\((\w+)/README\.md\)", head)} == folders
