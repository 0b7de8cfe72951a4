"""`tercet evidence`: bringing facts in, freezing them, and looking at what is there."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tercet.cli.packs import evidence
from tercet.cli.packs.evidence import ImportProgress
from tercet.cli.screen import Screen

from .harness import Answer, Tercet

GUIDE = "# Refunds\n\nRefunds take two days.\n\n## Limits\n\nAbove 500 euros ask finance.\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a handbook and some orders."""
    folder = tmp_path / "desk"
    (folder / "handbook").mkdir(parents=True)
    (folder / "handbook" / "refunds.md").write_text(GUIDE)
    (folder / "orders.csv").write_text("id,name,total\no1,Ann,5\no2,Bob,7\n")
    (folder / "bad.jsonl").write_text('{"a": 1}\n{oops\n')
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    monkeypatch.delenv("TERCET_EVIDENCE", raising=False)
    return folder


def frozen(tercet: Tercet, name: str, *files: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """Add files and freeze them; what the snapshot says of itself."""
    assert tercet("evidence", "add", *files, "--class", "policy", *options).code == 0
    return tercet("evidence", "snapshot", name, "--json").json


def test_files_are_added_and_frozen(tercet: Tercet, desk: Path) -> None:
    """What is added is not seen before it is frozen; the answer says what to do next."""
    added = tercet("evidence", "add", "handbook", "--class", "policy", "--trust", "trusted")
    assert added.code == 0
    assert "✓ added 2 facts from 1 document; the draft has 2 changes" in added.out
    assert "    tercet evidence snapshot\n" in added.out
    assert not added.err
    assert (desk / "evidence.db").exists()
    assert tercet("evidence", "search", "refund").code == 2
    made = tercet("evidence", "snapshot", "v1")
    assert "✓ snapshot v1 has 2 facts: 2 added" in made.out
    (listed,) = tercet("evidence", "list", "--json").json["snapshots"]
    assert (listed["name"], listed["state"], listed["facts"], listed["number"]) == ("v1", "frozen", 2, 1)
    assert listed["hash"] in made.out


@pytest.mark.req("R210")
def test_a_search_tells_where_it_was_found(tercet: Tercet, desk: Path) -> None:
    """Each hit has its id, score, trust, document, chunk and bytes, and can be shown whole."""
    frozen(tercet, "v1", "handbook", options=("--trust", "trusted"))
    found = tercet("evidence", "search", "limit: 500?").out
    assert "kg:policy:handbook/refunds.md/1#snapshot_v1  trusted, bytes 35–74" in found
    assert "## Limits Above 500 euros ask finance." in found
    answer = tercet("evidence", "search", "limit", "--json").json
    (hit,) = answer["hits"]
    assert (answer["snapshot"], hit["citation"]["document"], hit["citation"]["chunk"]) == (
        "v1",
        "handbook/refunds.md",
        1,
    )
    assert (
        GUIDE.encode()[hit["citation"]["start"] : hit["citation"]["end"]].decode() == hit["content"]["text"]
    )
    shown = tercet("evidence", "show", hit["id"])
    assert f"fact      {hit['id']}" in shown.out
    assert "document  handbook/refunds.md, chunk 1, bytes 35–74" in shown.out
    assert tercet("evidence", "show", hit["id"], "--json").json["hash"] == hit["hash"]
    assert tercet("evidence", "search", "zebra").out == "Nothing in snapshot v1 has these words.\n"
    assert tercet("evidence", "search", "limit", "--class", "order", "--json").json["hits"] == []


def test_snapshots_are_listed_compared_and_shown(tercet: Tercet, desk: Path) -> None:
    """The list has the newest first; a diff tells added, changed and removed; an old snapshot is searched as it was."""
    frozen(tercet, "v1", "handbook")
    (desk / "handbook" / "refunds.md").write_text("# Refunds\n\nRefunds take nine days.\n")
    frozen(tercet, "v2", "handbook", "orders.csv")
    assert [line.split()[0] for line in tercet("evidence", "list").out.splitlines()] == ["v2", "v1"]
    assert tercet("evidence", "diff", "v1", "v2").out.splitlines() == [
        "~ policy:handbook/refunds.md/0",
        "- policy:handbook/refunds.md/1",
        "+ policy:o1",
        "+ policy:o2",
    ]
    kinds = [each["kind"] for each in tercet("evidence", "diff", "v2", "v1", "--json").json["differences"]]
    assert kinds == ["changed", "added", "removed", "removed"]
    assert tercet("evidence", "diff", "v1", "v1").out == "They hold the same facts.\n"
    assert "two days" in tercet("evidence", "search", "refund days", "--snapshot", "v1").out
    assert "nine days" in tercet("evidence", "search", "refund days").out
    shown = tercet("evidence", "show", "v2", "--limit", "2").out
    assert "snapshot  v2, 3 facts" in shown
    assert "… 1 more" in shown
    whole = tercet("evidence", "show", "v2", "--json").json
    assert [fact["content"].get("name") for fact in whole["facts"]] == [None, "Ann", "Bob"]


def test_labels_are_kept(tercet: Tercet, desk: Path) -> None:
    """Trust is untrusted unless said otherwise; source and expiry are those that were given, and stale is said aloud."""
    options = ("--expires", "2001-01-01T00:00:00Z", "--source", "the desk")
    frozen(tercet, "v1", "orders.csv", options=options)
    (first, _) = tercet("evidence", "show", "v1", "--json").json["facts"]
    assert (first["trust"], first["source"], first["expires_at"]) == (
        "untrusted",
        "the desk",
        "2001-01-01T00:00:00Z",
    )
    assert "EXPIRED" in tercet("evidence", "search", "ann").out
    assert "EXPIRED" in tercet("evidence", "show", first["id"]).out
    frozen(tercet, "v2", "orders.csv", options=("--expires", "30d"))
    assert "expires in 30 days" in tercet("evidence", "search", "ann").out


def test_bad_lines_are_named_and_nothing_is_added(tercet: Tercet, desk: Path) -> None:
    """One bad line refuses the whole import; with --skip-bad it is left out and told."""
    refused = tercet("evidence", "add", "bad.jsonl", "orders.csv", "--class", "x")
    assert refused.code == 2
    assert "✗ nothing was imported, since the files have 1 problem" in refused.err
    assert "bad.jsonl:2: not JSON" in refused.err
    assert "--skip-bad" in refused.err
    error = tercet("evidence", "add", "bad.jsonl", "--class", "x", "--json").json["error"]
    assert (error["code"], error["problems"][0]["row"]) == ("files_invalid", 2)
    assert tercet("evidence", "snapshot").code == 2
    done = tercet("evidence", "add", "bad.jsonl", "orders.csv", "--class", "x", "--skip-bad")
    assert done.code == 0
    assert "left out 1 bad part" in done.out
    answer = tercet("evidence", "add", "bad.jsonl", "--class", "x", "--skip-bad", "--json").json
    assert (answer["facts"], answer["skipped"][0]["row"], answer["draft"]["changes"]) == (1, 2, 3)


def code_of(answer: Answer) -> tuple[int, str]:
    """The exit code, and the code of the error."""
    assert answer.json["error"]["remedy"]
    return answer.code, answer.json["error"]["code"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list",), "evidence_not_found"),
        (("search", "x"), "evidence_not_found"),
        (("add", "handbook"), "usage"),
        (("add", "missing.md", "--class", "x"), "files_invalid"),
        (("add", "handbook", "--class", "a b"), "bad_fact"),
        (("add", "handbook", "--class", "x", "--trust", "much"), "bad_trust"),
        (("add", "handbook", "--class", "x", "--expires", "soon"), "duration_invalid"),
        (("add", "handbook", "--class", "x", "--expires", "2027-01-01"), "bad_expiry"),
        (("add", "handbook", "--class", "x", "--expires", "999999999d"), "bad_expiry"),
        (("add", "handbook", "--class", "x", "--store", "mysql://x"), "unknown_store"),
        (
            ("add", "handbook", "--class", "x", "--store", "sqlite:////no/such/folder/e.db"),
            "evidence_unavailable",
        ),
        (("add", "empty", "--class", "x"), "nothing_to_import"),
        (("snapshot",), "evidence_not_found"),
    ],
)
def test_wrong_use_is_answered(tercet: Tercet, desk: Path, words: tuple[str, ...], code: str) -> None:
    """Every mistake has exit code 2, a code and a remedy."""
    (desk / "empty").mkdir()
    assert code_of(tercet("evidence", *words, "--json")) == (2, code)


