"""An Engine on a pack: its tools, outputs, evidence, policies and budgets apply to every decision."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.budget import RunBudget
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.policy import Policy
from tercet.critics import Action, Decision, Engine, StopReason
from tercet.packs.pack import Pack
from tercet.testing.clock import VirtualClock

from .bench import ADA, BOB, Scripted, act, actions, counted, last, play

REF = "kg:window:w1#snapshot_s1"


def pack(*tools: Any, decision: dict[str, Any] | None = None, **header: Any) -> Pack:
    """A pack with these tools and one decision."""
    spec = DecisionSpec.model_validate({"id": "desk", "risk_tier": "low", **(decision or {})})
    fields = {"name": "desk", "version": "1.0.0", "safety_mode": "destructive", **header}
    return Pack.model_validate({**fields, "tools": tools, "decisions": (spec,)})


def run(agent: Any, made: Pack, **more: Any) -> Any:
    """One run on a pack."""
    clock = VirtualClock()
    return play(Engine(agent, pack=made, clock=clock, **more).run("t"), clock)


def test_required_outputs_come_from_results_or_from_the_answer() -> None:
    """A dict answers by name; what it does not say is taken from the last result that carries it."""
    say, _ = counted("desk.say", lambda word: {"total": len(word)})
    made = pack(say, decision={"required_outputs": ["total", "reason"]})
    agent = Scripted([act("abc"), Decision.final({"reason": "counted"})], ["desk.say"])  # pyright: ignore[reportArgumentType]
    result = run(agent, made)
    assert result.outputs == {"reason": "counted", "total": 3, "final_answer": {"reason": "counted"}}
    assert result.final_answer == {"reason": "counted"}


def test_an_answer_without_the_outputs_is_not_returned() -> None:
    """What a decision requires and nobody provides keeps the run from its end, whatever the critics let pass."""
    made = pack(decision={"required_outputs": ["total"]})
    result = run(Scripted([Decision.final("no total")]), made)
    assert (result.final_answer, result.status, actions(result)) == (None, "paused", ["final"])
    assert result.stop_reason is StopReason.ESCALATED


def test_an_answer_that_breaks_the_schema_is_asked_for_again() -> None:
    """The agent is told in its prompt which threshold was missed, and may answer otherwise."""
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}}
    made = pack(decision={"required_outputs": ["total"], "outputs_schema": schema})
    agent = Scripted([Decision.final({"total": "three"}), Decision.final({"total": 3})])
    result = run(agent, made)
    assert (result.final_answer, actions(result)) == ({"total": 3}, ["final", "final"])
    assert "threshold schema" in agent.prompts[1]


def test_outputs_that_allow_nothing_else_get_nothing_else() -> None:
    """Where the schema is closed, the answer as a whole is no output beside the others."""
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "additionalProperties": False}
    made = pack(decision={"required_outputs": ["total"], "outputs_schema": schema})
    result = run(Scripted([Decision.final({"total": 3})]), made)
    assert (result.outputs, result.final_answer) == ({"total": 3}, {"total": 3})


def test_required_evidence_is_pinned_unless_an_action_says_otherwise() -> None:
    """Tools and decisions get the evidence of the classes that they require."""
    facts = [
        Evidence(id=REF, classification="window", content={"days": 30}),
        Evidence(id="kg:form:f1#snapshot_s1", classification="form", content={"note": "hello"}),
    ]
    say, _ = counted("desk.say", requires_evidence=["window_evidence"])
    made = pack(
        say,
        evidence=facts,
        decision={"required_evidence": ["form"], "untrusted_evidence": ["form", "window"]},
    )
    result = run(Scripted([act("a"), Decision.final("b")], [say]), made)
    assert result.final_answer == "b"
    assert set(result.steps[0].decision.actions[0].evidence_refs) == {REF, "kg:form:f1#snapshot_s1"}
    wrong = Decision.act(Action("desk.say", {"word": "a"}, ("kg:form:f1#snapshot_s1",)))
    (told,) = run(Scripted([wrong, Decision.final("b")], [say]), made).steps[0].results
    assert told["error_type"] == "evidence_not_pinned"


def test_a_policy_of_the_pack_rejects_a_decision_for_good() -> None:
    """What a policy forbids is not planned anew, and the run ends refused."""
    say, calls = counted("desk.say")
    rule = Policy(name="quiet", expression='call.args.word != "loud"', message="no shouting")
    made = pack(say, policies=[rule])
    result = run(Scripted([act("loud"), Decision.final("b")], [say]), made)
    assert (result.stop_reason, result.status, calls) == (StopReason.REFUSED, "failed", [])
    assert last(result).results[0]["error_type"] == "policy_invariant"


def test_the_packs_budget_applies() -> None:
    """A call that the budget does not allow is refused before it is made."""
    say, calls = counted("desk.say")
    made = pack(say, budget=RunBudget(tool_calls=1))
    result = run(Scripted([act("a"), act("b"), Decision.final("c")], [say]), made)
    assert (calls, result.final_answer) == (["a"], "c")
    assert result.steps[1].results[0]["error_type"] == "tool_calls_exceeded"


def test_an_agents_tools_must_be_of_the_pack() -> None:
    """A tool that the pack does not have is refused, whether it is named or brought."""
    say, pay = counted("desk.say")[0], counted("desk.pay")[0]
    for tool in ("desk.pay", pay):
        with pytest.raises(UsageError) as error:
            Engine(Scripted([], [tool]), pack=pack(say))  # pyright: ignore[reportArgumentType]
        assert error.value.code == "tool_unknown"
    with pytest.raises(UsageError) as error:
        Engine(Scripted([], [say]), pack=pack(say), intent="another")
    assert error.value.code == "unknown_intent"


def test_values_of_the_task_and_of_trusted_results_carry_authority() -> None:
    """An amount that a read brought may be sent on; one that the agent made up goes to a person with its source."""
    clock = VirtualClock()
    look, _ = counted("desk.look", lambda word: {"to": f"{word}@example.org"})
    note, noted = counted("desk.note", mode="local_write", authority=["word"])
    read = Scripted(
        [act("ann", "desk.look"), act("ann@example.org", "desk.note"), Decision.final("ok")], [look, note]
    )
    assert play(Engine(read, clock=clock).run({"who": "ann"}), clock).final_answer == "ok"
    made_up = Scripted([act("eve@example.org", "desk.note"), Decision.final("ok")], [look, note])
    waiting = play(Engine(made_up, clock=clock).run({"who": "ann"}), clock)
    assert (waiting.stop_reason, noted) == (StopReason.WAITING, ["ann@example.org"])
    assert waiting.gate is not None
    assert "equals nothing in the trusted request fields" in waiting.gate.shown["sources"]["word"]


GRANT = Policy(name="mail", scope="step", effect="grant", expression="step.tool == 'desk.send'")


@pytest.mark.parametrize("objection", ["none", "refused", "modified"])
def test_no_policy_grants_what_is_decided_after_an_objection(objection: str) -> None:
    """A turn that review refused, or that a person sent back, is planned anew: what follows it is a person's to approve."""
    send, sent = counted("desk.send", mode="network", authority=())
    ask, _ = counted("desk.ask", gates=["GATE"])
    first = {
        "none": act("a", "desk.send"),
        "refused": act("a", "desk.nowhere"),
        "modified": act("a", "desk.ask"),
    }
    made = pack(send, ask, policies=[GRANT], gates=[Gate(name="GATE", roles=())])
    agent = Scripted([first[objection], act("b", "desk.send"), Decision.final("done")], [send, ask])
    clock = VirtualClock()
    engine = Engine(agent, pack=made, clock=clock, actor=ADA)

    async def main() -> Any:
        result = await engine.run("t")
        if objection == "modified":
            assert result.gate is not None
            async with engine.runtime() as runtime:
                await runtime.modify(result.gate.id, actor=BOB, note="write to nobody")
            return await engine.resume(result.session_id)
        return result

    result = play(main(), clock)
    assert result.status == ("completed" if objection == "none" else "awaiting_gate")
    assert sent == (["a", "b"] if objection == "none" else [])


