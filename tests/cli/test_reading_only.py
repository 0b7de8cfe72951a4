"""Looking at what belongs to somebody else: a journal that may only be read, and a key that may not be."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .harness import ROOT, Tercet
from .nobody import Nobody, nobody
from .runs import ORDER_881, REFUND, Kitchen

__all__ = ["nobody"]


@pytest.fixture
def session(tercet: Tercet, kitchen: Kitchen, nobody: Nobody) -> str:
    """A refund that waits, in a journal that nobody may write to."""
    name = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    shutil.copy(kitchen.folder / "tercet.db", nobody.folder)
    nobody.folder.chmod(0o555)
    (nobody.folder / "tercet.db").chmod(0o444)
    return name


def test_the_code_may_lie_in_a_folder_that_is_closed_to_the_user(nobody: Nobody, tmp_path: Path) -> None:
    """Root becomes another user after the start, so a Python or a clone in a private home folder does not fail the tests."""
    shutil.copytree(ROOT / "src", tmp_path / "src")
    tmp_path.chmod(0o700)
    answer = Nobody(nobody.folder, repository=tmp_path)("stats", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "journal_not_found")


def test_a_journal_that_may_only_be_read_is_read(nobody: Nobody, session: str) -> None:
    """Every command that looks works, and leaves nothing beside the file; one that writes says which right it needs."""
    assert nobody("sessions", "list", "--json").json["sessions"][0]["session_id"] == session
    assert nobody("sessions", "show", session).code == 0
    assert nobody("gates", "show", f"{session}.g1").code == 0
    assert nobody("replay", session, "--json").json["outcome"] == "replay_equal"
    assert nobody("stats", "--json").code == 0
    assert nobody("report", session, "-o", "-").out.startswith("<!doctype html>")
    answer = nobody("sessions", "cancel", session, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "journal_unavailable")
    assert "right to write" in answer.json["error"]["remedy"]
    assert [path.name for path in nobody.folder.iterdir()] == ["tercet.db"]


def test_a_run_can_be_exported_from_a_journal_that_may_only_be_read(nobody: Nobody, session: str) -> None:
    """The bundle goes where one may write."""
    nobody.folder.chmod(0o777)
    (nobody.folder / "out").mkdir(mode=0o777)
    (nobody.folder / "out").chmod(0o777)
    nobody.folder.chmod(0o555)
    assert nobody("export", session, "-o", "out/run.tercet").code == 0
    assert nobody("verify-bundle", "out/run.tercet").code == 0


def test_a_writer_at_work_is_seen(nobody: Nobody, kitchen: Kitchen, session: str) -> None:
    """While somebody else has the journal open, what they have committed is read out of their log."""
    del kitchen
    nobody.folder.chmod(0o755)
    (nobody.folder / "tercet.db").chmod(0o644)
    with closing(sqlite3.connect(nobody.folder / "tercet.db")) as db:
        db.execute("UPDATE sessions SET intent = 'seen.in.the.log'")
        db.commit()
        found = nobody("sessions", "list", "--json")
        assert (nobody.folder / "tercet.db-wal").stat().st_size > 0
    assert found.json["sessions"][0]["session_id"] == session
    assert found.json["sessions"][0]["intent"] == "seen.in.the.log"


def test_commits_that_cannot_be_read_are_not_left_out(nobody: Nobody, session: str) -> None:
    """A log without its index needs the right to write: that is told, and nothing older is shown instead."""
    del session
    nobody.folder.chmod(0o755)
    file = nobody.folder / "tercet.db"
    file.chmod(0o644)
    with closing(sqlite3.connect(file)) as db:
        db.execute("UPDATE sessions SET intent = 'only.in.the.log'")
        db.commit()
        log = (nobody.folder / "tercet.db-wal").read_bytes()
    (nobody.folder / "tercet.db-wal").write_bytes(log)
    (nobody.folder / "tercet.db-shm").unlink(missing_ok=True)
    nobody.folder.chmod(0o555)
    answer = nobody("sessions", "list", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "journal_unavailable")
    assert "its last commits are in tercet.db-wal" in answer.json["error"]["message"]
    assert "copy tercet.db and tercet.db-wal" in answer.json["error"]["remedy"]


def test_a_journal_that_may_not_be_read_is_told(nobody: Nobody, session: str) -> None:
    """It is there and closed to this user: not a journal that is missing, and no bug."""
    del session
    (nobody.folder / "tercet.db").chmod(0o000)
    answer = nobody("sessions", "list", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "journal_unavailable")


def test_a_key_that_may_not_be_read_is_told(
    tercet: Tercet, nobody: Nobody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says which file it is and whose right is missing, and does not advise to make another key."""
    keys = nobody.folder / "keys"
    monkeypatch.setenv("TERCET_KEYS", str(keys))
    assert tercet("signing-keys", "new", "release").code == 0
    keys.chmod(0o755)
    (keys / "release.key").chmod(0o000)
    other = Nobody(nobody.folder, {"TERCET_KEYS": str(keys)})
    answer = other("export", "ses_0123456789abcdef", "--sign", "release", "-o", "/tmp/none.tercet", "--json")  # noqa: S108 - nothing is written
    error = answer.json["error"]
    assert (answer.code, error["code"]) == (2, "key_unreadable")
    assert error["message"] == f"the signing key {keys / 'release.key'} may not be read by this user"
    assert (
        error["remedy"]
        == f"chmod 600 {keys / 'release.key'} as its owner, or sign as the user whom it belongs to"
    )
