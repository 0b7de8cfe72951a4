"""Approval: modes as declared, gates where they must be, and a way back for what can be taken back."""

from __future__ import annotations

from tercet.contracts import pointer, references
from tercet.contracts.effective import EffectiveStep
from tercet.contracts.gate import Gate, GateDemand
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Reversibility
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.arguments import condition
from tercet.critic.review import Refusals, Review
from tercet.policy import schemas


def modes_are_not_understated(review: Review) -> Refusals:
    """No step declares less than its tool may do."""
    for call in review.calls:
        declared = call.step.approval_mode
        if declared is not None and MODE_RANK[declared] < MODE_RANK[call.tool.mode]:
            yield review.refuse(
                Code.MODE_UNDERSTATED,
                f"step {call.position} declares mode {declared}, but {call.tool.name} is {call.tool.mode}",
                f"declare {call.tool.mode}, or say nothing and inherit it",
                step=call.position,
                place="/approval_mode",
            )


def gates_are_present(review: Review) -> Refusals:
    """Every gate exists, and every destructive or irreversible step waits for one that no condition can lift."""
    gates = review.compiled.gates_by_name
    for call in review.calls:
        names = gates_of(review, call)
        for name in names:
            if name not in gates:
                yield review.refuse(
                    Code.GATE_UNKNOWN,
                    f"step {call.position} waits for {name}, which this pack does not have",
                    f"name one of {', '.join(gates) or 'no gates at all'}",
                    step=call.position,
                    place="/gates",
                )
        if must_be_gated(call) and not any(name in gates and gates[name].when is None for name in names):
            what = call.mode if call.mode is ApprovalMode.DESTRUCTIVE else call.reversibility
            yield review.refuse(
                Code.GATE_MISSING,
                f"step {call.position} is {what} and waits for no unconditional gate",
                "request approval: add a gate to the step or to its tool",
                step=call.position,
                place="/gates",
            )


def must_be_gated(call: EffectiveStep) -> bool:
    """Whether a person must approve this step, whatever a policy says."""
    return call.mode is ApprovalMode.DESTRUCTIVE or call.reversibility is Reversibility.IRREVERSIBLE


def gates_of(review: Review, call: EffectiveStep) -> tuple[str, ...]:
    """The gates that a call waits for: its own, and those of the decision if it is above read_only."""
    if not review.spec.gates or call.mode is ApprovalMode.READ_ONLY:
        return call.gates
    return tuple(dict.fromkeys((*call.gates, *review.spec.gates)))


def demand_gates(review: Review) -> None:
    """Notes every approval that the plan waits for when it runs."""
    gates = review.compiled.gates_by_name
    for call in review.calls:
        for name in gates_of(review, call):
            if name in gates and (reason := _reason(review, call, gates[name])):
                review.demands.append(
                    GateDemand(step=call.position, step_id=call.step.id, gate=name, reason=reason)
                )


def _reason(review: Review, call: EffectiveStep, gate: Gate) -> str | None:
    """Why a call waits for a gate; None only if the gate's condition is false, and not if it fails."""
    if gate.when is None:
        return f"{call.tool.name} is {call.mode}"
    outcome = condition(review, call, gate.when, f"gate {gate.name} at step {call.position}")
    if outcome is None:
        return f"unless {gate.when} is false at dispatch"
    if outcome.error is not None:
        return f"its condition fails: {outcome.error}"
    return f"{gate.when} holds" if outcome.holds else None


def compensation_is_recorded(review: Review) -> Refusals:
    """Every step that can be taken back says how, or its tool says that there is no way."""
    for call in review.calls:
        if call.reversibility in (Reversibility.PURE, Reversibility.IRREVERSIBLE):
            continue
        if call.compensate is None and not call.tool.no_compensation:
            yield _uncompensated(
                review,
                call,
                f"step {call.position} is {call.reversibility} and records no compensation",
                "name the call that takes it back, or let the tool state that there is none",
            )


def own_compensations_fit(review: Review) -> Refusals:
    """A compensation that the plan itself proposes is a call like any other: surfaced, within the mode, and valid."""
    for call in review.calls:
        own = call.step.compensate
        if own is None:
            continue
        tool = review.compiled.surface.get(own.tool)
        if tool is None:
            yield _uncompensated(
                review,
                call,
                f"step {call.position} is compensated by {own.tool}, which is not in the surface",
                "compensate with a tool of this run",
            )
            continue
        if MODE_RANK[tool.mode] > MODE_RANK[review.ctx.safety_mode]:
            yield review.refuse(
                Code.MODE_EXCEEDED,
                f"step {call.position} is compensated by {tool.name}, mode {tool.mode} > safety_mode {review.ctx.safety_mode}",
                "compensate with a tool within the safety mode",
                step=call.position,
                place="/compensate",
            )
        is_open = [f.place for f in references.scan(own.params) if type(f) is references.Reference]
        for fault in schemas.faults(tool.parameters_text, own.params):
            if not any(fault.place[: len(p)] == p or p[: len(fault.place)] == fault.place for p in is_open):
                yield review.refuse(
                    Code.ARGUMENT_INVALID,
                    f"the compensation of step {call.position}: {fault.message}",
                    f"{tool.name} takes {', '.join(tool.parameter_names)}",
                    step=call.position,
                    place=pointer.join(("compensate", "params", *fault.place)),
                )


def _uncompensated(review: Review, call: EffectiveStep, reason: str, remedy: str) -> Refusal:
    return review.refuse(Code.COMPENSATION_MISSING, reason, remedy, step=call.position, place="/compensate")
