"""The way back from what a run did: which calls take its effects back, and what is left for a person.

Read from the events and not from the plan alone: a run that was planned anew may have done things that its last plan no
longer mentions. Pure steps leave nothing to take back; irreversible ones, and those whose tool states that there is no
way back, are listed for the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tercet.contracts import references
from tercet.contracts.behaviour import Behaviour
from tercet.contracts.canonical import digest
from tercet.contracts.effective import EffectiveStep, effective
from tercet.contracts.mode import Reversibility
from tercet.contracts.plan import Compensation, Step
from tercet.contracts.saga import RollbackEntry, RollbackResult, RollbackStatus
from tercet.contracts.tool import ToolSpec
from tercet.journal import events as e
from tercet.policy.resolution import ResolutionError, resolve
from tercet.runtime.compensation import resolved_params
from tercet.runtime.plans import read_plan
from tercet.runtime.setting import Setting
from tercet.runtime.state import UNDO, State


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A call that happened."""

    step: str
    planned: Step
    intent: e.Intent
    value: Any
    blob: str


def effects(events: Sequence[e.Event]) -> list[Effect]:
    """Every call that happened, in the order in which they ended."""
    planned: dict[str, Step] = {}
    intents: dict[str, e.Intent] = {}
    asked: dict[str, str] = {}
    found: list[Effect] = []
    for event in events:
        match event:
            case e.PlanProposed():
                planned |= {step.id: step for step in read_plan(event.plan).steps}
            case e.Intent() if event.tool and event.step in planned:
                intents[event.step] = event
            case e.GateOpened(kind="reconcile"):
                asked[event.gate] = event.step
            case e.Complete() if event.step in intents:
                found.append(_effect(planned, intents[event.step], event.value, event.blob))
            case e.GateAnswered(answer="happened") if asked[event.gate] in intents:
                found.append(_effect(planned, intents[asked[event.gate]], event.value, ""))
            case _:
                pass
    return found


def _effect(planned: Mapping[str, Step], intent: e.Intent, value: Any, blob: str) -> Effect:
    return Effect(step=intent.step, planned=planned[intent.step], intent=intent, value=value, blob=blob)


def ways_back(
    done: Sequence[Effect], setting: Setting, tools: Mapping[str, ToolSpec], blobs: Mapping[str, Any]
) -> tuple[e.Undo, ...]:
    """How each effect is taken back, the last one first; a step that was done twice is numbered."""
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
            references.REQUEST: setting.compiled.input(),
            references.SELF: _value(effect, blobs),
            references.PARAMS: effect.intent.params,
        }
        if not setting.ctx.goes_by(Behaviour.STRICT_CALLS):
            ways.append(_way(label, effect, call, {**results, **own}, setting, tools))
        elif effect.intent.compensation is not None:
            ways.append(_bound_undo(label, effect, effect.intent.compensation, own, setting, tools))
        elif effect.planned.compensate is None:
            # Either there is none, or the call was made under earlier rules: then the tool's own declaration counts.
            ways.append(_way(label, effect, call, own, setting, tools))
        else:
            ways.append(e.Undo(step=label, note="its compensation was proposed under earlier rules, unbound"))
    return tuple(reversed(ways))


def _bound_undo(
    label: str,
    effect: Effect,
    bound: e.BoundCompensation,
    own: Mapping[str, Any],
    setting: Setting,
    tools: Mapping[str, ToolSpec],
) -> e.Undo:
    """Return the compensation of an effect as it was bound when the effect was dispatched."""
    if bound.tool not in tools:
        return e.Undo(step=label, note=f"{bound.tool} is not there")
    try:
        params = resolved_params(bound, own, setting.evidence)
    except ResolutionError as error:
        return e.Undo(step=label, note=f"its compensation cannot be resolved: {error.message}")
    return e.Undo(
        step=label,
        tool=bound.tool,
        params=params,
        key=digest(["undo", setting.ctx.tenant, effect.intent.key, bound.tool]),
        bound=msgspec.structs.replace(bound, params={}) if bound.proposed else None,
    )


def _value(effect: Effect, blobs: Mapping[str, Any]) -> Any:
    return blobs.get(effect.blob) if effect.blob else effect.value


def _way(
    label: str,
    effect: Effect,
    call: EffectiveStep,
    sources: Mapping[str, Any],
    setting: Setting,
    tools: Mapping[str, ToolSpec],
) -> e.Undo:
    # For calls made under earlier rules: the compensation is resolved at the end, with what step ids mean then.
    way = call.compensate
    if call.reversibility is Reversibility.IRREVERSIBLE or way is None or way.tool not in tools:
        return e.Undo(step=label, note=_why_not(call, way))
    try:
        params = resolve(way.params, sources, setting.evidence)
    except ResolutionError as error:
        return e.Undo(step=label, note=f"its way back cannot be worked out: {error.message}")
    key = digest(["undo", setting.ctx.tenant, effect.intent.key, way.tool])
    return e.Undo(step=label, tool=way.tool, params=params, key=key)


def _why_not(call: EffectiveStep, way: Compensation | None) -> str:
    if call.reversibility is Reversibility.IRREVERSIBLE:
        return call.tool.no_compensation or f"{call.tool.name} is irreversible"
    if way is not None:
        return f"{way.tool} is not there"
    return call.tool.no_compensation or "no compensation was recorded"


def rollback(state: State) -> RollbackResult | None:
    """How taking effects back went; None where nothing was to be taken back."""
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
        step = state.steps[f"{UNDO}{undo.step}"]
        has_worked = step.status == "done"
        yield RollbackEntry(
            step_id=undo.step,
            status=RollbackStatus.COMPENSATED if has_worked else RollbackStatus.COMPENSATION_FAILED,
            compensating=Compensation(tool=undo.tool, params=undo.params),
            error=None if has_worked else step.error or step.status,
        )
