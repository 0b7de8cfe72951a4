"""`tercet run` with a store of evidence beside its journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .harness import Tercet

PACK = {
    "pack.toml": 'name = "desk"\nversion = "1.0.0"\ntools = ["tools.py"]\n',
    "decisions.toml": '[[decision]]\nid = "desk.explain"\nrisk_tier = "low"\nuntrusted_evidence = ["policy"]\n',
    "tools.py": '''"""The desk's tools."""

from tercet import tool


@tool("desk.note", mode="read_only")
def note(text: str) -> dict[str, str]:
    """Note something."""
    return {"text": text}
''',
}
PLAN: dict[str, Any] = {
    "intent": "desk.explain",
    "steps": [
        {
            "id": "say",
            "tool": "desk.note",
            "params": {"text": "hello"},
            "requires_evidence": ["policy"],
            "evidence_queries": [{"classification": "policy", "query": "broken parts"}],
        }
    ],
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack whose plan asks for a policy, in a folder of its own."""
    folder = tmp_path / "desk"
    (folder / "templates").mkdir(parents=True)
    for name, text in PACK.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "templates" / "explain.json").write_text(json.dumps(PLAN), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    monkeypatch.delenv("TERCET_EVIDENCE", raising=False)
    return folder


def test_a_run_finds_what_was_added_beside_its_journal(tercet: Tercet, desk: Path, tmp_path: Path) -> None:
    """Without a store the plan is refused; with one it stands on what the snapshot has, and the session says so."""
    refused = tercet("run", desk, "--json")
    assert refused.code == 3
    rules = tmp_path / "rules.md"
    rules.write_text("# Refunds\n\nBroken parts are replaced.\n", encoding="utf-8")
    assert tercet("evidence", "add", rules, "--class", "policy").code == 0
    assert tercet("evidence", "snapshot", "may").code == 0
    done = tercet("run", desk, "--json")
    assert done.code == 0, done.err
    shown = json.loads(tercet("sessions", "show", json.loads(done.out)["session_id"], "--json").out)
    assert "#snapshot_may" in json.dumps(shown)
    assert (shown["library"], shown["steps"][0]["result"]) == ("may", {"text": "hello"})


def test_a_store_that_is_named_must_be_there(tercet: Tercet, desk: Path) -> None:
    """A store that was asked for and is not there is wrong use, and no session begins."""
    answer = tercet("run", desk, "--store", "sqlite:///nowhere.db")
    assert answer.code == 2
    assert "tercet evidence add" in answer.err
    assert not Path("nowhere.db").exists()


def test_what_is_judged_before_a_run_knows_the_store_too(tercet: Tercet, desk: Path, tmp_path: Path) -> None:
    """A decision that requires evidence is shown it, and a plan that pins it passes review, as in the run itself."""
    (desk / "decisions.toml").write_text(
        '[[decision]]\nid = "desk.explain"\nrisk_tier = "low"\nrequired_evidence = ["policy"]\n'
        'untrusted_evidence = ["policy"]\n',
        encoding="utf-8",
    )
    (tmp_path / "rules.jsonl").write_text('{"id": "parts", "days": 30}\n', encoding="utf-8")
    assert tercet("evidence", "add", tmp_path / "rules.jsonl", "--class", "policy").code == 0
    assert tercet("evidence", "snapshot", "may").code == 0
    refs = ["kg:policy:parts#snapshot_may"]
    pinned = {**PLAN, "steps": [{**PLAN["steps"][0], "evidence_queries": [], "evidence_refs": refs}]}
    (tmp_path / "plan.json").write_text(json.dumps(pinned), encoding="utf-8")
    assert refs[0] in tercet("context", desk, "--json").out
    assert tercet("verify", desk, tmp_path / "plan.json").code == 0
    assert tercet("run", desk, "--plan", tmp_path / "plan.json").code == 0
