"""The five published checks that start every review, in order."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tercet.contracts.evidence import meets, parse_ref
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.review import Refusals, Review


def outputs_are_covered(review: Review) -> Refusals:
    """1. The plan declares every output that the decision requires."""
    declared = review.plan.output_names
    for output in review.spec.planned_outputs:
        if output not in declared:
            yield review.refuse(
                Code.OUTPUT_NOT_DECLARED,
                f"plan does not produce required output {output}",
                f"add {output} to the plan's outputs, bound to the step that produces it",
                place="/outputs",
            )


def tools_are_surfaced(review: Review) -> Refusals:
    """2. Every tool that the plan calls is on the surface of this run."""
    surface = review.compiled.surface
    for index, step in enumerate(review.plan.steps):
        if step.tool is not None and step.tool not in surface:
            yield review.refuse(
                Code.TOOL_NOT_SURFACED,
                f"plan step {index} calls {step.tool} which is not in the surface",
                _substitute(review, step.tool),
                step=index,
                place="/tool",
            )


def _substitute(review: Review, name: str) -> str:
    """Return the remedy for a missing tool: similar tools, and the reason from the ledger if it has one."""
    surface = review.compiled.surface
    near = get_close_matches(name, surface, n=3, cutoff=0.4) or sorted(surface)[:8]
    instead = f"substitute a tool of this run: {', '.join(near)}" if near else "this run has no tools"
    excluded = (entry for entry in review.compiled.ledger if entry.kind == "tool" and not entry.admitted)
    why = next((entry.reason for entry in excluded if entry.name == name), None)
    return instead if why is None else f"{instead}; {name} is none, since {why}"


def modes_are_within_safety_mode(review: Review) -> Refusals:
    """3. No step may do more than the run's safety mode allows."""
    ceiling = MODE_RANK[review.ctx.safety_mode]
    for call in review.calls:
        if MODE_RANK[call.mode] > ceiling:
            yield review.refuse(
                Code.MODE_EXCEEDED,
                f"step {call.position} mode {call.mode} > safety_mode {review.ctx.safety_mode}",
                f"request a run with safety mode {call.mode}, or leave the step out",
                step=call.position,
                place="/approval_mode",
            )


def evidence_is_pinned(review: Review) -> Refusals:
    """4. Every evidence class that a step, its tool or the decision requires is pinned, in the snapshot, and trusted."""
    evidence = review.compiled.evidence
    everything: list[str] = []
    for index, step in enumerate(review.plan.steps):
        call = review.call_at.get(index)
        required = (
            step.requires_evidence
            if call is None
            else (*step.requires_evidence, *call.tool.requires_evidence)
        )
        refs = review.pinned[index]
        if not required and not refs:
            continue
        everything += refs
        unresolved = [ref for ref in refs if ref not in evidence]
        for needed in dict.fromkeys(required):
            if not any(review.satisfies(needed, ref, index=index) for ref in refs):
                yield _unpinned(review, index, needed, refs)
        for ref in unresolved:
            yield _unresolved(review, index, ref)
    for needed in review.spec.required_evidence:
        if not any(review.satisfies(needed, ref) for ref in dict.fromkeys(everything)):
            yield review.refuse(
                Code.EVIDENCE_NOT_PINNED,
                f"decision {review.spec.id} requires evidence class {needed}, {_why_unsatisfied(review, needed, everything, None)}",
                _pin(review, needed, everything, None),
            )


def _unpinned(review: Review, index: int, needed: str, refs: Sequence[str]) -> Refusal:
    for ref in refs:
        parts = parse_ref(ref) if ref not in review.compiled.evidence else None
        if parts is not None and meets(needed, parts.classification):
            return _unresolved(review, index, ref)
    is_unasked = (
        bool(review.plan.steps[index].evidence_queries)
        and review.ctx.plan_origin == "caller"
        and review.is_strict
    )
    unasked = "; the queries of a caller's own plan are not asked" if is_unasked else ""
    return review.refuse(
        Code.EVIDENCE_NOT_PINNED,
        f"{review.label(index)} requires evidence class {needed}, {_why_unsatisfied(review, needed, refs, index)}",
        f"{_pin(review, needed, refs, index)}{unasked}",
        step=index,
        place="/evidence_refs",
    )


