"""Hooks look on at every stage, and can do no harm."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tercet.critics import Decision, Hook, HookError, Moment, Stage, StopReason, critic

from .bench import Scripted, act, counted, run

STEP = ["decide", "act", "reduce", "critic", "check_stop"]


class Watching(Hook):
    """Notes every stage that it is called at."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, str, int]] = []
        self.moments: list[Moment] = []

    def before(self, stage: Stage, moment: Moment) -> None:
        """Note the beginning of a stage."""
        self.stages.append(("before", stage, moment.step))

    async def after(self, stage: Stage, moment: Moment) -> None:
        """Note the end of a stage."""
        self.stages.append(("after", stage, moment.step))
        self.moments.append(moment)


@pytest.mark.req("R304")
def test_a_hook_is_called_before_and_after_each_stage() -> None:
    """In the order of the stages, with the number of the step."""
    watching = Watching()
    run(Scripted([act("a"), Decision.final("b")], [counted("desk.say")[0]]), hooks=[watching])
    stages = [("start", 0), *((s, 1) for s in STEP), *((s, 2) for s in STEP), ("end", 2)]
    expected = [(when, *stage) for stage in stages for when in ("before", "after")]
    inside = expected.index(("after", "act", 1))
    tool = [("before", "tool", 1), ("after", "tool", 1)]
    assert watching.stages == [*expected[:inside], *tool, *expected[inside:]]


@pytest.mark.req("R304")
def test_a_moment_tells_what_is_known() -> None:
    """Decision, results, verdict, prompt and reason are there once they are, and cannot be changed."""
    watching = Watching()

    @critic(name="strict")
    def strict(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return ("retry", "again", "Louder.") if state.metadata["n"] == 1 else "continue"

    agent = Scripted([act("a"), Decision.final("b")], [counted("desk.say")[0]])
    run(agent, [strict], hooks=[watching])
    stages = [stage for when, stage, _ in watching.stages if when == "after"]
    by_stage = {(m.step, stage): m for m, stage in zip(watching.moments, stages, strict=True)}
    assert by_stage[1, "decide"].decision == act("a")
    assert by_stage[1, "act"].results == ({"word": "a"},)
    verdict = by_stage[1, "critic"].verdict
    assert verdict is not None
    assert (verdict.critic, verdict.action) == ("strict", "retry")
    assert by_stage[2, "decide"].prompt == "You are a clerk.\n\nLouder."
    assert by_stage[3, "check_stop"].stop_reason is StopReason.FINAL
    assert by_stage[3, "end"].stop_reason is StopReason.FINAL
    assert len({moment.run_id for moment in watching.moments}) == 1
    with pytest.raises(FrozenInstanceError):
        watching.moments[0].step = 9  # pyright: ignore[reportAttributeAccessIssue]


def test_a_function_is_called_after_each_stage() -> None:
    """The shortest hook is a function of stage and moment."""
    seen: list[str] = []

    def looking(stage: Stage, moment: Moment) -> None:
        seen.append(stage)

    run(Scripted([Decision.final()]), hooks=[looking])
    assert seen == ["start", *STEP, "end"]


def test_a_hook_that_raises_breaks_nothing() -> None:
    """The run comes to its answer, and the result says which hook raised, where and what."""

    class Clumsy:
        async def before(self, stage: Stage, moment: Moment) -> None:
            if stage == "critic":
                raise OSError("no ink")

    def tripping(stage: Stage, moment: Moment) -> None:
        if stage == "end":
            raise KeyError("mat")

    result = run(Scripted([Decision.final("fine")]), hooks=[Clumsy(), tripping])
    assert result.final_answer == "fine"
    assert result.hook_errors == (
        HookError(hook="Clumsy", stage="critic", when="before", error="OSError: no ink"),
        HookError(hook="tripping", stage="end", when="after", error="KeyError: 'mat'"),
    )
