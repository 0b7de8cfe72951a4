"""Effects of a run: the calls that compensate them, and those that are left to an operator.

They are read from the events, since after a replan the last plan may no longer mention earlier calls. Pure steps have
nothing to compensate; irreversible ones, and those whose tool declares that it has no compensation, are listed for the
operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tercet.contracts.mode import Reversibility
from tercet.contracts.plan import Compensation, Step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.saga import RollbackEntry, RollbackResult, RollbackStatus
from tercet.contracts.steps.effective import EffectiveStep, effective
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import references
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.core.compensation import entered_sources, reads_own_result, resolved_params
from tercet.core.config import RunConfig
from tercet.core.fold.gate import is_trusted_settler
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.policy.resolution import ResolutionError, resolve


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A call that happened."""

    step: str
    planned: Step
    intent: e.Intent
    value: Any
    blob: str
    entered_by: str = ""
    """The person who entered its result without being trusted for it; empty if the tool or a trusted person gave it."""


def effects(events: Sequence[e.Event]) -> list[Effect]:
    """Return every call that happened, in the order in which they ended."""
    planned: dict[str, Step] = {}
    intents: dict[str, e.Intent] = {}
    asked: dict[str, e.GateOpened] = {}
    owners: tuple[Mapping[str, Any], ...] = ()
    found: list[Effect] = []

    def add(step: str, value: Any, blob: str = "", entered_by: str = "") -> None:
        found.append(
            Effect(
                step=step,
                planned=planned[step],
                intent=intents[step],
                value=value,
                blob=blob,
                entered_by=entered_by,
            )
        )

    for event in events:
        match event:
            case e.SessionStarted():
                owners = (event.actor, *event.parent_owners)
            case e.PlanProposed():
                planned |= {step.id: step for step in read_plan(event.plan).steps}
            case e.ProposalsReviewed() if event.plan:
                planned |= {step.id: step for step in read_plan(event.plan).steps}
            case e.Intent() if event.tool and not event.lane_calls and event.step in planned:
                intents[event.step] = event
            case e.GateOpened(kind="reconcile"):
                asked[event.gate] = event
            case e.Complete() if event.step in intents:
                add(event.step, event.value, event.blob)
            case e.GateAnswered(answer="happened") if (gate := asked[event.gate]).step in intents:
                is_trusted = is_trusted_settler(owners, gate.shown, event)
                add(gate.step, event.value, entered_by="" if is_trusted else event.actor)
            case _:
                pass
    return found


def plan_compensations(
    done: Sequence[Effect], config: RunConfig, tools: Mapping[str, ToolSpec], blobs: Mapping[str, Any]
) -> tuple[e.Undo, ...]:
    """Return the compensation of each effect, the last one first; a repeated step is numbered."""
    results = {effect.step: _value(effect, blobs) for effect in done}
    seen: dict[str, int] = {}
    ways: list[e.Undo] = []
    for effect in done:
        tool = tools.get(effect.intent.tool)
        call = effective(0, effect.planned, tool) if tool is not None else None
        if call is not None and call.leaves_nothing:
            continue
        seen[effect.step] = seen.get(effect.step, 0) + 1
        label = effect.step if seen[effect.step] == 1 else f"{effect.step}#{seen[effect.step]}"
        if call is None:  # the session was moved to a pack without it
            ways.append(e.Undo(step=label, note=f"{effect.intent.tool} is not there"))
            continue
        own = {
            references.REQUEST: config.compiled.input(),
            references.SELF: _value(effect, blobs),
            references.PARAMS: effect.intent.params,
        }
        if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
            ways.append(_unbound_undo(label, effect, call, {**results, **own}, config, tools))
        elif (bound := effect.intent.compensation) is not None:
            if _is_entered(effect, bound.params):
                bound = _with_gates(bound, effect, call, config, tools)
            ways.append(_bound_undo(label, effect, bound, own, config, tools))
        elif effect.planned.compensate is None:
            # There is none, or the call was made under earlier rules: then the tool's own declaration counts.
            is_entered = call.compensate is not None and _is_entered(effect, call.compensate.params)
            way = _unbound_undo(label, effect, call, own, config, tools)
            ways.append(_left_to_operator(label, effect) if is_entered and way.tool else way)
        else:
            ways.append(e.Undo(step=label, note="its compensation was proposed under earlier rules, unbound"))
    return tuple(reversed(ways))


