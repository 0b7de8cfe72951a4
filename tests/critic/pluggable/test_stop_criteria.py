"""When a run ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.critic.pluggable.stop import step_signature
from tercet.critics import (
    FinalResult,
    MaxRuntime,
    MaxSteps,
    MaxTokens,
    Progress,
    Stagnation,
    StopCriterion,
    StopReason,
    critic_stop,
    first_stop,
)


@pytest.mark.parametrize(
    ("criterion", "going_on", "ended", "reason"),
    [
        (FinalResult(), Progress(), Progress(has_final_answer=True), StopReason.FINAL),
        (MaxSteps(3), Progress(steps=2), Progress(steps=3), StopReason.MAX_STEPS),
        (MaxRuntime(100), Progress(elapsed_ms=99), Progress(elapsed_ms=100), StopReason.MAX_RUNTIME),
        (MaxTokens(50), Progress(tokens=49), Progress(tokens=51), StopReason.MAX_TOKENS),
        (
            Stagnation(2),
            Progress(signatures=("a", "a", "b")),
            Progress(signatures=("b", "a", "a")),
            StopReason.STAGNATION,
        ),
    ],
)
def test_each_criterion(
    criterion: StopCriterion, going_on: Progress, ended: Progress, reason: StopReason
) -> None:
    """A criterion is silent before its limit and gives its reason from there on."""
    assert criterion.check(going_on) is None
    assert criterion.check(ended) is reason


def test_stagnation_needs_a_full_window() -> None:
    """Fewer steps than the window are never a standstill."""
    assert Stagnation(3).check(Progress(signatures=("a", "a"))) is None
    assert Stagnation(3).check(Progress()) is None


@given(st.lists(st.sampled_from("ab"), max_size=8).map(tuple), st.integers(2, 4))
def test_stagnation_looks_at_the_end_only(signatures: tuple[str, ...], window: int) -> None:
    """A run stands still exactly if its last steps are all alike."""
    alike = any(signatures[-window:] == (letter,) * window for letter in "ab")
    assert (Stagnation(window).check(Progress(signatures=signatures)) is not None) == alike


def test_the_first_criterion_wins() -> None:
    """The order of the list decides which reason is given."""
    progress = Progress(steps=9, tokens=9, has_final_answer=True)
    assert first_stop([MaxSteps(10), MaxTokens(5), FinalResult()], progress) is StopReason.MAX_TOKENS
    assert first_stop([FinalResult(), MaxTokens(5)], progress) is StopReason.FINAL
    assert first_stop([MaxSteps(10)], progress) is None
    assert first_stop([], progress) is None


def test_a_criterion_of_ones_own() -> None:
    """Any object with a check method takes part."""

    class Impatient:
        def check(self, progress: Progress, /) -> StopReason | None:
            return StopReason.MAX_RUNTIME if progress.steps else None

    assert first_stop([Impatient()], Progress(steps=1)) is StopReason.MAX_RUNTIME


def test_what_critics_end() -> None:
    """A stop and an escalation each end a run with a reason of their own, and the rest goes on."""
    answers = {action: critic_stop(action) for action in ("stop", "escalate", "continue", "retry")}
    assert answers == {
        "stop": StopReason.CRITIC_STOP,
        "escalate": StopReason.CRITIC_ESCALATE,
        "continue": None,
        "retry": None,
    }


def test_signatures() -> None:
    """Equal steps have equal signatures, and another decision or result has another."""
    same = step_signature({"tool": "pay"}, [{"total": 1}])
    assert same == step_signature({"tool": "pay"}, [{"total": 1}])
    assert (
        len(
            {
                same,
                step_signature({"tool": "look"}, [{"total": 1}]),
                step_signature({"tool": "pay"}, [{"total": 2}]),
            }
        )
        == 3
    )


@pytest.mark.parametrize("limit", [0, -1, 1.5, "3", None, True])
def test_limits_that_make_no_sense(limit: Any) -> None:
    """A limit is a whole number from 1, and a window from 2."""
    for kind in (MaxSteps, MaxRuntime, MaxTokens, Stagnation):
        with pytest.raises(UsageError, match=f"{kind.__name__} has the limit"):
            kind(limit)
    with pytest.raises(UsageError, match="2 or more"):
        Stagnation(1)
