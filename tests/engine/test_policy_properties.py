"""What holds for every plan with references: a policy that refuses the resolved plan keeps all of its effects away."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.plan import Plan, Step
from tercet.engine.result import RunResult
from tercet.tools import ToolContext

from .workshop import ADA, ASK, Workshop, plan, step


class Resolved(NamedTuple):
    """A step as it will run."""

    name: str
    pays: bool
    amount: int


RULES: dict[str, Callable[[list[Resolved]], bool]] = {
    'plan.steps.all(s, s.tool != "pay.it" || s.params.sum < 50)': lambda steps: all(
        s.amount < 50 for s in steps if s.pays
    ),
    "plan.steps.all(s, !has(s.params.sum) || s.params.sum < 50)": lambda steps: all(
        s.amount < 50 for s in steps
    ),
    'plan.steps.filter(s, s.tool == "pay.it" && s.params.sum > 30).size() <= 1': lambda steps: (
        sum(s.pays and s.amount > 30 for s in steps) <= 1
    ),
    'plan.steps.exists(s, s.tool == "pay.it" && s.params.sum < 20)': lambda steps: any(
        s.pays and s.amount < 20 for s in steps
    ),
    (
        'plan.steps.all(a, a.tool != "pay.it" || plan.steps.all(b, b.tool != "pay.it" || a.id == b.id'
        " || a.params.sum + b.params.sum < 90))"
    ): lambda steps: all(
        a.amount + b.amount < 90 for a in steps for b in steps if a.pays and b.pays and a.name != b.name
    ),
    'plan.steps.all(s, s["params"]["sum"] != 33)': lambda steps: all(s.amount != 33 for s in steps),
}
"""Policies over a plan in CEL, each with the same in Python."""


class Case(NamedTuple):
    """A plan, what it comes to, and the policy that it runs under."""

    plan: Plan
    resolved: list[Resolved]
    rule: str


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A plan whose steps take their sums from the plan or from the results of steps before them."""
    steps: list[Step] = []
    resolved: list[Resolved] = []
    for number in range(draw(st.integers(1, 5))):
        name, pays = f"s{number}", draw(st.booleans())
        source = draw(st.none() | st.sampled_from(resolved)) if resolved else None
        if source is None:
            amount = draw(st.sampled_from([1, 15, 20, 31, 33, 45, 60]))
            said: Any = amount
        else:
            amount, said = source.amount + 1, {"$from": f"{source.name}#/next"}
        tool = "pay.it" if pays else "look.it"
        steps.append(step(name, tool, params={"n": name, "sum": said}))
        resolved.append(Resolved(name, pays, amount))
    order = draw(st.permutations(range(len(steps))))
    return Case(plan(*(steps[at] for at in order)), resolved, draw(st.sampled_from(sorted(RULES))))


def carry_out(case: Case, **policy: Any) -> tuple[RunResult, list[str]]:
    """Run a plan under its policy: what it comes to, and the payments and filings that were made."""
    workshop, paid = Workshop(), list[str]()

    async def look(_: ToolContext, params: dict[str, Any]) -> Any:
        return {"next": params["sum"] + 1}

    async def pay(context: ToolContext, params: dict[str, Any]) -> Any:
        paid.append(context.step_id)
        return {"next": params["sum"] + 1}

    async def record(context: ToolContext, _: dict[str, Any]) -> Any:
        paid.append(context.step_id)

    async def fail(_: ToolContext, __: dict[str, Any]) -> Any:
        raise NotDone("no")

    workshop.tool("look.it", look, mode="read_only")
    workshop.tool("pay.it", pay, endorses=True)  # so that a `when` may read its result
    workshop.tool("file.it", record)
    workshop.tool("fail.it", fail)
    rule = Policy.model_validate({"name": "rule", "expression": case.rule, **policy})
    pack = workshop.pack(policies=(rule,), gates=(Gate(name="BOSS", roles=("boss",)),))

    async def main() -> RunResult:
        async with workshop.runtime(pack) as runtime:
            return await runtime.run(ASK, plan=case.plan, actor=ADA)

    return workshop.run(main()), paid


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_policy_that_refuses_the_resolved_plan_lets_none_of_its_effects_through(case: Case) -> None:
    """Whatever was open at review: no payment is made of a plan that turns out to break the policy."""
    result, paid = carry_out(case)
    holds = RULES[case.rule](case.resolved)
    event(f"the policy {'holds' if holds else 'is broken'}, and the run is {result.status}")
    if not holds:
        assert paid == []
        assert result.status != "completed" or not any(each.pays for each in case.resolved)
    if result.status == "completed":
        assert len(paid) == sum(each.pays for each in case.resolved)
    elif holds:
        assert "cannot be decided" in result.reason


@settings(max_examples=40, deadline=None)
@given(cases())
def test_a_policy_that_gates_the_resolved_plan_lets_none_of_its_effects_through(case: Case) -> None:
    """Where the policy does not hold on the resolved plan, no payment is made before its gate was opened."""
    _, paid = carry_out(case, effect="gate", gate="BOSS")
    if not RULES[case.rule](case.resolved):
        assert paid == []


# ---- steps that may not run -----------------------------------------------------------------------------------------

NEEDS: dict[str, Callable[[int], bool]] = {
    "size() >= 1": lambda filed: filed >= 1,
    "size() >= 2": lambda filed: filed >= 2,
    "size() != 1": lambda filed: filed != 1,
    "size() <= 1": lambda filed: filed <= 1,
}
"""How many filings a policy wants beside a payment, in CEL and in Python."""

FATES: dict[str, dict[str, Any]] = {
    "certain": {},
    "runs": {"when": "true"},
    "is left out": {"when": "request.count == 7"},
    "runs after the payment": {"when": "pay.next == 2"},
    "is left out after the payment": {"when": "pay.next == 0"},
    "optional": {"optional": True},
    "optional and fails": {"optional": True, "tool": "fail.it"},
    "optional after the payment": {"optional": True, "depends_on": ("pay",)},
}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(FATES)), max_size=3),
    st.sampled_from(sorted(NEEDS)),
    st.randoms(),
    st.booleans(),
)
def test_a_payment_is_made_only_if_its_policy_holds_in_the_end_in_whatever_order_the_steps_are_listed(
    fates: list[str], need: str, shuffle: Random, is_optional: bool
) -> None:
    """What may not run satisfies no policy, and the order of the list does not change whether the payment is made."""
    filed = '(s.tool == "file.it" || s.tool == "fail.it")'
    rule = f'!plan.steps.exists(s, s.tool == "pay.it") || plan.steps.filter(s, {filed}).{need}'
    steps = [step("pay", "pay.it", params={"sum": 1}, optional=is_optional)]
    steps += [step(f"f{at}", **{"tool": "file.it", **FATES[fate]}) for at, fate in enumerate(fates)]
    listed = carry_out(Case(plan(*steps), [], rule))
    shuffle.shuffle(steps)
    result, done = listed
    assert ("pay" in carry_out(Case(plan(*steps), [], rule))[1]) == ("pay" in done)
    event(f"paid: {'pay' in done}, {result.status}")
    if "pay" in done:
        assert NEEDS[need](len(done) - 1)
