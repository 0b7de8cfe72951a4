"""Policies about the order of steps while a plan runs, and runs that do not depend on the order of the list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Policy
from tercet.contracts.plan import Plan, Step
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.tools import ToolContext

from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

BY_ID = (
    'plan.steps.all(pay, pay.tool != "pay.it"'
    ' || plan.steps.exists(look, look.tool == "look.it" && look.id in pay.before))'
)
BY_TOOL = 'step.tool != "pay.it" || "look.it" in step.before_tools'
SCOPES = {"plan": BY_ID, "step": BY_TOOL}
LAST = 'plan.steps.all(tell, tell.tool != "file.it" || !("pay.it" in tell.after_tools))'


class Desk:
    """Tools that look things up, pay and file; `done` lists the steps of the effects that happened."""

    def __init__(self, *rules: Policy, **header: Any) -> None:
        self.workshop = workshop = Workshop()
        self.done: list[str] = []
        self.found: list[e.Event] = []

        async def look(_: ToolContext, params: dict[str, Any]) -> Any:
            if params.get("fails"):
                raise NotDone("nothing there")
            return {"sum": 5}

        async def act(context: ToolContext, _: dict[str, Any]) -> Any:
            self.done.append(context.step_id)
            return {"sum": 5}

        async def fail(_: ToolContext, __: dict[str, Any]) -> Any:
            raise NotDone("no")

        workshop.tool("look.it", look, mode="read_only", endorses=True)
        workshop.tool("pay.it", act, endorses=True)
        workshop.tool("file.it", act)
        workshop.tool("close.it", act)
        workshop.tool("fail.it", fail)
        self.pack = workshop.pack(policies=rules, budget={"max_step_retries": 0}, **header)

    def run(self, *plans: Plan) -> RunResult:
        """Run a caller's plan, or a planner that proposes several."""

        async def main() -> RunResult:
            async with self.workshop.runtime(self.pack) as runtime:
                one: dict[str, Any] = {"plan": plans[0]} if len(plans) == 1 else {"planner": Script(*plans)}
                result = await runtime.run(ASK, actor=ADA, **one)
                self.found = await events(runtime.journal, result.session_id)
                return result

        return self.workshop.run(main())

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """The steps that were refused at dispatch, with the code."""
        return [(each.step, each.code) for each in self.found if isinstance(each, e.StepRefused)]


def rule(expression: str, scope: str = "plan") -> Policy:
    """A policy that denies."""
    return Policy.model_validate({"name": "rule", "expression": expression, "scope": scope})


def looking(**fields: Any) -> Step:
    """A step that looks a sum up."""
    return step("look", "look.it", **fields)


def paying(**fields: Any) -> Step:
    """A step that pays."""
    return step("pay", "pay.it", **fields)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_payment_that_runs_before_its_look_up_is_refused(scope: str) -> None:
    """The list says otherwise, and does not count."""
    desk = Desk(rule(SCOPES[scope], scope))
    result = desk.run(plan(looking(depends_on=("pay",)), paying()))
    assert (result.status, desk.done) == ("failed", [])
    assert "violates policy rule" in result.reason


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "fields",
    [{"when": "request.count == 7"}, {"optional": True, "params": {"fails": True}}],
    ids=["skipped", "failing"],
)
def test_a_look_up_that_was_skipped_or_failed_is_not_read_first(scope: str, fields: dict[str, Any]) -> None:
    """The payment waits for it, and is refused when it did not happen."""
    desk = Desk(rule(SCOPES[scope], scope))
    desk.run(plan(looking(**fields), paying(depends_on=("look",))))
    assert (desk.done, desk.refusals) == ([], [("pay", "policy_invariant")])


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("fields", [{}, {"optional": True}, {"when": "request.count == 2"}])
def test_a_look_up_that_completed_is_read_first(scope: str, fields: dict[str, Any]) -> None:
    """Also through a note between the two, which calls nothing, and for a value that the look-up brings."""
    desk = Desk(rule(SCOPES[scope], scope))
    noted = step("note", None, params={"x": 1}, depends_on=("look",))
    assert desk.run(plan(paying(depends_on=("note",)), noted, looking(**fields))).status == "completed"
    taken = paying(params={"sum": {"$from": "look#/sum"}})
    assert desk.run(plan(taken, looking(**fields))).status == "completed"
    assert desk.done == ["pay", "pay"]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_look_up_of_an_earlier_plan_is_read_first(scope: str) -> None:
    """It completed before the new plan was made; the step of the new plan that has its id does not count for it."""
    desk = Desk(rule(SCOPES[scope], scope))
    first = plan(looking(), step("bad", "fail.it", depends_on=("look",)))
    assert desk.run(first, plan(paying())).status == "completed"
    assert desk.done == ["pay"]
    other = Desk(rule(SCOPES[scope], scope))
    renamed = plan(step("look", "file.it"), step("bad", "fail.it", depends_on=("look",)))
    other.run(renamed, plan(looking(params={"again": 1}), paying()))
    assert "pay" not in other.done


