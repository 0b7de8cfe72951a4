"""What each answer to a gate leads to, said before anybody answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tercet.core.events import Need
from tercet.core.fold.base import ANSWERS
from tercet.core.modifications import SETTABLE
from tercet.core.state import Answer, OpenGate, State, StepState
from tercet.view.questions import can_set_values, consequences

PEOPLE = {name: {"roles": ["cfo"]} for name in ("rosa", "omar")}


APPROVED = Answer(
    gate="ses_1.g1",
    step="pay",
    answer="approve",
    actor="omar",
    names=("CFO",),
    roles=("cfo",),
    auth="local",
    digest="",
    at=1,
)


def state_with(*, start: dict[str, Any] | None = None, **fields: Any) -> State:
    """A run of ada with one step, which waits."""
    started = msgspec.structs.replace(
        State().start, **{"actor": {"id": "ada"}, "planner": "model", **(start or {})}
    )
    steps = {"pay": StepState(status="gated"), "~pay": StepState(status="gated", compensates="pay")}
    given: dict[str, Any] = {"start": started, "plan_origin": "planner", "steps": steps, **fields}
    return State(**given)


def gate(kind: Any = "approval", *, quorum: int = 1, **fields: Any) -> OpenGate:
    """A gate at a payment."""
    shown = {"tool": "bank.transfer", **fields.pop("shown", {})}
    given: dict[str, Any] = {"step": "pay", "needs": {"CFO": Need(roles=("cfo",), quorum=quorum)}, **fields}
    return OpenGate(id="ses_1.g1", kind=kind, shown=shown, **given)


def said(asked: OpenGate, state: State | None = None) -> dict[str, str]:
    """What each answer leads to, by answer."""
    return {each.answer: each.text for each in consequences(asked, state or state_with())}


def test_an_approval_leads_to_the_call_and_a_denial_to_the_end() -> None:
    """A run that has called nothing has no effects to speak of."""
    found = {each.answer: each for each in consequences(gate(), state_with())}
    assert found["approve"].text == "bank.transfer is called once, with exactly these values"
    assert found["deny"].text == "bank.transfer is not called, and the run ends rejected"
    assert found["modify"].text.endswith(
        "the planner makes another plan with your note, and the critic reviews it"
    )
    assert [found[name].ends for name in ("approve", "deny", "modify")] == [None, "rejected", None]


@pytest.mark.parametrize(
    ("on_failure", "text"),
    [
        ("ask", "if its earlier calls had effects, a person decides whether these are compensated"),
        ("compensate", "effects of its earlier calls are compensated, the last one first"),
        ("keep", "effects of its earlier calls are kept"),
    ],
)
def test_a_denial_says_what_happens_to_earlier_effects(on_failure: str, text: str) -> None:
    """As the pack or the decision says, once the run has called something."""
    begun = state_with(start={"on_failure": on_failure}, keys={"k1": "book"})
    assert said(gate(), begun)["deny"].endswith(f"the run ends rejected; {text}")
    assert said(gate("escalation", shown={"options": ["abandon"]}), begun)["abandon"].endswith(text)


def test_an_approval_that_is_not_the_last_says_how_many_are_missing() -> None:
    """Approvals so far count; several names of one gate each need theirs."""
    assert said(gate(quorum=3))["approve"].startswith(
        "nothing happens yet: 2 more approvals are needed; then "
    )
    assert said(gate(quorum=3, approvals=(APPROVED,)))["approve"].startswith(
        "nothing happens yet: 1 more approval is"
    )
    assert said(gate(quorum=2, approvals=(APPROVED,)))["approve"].startswith("bank.transfer is called once")
    both = {"CFO": Need(roles=("cfo",)), "LEGAL": Need(roles=("lawyer",))}
    assert said(gate(needs=both))["approve"].startswith("nothing happens before CFO and LEGAL have all")


def test_an_approval_can_be_withdrawn_while_its_call_waits() -> None:
    """There is nothing to withdraw before anybody has approved, or once the call has begun."""
    asked = gate(quorum=2, approvals=(APPROVED,))
    assert "withdraw" not in said(gate(quorum=2))
    assert said(asked)["withdraw"] == "an approval no longer counts, and the gate waits for another one"
    assert "withdraw" not in said(asked, state_with(steps={"pay": StepState(status="in_flight")}))


@pytest.mark.parametrize("start", [{"planner": "template"}, {}], ids=["template", "caller"])
def test_only_a_planner_makes_another_plan(start: dict[str, Any]) -> None:
    """A template knows no other plan, and a caller's plan is not changed."""
    state = state_with(start=start, plan_origin="planner" if start else "caller")
    assert list(said(gate(), state)) == ["approve", "deny"]


