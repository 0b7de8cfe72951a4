"""What a critic returns: the fields, the shorthands, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.critic.pluggable.shorthand import settle
from tercet.critics import CriticResult, CriticReturnError


@pytest.mark.req("R53")
def test_defaults() -> None:
    """An empty result says continue with a full score and patches nothing."""
    assert dataclasses.asdict(CriticResult()) == {
        "action": "continue",
        "reason": "",
        "score": 1.0,
        "details": {},
        "instruction_patch": None,
        "state_patch": None,
        "modified_prompt": None,
    }


@pytest.mark.req("R53")
def test_positional_and_frozen() -> None:
    """Fields are given in their order or by name, and stay as given."""
    result = CriticResult(
        "retry", "incomplete", 0.3, {"missing": 2}, "Name all fields.", {"tries": 1}, "You are terse."
    )
    assert result == CriticResult(
        action="retry",
        reason="incomplete",
        score=0.3,
        details={"missing": 2},
        instruction_patch="Name all fields.",
        state_patch={"tries": 1},
        modified_prompt="You are terse.",
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.score = 1.0  # type: ignore[misc]  # the very thing that must fail


def test_details_are_not_shared() -> None:
    """Two results never share the dict that nobody gave them."""
    assert CriticResult().details is not CriticResult().details


def test_given_score_is_told_from_the_default() -> None:
    """A given 1.0 counts as given, also after copying, and an absent score stays absent."""
    absent, given_one = CriticResult(), CriticResult(score=1.0)
    assert absent == given_one
    assert (absent.scored, given_one.scored) == (False, True)
    for result in (absent, given_one):
        derived = copy.copy(result), copy.deepcopy(result), dataclasses.replace(result, reason="x")
        assert [each.scored for each in derived] == [result.scored] * 3


def test_results_are_plain_data() -> None:
    """A result encodes to JSON whether or not it has a score."""
    assert orjson.loads(orjson.dumps(CriticResult()))["score"] == 1.0
    assert orjson.loads(orjson.dumps(CriticResult(score=0.5)))["score"] == 0.5


@pytest.mark.req("R287", "R294")
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("continue", CriticResult()),
        (("continue", "fine"), CriticResult("continue", "fine")),
        (("stop", "unsafe"), CriticResult("stop", "unsafe")),
        (("retry", "again"), CriticResult("retry", "again")),
        (("retry", "again", "Be brief."), CriticResult("retry", "again", instruction_patch="Be brief.")),
        (("retry", "again", None), CriticResult("retry", "again")),
        (CriticResult("stop", "no", 0.0), CriticResult("stop", "no", 0.0)),
        ({"action": "continue", "reason": "pass", "score": 1}, CriticResult("continue", "pass", 1.0)),
    ],
)
def test_shorthands(returned: object, expected: CriticResult) -> None:
    """Each way to answer becomes one full result."""
    assert settle(returned, critic="c") == expected


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("continue", 0.8),
        (("stop", "r"), 0.8),
        (("retry", "r", "p"), 0.8),
        (CriticResult("retry", "r"), 0.8),
        ({"action": "stop"}, 0.8),
        (CriticResult("continue", score=1.0), 1.0),
        (CriticResult("stop", score=0.0), 0.0),
        ({"action": "stop", "score": 0.1}, 0.1),
    ],
)
@pytest.mark.req("R295")
def test_default_score_fills_only_gaps(returned: object, expected: float) -> None:
    """The default score counts where none was given, and nowhere else."""
    result = settle(returned, critic="c", default_score=0.8)
    assert result.score == expected
    assert result.scored


@pytest.mark.parametrize(
    "returned",
    [
        None,
        True,
        1.0,
        "stop",
        "retry",
        "halt",
        "",
        (),
        ("stop",),
        ("stop", 3),
        ("halt", "reason"),
        ("escalate", "reason"),
        ("stop", "reason", "patch"),
        ("retry", "reason", 3),
        ("retry", "reason", "patch", "more"),
        ["stop", "reason"],
        {},
        {"reason": "no action"},
        {"action": "stop", "why": "unknown field"},
        {"action": "escalate"},
        CriticResult("halt"),  # type: ignore[arg-type]  # what an unchecked critic may send
        CriticResult(reason=None),  # type: ignore[arg-type]
        CriticResult(details=[]),  # type: ignore[arg-type]
        CriticResult("retry", instruction_patch=3),  # type: ignore[arg-type]
        CriticResult("retry", state_patch=[("a", 1)]),  # type: ignore[arg-type]
        CriticResult("retry", modified_prompt=b""),  # type: ignore[arg-type]
        object(),
    ],
)
def test_anything_else_is_refused(returned: object) -> None:
    """What is no result is refused with the critic's name and everything that is allowed."""
    with pytest.raises(CriticReturnError) as caught:
        settle(returned, critic="strict")
    assert isinstance(caught.value, UsageError)
    assert caught.value.code == "critic_return_invalid"
    assert "critic 'strict' returned" in str(caught.value)
    assert "the actions are continue, stop, retry" in str(caught.value)


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0.5", None])
def test_impossible_scores_are_refused(score: Any) -> None:
    """A score is a finite number from 0 to 1."""
    with pytest.raises(CriticReturnError, match=r"the score .*, which is not a number from 0 to 1"):
        settle(CriticResult(score=score), critic="c")


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.integers(),
        st.tuples(st.text(), st.text()),
        st.dictionaries(st.text(), st.text()),
    )
)
def test_settling_is_total(returned: object) -> None:
    """Whatever comes back, settling gives an allowed result or the one typed refusal."""
    try:
        result = settle(returned, critic="c")
    except CriticReturnError:
        return
    assert result.action in {"continue", "stop", "retry"}


@given(score=st.floats(0, 1), default=st.floats(0, 1))
def test_settling_twice_changes_nothing(score: float, default: float) -> None:
    """A settled result passes a second settling unchanged, whatever the default score there."""
    once = settle(CriticResult("retry", "r", score), critic="c")
    assert settle(once, critic="c", default_score=default) == once
    unscored = settle("continue", critic="c", default_score=score)
    assert settle(unscored, critic="c", default_score=default).score == score


def test_settled_details_are_detached() -> None:
    """A critic that keeps its details dict cannot change a result it has given."""
    details = {"seen": 1}
    result = settle(CriticResult(details=details), critic="c")
    details["seen"] = 2
    assert result.details == {"seen": 1}
