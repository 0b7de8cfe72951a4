"""The critics that come with the house."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.critic.pluggable.builtin import MAX_REFLECTIONS, REFLECTIONS_KEY
from tercet.critic.pluggable.critic import ToolResults
from tercet.critic.pluggable.shorthand import CriticReturn
from tercet.critics import (
    Critic,
    CriticChain,
    CriticError,
    CriticResult,
    CriticStateError,
    PassThroughCritic,
    ReActSelfReflectionCritic,
    SelfReflectionCritic,
    critic,
    pass_through_critic,
    react_self_reflection_critic,
    self_reflection_critic,
)

CALL = SimpleNamespace(mode="act", tool="shop.order")
FAILED: ToolResults = [{"total": 1}, {"error": "no stock"}]
CLEAN: ToolResults = [{"total": 1}, {"error": None}]

some_results = st.lists(
    st.one_of(
        st.fixed_dictionaries({"error": st.sampled_from(["no stock", "time-out", "", None])}),
        st.fixed_dictionaries({"total": st.integers()}),
    ),
    max_size=3,
)


@dataclass
class State:
    """A run's state."""

    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@pytest.mark.req("R296")
def test_pass_through() -> None:
    """The pass-through critic continues, says pass, and gives 1.0."""
    result = PassThroughCritic().evaluate(State(), CALL, FAILED)
    assert (result.action, result.reason, result.score) == ("continue", "pass", 1.0)


@pytest.mark.req("R297")
def test_reflection_retries_then_stops() -> None:
    """Errors are retried at 0.2 while retries last, then stop at 0.0."""
    state, reflecting = State(), SelfReflectionCritic(max_retries=2)
    results = [reflecting.evaluate(state, CALL, FAILED) for _ in range(4)]
    assert [(each.action, each.score) for each in results] == [
        ("retry", 0.2),
        ("retry", 0.2),
        ("stop", 0.0),
        ("stop", 0.0),
    ]
    assert results[0].reason == "tool errors, retry 1 of 2: no stock"
    assert results[2].reason == "tool errors, and no retry left of 2: no stock"
    assert results[0].details == {"errors": ["no stock"], "attempt": 1}


@pytest.mark.req("R297")
def test_clean_results_continue() -> None:
    """Without an error, an empty or absent one included, the step goes on at 1.0."""
    for clean in (CLEAN, [], [{"error": ""}]):
        result = SelfReflectionCritic(max_retries=0).evaluate(State(), CALL, clean)
        assert (result.action, result.score) == ("continue", 1.0)


@pytest.mark.req("R297")
def test_no_retries_at_all() -> None:
    """With no retries allowed the first error stops."""
    assert SelfReflectionCritic(max_retries=0).evaluate(State(), CALL, FAILED).action == "stop"


def test_a_clean_step_starts_the_count_again() -> None:
    """Only retries in a row count."""
    state, reflecting = State(), SelfReflectionCritic(max_retries=1)
    answers = [reflecting.evaluate(state, CALL, each).action for each in (FAILED, CLEAN, FAILED, FAILED)]
    assert answers == ["retry", "continue", "retry", "stop"]


@pytest.mark.req("R301")
def test_the_count_belongs_to_the_run() -> None:
    """Two runs that share a critic have a count each, and a new critic finds the count of a resumed run."""
    shared, one, other = SelfReflectionCritic(max_retries=1), State(), State()
    assert [shared.evaluate(state, CALL, FAILED).action for state in (one, other, one)] == [
        "retry",
        "retry",
        "stop",
    ]
    resumed = State(metadata=dict(other.metadata))
    assert SelfReflectionCritic(max_retries=1).evaluate(resumed, CALL, FAILED).action == "stop"


@pytest.mark.req("R298")
def test_reflection_notes() -> None:
    """Each error leaves a note that names the action, the error and the attempt."""
    state, reflecting = State(), ReActSelfReflectionCritic(max_retries=1)
    answers = [reflecting.evaluate(state, CALL, FAILED) for _ in range(2)]
    assert [(each.action, each.score) for each in answers] == [("retry", 0.2), ("stop", 0.0)]
    assert state.metadata[REFLECTIONS_KEY] == [
        {"action": "shop.order", "error": "no stock", "attempt": 1},
        {"action": "shop.order", "error": "no stock", "attempt": 2},
    ]


@pytest.mark.req("R298")
def test_clean_steps_leave_no_note() -> None:
    """A step without errors adds nothing, and earlier notes stay."""
    state, reflecting = State({REFLECTIONS_KEY: ["kept"]}), ReActSelfReflectionCritic()
    reflecting.evaluate(state, CALL, CLEAN)
    assert state.metadata == {REFLECTIONS_KEY: ["kept"]}


def test_notes_are_bounded() -> None:
    """Only the latest notes are kept."""
    state, reflecting = State(), ReActSelfReflectionCritic(max_retries=100)
    for _ in range(MAX_REFLECTIONS + 5):
        reflecting.evaluate(state, CALL, FAILED)
    attempts = [note["attempt"] for note in state.metadata[REFLECTIONS_KEY]]
    assert attempts == list(range(6, MAX_REFLECTIONS + 6))


