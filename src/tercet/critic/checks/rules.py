"""The pack's policies over the plan and over each of its steps.

A policy over the plan also sees the calls of earlier plans. One that reads a value which is not known yet is deferred
at review. At dispatch an effect needs every policy decided: one that still depends on an unknown value counts as
violated. So does one that holds only if an uncertain step runs: for an effect, a policy must hold for the plan as known
and for every plan that it may turn out to be. At review such a policy is deferred. The same applies to a step policy
that reads which steps run before or after it.

All policies are first evaluated at once, a step policy as one comprehension over the steps: if the result is true, all
hold. Only otherwise are they evaluated one by one and step by step, to find out which failed, and where.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from tercet.contracts.context import CompiledContext, RunContext
from tercet.contracts.gate import GateDemand
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.values.cache import BoundedCache
from tercet.contracts.values.references import tokens
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.checks.arguments import limited_arguments, reads_open
from tercet.critic.frame import Names, earlier_calls, plan_steps
from tercet.critic.order import Order, find_uncertain, possible_absences
from tercet.critic.review import Refusals, Review
from tercet.policy.expressions import (
    ORDER_FIELDS,
    PLAN,
    STEP,
    ExpressionError,
    Outcome,
    Rule,
    compile_rule,
    compile_together,
    union,
)


def policies_hold(review: Review) -> Refusals:
    """Every policy holds for the plan, and for each step of it."""
    policies = [policy for policy in review.compiled.policies if policy.effect != "grant"]
    if not policies:
        return
    rules, fields, params = _compile_policies(tuple((each.expression, each.scope) for each in policies))
    views = PlanViews(review, fields, params)
    ready = tuple(rule for rule in rules if isinstance(rule, Rule) and not _open_reads(review, rule))
    together = compile_together(ready)
    is_passed = together is not None and together.evaluate(together.scope.activation(views.values())).holds
    if is_passed and len(ready) == len(rules) and not review.uncertain:
        return
    for policy, rule in zip(policies, rules, strict=True):
        if isinstance(rule, Outcome):
            yield _refusal(review, policy, rule, None)
        elif policy.scope == "plan":
            yield from _plan_policy(review, policy, rule, views, is_passed=is_passed and rule in ready)
        elif not (is_passed and rule in ready) or (rule.reads_order and views.absences):
            yield from _step_policy(review, policy, rule, views)


def hold_together(review: Review) -> bool:
    """Return True if all limits and policies hold in one evaluation that reads nothing open; False means undecided."""
    rules, fields, params = _compile_all(review.compiled.policies)
    ready = tuple([rule for rule in rules if isinstance(rule, Rule) and not _open_reads(review, rule)])
    limits = limited_arguments(review)
    if limits is None or len(ready) < len(rules):
        return False
    together = compile_together(ready, tuple(limits)) if ready or limits else None
    if together is None:
        return not ready and not limits
    values = PlanViews(review, fields, params).values()
    return together.evaluate(together.scope.activation({**values, "calls": [*limits.values()]})).holds


_Compiled: TypeAlias = tuple[tuple[Rule | Outcome, ...], Names, Names]
"""Compiled policies, and the fields and parameters that they read."""
_compiled: BoundedCache[int, tuple[tuple[Policy, ...], _Compiled]] = BoundedCache(256)
"""By the `id` of the policies of a context, which all contexts of a pack share."""


def _compile_all(policies: tuple[Policy, ...]) -> _Compiled:
    """Compile the policies of a context, except for grants."""
    known = _compiled.get(id(policies))
    if known is None or known[0] is not policies:
        written = tuple((each.expression, each.scope) for each in policies if each.effect != "grant")
        known = _compiled.keep(id(policies), (policies, _compile_policies(written)))
    return known[1]


@lru_cache(maxsize=256)
def _compile_policies(
    written: tuple[tuple[str, str], ...],
) -> _Compiled:
    """Compile policies, each given by its expression and scope."""
    rules = tuple(_compile_policy(*each) for each in written)
    compiled = [rule for rule in rules if isinstance(rule, Rule)]
    return rules, union(rule.fields for rule in compiled), union(rule.reads for rule in compiled)


class PlanViews:
    """A plan as policies see it: as known, and as it would be without some uncertain steps."""

    def __init__(self, review: Review, fields: Names, params: Names) -> None:
        self._review = review
        self._steps = plan_steps(review, fields, params)
        self._earlier = earlier_calls(review, fields, params)
        self._order_read = ORDER_FIELDS if fields is None else fields & ORDER_FIELDS

    @cached_property
    def _order(self) -> Order:
        return Order(self._review)

    def plan(self, absent: frozenset[int] = frozenset()) -> Any:
        """Return what a policy over the plan reads, without these steps and those that will not run."""
        return PLAN.activation(self.values(absent))

    def values(self, absent: frozenset[int] = frozenset()) -> dict[str, Any]:
        """Return the same values before conversion."""
        review = self._review
        without = absent | review.left_out
        steps = [*self._steps, *self._earlier]
        if without or self._order_read:
            running = (index for index in range(len(self._steps)) if index not in without)
            steps = [self._ordered(index, without) for index in (*running, *range(-len(self._earlier), 0))]
        return {
            **review.frame,
            "plan.intent": review.plan.intent or "",
            "plan.outputs": list(review.plan.output_names),
            "plan.steps": steps,
        }

    def step(self, index: int, absent: frozenset[int] = frozenset()) -> Any:
        """Return what a step policy reads of a step, without these steps and those that will not run."""
        step = self._ordered(index, absent | self._review.left_out)
        named = {f"step.{name}": value for name, value in step.items()}
        return STEP.activation({**self._review.frame, "plan.intent": self._review.plan.intent or "", **named})

    def _ordered(self, index: int, absent: frozenset[int]) -> dict[str, Any]:
        """Return a step, or by a negative index an earlier call, with the order fields that some policy reads."""
        step = self._steps[index] if index >= 0 else self._earlier[index]
        if not self._order_read:
            return step
        return {**step, **self._order.fields(index, self._order_read, absent)}

    @cached_property
    def known(self) -> Any:
        """The plan with every step that may run."""
        return self.plan()

    @cached_property
    def absences(self) -> tuple[frozenset[int], ...]:
        """The sets of uncertain steps that may turn out not to run, by position; none for a read."""
        review = self._review
        if review.due is not None and not _is_effect_due(review):
            return ()
        return tuple(possible_absences(review.plan, review.uncertain))

    @cached_property
    def possible(self) -> list[tuple[frozenset[int], Any]]:
        """The plans without some of the uncertain steps, each with their positions."""
        return [(absent, self.plan(absent)) for absent in self.absences]

    def possible_at(self, index: int) -> Iterator[tuple[frozenset[int], Any]]:
        """Yield the views of a step without some of the uncertain steps, each with their positions."""
        return ((absent, self.step(index, absent)) for absent in self.absences if index not in absent)


def _compile_policy(expression: str, scope: str) -> Rule | Outcome:
    try:
        return compile_rule(expression, PLAN if scope == "plan" else STEP)
    except ExpressionError as error:
        return Outcome(error=f"it does not compile: {error}")


def _plan_policy(
    review: Review, policy: Policy, rule: Rule, views: PlanViews, *, is_passed: bool
) -> Refusals:
    if not is_passed:
        is_passed = yield from _decide_known_plan(review, policy, rule, views)
    if not is_passed:
        return
    yield from _decide_without_uncertain(review, policy, rule, views.possible, None)


def _decide_without_uncertain(
    review: Review,
    policy: Policy,
    rule: Rule,
    possible: Iterable[tuple[frozenset[int], Any]],
    index: int | None,
) -> Refusals:
    """Yield the refusal by a policy that holds for the plan as known, but not without some uncertain steps."""
    needed = next((absent for absent, values in possible if not rule.evaluate(values).holds), None)
    if needed is None:
        return
    review.undecided.append(policy.name)
    if review.due is None:
        review.deferred.append(f"policy {policy.name}" + ("" if index is None else f" at step {index}"))
    else:
        yield from _broken(review, policy, _uncertain_refusal(review, policy, needed), index)


def _decide_known_plan(
    review: Review, policy: Policy, rule: Rule, views: PlanViews
) -> Generator[Refusal, None, bool]:
    """Yield the refusal by a policy that does not hold for the plan as known; return whether it holds."""
    unknown = _open_reads(review, rule)
    if unknown and not _is_effect_due(review):
        review.deferred.append(f"policy {policy.name}")
        review.undecided.append(policy.name)
        return False
    # An unknown parameter is missing here, so an expression that reads it fails; only `has` would see it as absent.
    is_askable = not unknown or (rule.reads is not None and not _asks_for_presence(rule))
    outcome = rule.evaluate(views.known) if is_askable else Outcome(error="it reads an unknown value")
    if unknown and outcome.error is not None:
        review.undecided.append(policy.name)
        yield from _broken(review, policy, _undecided_refusal(review, policy, rule, unknown[0]), None)
    elif not outcome.holds:
        yield from _broken(review, policy, _refusal(review, policy, outcome, None), None)
    return outcome.holds


def _is_effect_due(review: Review) -> bool:
    """Return whether a call above read_only is being dispatched."""
    call = None if review.due is None else review.call_at.get(review.due)
    return call is not None and call.mode is not ApprovalMode.READ_ONLY


def _asks_for_presence(rule: Rule) -> bool:
    return any(token.text == "has" for token in tokens(rule.text))


def _step_policy(review: Review, policy: Policy, rule: Rule, views: PlanViews) -> Refusals:
    for index in range(len(review.plan.steps)):
        if review.due not in (index, None):
            continue  # each step is checked when it is due
        if reads_open(review, rule, index):
            review.deferred.append(f"policy {policy.name} at step {index}")
            continue
        outcome = rule.evaluate(views.step(index))
        if not outcome.holds:
            yield from _broken(review, policy, _refusal(review, policy, outcome, index), index)
        elif rule.reads_order:
            yield from _decide_without_uncertain(review, policy, rule, views.possible_at(index), index)


def _open_reads(review: Review, rule: Rule) -> list[int]:
    """Return the positions of the calls with an unknown parameter that a rule reads."""
    if rule.reads is not None and not rule.reads:
        return []
    positions = (position for position in review.open_parameters if position not in review.left_out)
    return [position for position in positions if reads_open(review, rule, position)]


def _broken(review: Review, policy: Policy, refusal: Refusal, index: int | None) -> Refusals:
    gate = policy.gate
    if policy.effect == "deny" or gate is None or gate not in review.compiled.gates_by_name:
        yield refusal
        return
    affected = [call for call in review.calls if index is None or call.position == index]
    if policy.name in review.late:  # it could only be decided after the reads
        affected = [call for call in affected if call.mode is not ApprovalMode.READ_ONLY]
    for call in affected:
        review.demands.append(
            GateDemand(
                step=call.position,
                step_id=call.step.id,
                gate=gate,
                reason=policy.message or f"policy {policy.name} asks for it",
            )
        )


def violation_text(policy: Policy) -> str:
    """Return what a refusal by a policy says, without the step."""
    return f"violates policy {policy.name}: {policy.message or f'{policy.expression} does not hold'}"


def _refusal(review: Review, policy: Policy, outcome: Outcome, index: int | None) -> Refusal:
    failed = f" (it fails: {outcome.error})" if outcome.error else ""
    return review.refuse(
        Code.POLICY_INVARIANT,
        f"{review.label(index)} {violation_text(policy)}{failed}",
        policy.remedy or f"change the plan so that {policy.expression}",
        step=index,
    )


def _undecided_refusal(review: Review, policy: Policy, rule: Rule, position: int) -> Refusal:
    """Return the refusal of a call for which a policy cannot be decided, since it reads a value of a later step."""
    unknown = review.open_parameters[position]
    names = ", ".join(sorted(unknown if rule.reads is None else unknown & rule.reads))
    return review.refuse(
        Code.POLICY_INVARIANT,
        f"policy {policy.name} cannot be decided before this call: {names} of step {position} is not known yet",
        "plan the later step once its values are known, or write the policy with scope step",
    )


def _uncertain_refusal(review: Review, policy: Policy, absent: frozenset[int]) -> Refusal:
    """Return the refusal of a call for which a policy holds only if uncertain steps run."""
    names = ", ".join(review.plan.steps[index].id for index in sorted(absent))
    return review.refuse(
        Code.POLICY_INVARIANT,
        f"policy {policy.name} does not hold before this call unless {names} runs, which is not certain yet;"
        f" add depends_on so that {names} runs first",
        f"let this step depend on {names}, or drop its `when` and `optional`",
    )


def find_undecided(review: Review) -> tuple[str, ...]:
    """Return the names of the policies that cannot be decided yet."""
    for _ in policies_hold(review):
        pass
    return tuple(review.undecided)


def uncertain_at_review(ctx: RunContext, compiled: CompiledContext, plan: Plan) -> frozenset[int]:
    """Return the positions of the steps that may not run, before any has begun; empty if no policy depends on them."""
    # Out of their dicts: reading a field of a contract by its name takes several times as long.
    may_not_deliver = ctx.goes_by(Behaviour.OUTPUTS_VOUCHED_FOR)
    for said in map(vars, plan.steps):
        if said["optional"] or said["when"] is not None:
            break
    else:
        if not (may_not_deliver and compiled.policies and plan.graph.delivery):
            return frozenset()
    if not ctx.goes_by(Behaviour.STRICT_CALLS) or not look_at_other_steps(compiled.policies):
        return frozenset()
    found = find_uncertain(plan, compiled.surface, may_not_deliver=may_not_deliver)
    return frozenset(index for index, step in enumerate(plan.steps) if step.id in found)


def look_at_other_steps(policies: Iterable[Policy]) -> bool:
    """Return whether a policy decides about a call by other steps: it is about the plan, or reads the order of steps."""
    return any(
        policy.effect != "grant" and (policy.scope == "plan" or _reads_order(policy)) for policy in policies
    )


def read_order(policies: Iterable[Policy]) -> bool:
    """Return whether a policy may read which steps run before or after another."""
    return any(map(_reads_order, policies))


def _reads_order(policy: Policy) -> bool:
    rule = _compile_policy(policy.expression, policy.scope)
    return isinstance(rule, Rule) and rule.reads_order
