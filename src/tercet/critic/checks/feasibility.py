"""Checks whether a plan can be carried out: time, width, money, branches, checkpoints, repetitions and preconditions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import DecisionCheckpoint, Step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.steps.conditions import Exposure, conditions_after, effects_in, exposures
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.values import references
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.references import Reference
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.review import Refusals, Review
from tercet.policy.call_params import canonical_params, identity_params, keeps_spelling


def latency_is_within_budget(review: Review) -> Refusals:
    """The longest chain of steps fits into the remaining wall clock time."""
    limit = review.ctx.run_budget.wall_clock_ms
    if limit is None:
        return
    left = limit - review.ctx.used.wall_clock_ms
    if review.reading.duration_ms <= left:  # even in sequence they fit
        return
    durations = _durations(review)
    total = max(review.graph.finish_times(durations), default=0)
    if total > left:
        path = review.graph.critical_path(durations)
        slowest = max(path, key=lambda index: durations[index])
        yield review.refuse(
            Code.LATENCY_EXCEEDED,
            f"the critical path takes {total:,} ms, {left:,} ms are left",
            f"let steps run in parallel or reduce the scope; the slowest on the path is step {slowest}",
            place="/steps",
        )


def concurrency_is_within_limit(review: Review) -> Refusals:
    """No more steps are active at once than the run allows."""
    limit = review.ctx.run_budget.max_parallel
    if limit is None or len(review.plan.steps) <= limit:
        return
    width = review.graph.width([max(1, duration) for duration in _durations(review)])
    if width > limit:
        yield review.refuse(
            Code.CONCURRENCY_EXCEEDED,
            f"{width} steps would run at once, {limit} may",
            "serialise some of them with depends_on",
            place="/steps",
        )


def branches_are_within_limit(review: Review) -> Refusals:
    """Nested conditions are no deeper than the run allows."""
    if not review.conditions:
        return
    limit = review.ctx.run_budget.max_branch_depth
    for index, depth in enumerate(_branch_depths(review)):
        if depth > limit:
            yield review.refuse(
                Code.BRANCHES_EXCEEDED,
                f"step {index} hangs on {depth} conditions, one inside the other, {limit} may be",
                "decide less at run time: plan up to there, and plan anew once more is known",
                step=index,
                place="/when" if index in review.conditions else "/params",
            )


def _branch_depths(review: Review) -> list[int]:
    """Return for each step how many nested conditions must hold for it and for what it refers to."""
    depths = [0] * len(review.plan.steps)
    for index in review.graph.order:
        named = [name for item in review.found[index] if type(item) is Reference for name in item.names]
        if index in review.conditions:
            named += review.conditions[index].names
        before = [depths[review.position[name]] for name in named if name in review.position]
        depths[index] = max(before, default=0) + (index in review.conditions)
    return depths


def _durations(review: Review) -> list[int]:
    calls = review.call_at
    return [
        calls[index].estimated_ms if index in calls else step.estimated_ms or 0
        for index, step in enumerate(review.plan.steps)
    ]


def budget_is_left(review: Review) -> Refusals:
    """Calls, tokens and cost fit into the remaining budget, with the calls of compensations reserved."""
    reading, surface = review.reading, review.compiled.surface
    undoing = reading.compensations
    made: Sequence[EffectiveStep] = reading.calls
    cost = reading.cost_microcents
    if review.ctx.lane is not None:  # what it only proposes, its parent pays for
        made, undoing = [call for call in made if call.runs_in_lane], []
        cost = sum(call.tool.cost_microcents for call in made)
    # A lane that the plan starts is paid for by what it reserves: see `lanes_are_permitted`.
    lanes = sum(call.tool.reserves is not None for call in made) if review.compiled.lanes else 0
    calls = len(made) - lanes + len(undoing)
    cost += sum(surface[u.tool].cost_microcents for u in undoing if u.tool in surface)
    for code, needed, left in find_shortages(review, calls=calls, tokens=reading.tokens, cost=cost):
        yield review.refuse(
            code,
            f"plan needs {needed}, {left:,} are left",
            f"prune low-priority steps, or ask for a larger budget{_reserved(len(undoing), code)}",
            place="/steps",
        )


def find_shortages(review: Review, *, calls: int, tokens: int, cost: int) -> Iterator[tuple[Code, str, int]]:
    """Yield the code of each amount that exceeds what is left of the budget, with the amount as text and what is left."""
    budget, used = review.ctx.run_budget, review.ctx.used
    needs = (
        (Code.TOOL_CALLS_EXCEEDED, "tool calls", calls, budget.tool_calls, used.tool_calls),
        (Code.TOKENS_EXCEEDED, "tokens", tokens, budget.tokens, used.tokens),
        (Code.COST_EXCEEDED, "micro-cents", cost, budget.cost_microcents, used.cost_microcents),
    )
    for code, unit, needed, limit, spent in needs:
        if limit is not None and needed > limit - spent:
            yield code, f"{needed:,} {unit}", limit - spent


def _reserved(count: int, code: Code) -> str:
    """Return the suffix of a remedy about the calls reserved for compensations."""
    if not count or code is Code.TOKENS_EXCEEDED:
        return ""
    return f"; {'1 call is' if count == 1 else f'{count} calls are'} reserved for compensations"


def checkpoints_are_bound(review: Review) -> Refusals:
    """Every decision checkpoint names a decision and a step, and its evidence is pinned at or before that step."""
    for number, checkpoint in enumerate(review.plan.decision_checkpoints):
        place = f"/decision_checkpoints/{number}"
        decision = find_decision(review, checkpoint)
        step = review.position.get(checkpoint.after_step)
        if decision is None:
            names = {known.id for known in (*review.compiled.decisions, review.spec)}
            yield review.refuse(
                Code.CHECKPOINT_UNBOUND,
                f"checkpoint {number} names decision {checkpoint.decision_id}, which is not in the catalogue",
                f"name one of {', '.join(sorted(names)[:8])}",
                place=place,
            )
        if step is None:
            yield review.refuse(
                Code.CHECKPOINT_UNBOUND,
                f"checkpoint {number} stands after step {checkpoint.after_step}, which no step is",
                f"name one of {', '.join(step.id for step in review.plan.steps[:12])}",
                place=place,
            )
        if decision is None or step is None:
            continue
        for needed in missing_evidence(review, decision, _pinned_until(review, step)):
            yield review.refuse(
                Code.EVIDENCE_NOT_PINNED,
                f"decision {decision.id} after step {step} requires evidence class {needed}, none pinned by then",
                "pin it at that step or at one before it",
                step=step,
                place="/evidence_refs",
            )


def find_decision(review: Review, checkpoint: DecisionCheckpoint) -> DecisionSpec | None:
    """Return the decision that a checkpoint names, or None."""
    known = (review.spec, *reversed(review.compiled.decisions))
    return next((decision for decision in known if decision.id == checkpoint.decision_id), None)


def missing_evidence(review: Review, decision: DecisionSpec, refs: Collection[str]) -> tuple[str, ...]:
    """Return the evidence classes that a decision requires and that none of these facts satisfies."""
    return tuple(
        needed
        for needed in decision.required_evidence
        if not any(review.satisfies(needed, ref, decision) for ref in refs)
    )


def _pinned_until(review: Review, step: int) -> set[str]:
    """Return the evidence that a step and those before it pin."""
    return {ref for index in (step, *review.graph.ancestors(step)) for ref in review.pinned[index]}


def actions_are_not_repeated(review: Review) -> Refusals:
    """No effect is proposed twice: the same tool with the same identity. Reads may repeat."""
    is_strict, reads_all = review.is_strict, review.ctx.goes_by(Behaviour.SCHEMAS_READ_WHOLE)
    by_tool: defaultdict[str, list[EffectiveStep]] = defaultdict(list)
    for call in review.calls:
        is_effect = call.mode is not ApprovalMode.READ_ONLY and call.tool.name not in review.spec.repeatable
        if is_effect and not _is_decided_later(review, call):
            by_tool[call.tool.name].append(call)
    repeated: dict[int, int] = {}
    for calls in by_tool.values():
        seen: dict[str, int] = {}
        for call in () if differ_by_name(calls, is_strict=is_strict) else calls:
            params = call.params
            if is_strict:
                params = canonical_params(call.tool, params, reads_all=reads_all)
            identity = identity_params(call.tool, params, is_strict=is_strict)
            first = seen.setdefault(_identity_text(identity), call.position)
            if first != call.position:
                repeated[call.position] = first
    for position in sorted(repeated):
        yield review.refuse(
            Code.DUPLICATE_ACTION,
            f"{review.label(position)} repeats the action of {review.label(repeated[position])}:"
            f" {review.call_at[position].tool.name} with the same identity",
            "drop one of them; a decision may list the tool as repeatable",
            step=position,
        )


def differ_by_name(calls: list[EffectiveStep], *, is_strict: bool) -> bool:
    """Return True if a text or an integer in the identity distinguishes all calls of a tool; False means undecided.
    Integers are compared with integers and texts only: 5 and 5.0 are one value.
    """
    tool, params = calls[0].tool, calls[0].params
    for name in identity_params(tool, params, is_strict=is_strict) if len(calls) > 1 else ():
        names = {found for call in calls if type(found := call.params.get(name)) in (str, int)}
        if len(names) == len(calls) and (not is_strict or keeps_spelling(tool, name)):
            return True
    return len(calls) == 1


def _is_decided_later(review: Review, call: EffectiveStep) -> bool:
    """Return whether a compensation depends on the result of its own step, so that equal text may mean two actions."""
    return call.position in review.hosts and any(
        not references.OWN_STEP.isdisjoint(found.names)
        for found in references.scan(identity_params(call.tool, call.params, is_strict=review.is_strict))
        if isinstance(found, Reference)
    )


def _identity_text(chosen: dict[str, Any]) -> str:
    """Return identity parameters as text. Numbers are compared by value: an amount of 500.0 equals 500."""
    try:
        return canonical(chosen).decode()
    except UsageError:  # a number without canonical JSON
        return json.dumps(_by_value(chosen), sort_keys=True)


def _by_value(value: Any) -> Any:
    if (members := as_object(value)) is not None:
        return {key: _by_value(member) for key, member in members.items()}
    if (items := as_list(value)) is not None:
        return [_by_value(item) for item in items]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def preconditions_are_met(review: Review) -> Refusals:
    """A step's preconditions hold at the start, or a step before it establishes them."""
    presupposed = {
        index: conditions
        for index, step in enumerate(review.plan.steps)
        if (
            conditions := (
                *step.preconditions,
                *(call.tool.preconditions if (call := review.call_at.get(index)) else ()),
            )
        )
    }
    if not presupposed:
        return
    before = _established_before(review, lambda _: True)
    certain = before
    if review.is_strict and any(step.optional or step.when is not None for step in review.plan.steps):
        certain = _established_before(review, lambda step: not step.optional and step.when is None)
    for index, conditions in presupposed.items():
        for condition in conditions:
            if condition in before[index]:
                if condition not in certain[index]:
                    review.deferred.append(f"precondition {condition} at step {index}")
            else:
                yield review.refuse(
                    Code.UNMET_PRECONDITION,
                    f"{review.label(index)} presupposes {condition}, which nothing before it establishes",
                    _establish(review, condition),
                    step=index,
                    place="/preconditions",
                )


