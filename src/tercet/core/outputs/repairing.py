"""REPAIR: the input of a repair, the check whether a defect is gone, and the resulting event."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from re import escape, finditer
from typing import Any

from tercet.contracts.documents import MissingPart, TokenVerdict, find_slots
from tercet.contracts.outputs.quality import (
    Consensus,
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RepairHint,
    RepairLog,
)
from tercet.contracts.outputs.repair import Escalation, LoopMemory, RepairResult, RepairRules, SuccessRates
from tercet.contracts.outputs.rubric import Rubric
from tercet.contracts.question import Inquiry
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.runs.run import Outcome
from tercet.contracts.shape import JsonObject
from tercet.contracts.values import pointer
from tercet.core import events as e
from tercet.core.outputs.judging import CORRECTNESS, TESTS, may_replan, probed, unscored, vote
from tercet.core.outputs.review import OutputReview
from tercet.core.state import State
from tercet.quality.repair.causes import Circumstances
from tercet.quality.repair.escalation import FEEDBACK, Resources
from tercet.quality.repair.losses import Materials, Stated
from tercet.quality.repair.phase import IsGone, RepairCase, repair_output, with_feedback
from tercet.quality.repair.rechecking import SCHEMA, diagnose_form, form_of, gone_by, is_form_fixed
from tercet.quality.repair.regions import Edit, headings, splice
from tercet.quality.rubric.adversarial import EDGE_CASES
from tercet.quality.rubric.critique import critique
from tercet.quality.rubric.scorers import missing_faults
from tercet.quality.values import slot_guide
from tercet.quality.verification.places import Location, parse_location
from tercet.quality.verification.results import CLASSIFICATION, result_refs
from tercet.quality.verification.traces import analyse


def repair(review: OutputReview, models: Sequence[str], now: int) -> Inquiry[e.OutputsRepaired]:
    """Return what REPAIR makes of the outputs, attempt by attempt."""
    case = _case(review)
    if review.state.used.repairs >= review.config.ctx.run_budget.max_repairs:
        case = replace(case, rules=case.rules.model_copy(update={"max_attempts": 0}))
    fresh = tuple(fact for fact in review.evidence if fact.id in review.state.quality.fresh)
    result = yield from repair_output(
        case, _is_gone(review), fetch=lambda _: fresh, vote=partial(_vote_on_answers, review)
    )
    return _repaired(result.model_copy(update={"output": _with_slots(review, result.output)}), models, now)


def _with_slots(review: OutputReview, output: JsonObject) -> JsonObject:
    """Repaired outputs with their bound values as slots again, so that they are still bound when they are read."""
    for read in review.read:
        new = pointer.value_at(output, read.pointer)
        is_authored = all(piece.source != "free" for piece in read.pieces)
        if not isinstance(new, str) or (is_authored and new == read.text):
            continue  # a document that no repair has changed is rendered again by its template
        for piece in reversed([each for each in read.pieces if each.slot]):
            if (start := _moved(read.text, new, piece.start, piece.end)) is not None:
                region = Location(pointer=read.pointer, start=start, end=start + piece.end - piece.start)
                output = splice(output, Edit(region=region, replacement=f"{{{{ {piece.slot} }}}}"))
    return output


def _moved(old: str, new: str, start: int, end: int) -> int | None:
    """Return where a part of a text begins after a repair: at the same distance from the first or the last change, or
    in between at the same number among equal parts."""
    head, tail = _unchanged_ends(old, new)
    if end <= head:
        return start
    if start >= len(old) - tail:
        return start + len(new) - len(old)
    places = [[match.start() for match in finditer(escape(old[start:end]), text)] for text in (old, new)]
    return places[1][places[0].index(start)] if len(places[0]) == len(places[1]) else None


def _vote_on_answers(review: OutputReview, answers: Sequence[JsonObject | None]) -> Consensus:
    """Return the result that several answers agree on; an unusable answer agrees with none."""
    wanted = review.sampled
    return vote(wanted, [None if each is None else each.get(wanted.into) for each in answers])


def wants_other_model(state: State) -> bool:
    """Return whether the model that repaired before is not the one to ask again."""
    is_upgraded = state.quality.escalation.get("kind") == Escalation.MODEL_UPGRADE
    return is_upgraded or "switch_model" in state.quality.control.get("tried", ())


def _case(review: OutputReview) -> RepairCase:
    quality, rules = review.state.quality, review.rules
    resources = Resources(
        is_plain=review.config.ctx.goes_by(Behaviour.CAUSES_NAMED),
        has_model=review.repairers > 0,
        has_other_model=review.repairers - wants_other_model(review.state) > 1,
        has_human=True,
        may_replan=may_replan(review),
        may_substitute=may_replan(review) and _goes_by_tools(review),
        is_partial_useful=rules.is_partial_useful,
        can_fetch=quality.has_fetched,
    )
    return RepairCase(
        output=review.outputs,
        diagnosis=_diagnosis(review),
        task=review.critique_input.task.description,
        materials=_materials(review),
        known=_circumstances(review),
        rules=_with_intensity(rules.repair, quality.control),
        rates=SuccessRates.model_validate(quality.drawn.get("rates") or {}),
        resources=resources,
        memory=LoopMemory.model_validate(quality.memory or {}),
        unseen=_unverifiable_dimensions(review),
        told_later=_deferred_dimensions(review),
        draws=(rules.consistency.draws if rules.consistency else None) or 1,
        history=RepairLog(entries=tuple(_history(review))),
    )


def _goes_by_tools(review: OutputReview) -> bool:
    return review.config.ctx.goes_by(Behaviour.FAILED_TOOLS_RETRIED)


def _materials(review: OutputReview) -> Materials:
    """Return the materials of a repair: what it may use and must not touch. Evidence that was looked up for it is
    added when it asks for it. Results are there from the beginning, also those of repeated calls."""
    tokens = review.verdict.tokens if review.verdict else ()
    fresh = review.state.quality.fresh
    return Materials(
        schema=form_of(review.spec),
        evidence=tuple(
            fact for fact in review.evidence if fact.id not in fresh or fact.classification == CLASSIFICATION
        ),
        # A value that is true in another role may be right after all: a person decides.
        slots={each.location: each.slot for each in tokens if each.slot and each.status == "unknown"},
        guide=slot_guide(review.known) if review.rules.values else "",
        required_sections=review.rules.required_sections,
        stated=tuple(_stated_values(review)),
    )


def _stated_values(review: OutputReview) -> Iterator[Stated]:
    """Yield the values that the outputs state rightly: bound ones, and those found in their role."""
    for read in review.read:
        for piece in read.pieces:
            if piece.source == "bound" and (shown := read.text[piece.start : piece.end]):
                yield Stated(read.pointer, shown, piece.slot)
    listed = {value.pointer: value.name for value in review.known if value.name}
    for each in review.verdict.tokens if review.verdict else ():
        if each.status == "found":
            slot = next((listed[source] for source in each.sources if source in listed), each.slot)
            yield Stated(parse_location(each.location).pointer, each.token.text, slot)


def _history(review: OutputReview) -> Iterator[RepairEntry]:
    """Yield the earlier attempts. Another model may succeed where one failed, and so may the same one with more
    evidence."""
    quality = review.state.quality
    is_afresh = wants_other_model(review.state) or bool(quality.fresh)
    for entry in map(RepairEntry.model_validate, quality.log):
        if entry.means == "rule" or not is_afresh:
            yield entry


def _diagnosis(review: OutputReview) -> CritiqueDiagnosis:
    """Return the defects to repair: a broken form by itself, else the findings of the critic; and the changes that a
    person has asked for."""
    quality = review.state.quality
    form = diagnose_form(form_of(review.spec), review.outputs)
    found = form if form.defects else CritiqueDiagnosis.model_validate(quality.diagnosis or {"scores": {}})
    found = _without(found, _describe_filled(review))
    return with_feedback(found, quality.feedback) if quality.feedback else found


def _describe_filled(review: OutputReview) -> frozenset[str]:
    """Return the defects of slots whose value a tool has just returned: rendering the outputs writes it there."""
    quality = review.state.quality
    steps = {each.step for each in quality.retried if result_refs(each.step)[0] in quality.fresh}
    known = {each.name for each in review.known if each.name and each.value is not None}
    brought = {each.name for each in review.rules.values if each.name in known and each.reads(steps)}
    missing = review.verdict.missing if review.verdict else ()
    slots = {slot.name for part in missing if part.kind == "slot" for slot in find_slots(part.name)}
    return _describe_missing(review, brought & slots)


def _describe_missing(review: OutputReview, names: Collection[str]) -> frozenset[str]:
    """Return the defects about one of these values: it is not stated, or its slot could not be filled."""
    return frozenset(
        fault.description
        for part in (review.verdict.missing if review.verdict else ())
        if {part.name, *(slot.name for slot in find_slots(part.name))} & set(names)
        for fault in missing_faults((part,))
    )


def _without(found: CritiqueDiagnosis, filled: Collection[str]) -> CritiqueDiagnosis:
    """Return a diagnosis without some of its defects, by their descriptions."""
    if not filled:
        return found
    kept = [at for at, defect in enumerate(found.defects) if defect.description not in filled]
    hints = {hint.defect: hint.hint for hint in found.repair_hints}
    left = (RepairHint(defect=new, hint=hints[old]) for new, old in enumerate(kept) if old in hints)
    defects = tuple(found.defects[at] for at in kept)
    return found.model_copy(update={"defects": defects, "repair_hints": tuple(left)})


def _circumstances(review: OutputReview) -> Circumstances:
    tests = review.tests
    traces = (
        analyse(failure.stack_trace, expected=failure.expected, actual=failure.actual)
        for failure in (tests.errors if tests else ())
    )
    brought, goes_by_tools = {each.step for each in review.state.quality.retried}, _goes_by_tools(review)
    failed = {
        entry.call.step_id: entry.call.tool
        for entry in review.run.transcript
        if (entry.result.outcome is not Outcome.DONE or entry.result.error is not None)
        and entry.call.step_id not in brought
    }
    return Circumstances(
        is_schema_valid=review.verdict is None or review.verdict.schema_valid,
        tests=tests,
        traces=tuple(trace for trace in traces if trace is not None),
        failed_tools=tuple(sorted(set(failed.values()))),
        not_brought=_describe_missing(review, _missing_results(review, failed) if goes_by_tools else ()),
        has_evidence=bool(review.evidence),
    )


def _missing_results(review: OutputReview, failed: Collection[str]) -> frozenset[str]:
    """Return the values without a source that are made from the results of these steps."""
    unknown = {each.name for each in review.known if each.name and each.value is None}
    return frozenset(each.name for each in review.rules.values if each.name in unknown and each.reads(failed))


def _with_intensity(rules: RepairRules, control: Mapping[str, Any]) -> RepairRules:
    """Return the rules that are as strong as the controller demands; weaker ones are left to models."""
    strategy = control.get("command", {}).get("strategy")
    if strategy == "SECTION_REWRITE":
        return rules.model_copy(update={"edit_up_to": DefectSeverity.NONE})
    if strategy == "FULL_REGENERATION":
        return rules.model_copy(
            update={"edit_up_to": DefectSeverity.NONE, "rewrite_up_to": DefectSeverity.NONE}
        )
    return rules


# ---- checks after a repair ----------------------------------------------------------------------------------------


def _unverifiable_dimensions(review: OutputReview) -> frozenset[str]:
    """The dimensions whose defects only a model, a test or a person can declare repaired."""
    asked = {each.name for each in review.rules.rubric.dimensions if each.scorer == "model"}
    return frozenset({*asked, TESTS, FEEDBACK, *({EDGE_CASES} if review.rules.attacks else ())})


def _deferred_dimensions(review: OutputReview) -> frozenset[str]:
    """Return those, and the dimensions for which the text has to be read again."""
    read = {each.name for each in review.rules.rubric.dimensions if each.scorer == "grounded"}
    return _unverifiable_dimensions(review) | read | {CORRECTNESS}


def _is_gone(review: OutputReview) -> IsGone:
    """Return whether a defect is gone: by the schema, or by the rubric."""
    form = form_of(review.spec)
    unseen = _unverifiable_dimensions(review)
    rubric = _without_dimensions(review.rubric, unseen)

    def diagnose(outputs: JsonObject) -> CritiqueDiagnosis:
        before = review.critique_input
        tokens = tuple(_unchanged_verdicts(before.tokens, review.outputs, outputs))
        missing = tuple(_still_missing(before.missing, review.outputs, outputs))
        besides = (*unscored(review, tokens, missing), *probed(review, outputs))
        if rubric is None:
            return CritiqueDiagnosis(scores={}, defects=tuple(found.defect for found in besides))
        output = review.without_samples(outputs)
        changes = {"output": output, "tokens": tokens, "missing": missing, "rubric": rubric}
        return critique(before.model_copy(update=changes), besides=besides)

    by_rubric = gone_by(diagnose)

    def is_gone(outputs: JsonObject, defect: Defect) -> bool:
        if defect.dimension == SCHEMA:
            return is_form_fixed(form, outputs, defect)
        if defect.dimension in unseen:
            return outputs != review.outputs
        return by_rubric(outputs, defect)

    return is_gone


def _unchanged_verdicts(
    tokens: Sequence[TokenVerdict], before: JsonObject, after: JsonObject
) -> Iterator[TokenVerdict]:
    """Return the verdicts on tokens that a repair has not changed, at their new places; VERIFY reads the others."""
    for each in tokens:
        place = parse_location(each.location)
        old, new = pointer.value_at(before, place.pointer), pointer.value_at(after, place.pointer)
        if old == new:
            yield each
        elif (
            isinstance(old, str)
            and isinstance(new, str)
            and place.start is not None
            and place.end is not None
        ):
            head, tail = _unchanged_ends(old, new)
            if place.end <= head or place.start >= len(old) - tail:
                start = place.start if place.end <= head else place.start + len(new) - len(old)
                moved = Location(place.pointer, start, start + place.end - place.start)
                yield each.model_copy(update={"location": str(moved)})


def _unchanged_ends(old: str, new: str) -> tuple[int, int]:
    """Return how many characters at the beginning and at the end of a text a repair has left alone."""
    head = _shared(old, new)
    return head, min(_shared(old[::-1], new[::-1]), min(len(old), len(new)) - head)


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _still_missing(
    missing: Sequence[MissingPart], before: JsonObject, after: JsonObject
) -> Iterator[MissingPart]:
    """Yield the sections and values that are still missing: a section by its heading; a value as long as its text has
    not changed."""
    for each in missing:
        where = parse_location(each.location).pointer
        old, new = pointer.value_at(before, where), pointer.value_at(after, where)
        titles = {one.title.casefold() for one in headings(new)} if isinstance(new, str) else set[str]()
        is_there = each.name.casefold() in titles if each.kind == "section" else old != new
        if not is_there:
            yield each


def _without_dimensions(rubric: Rubric, names: Collection[str]) -> Rubric | None:
    """Return a rubric without some of its dimensions; the others keep their weights relative to each other."""
    left = [each for each in rubric.dimensions if each.name not in names]
    if len(left) in (0, len(rubric.dimensions)):
        return rubric if left else None
    total = sum(each.weight for each in left)
    weights = [each.weight / total if total else 1 / len(left) for each in left]
    return Rubric(
        dimensions=tuple(
            each.model_copy(update={"weight": weight}) for each, weight in zip(left, weights, strict=True)
        ),
        threshold=rubric.threshold,
    )


def _repaired(result: RepairResult, models: Sequence[str], now: int) -> e.OutputsRepaired:
    return e.OutputsRepaired(
        at=now,
        outputs=result.output,
        log=tuple(each.model_dump(mode="json") for each in result.log.entries),
        outcome=result.outcome,
        escalation=result.escalation.model_dump(mode="json") if result.escalation else {},
        memory=result.memory.model_dump(mode="json"),
        breaks=tuple(map(str, result.breaks)),
        attempts=result.attempts,
        tokens=result.tokens,
        models=tuple(models),
        consistency=result.consensus.model_dump(mode="json") if result.consensus else {},
    )
