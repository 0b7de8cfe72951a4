"""Tool outcomes as critics see them, and a critic's answer as a verdict on the step."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from tercet.critics import as_results, step_outcome


def test_outcomes_become_dicts() -> None:
    """A dict comes as it is, another value under "result", and an exception under "error"."""
    order = {"total": 3}
    results = as_results([order, MappingProxyType({"a": 1}), 7, None, ValueError("no stock"), TimeoutError()])
    assert results[0] is order
    assert results[1:] == [
        {"a": 1},
        {"result": 7},
        {"result": None},
        {"error": "no stock", "error_type": "ValueError"},
        {"error": "TimeoutError", "error_type": "TimeoutError"},
    ]


@pytest.mark.parametrize("attempt", ["done", "not_done", "unknown"])
@pytest.mark.parametrize("pure", [True, False])
def test_answers_that_do_not_depend_on_the_attempt(pure: bool, attempt: Any) -> None:
    """Continue accepts, and stop and escalate hand over, however the call ended."""
    views = [step_outcome(action, pure=pure, attempt=attempt) for action in ("continue", "stop", "escalate")]
    assert views == ["accept", "escalate", "escalate"]


@pytest.mark.parametrize(
    ("pure", "attempt", "outcome"),
    [
        (True, "done", "retry"),
        (True, "not_done", "retry"),
        (True, "unknown", "retry"),
        (False, "not_done", "retry"),
        (False, "done", "replan"),
        (False, "unknown", "escalate"),
    ],
)
def test_a_retry_never_repeats_an_effect(pure: bool, attempt: Any, outcome: str) -> None:
    """A retry is one for a pure step or an effect that did not happen, and a replan after one that did."""
    assert step_outcome("retry", pure=pure, attempt=attempt) == outcome