def test_names_that_are_not_there_are_answered(tercet: Tercet, desk: Path) -> None:
    """An unknown snapshot or fact, a name that is taken, and nothing to freeze are wrong use."""
    frozen(tercet, "v1", "handbook")
    assert code_of(tercet("evidence", "show", "v9", "--json")) == (2, "snapshot_unknown")
    assert code_of(tercet("evidence", "diff", "v1", "v9", "--json")) == (2, "snapshot_unknown")
    assert code_of(tercet("evidence", "show", "kg:x:y#snapshot_v1", "--json")) == (2, "fact_unknown")
    assert code_of(tercet("evidence", "snapshot", "v2", "--json")) == (2, "nothing_added")
    assert tercet("evidence", "add", "orders.csv", "--class", "x").code == 0
    assert code_of(tercet("evidence", "snapshot", "v1", "--json")) == (2, "snapshot_exists")
    assert code_of(tercet("evidence", "snapshot", "a b", "--json")) == (2, "bad_name")
    assert "is a draft with 2 changes" in tercet("evidence", "show", "draft").out
    assert tercet("evidence", "list").out.startswith("draft  draft")
    assert tercet("evidence", "snapshot").code == 0


def test_the_store_is_beside_the_journal(
    tercet: Tercet, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an address the store is where the journal is; a variable and an option name another."""
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{tmp_path / 'runs.db'}")
    assert tercet("evidence", "add", "orders.csv", "--class", "x").code == 0
    assert (tmp_path / "evidence.db").exists()
    monkeypatch.setenv("TERCET_EVIDENCE", f"sqlite:///{tmp_path / 'other.db'}")
    assert tercet("evidence", "add", "orders.csv", "--class", "x").code == 0
    assert (tmp_path / "other.db").exists()
    assert tercet("evidence", "add", "orders.csv", "--class", "x", "--store", "sqlite:///third.db").code == 0
    assert (desk / "third.db").exists()


def test_a_server_keeps_evidence_too(tercet: Tercet, desk: Path, postgres_url: str) -> None:
    """The same commands work on PostgreSQL, with the same answers."""
    frozen(tercet, "v1", "handbook", "orders.csv")
    here = tercet("evidence", "search", "refund limit", "--json").json
    store = ("--store", postgres_url)
    assert tercet("evidence", "add", "handbook", "orders.csv", "--class", "policy", *store).code == 0
    assert tercet("evidence", "snapshot", "v1", *store).code == 0
    assert tercet("evidence", "search", "refund limit", *store, "--json").json == here


def test_other_peoples_words_do_not_move_the_cursor(tercet: Tercet, desk: Path) -> None:
    """Control characters of a document are shown, not obeyed."""
    (desk / "evil.md").write_text("# \x1b[31mred\x1b[0m\n\nspoofed \u202etxt\x07 [bold]x[/bold]\n")
    frozen(tercet, "v1", "evil.md")
    for answer in (
        tercet("evidence", "search", "spoofed"),
        tercet("evidence", "show", "v1"),
        tercet("evidence", "show", "kg:policy:evil.md/0#snapshot_v1"),
    ):
        assert "[bold]x[/bold]" in answer.out
        assert not set(answer.out) & {"\x1b", "\x07", "\u202e"}


def test_ctrl_c_leaves_everything_as_it_was(tercet: Tercet, desk: Path) -> None:
    """An import that is interrupted on a terminal shows how far it is, then adds nothing, and ends with 130."""
    frozen(tercet, "v1", "handbook")
    with (desk / "big.jsonl").open("w") as stream:
        for number in range(150_000):
            stream.write(json.dumps({"id": f"k{number}", "text": "many words " * 20}) + "\n")
    main, side = pty.openpty()
    command = [sys.executable, "-m", "tercet", "evidence", "add", "big.jsonl", "--class", "x"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=side, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    )
    os.close(side)
    seen = b""
    while b" facts" not in seen:
        assert select.select([main], [], [], 60)[0], seen
        seen += os.read(main, 4096)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=600)
    os.close(main)
    assert (process.returncode, out) == (130, b"")
    assert b"reading" in seen
    heads = tercet("evidence", "list", "--json").json["snapshots"]
    assert [(head["name"], head.get("facts", head.get("changes"))) for head in heads] == [
        ("draft", 0),
        ("v1", 2),
    ]


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe nothing is drawn."""
    with ImportProgress(Screen(stderr=True), is_shown=True) as progress:
        progress.begin_reading(10)
        progress.read(5)
        progress.count(3)
        progress.begin_freezing(3)
        progress.freeze(3)
    assert capsys.readouterr().err == ""


def test_an_expiry_is_a_duration_or_a_time() -> None:
    """Both name a moment."""
    assert evidence.read_expiry("2027-01-31T00:00:00Z").year == 2027
    assert (evidence.read_expiry("2d") - evidence.read_expiry("1d")).total_seconds() == pytest.approx(
        86_400, abs=60
    )
