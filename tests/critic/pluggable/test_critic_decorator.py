"""Critics as classes, as plain objects and as decorated functions."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.critic.pluggable.critic import FunctionCritic, ToolResults
from tercet.critic.pluggable.shorthand import CriticReturn
from tercet.critics import Critic, CriticChain, CriticError, CriticResult, CriticReturnError, critic

ANSWER = SimpleNamespace(mode="final", final_answer="42")
EMPTY = SimpleNamespace(mode="final", final_answer="")


@critic
def no_empty_answers(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Stop where the final answer is empty."""
    if decision.mode == "final" and not decision.final_answer:
        return "stop", "the answer is empty"
    return "continue"


@critic(name="safety", score=0.8)
def safety_check(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Retry where a result is flagged."""
    return ("retry", "flagged output") if any(result.get("flagged") for result in results) else "continue"


@pytest.mark.req("R293", "R303")
def test_bare_decorator() -> None:
    """A bare decorator makes a critic that reads the decision's mode and final answer."""
    assert isinstance(no_empty_answers, Critic)
    assert no_empty_answers.name == "no_empty_answers"
    assert no_empty_answers.evaluate(None, EMPTY, []) == CriticResult("stop", "the answer is empty", 1.0)
    assert no_empty_answers.evaluate(None, ANSWER, []) == CriticResult("continue", "", 1.0)


@pytest.mark.req("R293", "R295")
def test_name_and_score() -> None:
    """The given name is the critic's, and the given score counts for every shorthand, continue included."""
    assert safety_check.name == "safety"
    assert safety_check.evaluate(None, ANSWER, []) == CriticResult("continue", "", 0.8)
    assert safety_check.evaluate(None, ANSWER, [{"flagged": True}]) == CriticResult(
        "retry", "flagged output", 0.8
    )


@pytest.mark.req("R295")
def test_explicit_score_survives() -> None:
    """A score that the function sets wins over the default, also when it is 1.0, and a result without one gets the default."""

    @critic(score=0.5)
    def scoring(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        return CriticResult("continue", score=state) if state is not None else CriticResult("continue")

    assert [scoring.evaluate(given, ANSWER, []).score for given in (0.0, 1.0, None)] == [0.0, 1.0, 0.5]


def test_the_function_remains() -> None:
    """The decorated object can be called as the function and keeps its name, text and signature."""
    assert no_empty_answers(None, EMPTY, []) == ("stop", "the answer is empty")
    assert no_empty_answers.__doc__ == "Stop where the final answer is empty."
    assert (no_empty_answers.__name__, safety_check.__name__) == ("no_empty_answers", "safety_check")  # type: ignore[attr-defined]
    assert list(inspect.signature(no_empty_answers).parameters) == ["state", "decision", "results"]
    assert repr(safety_check) == "<critic 'safety'>"


def test_async_function() -> None:
    """An async function becomes a critic whose evaluation is awaited and checked alike."""

    @critic(score=0.6)
    async def slow(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        await asyncio.sleep(0)
        return "continue" if state else "perhaps"

    async def ask(state: bool) -> CriticResult:
        return await slow.evaluate(state, ANSWER, [])

    assert asyncio.run(ask(True)) == CriticResult("continue", "", 0.6)
    with pytest.raises(CriticReturnError, match="critic 'slow' returned the action 'perhaps'"):
        asyncio.run(ask(False))


def test_functions_without_a_name() -> None:
    """A partial has no name of its own, and takes that of its type unless one is given."""

    def limited(limit: int, state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        return "continue" if len(results) <= limit else ("stop", "too many results")

    assert critic(functools.partial(limited, 1)).name == "partial"
    named = critic(name="at_most_one")(functools.partial(limited, 1))
    assert named.name == "at_most_one"
    assert named.evaluate(None, ANSWER, [{}, {}]).reason == "too many results"


def test_decorating_twice_renames() -> None:
    """A decorated critic can be decorated again under another name and score."""
    stricter = critic(name="stricter", score=0.1)(safety_check)
    assert (stricter.name, stricter.evaluate(None, ANSWER, []).score) == ("stricter", 0.1)
    assert safety_check.name == "safety"


@pytest.mark.parametrize("score", [-1, 2, float("nan"), "high", True])
def test_impossible_default_scores(score: Any) -> None:
    """A default score outside 0 to 1 is refused where the decorator stands."""
    with pytest.raises(CriticError, match="the default score of a critic"):
        critic(score=score)


@pytest.mark.parametrize("target", ["safety", Critic, 3])
def test_only_functions_are_decorated(target: Any) -> None:
    """A name given by position, a class or a value is refused with the right spelling."""
    with pytest.raises(CriticError, match="write @critic"):
        critic(target)


@pytest.mark.req("R287")
def test_class_critics_and_their_names() -> None:
    """A class critic is named after its class, or as it says itself."""

    class Brief(Critic):
        def evaluate(self, state: Any, decision: Any, results: ToolResults) -> CriticReturn:
            return "continue"

    class Briefer(Brief):
        pass

    class Named(Brief):
        name = "named"

    class NamedLater(Named):
        def __init__(self) -> None:
            self.name = "later"

    @dataclass(frozen=True)
    class Held(Brief):
        limit: int = 3

    names = [each.name for each in (Brief(), Briefer(), Named(), NamedLater(), Held())]
    assert names == ["Brief", "Briefer", "named", "later", "Held"]


def test_plain_objects_judge_too() -> None:
    """Anything with an evaluate method is a critic, under its own name or its class's."""

    class Plain:
        def evaluate(self, state: Any, decision: Any, results: ToolResults) -> CriticReturn:
            return "stop", "plainly not"

    class PlainNamed(Plain):
        name = "plain"

    verdict = asyncio.run(CriticChain([Plain()]).judge(None, ANSWER, []))
    assert (verdict.critic, verdict.action) == ("Plain", "stop")
    assert CriticChain([PlainNamed(), Plain()]).names == ("plain", "Plain")


def test_what_cannot_judge_is_refused_at_once() -> None:
    """A class, an undecorated function, another object or a name that is no string is refused when the chain is made."""

    def undecorated(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
        return "continue"

    class Misnamed(FunctionCritic):
        name = 3  # type: ignore[assignment]

        def __init__(self) -> None:
            pass

    for wrong, advice in [
        (FunctionCritic, r"pass FunctionCritic\(\.\.\.\)"),
        (undecorated, "decorate a function with @critic"),
        (object(), "give it evaluate"),
        (Misnamed(), "the name of a critic is a string, not 3"),
    ]:
        unchecked: Any = wrong
        with pytest.raises(CriticError, match=advice):
            CriticChain([unchecked])
