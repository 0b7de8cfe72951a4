"""Evidence queries of plans and repairs: which steps have open queries, and the plan with what was found for them.

A caller's plan is never changed. A step that is unchanged since an earlier plan keeps the evidence that was found for it,
so that a replan does not turn it into another step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tercet.contracts.documents import find_slots
from tercet.contracts.evidence import Evidence, parse_ref
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality import CritiqueDiagnosis, Defect, RootCauseClass
from tercet.contracts.outputs.repair import LoopBreak, LoopMemory
from tercet.contracts.plan import EvidenceQuery, Plan, Step
from tercet.contracts.runs.behaviour import Behaviour
from tercet.core.config import RunConfig
from tercet.core.dependencies import evidence_in
from tercet.core.plans import read_plan
from tercet.core.required_gates import gates_of
from tercet.core.run import Run
from tercet.core.state import State
from tercet.quality.repair.causes import NEEDS_EVIDENCE, Circumstances, classify
from tercet.quality.repair.escalation import LADDER
from tercet.quality.repair.regions import locate, text_at


def carried_over(plan: Plan, before: dict[str, object]) -> Plan:
    """Return the plan with the evidence found earlier for steps with unchanged queries."""
    if not before or not any(step.evidence_queries for step in plan.steps):
        return plan
    earlier = {step.id: step for step in read_plan(before).steps}
    steps = tuple(_carry_over(step, earlier.get(step.id)) for step in plan.steps)
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


def _carry_over(step: Step, earlier: Step | None) -> Step:
    if earlier is None or not step.evidence_queries:
        return step
    found = step.model_copy(update={"evidence_refs": earlier.evidence_refs})
    return found if found == earlier else step


def asking(plan: Plan, state: State) -> list[Step]:
    """Return the steps with open queries: those of a planner's plan that have nothing pinned and have not run."""
    if state.plan_origin == "caller":
        return []
    return [step for step in steps_asking(plan) if state.steps[step.id].status == "pending"]


def steps_asking(plan: Plan) -> list[Step]:
    """Return the steps of a plan that declare queries and have nothing pinned."""
    return [step for step in plan.steps if step.evidence_queries and not step.evidence_refs]


MOST_READ = 500
"""How many further facts of the library a plan may name."""


def unread(plan: Plan, config: RunConfig) -> tuple[str, ...]:
    """Return the ids in the library's snapshot that a plan names and the run does not have yet."""
    if not config.library_snapshot or not config.ctx.goes_by(Behaviour.STRICT_CALLS):
        return ()
    read = [
        value
        for step in plan.steps
        for value in (
            step.params,
            step.compensate.params if step.compensate else {},
            {"$cel": step.when} if step.when else {},
        )
    ]
    pins = (ref for step in plan.steps for ref in step.evidence_refs)
    named = dict.fromkeys((*pins, *evidence_in([*read, plan.outputs, plan.memory])))
    known = config.compiled.evidence
    missing = [ref for ref in named if ref not in known and _snapshot_of(ref) == config.library_snapshot]
    return tuple(missing[:MOST_READ])


def _snapshot_of(ref: str) -> str:
    parts = parse_ref(ref)
    return parts.snapshot if parts else ""


def read_facts(data: bytes) -> tuple[Evidence, ...]:
    """Decode stored facts."""
    return tuple(Evidence.model_validate(kept["evidence"]) for kept in msgspec.json.decode(data))


def with_refs(plan: Plan, refs: dict[str, tuple[str, ...]]) -> Plan:
    """Return the next revision of a plan, in which the found evidence is pinned to the steps that queried it."""
    steps = tuple(
        step.model_copy(update={"evidence_refs": refs[step.id]}) if refs.get(step.id) else step
        for step in plan.steps
    )
    return plan.revise(steps=steps)


def pinned_evidence(plan: Plan, config: RunConfig, facts: Sequence[Evidence]) -> dict[str, str]:
    """Return every piece of evidence that the plan pins, with the hash of its content."""
    known = {entry.id: entry.hash for entry in config.compiled.evidence.values()}
    known |= {fact.id: fact.hash for fact in facts}
    return {ref: known[ref] for step in plan.steps for ref in step.evidence_refs if ref in known}


