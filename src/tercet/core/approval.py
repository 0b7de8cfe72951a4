"""Approval of calls: what an approval binds to, and what the approver is shown.

Bound by the digest: tenant, run, step, the tool's definition with its declared defaults, the resolved parameters, the
key, the effective mode, the hashes of the evidence and results that it depends on, its condition, the pack, the definition
of the gates, and the compensation as it would run. If any of them has changed when the call is due, the digest differs and
the approval does not count. Shown but not bound: the budget, the rest of the plan, and the source of each value.

Checked again when the call is due or outputs are to be committed, failing closed: the expiry of evidence, the roles of
the approvers, and their logins in the pack's list of people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from tercet.contracts.gate import Gate
from tercet.contracts.outputs.exit import ExitDecision
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import digest
from tercet.contracts.values.references import Reference, scan
from tercet.core import commands as c
from tercet.core.budget import remaining
from tercet.core.compensation import shown_params
from tercet.core.config import RunConfig
from tercet.core.dependencies import basis_of, evidence_in
from tercet.core.events import BoundCompensation, EarlierCall, Need
from tercet.core.fold.gate import acceptances
from tercet.core.modifications import SETTABLE, settable
from tercet.core.outputs.review import advise, request_approval
from tercet.core.plans import read_plan
from tercet.core.same_calls import shown_marks
from tercet.core.state import Answer, OpenGate, State
from tercet.critic.checks.compensation import CompensatingStep
from tercet.critic.checks.flow import describe_origins, origins
from tercet.critic.checks.gates import gravity
from tercet.critic.reading import pinned
from tercet.policy.call_params import defaults_in, effective_params, uncertain_defaults


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A call with resolved parameters."""

    name: str
    call: EffectiveStep
    params: dict[str, Any]
    key: str
    compensation: BoundCompensation | None = None
    """The bound compensation, if it has one."""
    sources: dict[str, str] | None = None
    """The sources of its parameters; None if the plan shows them."""
    repeats: tuple[EarlierCall, ...] = ()
    """The earlier calls that it repeats, where its tool allows one in a period."""


def call_digest(state: State, config: RunConfig, asked: Resolved, gates: tuple[str, ...]) -> str:
    """Return the digest that an approval of a call binds to."""
    compiled, call, start = config.compiled, asked.call, state.start
    definitions = [gate.model_dump(mode="json") for gate in compiled.gates if gate.name in gates]
    bound = [
        start.tenant,
        start.run,
        asked.name,
        call.tool.hash,
        asked.params,
        asked.key,
        call.mode,
        frozen_evidence(state, config, call),
        compiled.pack_hash,
        definitions,
    ]
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return digest([*bound, call.compensate.model_dump(mode="json") if call.compensate else None])
    compensation = asked.compensation and [asked.compensation.tool, asked.compensation.params]
    repeats = [[[each.session, each.key] for each in asked.repeats]] if asked.repeats else []
    return digest([*bound, compensation, call.step.when, frozen_results(state, config, call), *repeats])


def sources_of(state: State, config: RunConfig, call: EffectiveStep) -> tuple[str, ...]:
    """Return the evidence that a call depends on."""
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return call.step.evidence_refs
    return basis_of(state, config, call.step, call.compensate).evidence


def dated_sources(state: State, config: RunConfig, call: EffectiveStep) -> tuple[str, ...]:
    """Return the evidence that must be valid when a call is made. A compensation needs none: its evidence was valid
    when its step was dispatched, and its values have been bound since."""
    return () if isinstance(call.step, CompensatingStep) else sources_of(state, config, call)


def frozen_evidence(state: State, config: RunConfig, call: EffectiveStep) -> dict[str, str]:
    """Return the evidence that a call depends on, each with the hash of its content."""
    known = config.compiled.evidence
    return {ref: known[ref].hash for ref in sources_of(state, config, call) if ref in known}