@pytest.mark.parametrize(
    ("decision", "name"),
    [
        (SimpleNamespace(tool="pay"), "pay"),
        (SimpleNamespace(actions=["look", "pay"]), "pay"),
        (SimpleNamespace(actions=[{"name": "look"}, {"name": "pay"}]), "pay"),
        (SimpleNamespace(actions=[SimpleNamespace(tool="look"), SimpleNamespace(tool_name="pay")]), "pay"),
        (SimpleNamespace(actions=[], mode="act"), "act"),
        (SimpleNamespace(actions="pay", mode="act"), "act"),
        (SimpleNamespace(tool=SimpleNamespace(name="x"), mode="act"), "act"),
        ({"action": "pay"}, "pay"),
        ("pay", "pay"),
        (None, "unknown action"),
    ],
)
def test_notes_name_the_action(decision: object, name: str) -> None:
    """The failed action is named from whatever shape the decision has, by the place of its result."""
    state = State()
    ReActSelfReflectionCritic().evaluate(state, decision, FAILED)
    assert state.metadata[REFLECTIONS_KEY][0]["action"] == name


@pytest.mark.req("R299")
@pytest.mark.parametrize(
    ("as_class", "as_function"),
    [
        (PassThroughCritic(), pass_through_critic),
        (SelfReflectionCritic(), self_reflection_critic),
        (ReActSelfReflectionCritic(), react_self_reflection_critic),
    ],
)
@given(history=st.lists(some_results, max_size=8))
def test_functions_equal_classes(
    as_class: Critic, as_function: Critic, history: Sequence[ToolResults]
) -> None:
    """Over any history of results a function answers and writes exactly as its class."""
    one, other = State(), State()
    for results in history:
        assert as_class.evaluate(one, CALL, results) == as_function.evaluate(other, CALL, results)
    assert one == other


@given(history=st.lists(some_results, max_size=12), limit=st.integers(0, 3))
def test_retries_in_a_row_never_exceed_the_limit(history: Sequence[ToolResults], limit: int) -> None:
    """There are never more retries in a row than allowed, and an error is never let through."""
    state, reflecting, row = State(), SelfReflectionCritic(limit), 0
    for results in history:
        result = reflecting.evaluate(state, CALL, results)
        assert (result.action == "continue") == (not any(each.get("error") for each in results))
        row = row + 1 if result.action == "retry" else 0 if result.action == "continue" else row
        assert row <= limit


@pytest.mark.parametrize("state", [SimpleNamespace(), SimpleNamespace(metadata=None)])
def test_missing_metadata_is_made(state: Any) -> None:
    """A state without metadata gets one when there is something to write."""
    assert SelfReflectionCritic().evaluate(state, CALL, FAILED).action == "retry"
    assert state.metadata


@pytest.mark.parametrize("state", [None, (), SimpleNamespace(metadata=[])])
def test_states_that_cannot_be_written(state: Any) -> None:
    """A state that takes no metadata is fine until a count must be written, and then refused with the remedy."""
    assert SelfReflectionCritic().evaluate(state, CALL, CLEAN).action == "continue"
    with pytest.raises(CriticStateError, match="give the state an attribute `metadata`"):
        SelfReflectionCritic().evaluate(state, CALL, FAILED)


def test_a_spoilt_count_is_refused() -> None:
    """A count that somebody overwrote is named and not guessed."""
    state = State({"self_reflection_retries": "many"})
    with pytest.raises(CriticStateError, match="self_reflection_retries"):
        SelfReflectionCritic().evaluate(state, CALL, FAILED)


@pytest.mark.parametrize("limit", [-1, 1.5, "2", None, True])
def test_wrong_limits(limit: Any) -> None:
    """A limit that is no whole number from 0 is refused at once."""
    for kind in (SelfReflectionCritic, ReActSelfReflectionCritic):
        with pytest.raises(CriticError, match="max_retries"):
            kind(max_retries=limit)


@critic(name="retry_tracker")
def track_retries(state: Any, decision: Any, results: ToolResults) -> CriticReturn:
    """Count retries in the metadata, by hand."""
    metadata = getattr(state, "metadata", {}) or {}
    retries = int(metadata.get("custom_retries", 0))
    if not any(result.get("error") for result in results):
        return "continue"
    if retries >= 5:
        return "stop", "too many retries"
    metadata["custom_retries"] = retries + 1
    state.metadata = metadata
    return CriticResult("retry", "a tool failed", 0.3, state_patch={"last_error_type": "tool_failure"})


@pytest.mark.req("R301")
def test_a_critic_counts_in_the_metadata() -> None:
    """A critic of one's own counts its retries in the state's metadata and stops after the limit."""
    state, chain = SimpleNamespace(metadata=None), CriticChain([track_retries])
    verdicts = [asyncio.run(chain.judge(state, CALL, FAILED)) for _ in range(6)]
    assert [verdict.action for verdict in verdicts] == ["retry"] * 5 + ["stop"]
    assert state.metadata == {"custom_retries": 5}
    assert verdicts[0].result.score == 0.3
