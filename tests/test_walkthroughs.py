"""A reader who follows a tutorial or a how-to page literally gets what it shows.

The blocks of a page are carried out in order, in an empty folder with a copy of the examples:

- a block with `title="a/path"` is written to that file, and `title="add to a/path"` is added to it
- a `python` block without a title is run
- of `sh` blocks every line, of `console` blocks every line that begins with `$ `, is a command
- what a sentence asks to open, press, choose or type in **bold** is done in Chromium

`tercet` runs in this process and must exit as the line says (`# exit 3`), else with 0; what a `console` block shows
below a command must be printed by it, line by line, where a line `…` stands for any lines.
`serve`, `worker` and `console` are processes of their own, which `kill -9 $!` or the end of the page ends.
The ids of a page are replaced by the one that was printed last, and `tck_…` by the key of the actor that the line names.
`createdb`, `pg_dump` and `postgresql://tercet@db/…` reach a real server, and Slack's address one on this machine.
Only installers and containers are not started.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pages import ROOT, SHOWN, WALKTHROUGHS, demand_lines, page_name, read_lines, read_steps
from plugins.postgres import PostgresServer
from readers import Reader, find_stuck_lines, wait_for
from service.receivers import Hook, open_hook


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Reader]:
    """A reader in an empty folder, whose processes are ended whatever happens."""
    folder = tmp_path / "empty"
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("TERCET_JOURNAL", "TERCET_SERVER", "TERCET_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    reader = Reader(folder=folder)
    yield reader
    reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("page", WALKTHROUGHS, ids=page_name)
def test_a_page_can_be_followed_step_by_step(
    page: Path, reader: Reader, request: pytest.FixtureRequest
) -> None:
    """Each file, program, command and button of the page works where it stands, and prints what the page shows."""
    text = page.read_text(encoding="utf-8")
    if "postgresql://tercet@db" in text:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        reader.postgres, reader.binaries = server.url, server.binaries
    with ExitStack() as stack:
        if "hooks.slack.com" in text:
            hook = stack.enter_context(open_hook())
            reader.hook, reader.inbox = lambda: hook.url, lambda: link_in(hook)
        for block in read_steps(page):
            try:
                reader.follow(block)
            except AssertionError as error:
                raise AssertionError(f"{page_name(page)}:{block.row}: {error}") from error


def test_the_slow_bank_answers_before_its_call_times_out() -> None:
    """A reader who takes longer than the page thinks finds a payment that is done, and no question about it."""
    page = ROOT / "docs/tutorial/first-run.md"
    seconds = [int(found) for found in re.findall(r"SLOW_BANK=(\d+)", page.read_text(encoding="utf-8"))]
    [code] = [block.body for block in read_steps(page) if block.title.endswith("tools.py")]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - it is our own page
    assert seconds
    assert max(seconds) * 1_000 < names["transfer"].timeout_ms


@pytest.mark.parametrize("page", SHOWN, ids=page_name)
def test_no_server_keeps_a_reader_from_the_next_line(page: Path) -> None:
    """A server in the foreground is the last line of its block, and the page names the terminal or machine for it."""
    if page.name != "cli.md":  # a list of examples, not of steps
        assert list(find_stuck_lines(page)) == []


@pytest.mark.parametrize(
    ("text", "stuck"),
    [
        ("Start it:\n\n```sh\ntercet serve a\n```\n", []),
        ("```sh\ntercet serve a &\ntercet list\n```\n", []),
        ("```sh\ntercet serve a\ntercet list\n```\n", ["tercet list"]),
        ("Start it:\n\n```sh\nX=1 tercet console a\n```\n\n```sh\nls\n```\n", ["X=1 tercet console a"]),
        ("In a second terminal:\n\n```sh\ntercet worker a\n```\n\n```sh\nls\n```\n", []),
    ],
)
def test_a_reader_who_would_be_stuck_is_noticed(text: str, stuck: list[str], tmp_path: Path) -> None:
    """What comes behind a server in its block, and a server in a terminal that is needed again."""
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert list(find_stuck_lines(page)) == stuck


def test_a_backup_holds_every_file_of_a_journal(reader: Reader) -> None:
    """The commands of the page copy the database with its log and its list of commits, and nothing else."""
    files = ["tercet.db", "tercet.db-heads", "tercet.db-shm", "tercet.db-wal"]
    for name in [*files, "notes.txt"]:
        Path(name).write_text(name, encoding="utf-8")
    block = next(each for each in read_steps(ROOT / "docs/how-to/back-up-and-erase.md") if "cp " in each.body)
    for line, _ in read_lines(block):
        if not line.startswith("tercet"):
            reader.type(line)
    assert sorted(path.name for path in Path("copy").iterdir()) == files


def link_in(hook: Hook) -> str:
    """Return the link of a gate in the messages that were received."""
    found: list[str] = []

    def look() -> bool:
        for _, body in hook.received:
            found.extend(re.findall(r"https?://[^\s|>\"\\]+/console/gates/[^\s|>\"\\]+", body.decode()))
        return bool(found)

    wait_for(look, "no message with a link has arrived")
    return found[-1]


def test_the_reader_notices_other_output() -> None:
    """Lines must come in their order, all of them where no `…` allows others, and ids may differ."""
    printed = "session   ses_00000000000000aa\n\n✓ done in 12 ms\n  last\n"
    demand_lines(["session ses_0123456789abcdef", "✓ done in 3 ms", "last"], printed, "x")
    demand_lines(["…", "✓ done in 3 ms", "…"], printed, "x")
    for shown in (
        ["✓ done in 3 ms", "…"],
        ["…", "done", "…"],
        ["session ses_0123456789abcdef"],
        ["last", "✓ done in 3 ms"],
    ):
        with pytest.raises(AssertionError):
            demand_lines(shown, printed, "x")