def failed_look_ups(run: Run) -> tuple[str, ...]:
    """Return the steps whose read_only calls failed for good and have no result; none that needs an approval."""
    if not run.config.ctx.goes_by(Behaviour.FAILED_TOOLS_RETRIED):
        return ()
    quality = run.state.quality
    done = {*quality.called_again, *(each.step for each in quality.retried)}
    failed = (name for name, step in run.state.steps.items() if step.has_failed_call and name not in done)
    return tuple(name for name in failed if _is_free(run, name) and _is_missed(run, name))


def _is_missed(run: Run, name: str) -> bool:
    """Return whether a defect may be due to a step's missing result: a value is missing, or has no source."""
    if not run.config.ctx.goes_by(Behaviour.OUTPUTS_READ_CLOSELY):
        return True
    quality, rules = run.state.quality, run.config.spec.quality
    verdict = VerificationVerdict.model_validate(quality.verdict) if quality.verdict else None
    if verdict is None or not verdict.schema_valid or rules is None:
        return True
    lacking = {
        slot for part in verdict.missing for slot in (part.name, *(s.name for s in find_slots(part.name)))
    }
    has_unknown = any(token.status == "unknown" for token in verdict.tokens)
    diagnosis = CritiqueDiagnosis.model_validate(quality.diagnosis or {"scores": {}})
    known = Circumstances(failed_tools=(run.followed.calls[name].tool.name,))
    is_named = RootCauseClass.TOOL_FAILURE in {classify(each, known) for each in diagnosis.defects}
    return (
        is_named or has_unknown or any(each.name in lacking and each.reads({name}) for each in rules.values)
    )


def _is_free(run: Run, name: str) -> bool:
    """Return whether the call of a step changes nothing and needs no approval."""
    call, params = run.followed.calls.get(name), run.state.steps[name].params
    if call is None or call.mode is not ApprovalMode.READ_ONLY or call.needs_person:
        return False
    return not gates_of(run.config, run.followed, name, params)


MOST_QUERIES = 8
EACH = 3
"""How many facts are used for one defect and class."""
_LONGEST = 400


def missing_evidence(state: State, config: RunConfig) -> tuple[EvidenceQuery, ...]:
    """Return the queries to make before outputs are repaired; empty if no fact is missing or there is no library.

    Only classes that the plan or its decision asks for, and only of the snapshot that the run is pinned to.
    """
    classes = _classes(state, config)
    if not config.library_snapshot or not classes or not state.quality.diagnosis:
        return ()
    diagnosis = CritiqueDiagnosis.model_validate(state.quality.diagnosis)
    loops = LoopMemory.model_validate(state.quality.memory or {}).loops
    is_asked = state.quality.control.get("helper") == "retrieve_evidence"
    is_circling = is_asked or loops + 1 > LADDER.index(LoopBreak.FRESH_EVIDENCE)
    known = Circumstances(has_evidence=bool(config.evidence))
    wanted = [each for each in diagnosis.defects if is_circling or _needs_evidence(each, known)]
    asked = dict.fromkeys(
        EvidenceQuery(classification=name, query=words, limit=EACH)
        for words in _words(state, wanted)
        for name in classes
    )
    return tuple(asked)[:MOST_QUERIES]


def _classes(state: State, config: RunConfig) -> tuple[str, ...]:
    steps: list[dict[str, list[dict[str, str]]]] = state.plan.get("steps", [])
    asked = (query["classification"] for step in steps for query in step.get("evidence_queries", ()))
    return tuple(dict.fromkeys((*config.spec.required_evidence, *asked)))


def _needs_evidence(defect: Defect, known: Circumstances) -> bool:
    return classify(defect, known) in NEEDS_EVIDENCE


def _words(state: State, defects: Iterable[Defect]) -> Iterable[str]:
    """Return the subject of each defect: the text at its place, or its description."""
    for defect in defects:
        place = locate(state.outputs, defect.location)
        text = text_at(state.outputs, place.pointer) if place is not None and place.is_range else None
        found = text[place.start : place.end].strip() if place is not None and text is not None else ""
        yield (found or defect.description)[:_LONGEST]