def _established_before(review: Review, counts: Callable[[Step], bool]) -> dict[int, frozenset[str]]:
    """Return, for each step, the conditions that hold at the start or are established by a certain step before it."""
    graph, at_start = review.graph, start_conditions(review)
    before: dict[int, frozenset[str]] = {}
    after: dict[int, frozenset[str]] = {}
    for index in graph.order:
        held = at_start
        for predecessor in graph.predecessors[index]:
            held |= after[predecessor]
        call = review.call_at.get(index)
        new = call.tool.establishes if call is not None and counts(call.step) else ()
        before[index], after[index] = held, held.union(new) if new else held
    return before


def start_conditions(review: Review) -> frozenset[str]:
    """Return the conditions that hold when the plan starts: the decision's, changed by the earlier calls of the run."""
    surface = review.compiled.surface
    earlier = ((surface.get(made.step.tool or ""), made.place is not None) for made in review.ctx.earlier)
    return conditions_after(review.spec.conditions, earlier)


def _establish(review: Review, condition: str) -> str:
    if able := _establishing(review, condition):
        return f"reorder, or add a step before it that calls {able}"
    return "no tool of this run establishes it: hand the case to a person"


def _establishing(review: Review, condition: str) -> str:
    """Return the first tools that establish a condition, as text; empty if none does."""
    able = [tool.name for tool in review.compiled.surface.values() if condition in tool.establishes]
    return " or ".join(able[:3])


