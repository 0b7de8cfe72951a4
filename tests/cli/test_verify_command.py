"""`tercet verify` on plans that can be read: what is answered, and how the command ends."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from .harness import PLANS, REFUNDS, Tercet


def test_plan_a_is_refused_with_the_published_object(tercet: Tercet) -> None:
    """Plan A lacks its evidence: exit 3, and exactly the object that was published for it."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_a.json", "--json")
    assert answer.code == 3
    assert answer.json["verify"] == {
        "ok": False,
        "kind": "missing_evidence",
        "reasons": ["step 1 requires evidence class refund_window_evidence, none pinned"],
        "offending_step": 1,
    }


def test_plan_b_passes_with_the_published_object(tercet: Tercet) -> None:
    """Plan B pins it: exit 0, and exactly the object that was published for it."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--json")
    assert answer.code == 0
    assert answer.json["verify"] == {"ok": True, "reasons": ["2 steps, 2 required outputs covered"]}


def test_a_fact_that_several_findings_rest_on_is_said_once(tercet: Tercet) -> None:
    """Evidence of another order makes both parameters unbound; the screen says so, and why only once."""
    words = ("verify", REFUNDS, PLANS / "plan_b.json", "--input", '{"order_id": "ord_882"}')
    fact = "does not relate to the request: order_id is 'ord_881', not 'ord_882'"
    shown = " ".join(tercet(*words).out.replace("│", " ").split())
    assert shown.count(fact) == 1
    assert "step 's1' takes the parameter 'amount_inr' from a literal, for the same reason" in shown
    refusals = tercet(*words, "--json").json["verdict"]["refusals"]
    assert sum(fact in each["reason"] for each in refusals) == 5


@pytest.mark.parametrize(
    ("called", "similar"),
    [("adp_payments.issue_refnd", "adp_payments.issue_refund"), ("zebra.zoo", None)],
)
def test_a_misspelt_tool_is_answered_with_the_similar_one(
    called: str, similar: str | None, tercet: Tercet, tmp_path: Path, plan_b: dict[str, Any]
) -> None:
    """On the screen only: the verdict has the recorded remedy."""
    step = plan_b["steps"][1]
    step["adapter_id"], _, step["capability_id"] = called.partition(".")
    (tmp_path / "plan.json").write_text(json.dumps(plan_b), encoding="utf-8")
    words = ("verify", REFUNDS, tmp_path / "plan.json")
    shown = " ".join(tercet(*words).out.split())
    assert (f"did you mean {similar}?" in shown, "did you mean" in shown) == (similar is not None,) * 2
    refusals = tercet(*words, "--json").json["verdict"]["refusals"]
    assert refusals[0]["code"] == "tool_not_surfaced"
    assert "did you mean" not in refusals[0]["remedy"]


def test_every_approval_is_listed_with_its_step_and_its_reason(tercet: Tercet) -> None:
    """On the screen and as JSON: which gate, at which step, whether it is certain, and why."""
    told = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--json").json["waits"]
    assert told == [
        {
            "step": 1,
            "step_id": "s1",
            "gate": "GATE_FINANCE_APPROVAL",
            "certain": True,
            "reason": "adp_payments.issue_refund is destructive",
        }
    ]
    shown = " ".join(tercet("verify", REFUNDS, PLANS / "plan_b.json").out.split())
    assert "waits step 1, GATE_FINANCE_APPROVAL: adp_payments.issue_refund is destructive" in shown


def test_a_hijacked_plan_is_refused_with_the_source_of_its_value(tercet: Tercet) -> None:
    """The payment that the customer's form asked for is named, together with the place where it stands."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_hijacked.json", "--json")
    verdict = answer.json["verdict"]
    (source,) = verdict["sources"]
    assert answer.code == 3
    assert (verdict["code"], verdict["offending_step"]) == ("unbound_argument", 1)
    assert verdict["place"] == "/steps/1/params/payment_id"
    assert (source["parameter"], source["came_from"], source["trust"]) == (
        "/payment_id",
        "literal",
        "untrusted",
    )
    assert "'pay_6666' stands in evidence kg:refund_form:rf_881" in source["detail"]


