"""Every example of the critic tutorial, with only its import lines changed, and an agent where the text needs one."""

# pyright: basic
# The examples are as people write them, without annotations.

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.critics import (
    CriticResult,
    Engine,
    PassThroughCritic,
    ReActSelfReflectionCritic,
    SelfReflectionCritic,
    StopReason,
    critic,
    pass_through_critic,
    self_reflection_critic,
)

from .bench import Scripted, State, act, actions, broken, counted, last, play, run


def my_agent_that(*script: Any, tools: Any = ()) -> Scripted:
    """The agent that the tutorial calls my_agent."""
    return Scripted(script, tools)


FINAL = {"mode": "final", "final_answer": "Sure, all is well."}
JSON = {"mode": "final", "final_answer": '{"ok": true}'}


@pytest.mark.req("R287")
def test_the_fields_of_a_result() -> None:
    """Step 1: the contract, with its defaults, and the three results that it shows."""
    result = CriticResult()
    assert (result.action, result.reason, result.score, result.details) == ("continue", "", 1.0, {})
    assert (result.instruction_patch, result.state_patch, result.modified_prompt) == (None, None, None)

    result = CriticResult(action="continue", reason="all good", score=1.0)
    assert result.action == "continue"

    result = CriticResult(
        action="retry",
        reason="output was incomplete",
        score=0.3,
        instruction_patch="Make sure to include all required fields in your answer.",
    )
    assert result.instruction_patch is not None

    result = CriticResult(
        action="stop",
        reason="safety policy violation",
        score=0.0,
    )
    assert (result.action, result.score) == ("stop", 0.0)


@pytest.mark.req("R296")
def test_pass_through() -> None:
    """Step 2: the simplest critic, and what stands in where none is given."""
    critic = PassThroughCritic()
    result = critic.evaluate(State(), SimpleNamespace(mode="act"), [])
    assert (result.action, result.reason, result.score) == ("continue", "pass", 1.0)
    (trace,) = last(run(my_agent_that(FINAL))).critics
    assert (trace.critic, trace.action, trace.reason) == ("PassThroughCritic", "continue", "pass")


@pytest.mark.req("R297")
def test_self_reflection() -> None:
    """Step 2: errors are retried with 0.2 and stopped with 0.0; without any, it continues with 1.0."""
    critic = SelfReflectionCritic(max_retries=2)
    say, calls = counted("desk.say", broken)
    my_agent = my_agent_that(act("hello"), tools=[say])
    engine = Engine(
        agent=my_agent,
        critics=[SelfReflectionCritic(max_retries=3)],
        # ... other engine config
    )
    result = asyncio.run(engine.run("greet"))
    assert [step.critics[-1].score for step in result.steps] == [0.2, 0.2, 0.2, 0.0]
    assert (actions(result), len(calls)) == (["retry", "retry", "retry", "stop"], 4)
    assert [t.score for t in last(run(my_agent_that(FINAL), [critic])).critics] == [1.0]


@pytest.mark.req("R298")
def test_react_self_reflection() -> None:
    """Step 2: a note on the failed action is there for the next decision."""
    critic = ReActSelfReflectionCritic(max_retries=2)
    say, _ = counted("desk.say", broken)
    my_agent = my_agent_that(act("hello"), tools=[say])
    run(my_agent, [critic])
    (note,) = my_agent.met[1].metadata["reflections"]
    assert (note["action"], note["attempt"]) == ("desk.say", 1)
    assert "no line for hello" in note["error"]


@pytest.mark.req("R299")
def test_the_functional_equivalents() -> None:
    """Step 2: the decorated functions do what the classes do."""
    say, calls = counted("desk.say", broken)
    result = run(my_agent_that(act(), tools=[say]), [pass_through_critic, self_reflection_critic])
    assert (actions(result), len(calls)) == (["retry", "retry", "stop"], 3)


@critic
def no_empty_answers(state, decision, results):
    """Stop if the final answer is empty."""
    if decision.mode == "final" and not decision.final_answer:
        return "stop", "empty final answer"
    return "continue"


@critic(name="safety", score=0.8)
def safety_check(state, decision, results):
    """Retry if any result looks unsafe."""
    for r in results:
        if isinstance(r, dict) and r.get("flagged"):
            return "retry", "unsafe output detected"
    return "continue"


@pytest.mark.req("R293", "R294", "R295", "R303")
def test_custom_critics() -> None:
    """Step 3: a bare critic and a named one with a score of its own, wired into the Engine."""
    my_agent = my_agent_that({"mode": "final", "final_answer": ""})
    engine = Engine(
        agent=my_agent,
        critics=[no_empty_answers, safety_check],
        # ... other engine config
    )
    stopped = asyncio.run(engine.run("answer"))
    assert (stopped.stop_reason, stopped.reason) == (StopReason.CRITIC_STOP, "escalated: empty final answer")
    passed = run(my_agent_that(FINAL), [no_empty_answers, safety_check])
    assert [(t.critic, t.score) for t in last(passed).critics] == [("no_empty_answers", 1.0), ("safety", 0.8)]
    say, _ = counted("desk.say", lambda word: {"flagged": word == "rude"})
    my_agent = my_agent_that(tools=[say])
    my_agent.script = [lambda _: act("kind" if my_agent.prompts[1:] else "rude"), FINAL]
    assert actions(run(my_agent, [safety_check])) == ["retry", "continue", "final"]