def conditions_are_kept(review: Review) -> Refusals:
    """A step's preconditions still hold when it begins, in every order that the plan allows."""
    if not any(call.tool.revokes for call in review.calls):
        return
    effects = effects_in(review.plan, review.compiled.surface)
    for exposure in exposures(review.graph, effects, start_conditions(review)):
        yield _threatened(review, exposure)


def _threatened(review: Review, exposure: Exposure) -> Refusal:
    threat, condition, producer, consumer = exposure
    source, where = (
        ("holds at the start", "before it")
        if producer is None
        else (f"step {producer} establishes", "between the two")
    )
    return review.refuse(
        Code.THREATENED_CONDITION,
        f"step {threat} revokes {condition}, which {source} and step {consumer} presupposes, and may come {where}",
        _part(review, exposure),
        step=threat,
        place="/depends_on",
    )


def _part(review: Review, exposure: Exposure) -> str:
    """Return the remedies that would rule out a threat."""
    threat, condition, producer, consumer = exposure
    name, user = review.plan.steps[threat].id, review.plan.steps[consumer].id
    ways: list[str] = []
    if threat not in review.graph.ancestors(consumer):
        ways.append(f"add depends_on {user} to {name}")
    if producer is not None and producer not in review.graph.ancestors(threat):
        ways.append(f"add depends_on {name} to {review.plan.steps[producer].id}")
    if ways:
        return " or ".join(ways)
    able = _establishing(review, condition)
    again = f"let {user} wait for a step after {name} that calls {able}" if able else ""
    return " or ".join(filter(None, [f"do not let {user} wait for {name}", again]))
