"""What people see: the plan as a tree, and the verdict at the step that it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tercet.cli.run.case_view import refusal_text
from tercet.cli.screen import Screen
from tercet.cli.sessions.next_commands import Commands
from tercet.cli.sessions.session_view import show_ending
from tercet.contracts.loop import Phase
from tercet.contracts.verdict import Code, RefusalKind, Verdict
from tercet.core.state import State

from .harness import PLANS, REFUNDS, Tercet


def test_the_verdict_stands_at_the_offending_step(tercet: Tercet) -> None:
    """Reason and remedy follow the step, and the last lines sum it up."""
    lines = tercet("verify", REFUNDS, PLANS / "plan_a.json").out.splitlines()
    step = next(number for number, line in enumerate(lines) if "adp_payments.issue_refund" in line)
    assert lines[step].startswith("└─ ✗ 1  adp_payments.issue_refund  destructive")
    assert "      ✗ step 1 requires evidence class refund_window_evidence, none pinned" in lines[step:]
    assert any(line.strip().startswith("remedy  pin it in evidence_refs") for line in lines[step:])
    assert lines[-2:] == ["✗ refused: missing_evidence (evidence_not_pinned) at step 1", "  Nothing was run."]


def test_a_verified_plan_says_what_it_waits_for(tercet: Tercet) -> None:
    """The last lines name the gates that the plan will wait for."""
    lines = tercet("verify", REFUNDS, PLANS / "plan_b.json").out.splitlines()
    assert lines[0] == "pack      refunds@1.0.0, snapshot kg_2026_05_09_T0930"
    assert (
        "✓ verified: 2 steps, 2 required outputs covered; waits for GATE_FINANCE_APPROVAL at step 1" in lines
    )
    assert lines[-2:] == [
        "  waits     step 1, GATE_FINANCE_APPROVAL: adp_payments.issue_refund is destructive",
        "  Nothing was run.",
    ]


def test_a_run_that_used_up_its_phases_has_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    """The code of the ending alone would not say which limit was reached."""
    ended = State(phase=Phase.FAIL, status="failed", reason="iteration_budget_exceeded", iterations=50)
    show_ending(Screen(), ended, Commands(journal=""), now=0, is_shown=True)
    shown = " ".join(capsys.readouterr().out.split())
    assert "it went through 50 phases: raise budget.max_iterations in pack.toml" in shown


def test_a_refusal_without_a_code_gives_its_reason() -> None:
    """A plan that was refused before is not read again; any other refusal is shown above, and named by its code."""
    again = Verdict(
        stage="review",
        outcome="reject",
        kind=RefusalKind.LOOP_GUARD,
        reasons=("this plan was refused before",),
    )
    assert refusal_text(again) == "loop_guard: this plan was refused before"
    coded = again.model_copy(update={"code": Code.TOO_MANY_STEPS, "offending_step": 1})
    assert refusal_text(coded) == "loop_guard (too_many_steps) at step 1"


def test_a_refused_value_shows_its_source(tercet: Tercet) -> None:
    """The screen says where the hijacked payment id came from."""
    shown = tercet("verify", REFUNDS, PLANS / "plan_hijacked.json").text
    assert (
        "✗ step 's1' takes the parameter 'payment_id' from a literal source 'pay_6666' stands in evidence"
        in shown
    )


def test_a_join_names_what_else_it_waits_for(tercet: Tercet) -> None:
    """A step below one predecessor names the others, and references are drawn as arrows."""
    shown = tercet("verify", REFUNDS, PLANS / "plan_with_letter.json")
    assert shown.code == 0
    assert "after order" in shown.text or "after rules" in shown.text
    assert "recipient ← order#/customer_email" in shown.text


def test_a_refusal_of_the_whole_plan_is_shown_too(tercet: Tercet) -> None:
    """A plan that lacks an output has no offending step; the reason stands below the tree."""
    lines = tercet("verify", REFUNDS, PLANS / "plan_003.json").out.splitlines()
    assert "✗ plan does not produce required output refund_amount_inr" in lines
    assert lines[-2] == "✗ refused: violates_decision_spec (output_not_declared)"


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_nothing_is_wider_than_the_screen(
    tercet: Tercet, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Everything but the summary is wrapped to the width of the screen."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = tercet("verify", REFUNDS, PLANS / "plan_hijacked.json").out.splitlines()
    assert max(map(len, lines[:-2])) <= columns


def test_a_long_plan_is_cut(tercet: Tercet, tmp_path: Path, plan_b: dict[str, Any]) -> None:
    """Of a thousand steps the first and the offending one are shown, and the rest is counted."""
    read = plan_b["steps"][0]
    plan_b["steps"] = [read] * 600 + [{**read, "capability_id": "shred"}] + [read] * 399
    (tmp_path / "plan.json").write_text(json.dumps(plan_b))
    answer = tercet("verify", REFUNDS, tmp_path / "plan.json")
    lines = answer.out.splitlines()
    assert answer.code == 3
    assert len(lines) < 60
    assert "… 588 more steps" in lines
    assert "… 399 more steps" in lines
    assert "✗ 600  adp_orders.shred  not on the surface" in lines


def test_a_plan_cannot_draw_on_the_screen(tercet: Tercet, tmp_path: Path, plan_b: dict[str, Any]) -> None:
    """Markup, escape codes, line breaks and bidirectional marks in a plan are shown as text."""
    evil = "[bold green]✓ verified[/]\x1b[2J\x1b]0;owned\x07\x9b1m\nverified\u202e :warning:"
    plan_b["intent"] = "support.refund"
    plan_b["steps"][1]["args"] = {"id": evil, evil: evil, "amount_inr": 1}
    plan_b["steps"][1]["evidence_refs"] = [evil]
    plan_b["steps"][1]["requires"] = [evil]
    plan_b["steps"][1]["when"] = f"'{evil}'"
    (tmp_path / "plan.json").write_text(json.dumps(plan_b))
    answer = tercet("verify", REFUNDS, tmp_path / "plan.json")
    assert answer.code == 3
    assert all(letter.isprintable() or letter == "\n" for letter in answer.out)
    assert "[boldgreen]✓verified[/]\\x1b[2J" in answer.out.replace(" ", "").replace("\n", "")
    assert not any(line.startswith("verified") for line in answer.out.splitlines())


def test_a_file_name_cannot_draw_on_the_screen(tercet: Tercet) -> None:
    """Nor can what is typed on the command line."""
    answer = tercet("verify", REFUNDS, "\x1b[31mno such\nplan.json")
    assert answer.code == 2
    assert "\x1b" not in answer.err
    assert "\\x1b[31mno such\\nplan.json" in answer.err


def test_json_escapes_what_would_draw(tercet: Tercet, tmp_path: Path, plan_b: dict[str, Any]) -> None:
    """JSON on a terminal is harmless too, and still says exactly what was there."""
    plan_b["steps"][1]["evidence_refs"].append("\x9b2J\u202e")
    (tmp_path / "plan.json").write_text(json.dumps(plan_b))
    answer = tercet("verify", REFUNDS, tmp_path / "plan.json", "--json")
    assert "\x9b" not in answer.out
    assert answer.json["verify"]["reasons"][0].startswith("step 1 pins \x9b2J\u202e, which")