def test_an_irreversible_step_before_a_gate_is_a_warning(tercet: Tercet, tmp_path: Path) -> None:
    """The letter would not wait for the refund that it is about; the plan passes if no policy forbids it."""
    pack = shutil.copytree(REFUNDS, tmp_path / "refunds", ignore=shutil.ignore_patterns("__pycache__"))
    policies = (pack / "policies.toml").read_text(encoding="utf-8")
    kept = [rule for rule in policies.split("[[policy]]") if "letter_after_the_refund" not in rule]
    (pack / "policies.toml").write_text("[[policy]]".join(kept), encoding="utf-8")
    plan = json.loads((PLANS / "plan_with_letter.json").read_text(encoding="utf-8"))
    plan["steps"][3]["params"]["text"] = "We have paid."
    (tmp_path / "early.json").write_text(json.dumps(plan), encoding="utf-8")
    answer = tercet("verify", pack, tmp_path / "early.json")
    assert answer.code == 0, answer.text
    said = " ".join(answer.out.split())
    assert "! letter cannot be undone, and may run before refund is denied at" in said
    assert "let letter depend on refund" in said
    [warning] = tercet("verify", pack, tmp_path / "early.json", "--json").json["warnings"]
    assert (warning["code"], warning["step"]) == ("irreversible_before_gate", "letter")
    assert "cannot be undone" not in tercet("verify", pack, PLANS / "plan_with_letter.json").out


def test_json_has_its_parts(tercet: Tercet) -> None:
    """The published shape, the full verdict and the report stand side by side and agree."""
    told = tercet("verify", REFUNDS, PLANS / "plan_a.json", "--json").json
    assert list(told) == ["verify", "verdict", "validation", "report", "warnings", "waits"]
    assert told["warnings"] == []
    assert told["waits"] == []
    assert told["verdict"]["outcome"] == "reject"
    assert told["verdict"]["code"] == "evidence_not_pinned"
    assert "kg:refund_window:rw_881#snapshot_kg_2026_05_09_T0930" in told["verdict"]["remedy"]
    assert told["report"]["verify"] == told["verify"]
    assert told["report"]["status"] == "refused_by_critic"
    assert told["report"]["decision_key"] == "support.refund.execute"
    assert told["report"]["rationale"].startswith("verify failed: missing_evidence — step 1 requires")


def test_a_verified_plan_was_not_run(tercet: Tercet) -> None:
    """Without execution there is no score, and the report is partial."""
    report = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--json").json["report"]
    assert (report["status"], report["rationale"]) == ("partial", "verify passed; no score (no execution)")
    assert "score" not in report


def test_a_plan_can_come_from_stdin(tercet: Tercet) -> None:
    """A dash reads the plan from stdin."""
    answer = tercet("verify", REFUNDS, "-", stdin=(PLANS / "plan_b.json").read_bytes())
    assert answer.code == 0
    assert "stdin, 2 steps" in answer.text


@pytest.mark.req("R85")
def test_the_safety_mode_is_a_ceiling(tercet: Tercet) -> None:
    """Under local_write the same plan is refused, since its second step is destructive."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--safety-mode", "local_write", "--json")
    assert answer.code == 3
    assert answer.json["verify"]["reasons"] == ["step 1 mode destructive > safety_mode local_write"]


def test_another_snapshot_holds_other_evidence(tercet: Tercet) -> None:
    """Against an older snapshot the pinned evidence does not resolve."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--snapshot", "kg_2026_05_02_T0930", "--json")
    assert answer.code == 3
    assert answer.json["verdict"]["code"] == "evidence_unresolved"


def test_a_trusted_input_binds_a_value(tercet: Tercet, tmp_path: Path, plan_b: dict[str, Any]) -> None:
    """A payment that the request itself names is no invention of the planner, whether given inline or in a file."""
    plan_b["steps"][1]["args"]["id"] = "pay_8863"
    (tmp_path / "plan.json").write_text(json.dumps(plan_b))
    given = '{"order_id": "ord_881", "payment_id": "pay_8863", "amount_inr": 24500}'
    (tmp_path / "input.json").write_text(given)
    words = ("verify", REFUNDS, tmp_path / "plan.json")
    assert tercet(*words).code == 3
    assert tercet(*words, "--input", given).code == 0
    assert tercet(*words, "--input", f"@{tmp_path / 'input.json'}").code == 0