def _bound_undo(
    label: str,
    effect: Effect,
    bound: e.BoundCompensation,
    own: Mapping[str, Any],
    config: RunConfig,
    tools: Mapping[str, ToolSpec],
) -> e.Undo:
    """Return the compensation of an effect as bound when the effect was dispatched."""
    if bound.tool not in tools:
        return e.Undo(step=label, note=f"{bound.tool} is not there")
    try:
        params = resolved_params(bound, own, config.evidence)
    except ResolutionError as error:
        return e.Undo(step=label, note=f"its compensation cannot be resolved: {error.message}")
    is_entered = _is_entered(effect, bound.params)
    if is_entered and not bound.gates:
        return _left_to_operator(label, effect)
    return e.Undo(
        step=label,
        tool=bound.tool,
        params=params,
        key=digest(["undo", config.ctx.tenant, effect.intent.key, bound.tool]),
        bound=msgspec.structs.replace(bound, params={}) if bound.proposed or is_entered else None,
    )


def _is_entered(effect: Effect, params: dict[str, Any]) -> bool:
    """Return whether a compensation with these parameters reads a result that a person entered without being trusted for it."""
    return bool(effect.entered_by) and reads_own_result(params)


def _with_gates(
    bound: e.BoundCompensation,
    effect: Effect,
    call: EffectiveStep,
    config: RunConfig,
    tools: Mapping[str, ToolSpec],
) -> e.BoundCompensation:
    """Return a compensation that reads an entered result with the gates that decide about it: those of its step, of its
    tool and of the decision, and the decision's gate for values without a trusted source. None of them is lifted by its
    condition."""
    own = tools[bound.tool].gates if bound.tool in tools else ()
    names = (*bound.gates, *call.gates, *own, *config.spec.gates, config.spec.unbound_gate or "")
    return msgspec.structs.replace(
        bound,
        gates=tuple(name for name in dict.fromkeys(names) if name in config.compiled.gates_by_name),
        sources=entered_sources(bound, effect.step, effect.entered_by),
    )


def _left_to_operator(label: str, effect: Effect) -> e.Undo:
    who = f"the result of {effect.step}, which {effect.entered_by} entered"
    return e.Undo(step=label, note=f"its compensation reads {who}, and no gate covers that")


def _value(effect: Effect, blobs: Mapping[str, Any]) -> Any:
    return blobs.get(effect.blob) if effect.blob else effect.value


def _unbound_undo(
    label: str,
    effect: Effect,
    call: EffectiveStep,
    sources: Mapping[str, Any],
    config: RunConfig,
    tools: Mapping[str, ToolSpec],
) -> e.Undo:
    # For calls made under earlier rules: the compensation is resolved at the end, with what step ids mean then.
    way = call.compensate
    if call.reversibility is Reversibility.IRREVERSIBLE or way is None or way.tool not in tools:
        return e.Undo(step=label, note=_no_undo_reason(call, way))
    try:
        params = resolve(way.params, sources, config.evidence)
    except ResolutionError as error:
        return e.Undo(step=label, note=f"its way back cannot be worked out: {error.message}")
    key = digest(["undo", config.ctx.tenant, effect.intent.key, way.tool])
    return e.Undo(step=label, tool=way.tool, params=params, key=key)


def _no_undo_reason(call: EffectiveStep, way: Compensation | None) -> str:
    if call.reversibility is Reversibility.IRREVERSIBLE:
        return call.tool.no_compensation or f"{call.tool.name} is irreversible"
    if way is not None:
        return f"{way.tool} is not there"
    return call.tool.no_compensation or "no compensation was recorded"


def rollback(state: State) -> RollbackResult | None:
    """Return the result of compensation; None if there was nothing to compensate."""
    if state.saga != "undoing":
        return None
    log = tuple(_entries(state))
    is_clean = all(entry.status is RollbackStatus.COMPENSATED for entry in log)
    return RollbackResult(success=is_clean, log=log, requires_manual_intervention=not is_clean)


def _entries(state: State) -> Iterator[RollbackEntry]:
    for undo in state.undo:
        if not undo.tool:
            yield RollbackEntry(step_id=undo.step, status=RollbackStatus.CANNOT_ROLLBACK, note=undo.note)
            continue
        step = state.steps[undo.name]
        has_worked = step.status == "done"
        yield RollbackEntry(
            step_id=undo.step,
            status=RollbackStatus.COMPENSATED if has_worked else RollbackStatus.COMPENSATION_FAILED,
            compensating=Compensation(tool=undo.tool, params=undo.params),
            error=None if has_worked else step.error or step.status,
        )