def frozen_results(state: State, config: RunConfig, call: EffectiveStep) -> dict[str, str]:
    """Return the hashes of the results that a call depends on, by step."""
    read = basis_of(state, config, call.step, call.compensate).results
    done = {
        name: state.steps[name] for name in read if name in state.steps and state.steps[name].status == "done"
    }
    return {name: step.blob or digest(step.value) for name, step in done.items()}


def ask_for(
    state: State,
    config: RunConfig,
    asked: Resolved,
    gates: tuple[str, ...],
    sequence: tuple[Resolved, ...] = (),
) -> c.Ask:
    """Return the gate at which a call waits, together with calls that the same people would be asked about."""
    known = [config.compiled.gates_by_name[name] for name in gates if name in config.compiled.gates_by_name]
    needs = {gate.name: Need(roles=gate.roles, quorum=gate.quorum) for gate in known}
    shown = _shown(state, config, asked)
    if _is_settable(config, asked, needs):
        is_delivered = state.accepted is not None
        shown[SETTABLE] = settable(asked.call.params, asked.call.tool, is_delivered=is_delivered)
    if state.accepted is not None:
        shown["judgement"] = _judgement(state)
    if changers := sorted({each.by for each in state.changed if each.step == asked.name}):
        shown["changed_by"] = changers
    if refusal := state.steps[asked.name].refused_change:
        shown["refused_change"] = refusal
    if sequence:
        shown["sequence"] = [{"step": other.name, **_shown(state, config, other)} for other in sequence]
    if (before := state.steps[asked.name].approved) != "":
        shown["changed"] = f"what was approved before is not what would run now: {before[:20]}…"
    return c.Ask(
        step=asked.name,
        kind="approval",
        names=gates,
        needs=needs or {"": Need()},
        digest=call_digest(state, config, asked, gates),
        covers={other.name: call_digest(state, config, other, gates) for other in sequence},
        shown={**shown, "budget": remaining(state.used, config.limits), "plan": _summarize_plan(state)},
        stale=_evidence_expiry(state, config, (asked, *sequence)),
        ttl_ms=min((gate.ttl_ms for gate in known), default=0),
    )


def _judgement(state: State) -> dict[str, Any]:
    """Return the verdict on the outputs that a call delivers."""
    accepted, report = state.accepted, state.report
    return {
        "outputs": accepted.digest if accepted else "",
        "accepted_by": list(accepted.by) if accepted else [],
        "status": report.get("status", ""),
        "rationale": report.get("rationale", ""),
        **({"exit": state.quality.exit} if state.quality.exit else {}),
    }


def _is_settable(config: RunConfig, asked: Resolved, needs: Mapping[str, Need]) -> bool:
    """Return whether values can be set in a call: it is a step of the plan, at a gate that names trusted roles."""
    is_planned = not isinstance(asked.call.step, CompensatingStep)
    is_strict = config.ctx.goes_by(Behaviour.STRICT_CALLS)
    return is_planned and is_strict and any(need.roles for need in needs.values())


def ask_for_compensation(state: State, config: RunConfig, asked: Resolved, gates: tuple[str, ...]) -> c.Ask:
    """Return the gate at which a compensation waits. It never expires, since the run is already ending."""
    asking = ask_for(state, config, asked, gates)
    shown = {**asking.shown, "reason": state.reason, "compensates": state.steps[asked.name].compensates}
    return msgspec.structs.replace(asking, shown=shown, ttl_ms=0)


def accepting(config: RunConfig) -> Gate | None:
    """Return the pack's gate that names who may accept outputs of this decision."""
    return config.compiled.gates_by_name.get(config.spec.output_gate or "")


