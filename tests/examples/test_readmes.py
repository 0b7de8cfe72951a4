"""The commands on the pages of the examples do what the pages say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?:\$ )?tercet (?P<words>.+?)(?:  # exit (?P<code>\d+))?$", re.MULTILINE)
SHOWN = [
    (page, match["words"], int(match["code"] or 0))
    for page in sorted((ROOT / "examples").rglob("README.md"))
    for match in LINE.finditer(page.read_text(encoding="utf-8"))
    if not match["words"].endswith("# as the model answers")  # those are tested by what must hold in any case
]


@pytest.mark.parametrize(("page", "words", "code"), SHOWN, ids=[words for _, words, _ in SHOWN])
def test_a_command_ends_as_its_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: Path, words: str, code: int
) -> None:
    """Every command line on a page of the examples exits with the code that stands beside it, or with 0."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path}/tercet.db")
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    monkeypatch.setenv("TERCET_RUNBOOK_DB", str(tmp_path / "runbook.db"))
    monkeypatch.setenv("TERCET_NEWCOMERS_DB", str(tmp_path / "newcomers.db"))
    result = CliRunner().invoke(app, shlex.split(words))
    assert result.exit_code == code, f"{page}: {result.output}"


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