# fmt: off
@critic(name="format_enforcer")
def enforce_json_output(state, decision, results):
    """Retry with guidance if the output is not valid JSON."""
    if decision.mode == "final":
        answer = decision.final_answer or ""
        if not answer.strip().startswith("{"):
            return CriticResult(
                action="retry",
                reason="output is not JSON",
                score=0.2,
                instruction_patch=(
                    "You MUST output valid JSON. "
                    "Do not include any text outside the JSON object."
                ),
            )
    return "continue"
# fmt: on


@pytest.mark.req("R290")
def test_an_instruction_patch() -> None:
    """Step 4: the instruction stands in the prompt of the next decision, and is gone after it."""
    my_agent = Scripted([])
    my_agent.script = [lambda _: JSON if "valid JSON" in my_agent.system_prompt else FINAL]
    result = run(my_agent, [enforce_json_output])
    assert result.final_answer == '{"ok": true}'
    assert my_agent.prompts[0] == "You are a clerk."
    assert my_agent.prompts[1].startswith("You are a clerk.\n\nYou MUST output valid JSON.")
    assert my_agent.system_prompt == "You are a clerk."


@critic(name="retry_tracker")
def track_retries(state, decision, results):
    """Count retries and halt after the limit."""
    metadata = getattr(state, "metadata", {}) or {}
    retries = int(metadata.get("custom_retries", 0))
    has_error = any(isinstance(r, dict) and r.get("error") for r in results)
    if has_error and retries < 5:
        metadata["custom_retries"] = retries + 1
        state.metadata = metadata
        return CriticResult(
            action="retry",
            reason="tool error, retrying",
            score=0.3,
            state_patch={"last_error_type": "tool_failure"},
        )
    if has_error:
        return "stop", "exceeded retry limit"
    return "continue"


@pytest.mark.req("R292", "R301")
def test_a_state_patch_and_a_count() -> None:
    """Step 4: the patch is set on the state, the count survives each retry, and ends them."""
    say, calls = counted("desk.say", broken)
    result = run(my_agent_that(act(), tools=[say]), [track_retries])
    assert actions(result) == ["retry"] * 5 + ["stop"]
    assert len(calls) == 5  # the sixth is refused: by then the circuit of the tool is open
    assert (result.state.metadata["custom_retries"], result.state.last_error_type) == (5, "tool_failure")


@critic
def be_concise(state, decision, results):
    if decision.mode == "final" and len(decision.final_answer or "") > 2000:
        return "retry", "answer too long", "Keep your final answer under 2000 characters."
    return "continue"


def test_a_tuple_with_an_instruction() -> None:
    """Step 4: the third part of a tuple is an instruction."""
    my_agent = Scripted([])
    long, short = {"mode": "final", "final_answer": "x" * 2001}, {"mode": "final", "final_answer": "x"}
    my_agent.script = [lambda _: short if "under 2000" in my_agent.system_prompt else long]
    assert run(my_agent, [be_concise]).final_answer == "x"


@critic(name="safety_gate")
def safety_gate(state, decision, results):
    """Hard stop on safety violations -- nothing overrides this."""
    for r in results:
        if isinstance(r, dict) and r.get("safety_violation"):
            return "stop", "safety violation detected"
    return "continue"


@critic(name="format_check")
def format_check(state, decision, results):
    """Retry on formatting issues."""
    if decision.mode == "final":
        answer = decision.final_answer or ""
        if not answer.strip().startswith("{"):
            return "retry", "not JSON", "Output valid JSON only."
    return "continue"


@pytest.mark.req("R300", "R302")
def test_critics_together() -> None:
    """Step 5: in order, safety first; the first that does not continue decides, and no later one is asked."""
    say, _ = counted("desk.say", lambda word: {"safety_violation": True} if word == "harm" else broken(word))

    def engine_for(my_agent: Scripted) -> Engine:
        engine = Engine(
            agent=my_agent,
            critics=[
                safety_gate,  # hardest stop -- checked first
                format_check,  # softer -- retry with guidance
                SelfReflectionCritic(max_retries=2),  # catch tool errors
            ],
            # ... other engine config
        )
        return engine  # noqa: RET504 - as it is written there

    harmed = play(engine_for(my_agent_that(act("harm"), tools=[say])).run("t"))
    assert (harmed.stop_reason, [t.critic for t in last(harmed).critics]) == ("critic_stop", ["safety_gate"])
    failed = play(engine_for(my_agent_that(act("hello"), tools=[say])).run("t"))
    assert actions(failed) == ["retry", "retry", "stop"]
    assert [t.critic for t in last(failed).critics] == ["safety_gate", "format_check", "SelfReflectionCritic"]
    my_agent = Scripted([])
    my_agent.script = [lambda _: JSON if "JSON only" in my_agent.system_prompt else FINAL]
    mended = play(engine_for(my_agent).run("t"))
    assert (mended.final_answer, actions(mended)) == ('{"ok": true}', ["retry", "final"])
    assert [t.critic for t in mended.steps[0].critics] == ["safety_gate", "format_check"]