def ask_for_outputs(state: State, config: RunConfig) -> c.Ask:
    """Return the gate at which a person accepts or refuses the outputs of a run."""
    gate = accepting(config)
    decided = ExitDecision.model_validate(state.quality.exit)
    bound = [
        state.start.tenant,
        state.start.run,
        state.outputs,
        config.compiled.pack_hash,
        gate.model_dump(mode="json") if gate else None,
        state.quality.exit,
    ]
    return c.Ask(
        step="",
        kind="output",
        names=(gate.name,) if gate else (),
        needs={gate.name: Need(roles=gate.roles, quorum=gate.quorum)} if gate else {"": Need()},
        digest=digest(bound),
        shown={
            **({"changed": state.quality.lapsed} if state.quality.lapsed else {}),
            "reason": decided.reason,
            "outputs": state.outputs,
            "exit": state.quality.exit,
            "recommended": advise(state, decided),
            "left": list(diagnosis_of(state)),
            "repairs": state.used.repairs,
            "budget": remaining(state.used, config.limits),
            **(_assess_outputs(state) if config.ctx.goes_by(Behaviour.OUTPUTS_SCREENED) else {}),
        },
        stale=_first_expiry(config, _evidence_of_outputs(state, config)),
        ttl_ms=gate.ttl_ms if gate else 0,
    )


def _assess_outputs(state: State) -> dict[str, Any]:
    """Return the provenance of the outputs, their scores, and the reasons for asking a person."""
    asked = request_approval(state)
    return asked.model_dump(
        mode="json", include={"provenance", "quality_scores", "confidence", "risk_assessment"}
    )


def _evidence_of_outputs(state: State, config: RunConfig) -> tuple[str, ...]:
    """Return the evidence that the plan pins or reads its outputs from."""
    plan = read_plan(state.plan)
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        read = (found.target for found in scan(plan.outputs) if isinstance(found, Reference))
        return (*(ref for step in plan.steps for ref in pinned(step)), *read)
    steps = (ref for step in plan.steps for ref in basis_of(state, config, step).evidence)
    return (*steps, *evidence_in(plan.outputs))


def diagnosis_of(state: State) -> tuple[str, ...]:
    """Return the remaining defects as text: the problem, its cause, and the repairs that were tried."""
    left: list[dict[str, Any]] = state.quality.escalation.get("left", [])
    return tuple(
        f"{each['defect']['dimension']}: {each['defect']['description']}"
        f" ({each['root_cause']}; {_times(each['tried'])}: {each['reason']})"
        for each in left
    )


def _times(count: int) -> str:
    return "no repair was tried" if count == 0 else f"tried {count} time{'s' if count > 1 else ''}"


def _evidence_expiry(state: State, config: RunConfig, calls: Iterable[Resolved]) -> int:
    """Return when the first evidence that these calls depend on expires; 0 if none does."""
    return _first_expiry(config, (ref for asked in calls for ref in dated_sources(state, config, asked.call)))


def _first_expiry(config: RunConfig, refs: Iterable[str]) -> int:
    """Return when the first of these pieces of evidence expires; 0 if none does."""
    ends = config.expiry
    return min((ends[ref] for ref in refs if ref in ends), default=0)


def _shown(state: State, config: RunConfig, asked: Resolved) -> dict[str, Any]:
    call = asked.call
    known = config.compiled.evidence
    sources = _sources(state, config, asked) if asked.sources is None else asked.sources
    is_strict = config.ctx.goes_by(Behaviour.STRICT_CALLS)
    params = asked.params
    if is_strict:
        params = effective_params(call.tool, params, reads_all=config.reads_all)
    defaults = defaults_in(asked.params, params)
    unsure = uncertain_defaults(call.tool, params) if config.reads_all else ()
    return {
        "tool": call.tool.name,
        "description": call.tool.description,
        "params": params,
        **({"defaults": list(defaults)} if defaults else {}),
        "authority": sorted(call.tool.authority_parameters & set(params)),
        "sources": _with_changes(config, asked, _with_defaults(sources, defaults, unsure)),
        **shown_marks(config, call, asked.params),
        **({"repeats": msgspec.to_builtins(asked.repeats)} if asked.repeats else {}),
        "mode": str(call.mode),
        "reversibility": str(call.reversibility),
        "compensation": _shown_compensation(config, asked),
        "no_compensation": call.tool.no_compensation,
        "cost_microcents": call.tool.cost_microcents,
        "evidence": [
            {"id": ref, "hash": hashed, "content": known[ref].content, "source": known[ref].source}
            for ref, hashed in frozen_evidence(state, config, call).items()
        ],
        **_shown_basis(state, config, call),
    }