def test_a_compensation_runs_after_what_its_step_waited_for() -> None:
    """Its policy sees the look-up before the filing that it undoes, although a skipped step stands between them."""
    desk = Desk(
        rule('step.tool != "close.it" || "look.it" in step.before_tools', "step"), on_failure="compensate"
    )
    close = {"tool": "close.it", "params": {"n": "again"}}
    skipped = step("note", None, params={"x": 1}, when="look.sum == 0")
    filed = step("file", "file.it", depends_on=("note",), compensate=close)

    async def main() -> None:
        async with desk.workshop.runtime(desk.pack) as runtime:
            steps = plan(looking(), skipped, filed, step("bad", "fail.it", depends_on=("file",)))
            result = await runtime.run(ASK, plan=steps, actor=ADA)
            assert result.gate is not None
            await runtime.decide(result.gate.id, "abandon", actor=BOB)
            await runtime.resume(result.session_id)

    desk.workshop.run(main())
    assert desk.done == ["file", "~file"]


# ---- no permutation of the list matters -----------------------------------------------------------------------------

RULES = [
    [],
    [rule(BY_ID)],
    [rule(BY_TOOL, "step")],
    [rule(LAST)],
    [rule('step.tool != "file.it" || !("pay.it" in step.after_tools)', "step")],
    [rule('plan.steps.all(s, s.tool != "pay.it" || "file.it" in s.after_tools)')],
]
FATES: list[dict[str, Any]] = [
    {},
    {},
    {"when": "true"},
    {"when": "request.count == 7"},
    {"optional": True},
    {"optional": True, "tool": "fail.it"},
]


@st.composite
def plans(draw: st.DrawFn) -> list[Step]:
    """Steps that wait for some of those before them, by `depends_on` or by a reference."""
    steps: list[Step] = []
    for number in range(draw(st.integers(2, 5))):
        tool = draw(st.sampled_from(["look.it", "pay.it", "file.it"]))
        before = [each.id for each in steps]
        waits = draw(st.lists(st.sampled_from(before), unique=True, max_size=2)) if before else []
        fields: dict[str, Any] = {"tool": tool, **draw(st.sampled_from(FATES)), "depends_on": tuple(waits)}
        refers = draw(st.sampled_from([None, *(each.id for each in steps if each.tool == "look.it")]))
        params = {"n": number} if refers is None else {"n": number, "sum": {"$from": f"{refers}#/sum"}}
        steps.append(Step.model_validate({"id": f"s{number}", "params": params, **fields}))
    return steps


@settings(max_examples=60, deadline=None)
@given(plans(), st.sampled_from(RULES), st.data())
def test_no_permutation_of_the_list_changes_what_a_run_does(
    steps: list[Step], rules: list[Policy], data: Any
) -> None:
    """The same steps take effect, or none of the orders completes."""
    desk, other = Desk(*rules), Desk(*rules)
    first = desk.run(plan(*steps))
    again = other.run(plan(*data.draw(st.permutations(steps))))
    event(first.status)
    assert first.status == again.status
    if first.status == "completed":
        assert sorted(desk.done) == sorted(other.done)
