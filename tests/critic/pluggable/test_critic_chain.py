"""Several critics in a row."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.critic.pluggable.chain import Judgement
from tercet.critic.pluggable.critic import ToolResults
from tercet.critic.pluggable.result import Escalation
from tercet.critic.pluggable.shorthand import CriticReturn
from tercet.critics import ChainVerdict, Critic, CriticChain, CriticResult, SelfReflectionCritic, critic

THINKING = SimpleNamespace(mode="act", final_answer=None)


def judge(
    critics: list[Any], decision: Any = THINKING, results: ToolResults = (), state: Any = None
) -> ChainVerdict:
    """Run a chain once."""
    return asyncio.run(CriticChain(critics).judge(state, decision, results))


class Scripted(Critic):
    """Returns or raises what it was given, and counts how often it was asked."""

    def __init__(self, name: str, answer: object) -> None:
        self.name = name
        self.answer = answer
        self.asked = 0

    def evaluate(self, state: Any, decision: Any, results: ToolResults) -> Any:
        self.asked += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.req("R296")
def test_no_critics_let_everything_pass() -> None:
    """An empty list means the pass-through critic."""
    verdict = judge([])
    assert verdict.trace == (Judgement("PassThroughCritic", CriticResult("continue", "pass", 1.0)),)
    assert verdict.action == "continue"


@given(st.lists(st.sampled_from(["continue", "stop", "retry", "escalate"]), min_size=1, max_size=6))
@pytest.mark.req("R300")
def test_first_objection_wins(actions: list[str]) -> None:
    """The first critic that does not say continue decides, and nobody after it is asked."""
    answers = {
        "continue": "continue",
        "stop": ("stop", "s"),
        "retry": ("retry", "r"),
        "escalate": ValueError("e"),
    }
    critics = [Scripted(f"c{place}", answers[action]) for place, action in enumerate(actions)]
    verdict = judge(list(critics))
    last = next((place for place, action in enumerate(actions) if action != "continue"), len(actions) - 1)
    assert (verdict.critic, verdict.action) == (f"c{last}", actions[last])
    assert [each.critic for each in verdict.trace] == [f"c{place}" for place in range(last + 1)]
    assert [each.asked for each in critics] == [1] * (last + 1) + [0] * (len(actions) - last - 1)


@critic(name="safety_gate")
def safety_gate(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Stop at a violation."""
    return ("stop", "violation") if any(each.get("safety_violation") for each in results) else "continue"


@critic(name="format_check")
def format_check(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Ask for JSON."""
    if decision.mode == "final" and not (decision.final_answer or "").strip().startswith("{"):
        return "retry", "not JSON", "Answer in JSON only."
    return "continue"


@pytest.mark.req("R300", "R303")
@pytest.mark.parametrize(
    ("answer", "results", "action", "decided_by"),
    [
        ("plain", [{"safety_violation": True, "error": "x"}], "stop", "safety_gate"),
        ("plain", [{"error": "x"}], "retry", "format_check"),
        ("{}", [{"error": "x"}], "retry", "SelfReflectionCritic"),
        ("{}", [{"total": 3}], "continue", "SelfReflectionCritic"),
    ],
)
def test_three_critics(answer: str, results: ToolResults, action: str, decided_by: str) -> None:
    """Safety comes before format and format before tool errors, by their order in the list."""
    decision = SimpleNamespace(mode="final", final_answer=answer)
    chain = [safety_gate, format_check, SelfReflectionCritic(max_retries=2)]
    verdict = judge(chain, decision, results, SimpleNamespace(metadata={}))
    assert (verdict.action, verdict.critic) == (action, decided_by)
    if decided_by == "format_check":
        assert verdict.result == CriticResult(
            "retry", "not JSON", 1.0, instruction_patch="Answer in JSON only."
        )


def test_trace_keeps_every_score() -> None:
    """The trace shows each critic that was asked with its own score."""
    verdict = judge([Scripted("a", CriticResult(score=0.4)), Scripted("b", "continue")])
    assert [(name, result.score) for name, result in verdict.trace] == [("a", 0.4), ("b", 1.0)]


def test_sync_and_async_mix() -> None:
    """Plain and async critics, as functions or classes, stand in one chain."""

    class Waits(Critic):
        async def evaluate(self, state: Any, decision: Any, results: ToolResults) -> CriticReturn:
            await asyncio.sleep(0)
            return {"action": "continue", "reason": "waited", "score": 0.9}

    @critic
    async def refuses(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        await asyncio.sleep(0)
        return "stop", "refused"

    verdict = judge([Scripted("plain", "continue"), Waits(), refuses])
    assert [(name, result.reason) for name, result in verdict.trace] == [
        ("plain", ""),
        ("Waits", "waited"),
        ("refuses", "refused"),
    ]


def test_a_raising_critic_is_contained() -> None:
    """A critic that raises becomes an escalation with its name, the error's type and its words."""
    later = Scripted("later", "continue")
    verdict = judge([Scripted("broken", KeyError("total")), later])
    expected = Escalation(critic="broken", error="KeyError", message="'total'")
    assert (verdict.action, verdict.critic, verdict.result) == ("escalate", "broken", expected)
    assert verdict.result.reason == "broken raised KeyError: 'total'"
    assert verdict.result.score == 0.0
    assert later.asked == 0


def test_an_async_raise_is_contained() -> None:
    """What an async critic raises after waiting is contained alike."""

    @critic
    async def breaks(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        await asyncio.sleep(0)
        raise TimeoutError("no answer")

    assert judge([breaks]).result == Escalation(critic="breaks", error="TimeoutError", message="no answer")


@pytest.mark.parametrize("answer", [None, "halt", ("escalate", "r"), CriticResult(score=7)])
def test_a_bad_answer_is_contained(answer: object) -> None:
    """An answer that is no result is an escalation that says what is allowed."""
    result = judge([Scripted("odd", answer)]).result
    assert isinstance(result, Escalation)
    assert result.error == "CriticReturnError"
    assert "the actions are continue, stop, retry" in result.message


def test_an_error_that_cannot_tell_itself() -> None:
    """Even an error whose text cannot be read is contained."""

    class Mute(Exception):  # noqa: N818 - a name for this test only
        def __str__(self) -> str:
            raise RuntimeError

    result = judge([Scripted("mute", Mute())]).result
    assert isinstance(result, Escalation)
    assert (result.error, result.message) == ("Mute", "(its message cannot be read)")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError()])
def test_cancellation_is_not_contained(error: BaseException) -> None:
    """Cancellation and interruption are not a critic's failure and pass through."""

    async def run() -> None:
        with pytest.raises(type(error)):
            await CriticChain([Scripted("c", error)]).judge(None, THINKING, [])

    asyncio.run(run())


@pytest.mark.req("R287")
def test_critics_get_the_step_as_it_is() -> None:
    """Each critic is called with the state, the decision and the results themselves."""
    seen: list[Any] = []

    @critic
    def looks(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        seen.extend((state, decision, results))
        return "continue"

    state, results = SimpleNamespace(), [{"total": 1}]
    judge([looks], THINKING, results, state)
    assert seen[0] is state
    assert seen[1] is THINKING
    assert seen[2] is results
