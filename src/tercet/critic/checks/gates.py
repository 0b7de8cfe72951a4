"""Checks approval: declared modes, required gates, and compensations."""

from __future__ import annotations

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.gate import Gate, GateDemand
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Reversibility
from tercet.contracts.plan import Compensation
from tercet.contracts.shape import unchecked
from tercet.contracts.steps.effective import EffectiveStep, unaliased
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer, references
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.checks.arguments import certain_faults, condition
from tercet.critic.reading import is_open
from tercet.critic.review import Refusals, Review

# Looking a member up in its enumeration takes longer than comparing with it.
_DESTRUCTIVE, _IRREVERSIBLE = ApprovalMode.DESTRUCTIVE, Reversibility.IRREVERSIBLE


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


def owner_is_authorised(review: Review) -> Refusals:
    """The owner of the run holds a required role for each tool, and each tool is for their tenant."""
    tools = {call.tool.name: call.tool for call in review.calls}
    barred = {name for name, tool in tools.items() if not may_use(review, tool)}
    for call in review.calls if barred else ():
        if call.tool.name in barred:
            yield _unauthorised(
                review, call, f"step {call.position} calls {call.tool.name}", call.tool, "/tool"
            )


def may_use(review: Review, tool: ToolSpec) -> bool:
    """Return whether the owner of the run may use a tool."""
    return tool.is_open_to(review.ctx.actor.roles) and tool.serves(review.ctx.tenant)


def _unauthorised(review: Review, call: EffectiveStep, what: str, tool: ToolSpec, place: str) -> Refusal:
    if not tool.serves(review.ctx.tenant):
        return review.refuse(
            Code.AUTHORIZATION_REQUIRED,
            f"{what}, which is not for tenant {review.ctx.tenant}",
            "leave the call out",
            step=call.position,
            place=place,
        )
    roles = " or ".join(tool.roles)
    return review.refuse(
        Code.AUTHORIZATION_REQUIRED,
        f"{what}, and {review.ctx.actor.id} does not hold the role {roles}",
        f"let somebody with the role {roles} start the run, or leave the call out",
        step=call.position,
        place=place,
    )


def gates_are_present(review: Review) -> Refusals:
    """Every gate exists, and every destructive or irreversible step waits for one without a condition."""
    gates = review.compiled.gates_by_name
    for call in review.calls:
        for name in gates_of(review, call):
            if name not in gates:
                yield review.refuse(
                    Code.GATE_UNKNOWN,
                    f"{review.label(call.position)} waits for {name}, which this pack does not have",
                    f"name one of {', '.join(gates) or 'no gates at all'}",
                    step=call.position,
                    place="/gates",
                )
        if (grave := gravity(call.mode, call.reversibility)) and not is_gated(review, call):
            yield review.refuse(
                Code.GATE_MISSING,
                f"{review.label(call.position)} is {grave} and waits for no unconditional gate",
                "compensate with a tool that has a gate, or leave the compensation out"
                if call.position in review.hosts
                else "request approval: add a gate to the step or to its tool",
                step=call.position,
                place="/gates",
            )


def gravity(mode: ApprovalMode, reversibility: Reversibility) -> str | None:
    """Return why a person must approve a call even if a policy would grant it, or None."""
    if mode is _DESTRUCTIVE:
        return mode
    return reversibility if reversibility is _IRREVERSIBLE else None


def is_gated(review: Review, call: EffectiveStep) -> bool:
    """Return whether a call waits for a gate without a condition."""
    gates = review.compiled.gates_by_name
    return any(name in gates and gates[name].when is None for name in gates_of(review, call))


def gates_of(review: Review, call: EffectiveStep) -> tuple[str, ...]:
    """Return the gates of a call: its own, and those of the decision if it is above read_only."""
    return named_gates(review.spec, call)


def named_gates(spec: DecisionSpec, call: EffectiveStep) -> tuple[str, ...]:
    """Return the gates that a call of a decision names: its own, and those of the decision if it is above read_only."""
    if not spec.gates or call.mode is ApprovalMode.READ_ONLY:
        return call.gates
    return tuple(dict.fromkeys((*call.gates, *spec.gates)))


