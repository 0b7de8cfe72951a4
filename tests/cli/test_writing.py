"""Files that commands write: whole or not at all, and never in the place of something that is no file."""

from __future__ import annotations

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tercet.contracts.errors import UsageError
from tercet.replay.bundle.exporting import new_file

from .harness import REFUNDS, Tercet
from .runs import ORDER_881, REFUND, Kitchen


@pytest.fixture
def session(tercet: Tercet, kitchen: Kitchen) -> str:
    """A refund that waits for its approval."""
    assert kitchen.folder == Path.cwd()
    return tercet(*REFUND, ORDER_881, "--json").json["session_id"]


@contextmanager
def little_room(size: int = 4096) -> Generator[None]:
    """No file can grow beyond a few bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_nothing_behind(tercet: Tercet, session: str) -> None:
    """A report and a golden run that do not fit are refused with a remedy; what was there is still there."""
    tercet("export", session, "-o", "whole.tercet", "--pack", REFUNDS)
    tercet("report", session, "-o", "page.html")
    tercet("golden", "add", "whole.tercet", "--to", "golden")
    before = {path: path.read_bytes() for path in Path().rglob("*.tercet")} | {
        Path("page.html"): Path("page.html").read_bytes()
    }
    for words in (
        ("report", "whole.tercet", "-o", "page.html"),
        ("report", "whole.tercet", "-o", "other.html"),
        ("golden", "add", "whole.tercet", "--to", "golden", "--force"),
        ("golden", "add", "whole.tercet", "--to", "fresh"),
    ):
        with little_room():
            answer = tercet(*words, "--json")
        assert (answer.code, answer.json["error"]["code"]) == (2, "unwritable"), words
        assert answer.json["error"]["remedy"]
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.suffix in (".tercet", ".html")}
    assert after == before
    assert not list(Path().rglob("*.part"))


@pytest.mark.parametrize("is_forced", [True, False])
def test_a_bundle_that_does_not_fit_is_not_there(tmp_path: Path, is_forced: bool) -> None:
    """Whatever was written of it is gone, and the one that it would have replaced is not."""
    path = tmp_path / "run.tercet"
    if is_forced:
        path.write_bytes(b"before")
    with little_room(), pytest.raises(UsageError, match="cannot write") as refused:  # noqa: SIM117 - the order matters
        with new_file(path, is_forced=is_forced) as file:
            file.write(b"x" * 100_000)
    assert refused.value.code == "unwritable"
    assert [each.read_bytes() for each in tmp_path.iterdir()] == ([b"before"] if is_forced else [])


@pytest.mark.parametrize("words", [("export", "--force"), ("report",)])
def test_a_pipe_is_neither_waited_for_nor_replaced(
    tercet: Tercet, session: str, words: tuple[str, ...]
) -> None:
    """A device or a pipe is no place for a file, whatever one may do there."""
    os.mkfifo("pipe")
    answer = tercet(words[0], session, "-o", "pipe", *words[1:], "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "not_a_file")
    assert Path("pipe").is_fifo()


def test_a_golden_set_is_a_folder(tercet: Tercet, session: str) -> None:
    """A file in its place is told, and stays."""
    Path("golden").write_text("mine")
    answer = tercet("golden", "add", session, "--to", "golden", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "not_a_folder")
    assert Path("golden").read_text() == "mine"


def test_a_set_says_that_a_run_is_not_over(tercet: Tercet, session: str) -> None:
    """A run that waits is kept as far as it is: people read so, and programs find its file among the unfinished ones."""
    kept = tercet("golden", "add", session, "--to", "golden")
    assert kept.code == 0
    assert "The run is waiting, not over: later events are not in the file." in kept.text
    again = tercet("golden", "add", session, "--to", "golden", "--force", "--json").json
    assert again["unfinished"] == again["added"] == [f"golden/{session}.tercet"]


@pytest.mark.parametrize(
    ("words", "is_made_again"),
    [
        (("report", "-o"), True),
        (("export", "-o"), False),
    ],
)
def test_only_a_page_is_made_again(
    tercet: Tercet, session: str, words: tuple[str, str], is_made_again: bool
) -> None:
    """What Tercet can make at any time is replaced by its like; everything else stays, unless --force is given."""
    call = (words[0], session, words[1], "file", "--json")
    Path("file").write_text("mine")
    refused = tercet(*call)
    assert (refused.code, refused.json["error"]["code"]) == (2, "file_exists")
    assert Path("file").read_text() == "mine"
    assert tercet(*call, "--force").code == 0
    assert Path("file").read_text(errors="replace") != "mine"
    assert (tercet(*call).code == 0) is is_made_again