def _why_unsatisfied(review: Review, needed: str, refs: Sequence[str], index: int | None) -> str:
    """Return why the pinned evidence does not satisfy a requirement."""
    for ref in refs:
        entry = review.compiled.evidence.get(ref)
        if entry is not None and meets(needed, entry.classification):
            if (why := review.why_unrelated(ref, index)) is not None:
                return f"and {why}"
            was_picked = ref in review.picked_evidence
            return f"and {ref} {'was chosen by an untrusted field of the request' if was_picked else 'is not trusted'}"
    return "none pinned"


def _unresolved(review: Review, index: int, ref: str) -> Refusal:
    parts = parse_ref(ref)
    unseen = "" if parts is None else _describe_unseen(review, parts.classification)
    return review.refuse(
        Code.EVIDENCE_UNRESOLVED,
        f"{review.label(index)} pins {ref}, which is not in snapshot {review.compiled.snapshot or 'of this run'}",
        f"pin evidence of this run's snapshot, or run against the snapshot that holds it{unseen}",
        step=index,
        place="/evidence_refs",
    )


def _pin(review: Review, needed: str, refs: Sequence[str], index: int | None) -> str:
    fitting = [e.id for e in review.compiled.manifests.evidence_manifest if meets(needed, e.classification)]
    usable = [ref for ref in fitting if review.satisfies(needed, ref)]
    unseen = _describe_unseen(review, needed)
    if usable:
        return f"pin it in evidence_refs: {' or '.join(usable[:3])}{unseen}"
    unrelated = (ref for ref in refs if ref in fitting)
    if review.is_plain and (
        other := next(filter(None, (review.relations.remedy_for(ref, index) for ref in unrelated)), None)
    ):
        return f"{other}{unseen}"
    if fitting or unseen:
        return f"retrieve a trusted fact of this class, or let the decision name the class in untrusted_evidence{unseen}"
    return "the snapshot holds no evidence of this class: retrieve it first, or hand the case to a person"


def _describe_unseen(review: Review, needed: str) -> str:
    """Return how many facts of a class the context omitted, as the end of a remedy; empty if none."""
    count = review.compiled.count_unseen(needed)
    if not count:
        return ""
    facts = f"{count:,} facts of class {needed} were" if count > 1 else f"1 fact of class {needed} was"
    return f"; {facts} left out of the context: pin one by its id, or search with evidence_queries"


def loop_is_bounded(review: Review) -> Refusals:
    """5a. The plan has no more steps than the run may take."""
    count, limit = len(review.plan.steps), review.ctx.run_budget.max_steps
    if count > limit:
        yield review.refuse(
            Code.TOO_MANY_STEPS,
            f"plan has {count} steps, exceeds max_steps",
            f"prune it to {limit} {'step' if limit == 1 else 'steps'}, or split the task",
            place="/steps",
        )


def tokens_are_within_budget(review: Review) -> Refusals:
    """5b. The steps' token estimates fit into the bucket."""
    total, limit = review.reading.planned_tokens, review.ctx.run_budget.bucket_tokens
    if total > limit:
        yield review.refuse(
            Code.TOKENS_EXCEEDED,
            "plan exceeds bucket_tokens",
            f"prune low-priority steps: {total:,} tokens are estimated, {limit:,} are allowed",
            place="/steps",
        )


FIVE_CHECKS = (
    outputs_are_covered,
    tools_are_surfaced,
    modes_are_within_safety_mode,
    evidence_is_pinned,
    loop_is_bounded,
    tokens_are_within_budget,
)
