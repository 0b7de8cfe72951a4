"""`tercet erase`: personal values are shown until their subject is erased, and in no file at any time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .harness import Tercet

NAME = "Mira Jansen-Planted"
FILES = {
    "pack.toml": """\
name = "greetings"
version = "1.0.0"

[personal]
subject = "customer_id"
request = ["name"]

[personal.tools."post.send"]
params = ["text"]
""",
    "decisions.toml": '[[decision]]\nid = "greet"\n',
    "actors.toml": '[[actor]]\nid = "lena"\nroles = ["lead"]\n',
    "gates.toml": '[[gate]]\nname = "GATE_SEND"\nroles = ["lead"]\n',
    "tools.py": """\
from pathlib import Path
from tercet import tool

@tool("post.send", mode="local_write", authority=[], idempotent=True, no_compensation="a letter", gates=GATES)
def send(text: str) -> dict[str, str]:
    (Path(__file__).parent.parent / "sent.txt").write_text(text)
    return {"sent": "yes"}
""",
}
PLAN = {
    "intent": "greet",
    "steps": [{"id": "send", "tool": "post.send", "params": {"text": {"$from": "request#/name"}}}],
    "outputs": {"sent": {"$from": "send#/sent"}, "name": {"$from": "request#/name"}},
}


@pytest.fixture
def greet(tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Path]:
    """A run that handled a name, and the folder of its journal."""
    return _greet(tercet, tmp_path, monkeypatch, "()")


def _greet(tercet: Tercet, folder: Path, monkeypatch: pytest.MonkeyPatch, gates: str) -> tuple[str, Path]:
    pack, store = folder / "pack", folder / "store"
    pack.mkdir()
    store.mkdir()
    for name, text in FILES.items():
        (pack / name).write_text(text.replace("GATES", gates), encoding="utf-8")
    (folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    monkeypatch.setenv("TERCET_JOURNAL", f"sqlite:///{store / 'runs.db'}")
    given = json.dumps({"customer_id": "cus_7", "name": NAME})
    ran = tercet("run", pack, "--plan", folder / "plan.json", "--input", given, "--json")
    return ran.json["session_id"], store


def _stored(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.iterdir())


def test_a_subject_is_erased_and_everything_else_holds(
    tercet: Tercet, greet: tuple[str, Path], tmp_path: Path
) -> None:
    """Shown before, `erased` after, in a file never; the check of the journal and replay find nothing wrong."""
    session, store = greet
    assert (tmp_path / "sent.txt").read_text(encoding="utf-8") == NAME
    assert NAME.encode() not in _stored(store)
    shown = tercet("sessions", "show", session, "--json").json
    assert shown["decision_record"]["outputs"]["name"] == NAME
    assert tercet("report", session, "--out", tmp_path / "before.html").code == 0
    assert NAME in (tmp_path / "before.html").read_text(encoding="utf-8")

    asked = tercet("erase", "cus_7")
    assert asked.code == 2
    assert session in asked.text
    assert "--yes" in asked.text
    assert tercet("erase", "cus_8", "--yes").code == 2
    assert tercet("erase", "cus_7", "--tenant", "other", "--yes").code == 2
    done = tercet("erase", "cus_7", "--yes", "--json").json
    assert done["erased"]["sessions"] == [session]
    assert done["erased"]["key_id"].encode() in _stored(store)
    assert b"cus_7" not in _stored(store).partition(b'"method":"eraseSubject"')[2][:300]

    shown = tercet("sessions", "show", session, "--json").json
    assert shown["decision_record"]["outputs"]["name"] == "erased"
    assert NAME not in tercet("sessions", "show", session).out
    assert tercet("report", session, "--out", tmp_path / "after.html").code == 0
    page = (tmp_path / "after.html").read_text(encoding="utf-8")
    assert NAME not in page
    assert "[personal:" not in page
    assert "erased" in page
    assert tercet("journal", "check").code == 0
    replayed = tercet("replay", session)
    assert replayed.code == 0
    assert "erased, judged as tokens: event 1: request.input.name" in replayed.text
    assert tercet("export", session, "--output", tmp_path / "run.tercet").code == 0
    assert tercet("replay", tmp_path / "run.tercet").code == 0


def test_an_approver_sees_the_value(tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate shows the call as it will be made, and an erasure is refused while it waits."""
    session, _ = _greet(tercet, tmp_path, monkeypatch, '["GATE_SEND"]')
    (gate,) = tercet("gates", "list", "--json").json["gates"]
    assert NAME in tercet("gates", "show", gate["id"]).out
    refused = tercet("erase", "cus_7", "--yes", "--json")
    assert refused.code == 2
    assert session in refused.out
    assert tercet("erase", "cus_7", "--yes", "--force").code == 0
    assert NAME not in tercet("gates", "show", gate["id"]).out