def _with_changes(config: RunConfig, asked: Resolved, sources: dict[str, str]) -> dict[str, str]:
    """Return the sources of values, including those that an approver has set."""
    described = dict(sources)
    for each in config.compiled.changed_at(asked.name, asked.call.tool.name):
        name, *inner = pointer.parts(each.place)
        text = f"changed by {each.by}{f' at {pointer.join(inner)}' if inner else ''}"
        described[name] = f"{text}; {described[name]}" if inner and name in described else text
    return described


def _with_defaults(
    sources: dict[str, str], defaults: Iterable[str], unsure: Iterable[str] = ()
) -> dict[str, str]:
    """Return the sources of values, including the tool's defaults and the places at which it may add others."""
    described = dict(sources)
    said = [(place, "the tool's default", "for") for place in defaults]
    said += [(place, "the tool may add other defaults", "at") for place in unsure]
    for place, text, word in said:
        name, *inner = pointer.parts(place) or ["all parameters"]
        where = f"{text} {word} {pointer.join(inner)}" if inner else text
        described[name] = f"{described[name]}; {where}" if name in described else where
    return described


def _shown_compensation(config: RunConfig, asked: Resolved) -> dict[str, Any] | None:
    """Return the compensation of a call as it would run, with the sources of its values if the plan proposed it."""
    bound, declared = asked.compensation, asked.call.compensate
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return declared.model_dump(mode="json") if declared else None
    if bound is None:
        return None
    given, tool = shown_params(bound.params), config.surface.get(bound.tool)
    params = given if tool is None else effective_params(tool, given, reads_all=config.reads_all)
    shown: dict[str, Any] = {"tool": bound.tool, "params": params}
    if defaults := defaults_in(given, params):
        shown["defaults"] = list(defaults)
    if bound.proposed:
        shown |= {"proposed": True, "sources": bound.sources}
    return {**shown, "error": bound.error} if bound.error else shown


def _shown_basis(state: State, config: RunConfig, call: EffectiveStep) -> dict[str, Any]:
    """Return the condition of a call and the results that it depends on, if there are any."""
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return {}
    shown = {"when": call.step.when, "results": frozen_results(state, config, call)}
    return {name: value for name, value in shown.items() if value}


def _sources(state: State, config: RunConfig, asked: Resolved) -> dict[str, str]:
    """Return the source of each parameter as the plan writes it, and whether it is trusted."""
    review = config.review(read_plan(state.plan))
    return describe_origins(origins(review, asked.name))


def _summarize_plan(state: State) -> list[dict[str, str]]:
    """Return a summary of the whole plan, to show an approver the context of the call."""
    return [
        {"step": step["id"], "tool": step.get("tool", "note"), "status": state.steps[step["id"]].status}
        for step in state.plan.get("steps", ())
    ]


def people_of(state: State, config: RunConfig, steps: Iterable[str]) -> dict[str, Need]:
    """Return who may answer about the effects of these steps: the people who may approve such calls; empty if no
    named approval was given."""
    wanted = frozenset(steps)
    return _needs(config, (name for answer in _approvals(state, wanted) for name in answer.names))