@pytest.mark.parametrize("intent", ["support.refund", "support.refund.execute"])
def test_a_decision_answers_to_its_intents_and_its_id(tercet: Tercet, intent: str) -> None:
    """Both names lead to the pack's decision."""
    assert tercet("verify", REFUNDS, PLANS / "plan_b.json", "--intent", intent).code == 0


def test_an_unknown_intent_is_wrong_use(tercet: Tercet) -> None:
    """What the pack does not decide cannot be judged; the answer says what it decides."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--intent", "sales.discount", "--json")
    assert answer.code == 2
    assert answer.json["error"]["code"] == "unknown_intent"
    assert "support.refund" in answer.json["error"]["remedy"]


def test_an_unknown_snapshot_is_wrong_use(tercet: Tercet) -> None:
    """The answer says which snapshots there are."""
    answer = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--snapshot", "kg_1999")
    assert answer.code == 2
    assert "kg_2026_05_09_T0930" in answer.text


def test_a_chatty_pack_does_not_spoil_the_json(tercet: Tercet, pack: Path) -> None:
    """What a tools file prints while it is loaded does not reach stdout."""
    tools = pack / "tools.py"
    tools.write_text(f"{tools.read_text()}\nprint('loading the refund desk')\n")
    answer = tercet("verify", pack, PLANS / "plan_b.json", "--json")
    assert json.loads(answer.out)["verify"]["ok"] is True
    assert "loading the refund desk" in answer.err


TEMPLATE = REFUNDS / "templates" / "refund.json"


def test_a_template_without_an_input_is_told_to_be_one(tercet: Tercet) -> None:
    """One answer says that it is a template and what to type, in place of the critic's findings about its placeholders."""
    answer = tercet("verify", REFUNDS, TEMPLATE, "--json")
    assert answer.code == 2
    assert answer.json["error"]["code"] == "template_unfilled"
    assert "${input.window_id}" in answer.json["error"]["message"]
    advice = f"""tercet plan {shlex.quote(str(REFUNDS))} --input '{{"window_id": "…"}}'"""
    assert advice in answer.json["error"]["remedy"]


def test_a_template_with_an_input_is_filled_and_reviewed(tercet: Tercet) -> None:
    """What is judged is the plan that the template comes to for this input."""
    given = '{"order_id": "ord_881", "window_id": "rw_881"}'
    answer = tercet("verify", REFUNDS, TEMPLATE, "--input", given, "--json")
    assert (answer.code, answer.json["verify"]["ok"]) == (0, True)
    lacking = tercet("verify", REFUNDS, TEMPLATE, "--input", "{}", "--json")
    assert (lacking.code, lacking.json["error"]["code"]) == (2, "planning_failure")


def test_a_template_is_not_run_as_a_plan(tercet: Tercet) -> None:
    """Given to `run --plan`, it says that the input alone is enough."""
    answer = tercet("run", REFUNDS, "--plan", TEMPLATE, "--journal", "memory:", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "template_unfilled")
    assert f"tercet run {shlex.quote(str(REFUNDS))} --input" in answer.json["error"]["remedy"]


@pytest.mark.parametrize("command", ["verify", "run"])
def test_an_expression_with_a_map_for_a_key_is_refused(
    tercet: Tercet, tmp_path: Path, plan_b: dict[str, Any], command: str
) -> None:
    """The library raises for it; the command answers like to any refused plan, and leaves no session under way."""
    plan_b["steps"][1]["when"] = "{{}: 1}"
    (tmp_path / "plan.json").write_text(json.dumps(plan_b))
    journal = f"sqlite:///{tmp_path / 'journal.db'}"
    if command == "verify":
        answer = tercet("verify", REFUNDS, tmp_path / "plan.json", "--json")
        assert answer.json["verdict"]["code"] == "expression_invalid"
    else:
        words = ("--plan", tmp_path / "plan.json", "--journal", journal, "--json")
        answer = tercet("run", REFUNDS, "--intent", "support.refund", *words)
        listed = tercet("sessions", "list", "--journal", journal, "--json")
        assert "in_progress" not in listed.text
    assert answer.code == 3