def demand_gates(review: Review) -> None:
    """Record every approval that the plan waits for when it runs."""
    gates = review.compiled.gates_by_name
    for call in review.calls if gates else ():
        for name in gates_of(review, call):
            if name in gates and (reason := _reason(review, call, gates[name])):
                fields = {"step": call.position, "step_id": call.step.id, "gate": name, "reason": reason}
                review.demands.append(unchecked(GateDemand, fields))


def _reason(review: Review, call: EffectiveStep, gate: Gate) -> str | None:
    """Return why a call waits for a gate; None only if the gate's condition is false, not if it fails."""
    if gate.when is None:
        return f"{call.tool.name} is {call.mode}"
    outcome = condition(review, call, gate.when, f"gate {gate.name} at step {call.position}")
    if outcome is None:
        return f"unless {gate.when} is false at dispatch"
    if outcome.error is not None:
        return f"its condition fails: {outcome.error}"
    return f"{gate.when} holds" if outcome.holds else None


def compensation_is_recorded(review: Review) -> Refusals:
    """Every compensable step has a compensation, or its tool states that there is none."""
    for call in review.calls:
        if not is_compensated(call):
            yield _uncompensated(
                review,
                call,
                f"step {call.position} is {call.reversibility} and records no compensation",
                "name the call that takes it back, or let the tool state that there is none",
            )


def is_compensated(call: EffectiveStep) -> bool:
    """Return whether a call has a compensation, needs none, or its tool states that there is none."""
    is_final = call.reversibility in (Reversibility.PURE, Reversibility.IRREVERSIBLE)
    return is_final or call.compensate is not None or bool(call.tool.no_compensation)


def own_compensations_fit(review: Review) -> Refusals:
    """A proposed compensation is on the surface, within mode and roles, and valid. `compensations_are_permitted` runs
    the other checks of a call.
    """
    is_strict = review.is_strict
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
        if is_strict and not call.leaves_nothing and _leaves_nothing(tool):
            yield _uncompensated(
                review,
                call,
                f"step {call.position} is compensated by {tool.name}, which changes nothing and so undoes nothing",
                "compensate with a tool that undoes the step, or leave out compensate",
            )
        if MODE_RANK[tool.mode] > MODE_RANK[review.ctx.safety_mode]:
            yield review.refuse(
                Code.MODE_EXCEEDED,
                f"step {call.position} is compensated by {tool.name}, mode {tool.mode} > safety_mode {review.ctx.safety_mode}",
                "compensate with a tool within the safety mode",
                step=call.position,
                place="/compensate",
            )
        if not may_use(review, tool):
            what = f"step {call.position} is compensated by {tool.name}"
            yield _unauthorised(review, call, what, tool, "/compensate")
        grave = None if is_strict else gravity(tool.mode, tool.effective_reversibility)
        if grave and not is_gated(review, call):
            yield review.refuse(
                Code.GATE_MISSING,
                f"the compensation of step {call.position} is {grave}, and the step waits for no unconditional gate",
                "request approval: add a gate to the step; who approves it approves its way back",
                step=call.position,
                place="/gates",
            )
        for place, fault in _misfits(review, own, tool):
            yield review.refuse(
                Code.ARGUMENT_INVALID,
                f"the compensation of step {call.position}: {fault}",
                f"{tool.name} takes {review.parameters_of(tool)}",
                step=call.position,
                place=pointer.join(("compensate", "params", *place)),
            )


def _leaves_nothing(tool: ToolSpec) -> bool:
    """Return whether calls of a tool have no effect."""
    return tool.mode is ApprovalMode.READ_ONLY or tool.effective_reversibility is Reversibility.PURE


def _misfits(review: Review, own: Compensation, tool: ToolSpec) -> list[tuple[references.Place, str]]:
    """Return what makes the arguments of a compensation invalid, as far as they are known at review."""
    params, doubled = unaliased(own.params, tool.aliases)
    found = references.scan(params)
    open_places = [f.place for f in found if type(f) is references.Reference and is_open(f)]
    return [
        *(((name,), f"{name} is given twice, by name and by alias") for name in doubled),
        *(
            (f.place, f.text if review.names_causes else f.message)
            for f in certain_faults(tool, review.resolved(params), open_places)
        ),
    ]


def _uncompensated(review: Review, call: EffectiveStep, reason: str, remedy: str) -> Refusal:
    return review.refuse(Code.COMPENSATION_MISSING, reason, remedy, step=call.position, place="/compensate")
