"""One tree of errors, split by whose move it is."""

from __future__ import annotations

import pytest

from tercet.contracts.errors import (
    GatewayError,
    InternalError,
    LimitError,
    NotDone,
    PackError,
    PlanError,
    ReplayError,
    TercetError,
    UsageError,
)
from tercet.contracts.problem import Problem


@pytest.mark.parametrize(
    ("error", "parents", "code"),
    [
        (UsageError("m"), (TercetError,), "usage"),
        (PlanError([Problem(code="c", message="m")]), (UsageError, TercetError), "plan_invalid"),
        (PackError([Problem(code="c", message="m")]), (UsageError, TercetError), "pack_invalid"),
        (LimitError("tokens", 9, 5), (TercetError,), "tokens"),
        (GatewayError("m"), (TercetError,), "gateway"),
        (NotDone("m"), (GatewayError, TercetError), "not_done"),
        (ReplayError(recorded="a", expected="b", check="c"), (TercetError,), "replay"),
        (InternalError("m"), (TercetError,), "internal"),
        (TercetError("m"), (Exception,), "error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_every_error_has_its_place_and_its_code(
    error: TercetError, parents: tuple[type[Exception], ...], code: str
) -> None:
    """Whoever catches a branch catches what is below it, and machines read a stable word."""
    assert isinstance(error, parents)
    assert error.code == code
    assert str(error)


def test_branches_do_not_catch_each_other() -> None:
    """The caller's mistake, a limit, the outside world, history and our own bug are different things."""
    branches = (UsageError, LimitError, GatewayError, ReplayError, InternalError)
    assert not any(issubclass(one, other) for one in branches for other in branches if one is not other)


def test_the_text_says_what_happened_and_what_to_do() -> None:
    """The remedy stands behind the message, and a code can be finer than the type's own."""
    error = UsageError("there is no tool x.y", code="unknown_tool", remedy="declare it in tools.py")
    assert str(error) == "there is no tool x.y (declare it in tools.py)"
    assert (error.message, error.code, error.remedy) == (
        "there is no tool x.y",
        "unknown_tool",
        "declare it in tools.py",
    )
    assert str(UsageError("no remedy")) == "no remedy"


def test_a_limit_says_which_and_by_how_much() -> None:
    """Kind, value and limit can be read by a machine, and stand in the text."""
    error = LimitError("tool_calls", 9, 8, remedy="ask for more")
    assert (error.kind, error.value, error.limit, error.code) == ("tool_calls", 9, 8, "tool_calls")
    assert str(error) == "tool_calls is 9, over its limit of 8 (ask for more)"


def test_a_replay_says_what_was_recorded_and_expected() -> None:
    """Both are there to compare, and the remedy says what to check."""
    error = ReplayError(recorded="verdict ok", expected="verdict reject", check="the pack's version")
    assert (error.recorded, error.expected, error.remedy) == (
        "verdict ok",
        "verdict reject",
        "the pack's version",
    )
    assert str(error) == "recorded verdict ok, expected verdict reject (the pack's version)"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "the plan has 0 problems: no details"),
        (1, "the plan has 1 problem: /steps/0: m0; do it"),
        (3, "the plan has 3 problems: /steps/0: m0; do it (and 2 more)"),
    ],
)
def test_an_error_with_problems_counts_them(count: int, text: str) -> None:
    """The first problem stands in the text, and all of them on the error."""
    problems = [Problem(code="c", place=f"/steps/{n}", message=f"m{n}", remedy="do it") for n in range(count)]
    error = PlanError(problems)
    assert str(error) == text
    assert error.problems == tuple(problems)


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem(code="c", message="m"), "m"),
        (Problem(code="c", message="m", remedy="r"), "m; r"),
        (Problem(code="c", message="m", place="/a"), "/a: m"),
        (Problem(code="c", message="m", file="pack.toml"), "pack.toml: m"),
        (
            Problem(code="c", message="m", file="tools.py", row=7, place="tool x.y", remedy="r"),
            "tools.py:7 tool x.y: m; r",
        ),
    ],
)
def test_a_problem_as_one_line(problem: Problem, line: str) -> None:
    """File, row, place, message and remedy, as far as they are known."""
    assert problem.line() == line
