"""Policies over a plan while it runs: always decided before an effect, and with all that the run has done before."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import NotDone
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.plan import Plan, Step
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.tools import ToolContext

from .test_runs import Script
from .workshop import ADA, ASK, BOB, Workshop, events, plan, step

SMALL = 'plan.steps.all(s, s.tool != "pay.it" || s.params.sum < 50)'
ONE = 'plan.steps.filter(s, s.tool == "pay.it").size() <= 1'
ONE_LARGE = 'plan.steps.filter(s, s.tool == "pay.it" && s.params.sum > 50).size() <= 1'
LOOKED_BEFORE = (
    'plan.steps.all(pay, pay.tool != "pay.it"'
    ' || plan.steps.exists(look, look.tool == "look.it" && look.id in pay.before))'
)
BOSS = Gate(name="BOSS", roles=("boss",))


def policy(expression: str, **fields: Any) -> Policy:
    """A policy over the plan."""
    return Policy.model_validate({"name": "rule", "expression": expression, **fields})


class Till:
    """Tools that look up a sum and pay sums; `paid` lists the sums that were paid."""

    def __init__(
        self,
        workshop: Workshop,
        *policies: Policy,
        looked: Any = 60,
        evidence: dict[str, Any] | None = None,
    ) -> None:
        self.workshop = workshop
        self.paid: list[Any] = []

        async def look(_: ToolContext, params: dict[str, Any]) -> Any:
            if params.get("fails"):
                raise NotDone("nothing there")
            return {"sum": looked}

        async def pay(_: ToolContext, params: dict[str, Any]) -> Any:
            self.paid.append(params["sum"])
            return {"sum": params["sum"] if params.get("usable", True) else "unusable"}

        async def fail(_: ToolContext, __: dict[str, Any]) -> Any:
            raise NotDone("no")

        number = {"type": "object", "properties": {"sum": {"type": "integer"}}}
        # Trusted whatever they were called with, so that a `when` may read their results.
        workshop.tool("look.it", look, mode="read_only", endorses=True)
        workshop.tool("pay.it", pay, result=number, endorses=True)
        workshop.tool("fail.it", fail)
        workshop.tool("file.it")
        facts = [
            Evidence(id=ref, classification="price", content=content)
            for ref, content in (evidence or {}).items()
        ]
        self.pack = workshop.pack(
            policies=policies, gates=(BOSS,), evidence=facts, budget={"max_step_retries": 0}
        )
        self.found: list[e.Event] = []

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
        return [(event.step, event.code) for event in self.found if isinstance(event, e.StepRefused)]


def look(step_id: str = "look", **fields: Any) -> Step:
    """A step that looks up a sum."""
    return step(step_id, "look.it", **fields)


def pay(step_id: str, amount: Any, **fields: Any) -> Step:
    """A step that pays a sum, or one that a step has brought."""
    amount = {"$from": f"{amount}#/sum"} if isinstance(amount, str) else amount
    return step(step_id, "pay.it", **{"params": {"n": step_id, "sum": amount}, **fields})


# ---- parameters that are known late -------------------------------------------------------------------------------


def test_a_plan_policy_is_decided_although_two_steps_have_open_parameters(workshop: Workshop) -> None:
    """Both sums are known once the look-up is done, so no payment that breaks the policy is made."""
    till = Till(workshop, policy(SMALL))
    assert till.run(plan(look(), pay("a", "look"), pay("b", "look"))).status != "completed"
    assert till.paid == []
    assert ("a", "policy_invariant") in till.refusals


def test_a_plan_policy_that_holds_on_the_resolved_plan_lets_it_run(workshop: Workshop) -> None:
    """Open parameters that turn out harmless stop nothing."""
    till = Till(workshop, policy(SMALL), looked=20)
    assert till.run(plan(look(), pay("a", "look"), pay("b", "look"))).status == "completed"
    assert till.paid == [20, 20]


@pytest.mark.parametrize("looked", [60, 20])
def test_a_gate_policy_is_decided_although_two_steps_have_open_parameters(
    workshop: Workshop, looked: int
) -> None:
    """Its gate opens exactly if the policy does not hold on the resolved plan."""
    till = Till(workshop, policy(SMALL, effect="gate", gate="BOSS"), looked=looked)
    result = till.run(plan(look(), pay("a", "look"), pay("b", "look")))
    asked = [event.names for event in till.found if isinstance(event, e.GateOpened)]
    if looked == 60:
        assert (result.status, till.paid, asked) == ("awaiting_gate", [], [("BOSS",), ("BOSS",)])
    else:
        assert (result.status, till.paid, asked) == ("completed", [20, 20], [])


@pytest.mark.parametrize(
    "expression",
    [
        SMALL,
        "plan.steps.all(s, !has(s.params.sum) || s.params.sum < 50)",
        'plan.steps.all(s, !("sum" in s.params) || s.params.sum < 50)',
        "plan.steps[1].params.sum < 50",
    ],
)
def test_a_plan_policy_that_cannot_be_decided_refuses_the_effect(workshop: Workshop, expression: str) -> None:
    """What the second payment will be is known only after the first, so the first is not made."""
    till = Till(workshop, policy(expression))
    assert till.run(plan(pay("a", 10), pay("b", "a"))).status != "completed"
    assert till.paid == []
    [refused] = [event for event in till.found if isinstance(event, e.StepRefused)]
    assert (refused.step, refused.code) == ("a", "policy_invariant")
    assert refused.reason == "policy rule cannot be decided before this call: sum of step 1 is not known yet"


def test_a_gate_policy_that_cannot_be_decided_asks_for_its_gate(workshop: Workshop) -> None:
    """A person decides, as for a policy whose expression fails."""
    till = Till(workshop, policy(SMALL, effect="gate", gate="BOSS"))
    assert till.run(plan(pay("a", 10), pay("b", "a"))).status == "awaiting_gate"
    assert till.paid == []


def test_a_plan_policy_that_does_not_depend_on_the_open_value_is_decided(workshop: Workshop) -> None:
    """The rule is about payments; that another tool has an open parameter of the same name changes nothing."""
    till = Till(workshop, policy(SMALL))
    file = step("f", "file.it", params={"sum": {"$from": "a#/sum"}})
    assert till.run(plan(pay("a", 10), file)).status == "completed"
    assert till.paid == [10]


@pytest.mark.parametrize(("looked", "paid"), [(60, []), (20, [70, 20])])
def test_a_deferred_policy_is_decided_for_a_call_whose_own_values_are_written(
    workshop: Workshop, looked: int, paid: list[int]
) -> None:
    """The first payment needs nothing, but waits for the look-up that tells whether the policy allows both."""
    till = Till(workshop, policy(ONE_LARGE), looked=looked)
    result = till.run(plan(pay("a", 70), look(), pay("b", "look")))
    assert till.paid == paid
    assert (result.status == "completed") == bool(paid)


def test_reads_run_while_a_policy_is_undecided(workshop: Workshop) -> None:
    """A call that changes nothing is how values become known, and is not refused."""
    till = Till(workshop, policy(SMALL), looked=20)
    assert (
        till.run(plan(look(), look("again", depends_on=("look",)), pay("a", "again"))).status == "completed"
    )


def test_a_step_that_was_skipped_does_not_satisfy_a_policy(workshop: Workshop) -> None:
    """The look-up that the policy asks for did not happen, so the payment does not either."""
    till = Till(workshop, policy(LOOKED_BEFORE))
    result = till.run(plan(look(when="request.count == 7"), pay("a", 10, depends_on=("look",))))
    assert (result.status == "completed", till.paid) == (False, [])
    assert till.refusals == [("a", "policy_invariant")]


def test_a_step_that_was_skipped_leaves_nothing_undecided(workshop: Workshop) -> None:
    """What an optional payment would have been is never known, and no longer matters."""
    till = Till(workshop, policy(SMALL))
    result = till.run(
        plan(
            look(optional=True, params={"fails": True}),
            pay("maybe", "look", optional=True),
            pay("a", 10, depends_on=("maybe",)),
        )
    )
    assert (result.status, till.paid) == ("completed", [10])


def test_a_read_that_was_made_before_a_gate_policy_could_be_decided_needs_no_approval(
    workshop: Workshop,
) -> None:
    """The payment is approved; the look-up without which nobody could tell is not held against the run."""
    till = Till(workshop, policy(SMALL, effect="gate", gate="BOSS"))

    async def main() -> RunResult:
        async with workshop.runtime(till.pack) as runtime:
            result = await runtime.run(ASK, plan=plan(look(), pay("a", "look")), actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            return await runtime.resume(result.session_id)

    assert workshop.run(main()).status == "completed"
    assert till.paid == [60]


def test_a_step_that_pins_as_much_as_a_plan_may_list_can_be_resolved(workshop: Workshop) -> None:
    """Evidence that its parameters refer to comes on top of what it lists."""
    fact = "kg:price:p1#snapshot_s1"
    till = Till(workshop, policy(SMALL), evidence={fact: {"sum": 10}})
    asked = {"sum": {"$evidence": f"{fact}#/sum"}}
    result = till.run(plan(pay("a", 0, params=asked, evidence_refs=(fact,) * 1_000)))
    assert (result.status, till.paid) == ("completed", [10])


# ---- steps that may not run -----------------------------------------------------------------------------------------

FILED = '!plan.steps.exists(s, s.tool == "pay.it") || plan.steps.exists(s, s.tool == "file.it")'
FILED_OR_FAILED = FILED.replace('"file.it"', '"fail.it"')
SKIPPED_NOTE = step("note", None, params={"x": 1}, when="pay.sum == 0")


def file(step_id: str = "file", **fields: Any) -> Step:
    """A step that satisfies the policy `FILED`."""
    return step(step_id, "file.it", **fields)


UNCERTAIN: dict[str, tuple[str, list[Step]]] = {
    "false": (FILED, [file(when="false")]),
    "false for this request": (FILED, [file(when="request.count == 7")]),
    "false, and behind the payment": (FILED, [file(when="false", depends_on=("pay",))]),
    "known after the payment": (FILED, [file(when="pay.sum == 0")]),
    "optional, and fails": (FILED_OR_FAILED, [step("file", "fail.it", optional=True)]),
    "optional, after the payment": (FILED, [file(optional=True, depends_on=("pay",))]),
    "refers to a step that may not run": (FILED, [SKIPPED_NOTE, file(params={"x": {"$from": "note#/x"}})]),
    "several": (
        FILED,
        [file(f"f{number}", when="pay.sum == 0", params={"n": number}) for number in range(6)],
    ),
}


@pytest.mark.parametrize("effect", ["deny", "gate"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("kind", UNCERTAIN)
def test_a_step_that_may_not_run_does_not_satisfy_a_policy(
    workshop: Workshop, kind: str, effect: str, *, is_first: bool
) -> None:
    """No payment is made on the strength of a step that does not run, wherever the plan lists it."""
    expression, uncertain = UNCERTAIN[kind]
    till = Till(workshop, policy(expression, effect=effect, gate="BOSS" if effect == "gate" else None))
    payment = [pay("pay", 10)]
    result = till.run(plan(*(payment + uncertain if is_first else uncertain + payment)))
    assert till.paid == []
    if effect == "gate":
        assert result.status == "awaiting_gate"
    else:
        assert till.refusals == [("pay", "policy_invariant")]
        assert result.verdict["deferred"] == ["policy rule"]


def test_a_step_that_needs_what_a_skipped_step_establishes_does_not_satisfy_a_policy(
    workshop: Workshop,
) -> None:
    """The filing would fail for lack of its precondition after the payment was made."""
    workshop.tool("open.it", establishes=("open",))
    till = Till(workshop, policy(FILED))
    opened = step("open", "open.it", when="pay.sum == 0")
    till.run(plan(pay("pay", 10), opened, file(preconditions=("open",), depends_on=("open",))))
    assert till.paid == []
    assert till.refusals == [("pay", "policy_invariant")]


def test_a_refusal_for_an_uncertain_step_names_it_and_the_way_out(workshop: Workshop) -> None:
    """The planner learns which step to put first."""
    till = Till(workshop, policy(FILED))
    till.run(plan(pay("pay", 10), file(when="pay.sum == 10")))
    [refused] = [event for event in till.found if isinstance(event, e.StepRefused)]
    assert refused.reason == (
        "policy rule does not hold before this call unless file runs, which is not certain yet;"
        " add depends_on so that file runs first"
    )


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "fields", [{"optional": True}, {"when": "request.count != 7"}, {"when": "look.sum == 60"}, {}]
)
def test_an_uncertain_step_that_runs_first_satisfies_a_policy(
    workshop: Workshop, fields: dict[str, Any], *, is_first: bool
) -> None:
    """A payment waits for an uncertain step that can run without it, wherever the plan lists the two."""
    till = Till(workshop, policy(FILED))
    steps = [pay("pay", 10), look(), file(**fields)]
    assert till.run(plan(*(steps if is_first else reversed(steps)))).status == "completed"
    assert till.paid == [10]


def test_a_certain_later_step_satisfies_a_policy(workshop: Workshop) -> None:
    """A step that has no condition and is not optional counts before it has run."""
    till = Till(workshop, policy(FILED))
    assert till.run(plan(pay("pay", 10), file(depends_on=("pay",)))).status == "completed"
    assert till.paid == [10]


def test_a_payment_does_not_wait_for_an_optional_step_that_waits_for_a_person(workshop: Workshop) -> None:
    """Without `depends_on` the payment is refused, as it is where a read that it needs waits for a person."""
    till = Till(workshop, policy(FILED))
    till.run(plan(pay("pay", 10), file(optional=True, gates=("BOSS",))))
    assert (till.paid, till.refusals) == ([], [("pay", "policy_invariant")])


def test_a_policy_must_hold_for_each_combination_of_a_few_uncertain_steps(workshop: Workshop) -> None:
    """Both filings or none are fine, one alone is not: that cannot be ruled out before the payment."""
    both = 'plan.steps.filter(s, s.tool == "file.it").size() != 1'
    till = Till(workshop, policy(f'!plan.steps.exists(s, s.tool == "pay.it") || {both}'))
    maybe = [file(name, when=f"pay.sum == {n}", params={"n": n}) for n, name in enumerate("ab")]
    till.run(plan(pay("pay", 10), *maybe))
    assert till.paid == []


def test_a_step_does_not_run_without_one_that_it_refers_to(workshop: Workshop) -> None:
    """The policy forbids a filing without its look-up, which cannot happen here."""
    looked = '!plan.steps.exists(s, s.tool == "file.it") || plan.steps.exists(s, s.tool == "look.it")'
    till = Till(workshop, policy(looked))
    filed = file(params={"x": {"$from": "look#/sum"}}, optional=True)
    assert (
        till.run(plan(pay("pay", 10), look(optional=True, depends_on=("pay",)), filed)).status == "completed"
    )
    assert till.paid == [10]


def test_two_optional_effects_that_need_each_other_are_both_skipped(workshop: Workshop) -> None:
    """Neither may go first, and the run does not wait for ever."""
    needs_payment = '!plan.steps.exists(s, s.tool == "file.it") || plan.steps.exists(s, s.tool == "pay.it")'
    till = Till(workshop, policy(f"({FILED}) && ({needs_payment})"))
    result = till.run(plan(pay("pay", 10, optional=True), file(optional=True)))
    assert (result.status, till.paid) == ("completed", [])


def test_a_read_before_an_uncertain_step_needs_no_approval(workshop: Workshop) -> None:
    """The gate opens for the payment, once it is known that nothing is filed; the look-up was made before that."""
    till = Till(workshop, policy(FILED, effect="gate", gate="BOSS"))

    async def main() -> RunResult:
        async with workshop.runtime(till.pack) as runtime:
            steps = plan(look(), file(when="look.sum == 0"), pay("pay", 10))
            result = await runtime.run(ASK, plan=steps, actor=ADA)
            assert result.gate is not None
            await runtime.approve(result.gate.id, actor=BOB)
            return await runtime.resume(result.session_id)

    assert workshop.run(main()).status == "completed"
    assert till.paid == [10]


# ---- what the run has already done --------------------------------------------------------------------------------


def test_a_payment_of_an_earlier_plan_counts(workshop: Workshop) -> None:
    """A run that fails and is planned anew does not pay a second time."""
    till = Till(workshop, policy(ONE))
    result = till.run(
        plan(pay("a", 10), step("bad", "fail.it", depends_on=("a",))),
        plan(pay("b", 20), step("worse", "fail.it", depends_on=("b",))),
        plan(pay("c", 30)),
    )
    assert (result.status, till.paid) == ("failed", [10])
    assert "violates policy rule" in result.reason


def test_an_earlier_payment_counts_with_the_sum_that_was_paid(workshop: Workshop) -> None:
    """The first payment took its sum from a look-up; the policy sees the value and not the reference."""
    till = Till(workshop, policy(ONE_LARGE))
    till.run(
        plan(look(), pay("a", "look"), step("bad", "fail.it", depends_on=("a",))),
        plan(pay("b", 70)),
    )
    assert till.paid == [60]


def test_a_step_that_a_new_plan_keeps_counts_once(workshop: Workshop) -> None:
    """The payment stands in both plans in the same words: it is one payment."""
    till = Till(workshop, policy(ONE))
    result = till.run(
        plan(pay("a", 10), step("bad", "fail.it", depends_on=("a",))),
        plan(pay("a", 10), step("good", "file.it", depends_on=("a",))),
    )
    assert (result.status, till.paid) == ("completed", [10])


def test_a_payment_whose_result_was_unusable_counts(workshop: Workshop) -> None:
    """It happened, whatever it answered."""
    till = Till(workshop, policy(ONE))
    broken = pay("a", 10, params={"sum": 10, "usable": False})
    assert till.run(plan(broken), plan(pay("b", 20))).status == "failed"
    assert till.paid == [10]


def test_a_payment_that_was_not_made_does_not_count(workshop: Workshop) -> None:
    """A call that failed without an effect leaves the policy as it was."""
    till = Till(workshop, policy('plan.steps.filter(s, s.tool == "fail.it").size() <= 1'))
    result = till.run(
        plan(step("bad", "fail.it")), plan(step("worse", "fail.it", optional=True), pay("a", 1))
    )
    assert (result.status, till.paid) == ("completed", [1])


def test_an_earlier_payment_raises_the_gate_of_a_later_one(workshop: Workshop) -> None:
    """A policy that asks for a gate sees the history too."""
    till = Till(workshop, policy(ONE, effect="gate", gate="BOSS"))
    result = till.run(
        plan(pay("a", 10), step("bad", "fail.it", depends_on=("a",))),
        plan(pay("b", 20)),
    )
    assert (result.status, till.paid) == ("awaiting_gate", [10])


def test_order_by_index_reaches_back_to_earlier_plans(workshop: Workshop) -> None:
    """The look-up of the first plan comes before the payment of the second, and before its own."""
    till = Till(workshop, policy(LOOKED_BEFORE))
    result = till.run(
        plan(look(), pay("a", 10, depends_on=("look",)), step("bad", "fail.it", depends_on=("a",))),
        plan(pay("b", 20)),
    )
    assert (result.status, till.paid) == ("completed", [10, 20])


def test_the_history_of_a_run_survives_its_process(workshop: Workshop, file: str) -> None:
    """Another process that carries the run on sees what the first one did."""
    till = Till(workshop, policy(ONE))
    first = plan(pay("a", 10), step("bad", "fail.it", depends_on=("a",)))
    second = plan(step("f", "file.it", gates=("BOSS",)), step("again", "fail.it", depends_on=("f",)))

    async def main() -> RunResult:
        script = Script(first, second, plan(pay("b", 20)))
        async with workshop.journal(file) as journal, workshop.runtime(till.pack, journal) as runtime:
            waiting = await runtime.run(ASK, planner=script, actor=ADA)
            assert waiting.gate is not None
        async with workshop.journal(file) as journal, workshop.runtime(till.pack, journal) as runtime:
            await runtime.approve(waiting.gate.id, actor=BOB)
            return await runtime.resume(waiting.session_id, planner=script)

    assert workshop.run(main()).status == "failed"
    assert till.paid == [10]