def settlers_of(state: State, config: RunConfig, name: str, call: EffectiveStep | None) -> dict[str, Need]:
    """Return who may say whether a call happened; empty if the run's owner may say so as well.

    These are the people of the gates at which the call or its step was approved, and of the gates that the call itself
    has: by its step, its tool and the decision. A condition that was false when a step was dispatched lifts its gate; no
    condition lifts a gate of a compensation, since a declared one is made without evaluating them. A call that only had
    to be approved by another person is settled by another person.
    """
    host = state.steps[name].compensates
    steps = frozenset((name, (host or name).partition("#")[0]))
    if not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return people_of(state, config, steps)
    approvals = _approvals(state, steps)
    names = [gate for answer in approvals for gate in answer.names]
    if call is not None:
        known = config.compiled.gates_by_name
        own = (*call.gates, *(() if call.leaves_nothing else config.spec.gates))
        names += [g for g in own if g in known and (host or known[g].when is None)]
    is_grave = call is not None and gravity(call.mode, call.reversibility) is not None
    return _needs(config, names) or ({"": Need()} if approvals or is_grave else {})


def _approvals(state: State, steps: Collection[str]) -> list[Answer]:
    """Return the approvals that people gave to these steps."""
    return [answer for answer in state.answers if answer.answer == "approve" and answer.step in steps]


def _needs(config: RunConfig, names: Iterable[str]) -> dict[str, Need]:
    known = config.compiled.gates_by_name
    return {name: Need(roles=known[name].roles) for name in names if name in known}


Objection: TypeAlias = Callable[[Answer, tuple[str, ...]], str]
"""Returns why an approval no longer counts for one of these roles; empty if it does."""


def find_expired_evidence(state: State, config: RunConfig, call: EffectiveStep, now: int) -> str | None:
    """Return the first piece of evidence that a call depends on and that has expired; None if all of it is valid."""
    for ref in dated_sources(state, config, call) if config.expiry else ():
        if config.expiry.get(ref, now + 1) <= now:
            return ref
    return None


def find_lost_approval(state: State, config: RunConfig, name: str, objection: Objection) -> str:
    """Return why the approvals of a call no longer count, according to the current list of people; empty if they do."""
    for gate in state.approved.values():
        if name in gate.calls and (lost := _find_lost(gate, objection)):
            return lost
    covering = _covering_gate(state, config, name)
    return "" if covering is None else _find_lost(covering, objection)


def _covering_gate(state: State, config: RunConfig, name: str) -> OpenGate | None:
    """Return the gate at which a proposed compensation was approved together with its step; None if it was not."""
    bound = next((undo.bound for undo in state.undo if name == undo.name), None)
    if bound is None or bound.approved is None:
        return None
    host = state.steps[name].compensates.partition("#")[0]
    given = [each for each in state.answers if each.answer == "approve" and each.step == host]
    known = config.compiled.gates_by_name
    gates = (known[gate] for gate in bound.approved if gate in known)
    needs = {gate.name: Need(roles=gate.roles, quorum=gate.quorum) for gate in gates}
    approvals = tuple(each for each in given if each.digest == given[-1].digest)
    return OpenGate(
        id=given[-1].gate, kind="approval", step=host, needs=needs or {"": Need()}, approvals=approvals
    )


def find_lost_acceptance(state: State, config: RunConfig, objection: Objection) -> str:
    """Return why accepted outputs can no longer be committed; empty if they can."""
    given, gate = acceptances(state), accepting(config)
    if not given or gate is None:
        return ""
    needs = {gate.name: Need(roles=gate.roles, quorum=gate.quorum)}
    return _find_lost(
        OpenGate(id=given[-1].gate, kind="output", step="", needs=needs, approvals=given), objection
    )


def _find_lost(gate: OpenGate, objection: Objection) -> str:
    """Return why the approvals of a gate no longer suffice, given the current roles; empty if they do."""
    for name, need in gate.needs.items():
        counted = [a for a in gate.approvals if gate.counts(name, a.roles)]
        against = {a.actor: why for a in counted if (why := objection(a, need.roles))}
        if len({a.actor for a in counted} - against.keys()) < need.quorum:
            return "; ".join(f"{who} approved {name or gate.id}, and {why}" for who, why in against.items())
    return ""