def test_values_can_be_set_where_another_person_can_approve_them() -> None:
    """The gate shows which, and the list of people has at least one more."""
    asked = gate(shown={SETTABLE: {"schema": {}}})
    assert said(asked)["set_values"].endswith("another person approves the changed call")
    assert can_set_values(asked, state_with(start={"people": PEOPLE}))
    assert not can_set_values(asked, state_with(start={"people": {"rosa": PEOPLE["rosa"]}}))
    assert not can_set_values(asked, state_with(start={"stepwise": True}))
    assert not can_set_values(gate(), state_with())


def test_a_gate_over_a_sequence_names_every_call() -> None:
    """One answer covers them all."""
    asked = gate(covers={"tell": "sha256:1"}, shown={"sequence": [{"step": "tell", "tool": "mail.send"}]})
    assert (
        said(asked)["approve"]
        == "bank.transfer and mail.send are called once each, with exactly these values"
    )
    assert said(asked)["deny"].startswith("bank.transfer and mail.send are not called")


def test_a_denied_compensation_leaves_only_that_effect() -> None:
    """The run is ending already."""
    asked, state = gate(step="~pay"), state_with(ending="failed", keys={"k": "pay"})
    found = {each.answer: each for each in consequences(asked, state)}
    assert found["approve"].text.endswith("with exactly these values, to compensate pay")
    assert found["deny"].text == (
        "bank.transfer is not called; the effect of pay stays, and is left to an operator; other effects are compensated"
    )
    assert found["deny"].ends is None
    assert set(found) == {"approve", "deny"}


def test_a_denial_in_a_lane_ends_the_lane_only() -> None:
    """The plan of the run decides what that means."""
    found = {each.answer: each for each in consequences(gate(lane="ses_2"), state_with())}
    assert found["deny"].text.startswith("bank.transfer is not called, and the lane ends rejected")
    assert found["deny"].ends is None


@pytest.mark.parametrize(
    ("state", "happened", "did_not"),
    [
        (
            {},
            "not called again, and the run goes on with the result that you enter",
            "bank.transfer is called again",
        ),
        (
            {"ending": "cancelled"},
            "not called again, and the run ends cancelled",
            "not called again, and the run ends cancelled",
        ),
    ],
)
def test_a_call_of_unknown_outcome_is_called_again_only_in_a_run_that_goes_on(
    state: dict[str, Any], happened: str, did_not: str
) -> None:
    """No tool is called once the end is decided."""
    found = said(gate("reconcile"), state_with(**state))
    assert found["happened"].endswith(happened)
    assert found["did_not_happen"].endswith(did_not)
    again = said(gate("reconcile", step="~pay"), state_with(ending="failed"))
    assert again["did_not_happen"] == "bank.transfer is called again", "a compensation is, in a run that ends"


def test_other_questions_say_what_their_answers_lead_to() -> None:
    """Escalations offer the answers that the gate lists; compensations and outputs have two and three."""
    escalated = said(gate("escalation", shown={"options": ["extend", "accept_partial", "abandon"]}))
    assert list(escalated) == ["extend", "accept_partial", "abandon"]
    assert escalated["accept_partial"].startswith("the run ends completed, as partial")
    effects = said(gate("compensation"), state_with(ending="rejected"))
    assert effects["compensate"].endswith("the run ends rejected")
    assert effects["keep"] == "nothing is called: the effects stay, and the run ends rejected"
    outputs = said(gate("output", step=""))
    assert outputs["approve"] == "the outputs are accepted as they are, and the run goes on to its end"
    assert outputs["deny"] == "the outputs are not committed, and the run ends rejected"
    assert outputs["modify"] == "the outputs are repaired with your note, and judged again"


def test_every_answer_has_a_text() -> None:
    """No kind of gate takes an answer without a consequence."""
    for kind in ANSWERS:
        found = consequences(
            gate(kind, step="" if kind in ("output", "compensation") else "pay"), state_with()
        )
        assert all(each.text for each in found)
        assert {each.answer for each in found} <= {*ANSWERS[kind], "set_values"}
