"""`tercet verify`, `tercet plan` and `tercet run` give the same answer: the same refusal, the same gates, the same pins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .harness import Answer, Tercet

TOOLS = '''"""The desk's tools."""

from tercet import tool


@tool("desk.note", mode="read_only")
def note(text: str) -> dict[str, str]:
    """Note something."""
    return {"text": text}


@tool("desk.find", mode="read_only", attests=["order"])
def find(order: str) -> dict[str, str]:
    """Look an order up."""
    return {"order_id": order}


@tool("desk.ask", mode="read_only", attests=["order"], gates=["GATE_BOSS"])
def ask(order: str) -> dict[str, str]:
    """Look an order up where a person has to agree."""
    return {"order_id": order}


@tool("desk.send", mode="network", gates=["GATE_BOSS"], no_compensation="sent is sent", authority=["order"])
def send(order: str) -> dict[str, str]:
    """Send an order."""
    return {"order_id": order}
'''
METHODS = """\
[[task]]
name = "serve"

[[task]]
name = "note_it"
tool = "desk.note"
params = {text = "hello"}
requires_evidence = ["order"]
evidence_refs = ["kg:order:${input.order}#snapshot_${snapshot}"]

[[method]]
name = "usual"
task = "serve"
subtasks = [{task = "note_it"}]

[[goal]]
intent = "desk.tasks"
task = "serve"
"""
OURS = "kg:order:${input.order}#snapshot_${snapshot}"
"""An id that is of the pack's snapshot or of the store's, wherever the fact is."""


def step(tool: str = "desk.note", **fields: Any) -> dict[str, Any]:
    """A step that requires an order."""
    params = {"text": "hello"} if tool == "desk.note" else {"order": {"$from": "request#/order"}}
    return {"id": "a", "tool": tool, "params": params, "requires_evidence": ["order"], **fields}


def look_up(tool: str) -> dict[str, Any]:
    """A query that a tool answers."""
    params = {"order": {"$from": "request#/order"}}
    return {"classification": "order", "tool": tool, "params": params}


TEMPLATES: dict[str, dict[str, Any]] = {
    "search": step(evidence_queries=[{"classification": "order", "query": "salt"}]),
    "search_in_vain": step(evidence_queries=[{"classification": "order", "query": "pepper"}]),
    "search_input": step(evidence_queries=[{"classification": "order", "query": "${input.order}"}]),
    "pin": step(evidence_refs=[OURS]),
    "pin_and_read": step(params={"text": {"$evidence": f"{OURS}#/goods"}}, requires_evidence=[]),
    "pin_another_class": step(
        requires_evidence=["customer"], evidence_refs=["kg:customer:ann#snapshot_${snapshot}"]
    ),
    "look_up": step(evidence_queries=[look_up("desk.find")]),
    "look_up_with_a_gate": step(evidence_queries=[look_up("desk.ask")]),
    "send": step("desk.send", evidence_refs=[OURS]),
    "nothing": step(),
}
INPUTS = {"in the store": "o1", "in the pack": "p1", "nowhere": "x9"}

STORED, PACKED = {"in the store"}, {"in the pack"}
PASSES: dict[str, set[str]] = {
    "search": {*INPUTS},
    "search_in_vain": set(),
    "search_input": STORED,
    "pin": STORED | PACKED,
    "pin_and_read": STORED | PACKED,
    "pin_another_class": {*INPUTS},
    "look_up": {*INPUTS},
    "look_up_with_a_gate": set(),
    "send": STORED | PACKED,
    "nothing": set(),
    "tasks": STORED | PACKED,
}
"""For which inputs the plan of each intent passes review."""


@pytest.fixture
def desk(tercet: Tercet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack with a template for each case, evidence of its own, and a store with more orders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    monkeypatch.delenv("TERCET_EVIDENCE", raising=False)
    pack = tmp_path / "desk"
    for folder in ("templates", "evidence"):
        (pack / folder).mkdir(parents=True)
    (pack / "pack.toml").write_text(
        'name = "desk"\nversion = "1.0.0"\nsafety_mode = "network"\ntools = ["tools.py"]\n', encoding="utf-8"
    )
    (pack / "tools.py").write_text(TOOLS, encoding="utf-8")
    (pack / "methods.toml").write_text(METHODS, encoding="utf-8")
    (pack / "gates.toml").write_text('[[gate]]\nname = "GATE_BOSS"\nroles = ["boss"]\n', encoding="utf-8")
    (pack / "actors.toml").write_text('[[actor]]\nid = "bo"\nroles = ["boss"]\n', encoding="utf-8")
    intents = json.dumps([f"desk.{name}" for name in (*TEMPLATES, "tasks")])
    (pack / "decisions.toml").write_text(
        f'[[decision]]\nid = "desk"\nrisk_tier = "low"\nintents = {intents}\n', encoding="utf-8"
    )
    facts = [{"class": "order", "id": "p1", "content": {"goods": "nails"}, "trust": "trusted"}]
    own = {"snapshot": "april", "created_at": "2026-04-01T00:00:00Z", "facts": facts}
    (pack / "evidence" / "april.json").write_text(json.dumps(own), encoding="utf-8")
    for name, made in TEMPLATES.items():
        plan = {"intent": f"desk.{name}", "steps": [made]}
        (pack / "templates" / f"{name}.json").write_text(json.dumps(plan), encoding="utf-8")
    (tmp_path / "orders.jsonl").write_text('{"id": "o1", "goods": "salt"}\n', encoding="utf-8")
    (tmp_path / "people.jsonl").write_text('{"id": "ann", "town": "Fernhill"}\n', encoding="utf-8")
    for file, name in (("orders", "order"), ("people", "customer")):
        added = tercet("evidence", "add", tmp_path / f"{file}.jsonl", "--class", name, "--trust", "trusted")
        assert added.code == 0, added.text
    assert tercet("evidence", "snapshot", "may").code == 0
    return pack


def verdict_of(answer: Answer) -> Any:
    """What the critic decided: the refusal with its place, or the gates that each step waits for."""
    verdict = answer.json["verdict"]
    gates = [(demand["step_id"], demand["gate"]) for demand in verdict.get("gates", ())]
    return verdict["outcome"] == "ok", verdict.get("code"), verdict.get("step_id"), gates


@pytest.mark.parametrize("name", [*TEMPLATES, "tasks"])
def test_the_three_commands_agree(tercet: Tercet, desk: Path, name: str) -> None:
    """For each way to have evidence, wherever the fact is: the same refusal, or the same gates and the same pins."""
    for where, order in INPUTS.items():
        asked = ("--intent", f"desk.{name}", "--input", json.dumps({"order": order}), "--json")
        ran = tercet("run", desk, *asked)
        planned = tercet("plan", desk, *asked)
        assert verdict_of(planned) == verdict_of(ran), where
        if "look_up" not in name:
            (pinned,) = (step.get("evidence_refs", []) for step in planned.json["plan"]["steps"])
            assert pinned == ran.json["plan"]["steps"][0].get("evidence_refs", []), where
        if "${" in json.dumps(TEMPLATES.get(name)):
            verified = tercet("verify", desk, desk / "templates" / f"{name}.json", *asked)
            assert verdict_of(verified) == verdict_of(ran), where
        assert verdict_of(ran)[0] is (where in PASSES[name]), where


@pytest.mark.parametrize(
    ("fields", "is_ok"),
    [
        ({"evidence_refs": ["kg:order:o1#snapshot_may"]}, True),
        ({"evidence_refs": ["kg:order:p1#snapshot_april"]}, True),
        ({"evidence_refs": ["kg:order:x9#snapshot_may"]}, False),
        ({"evidence_refs": ["kg:order:o1#snapshot_june"]}, False),
        ({"evidence_queries": [{"classification": "order", "query": "salt"}]}, False),
    ],
)
def test_a_plan_of_ones_own_is_judged_alike(
    tercet: Tercet, desk: Path, tmp_path: Path, fields: dict[str, Any], *, is_ok: bool
) -> None:
    """Facts of the store that it names are read; its queries are not asked, since nobody changes a caller's plan."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"intent": "desk.pin", "steps": [step(**fields)]}), encoding="utf-8")
    ran = tercet("run", desk, "--plan", file, "--json")
    verified = tercet("verify", desk, file, "--json")
    assert verdict_of(verified) == verdict_of(ran)
    assert verdict_of(ran)[0] is is_ok
    if "evidence_queries" in fields:
        assert "the queries of a caller's own plan are not asked" in verified.json["verdict"]["remedy"]


def test_a_look_up_is_listed_as_deferred_and_not_made(tercet: Tercet, desk: Path) -> None:
    """The plan passes as it will in a run, and says what is looked up first."""
    asked = ("--intent", "desk.look_up", "--input", '{"order": "o7"}', "--json")
    planned = tercet("plan", desk, *asked)
    assert planned.code == 0
    assert planned.json["verdict"]["deferred"] == ["step a: desk.find looks up order"]
    assert not planned.json["plan"]["steps"][0].get("evidence_refs")
    assert tercet("run", desk, *asked).code == 0