def test_a_policy_sees_what_earlier_turns_have_done() -> None:
    """Each turn is a plan of its own; a limit on the number of calls still holds for all of them together."""
    say, said = counted("desk.say", mode="local_write")
    once = Policy(name="once", expression="plan.steps.filter(s, s.tool == 'desk.say').size() <= 1")
    agent = Scripted([act("one"), act("two"), act("three"), Decision.final("done")], ["desk.say"])  # pyright: ignore[reportArgumentType]
    result = run(agent, pack(say, policies=(once,)))
    assert said == ["one"]
    assert "violates policy once" in str(result.steps[1].results)


def test_a_policy_about_order_is_met_by_an_earlier_turn() -> None:
    """What was read in one turn was read before the effect of the next."""
    look, _ = counted("desk.look")
    say, said = counted("desk.say", mode="local_write")
    expression = (
        "plan.steps.all(s, s.tool != 'desk.say'"
        " || plan.steps.exists(look, look.tool == 'desk.look' && look.id in s.before))"
    )
    order = Policy(name="order", expression=expression)
    script = [act("", "desk.look"), act("now"), Decision.final("done")]
    agent = Scripted(script, ["desk.look", "desk.say"])  # pyright: ignore[reportArgumentType]
    run(agent, pack(look, say, policies=(order,)))
    assert said == ["now"]
