"""Checks the quality loop: every threshold is measured, and the models and tools that measure it exist."""

from __future__ import annotations

from collections.abc import Mapping

from tercet.contracts.control import ANY_CLASS
from tercet.contracts.decision import DecisionSpec, ThresholdName
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality_rules import (
    MEASURED_ELSEWHERE,
    QualityRules,
    TestCommand,
    find_outputs_given,
)
from tercet.contracts.plan import Plan
from tercet.contracts.problem import Problem
from tercet.contracts.values import pointer
from tercet.contracts.values.references import Reference, scan
from tercet.packs.checks import Check, Problems, did_you_mean, fields_of, missing_field, unknown_gate
from tercet.packs.checks.documents import DOCUMENT_CHECKS, TRIAL_CHECKS, judged
from tercet.packs.parts import PACK, Parts

_ALWAYS: frozenset[ThresholdName] = frozenset({"schema", "policy", "safety"})
"""Measurements of every run."""


def output_gates_exist(parts: Parts) -> Problems:
    """The gate at which outputs are accepted exists."""
    for decision in parts.decisions:
        name = decision.output_gate
        if name is not None and parts.lacks_gate(name):
            yield unknown_gate(parts, f"decision {decision.id}, output_gate", name)


def models_can_be_asked(parts: Parts) -> Problems:
    """If a language model judges, the pack names one."""
    if parts.models.critic or f"{PACK}, models" in parts.broken:
        return
    remedy = 'add critic = ["…"] under [models] in pack.toml'
    for decision, rules in judged(parts):
        if rules.judge == "model":
            yield parts.warning(
                "judge_without_model",
                f"decision {decision.id}, quality.judge",
                "no model is named that could judge, so every free text goes to a person",
                f'{remedy}, or say judge = "none"',
            )
        for number, dimension in enumerate(rules.rubric.dimensions):
            if dimension.scorer == "model":
                yield parts.problem(
                    "scorer_without_model",
                    f"decision {decision.id}, quality.rubric.dimensions.{number}.scorer",
                    f"no model is named that could score {dimension.name}, so it would always be 0",
                    f"{remedy}, or take another scorer",
                )


def thresholds_are_measured(parts: Parts) -> Problems:
    """Each threshold has a measurement: one without is always missed."""
    for decision in parts.decisions:
        measured = _measured_by(decision)
        for number, threshold in enumerate(decision.thresholds):
            if threshold.name not in measured:
                yield parts.problem(
                    "threshold_unmeasured",
                    _threshold_place(parts, decision, number),
                    f"nothing measures {threshold.name}, so no run of this decision could ever be committed",
                    _REMEDIES.get(threshold.name, _RUBRIC),
                )


_RUBRIC = "add a dimension of this name to the rubric under [decision.quality], or drop the threshold"
_REMEDIES: Mapping[ThresholdName, str] = {
    "test_pass_rate": "name a test command under [[decision.quality.tests]], or drop the threshold",
    "self_consistency": "say under [decision.quality.consistency] what is sampled, or drop the threshold",
    "confidence": "add [decision.quality], or drop the threshold",
}


def _measured_by(decision: DecisionSpec) -> frozenset[str]:
    rules = decision.quality
    if rules is None:
        return _ALWAYS
    scored = {each.name for each in rules.rubric.dimensions} - MEASURED_ELSEWHERE
    measured = {*_ALWAYS, "confidence", *scored}
    measured |= {"test_pass_rate"} if rules.tests else set()
    measured |= {"self_consistency"} if rules.consistency is not None else set()
    return frozenset(measured)


def _threshold_place(parts: Parts, decision: DecisionSpec, number: int) -> str:
    """Return the place of a threshold; default thresholds belong to the quality table."""
    written = f"decision {decision.id}, thresholds.{number}"
    return written if written in parts.spots or not parts.spots else f"decision {decision.id}, quality"


def samples_count(parts: Parts) -> Problems:
    """The agreement of samples has a threshold: otherwise outputs are committed however much they differ."""
    for decision, rules in judged(parts):
        names = {threshold.name for threshold in decision.thresholds}
        if rules.consistency is not None and "self_consistency" not in names:
            yield parts.warning(
                "consistency_unused",
                f"decision {decision.id}, quality.consistency",
                "the decision names thresholds, and self_consistency is none of them: outputs are committed however much samples differ",
                'add [[decision.thresholds]] with name = "self_consistency"',
            )


def confidence_is_measured(parts: Parts) -> Problems:
    """A decision with confidence bands measures confidence."""
    for decision in parts.decisions:
        if decision.confidence is None or decision.quality is not None:
            continue
        is_fatal = decision.requires_human_approval
        what = "every run of it is rejected" if is_fatal else "its bands lead nowhere"
        yield parts.problem(
            "confidence_unmeasured",
            f"decision {decision.id}, confidence",
            f"confidence is measured by the quality loop, which this decision does not have: {what}",
            "add [decision.quality], or drop the bands",
            severity="error" if is_fatal else "warning",
        )


def samples_are_produced(parts: Parts) -> Problems:
    """Every plan produces the samples that are compared, or the output that is sampled again."""
    for decision, rules in judged(parts):
        wanted = rules.consistency
        if wanted is None:
            continue
        field = "into" if wanted.draws else "samples"
        for name in (wanted.into,) if wanted.draws else wanted.samples:
            if name not in decision.required_outputs:
                yield parts.problem(
                    "sample_not_required",
                    f"decision {decision.id}, quality.consistency.{field}",
                    f"{name} is compared, and a plan need not produce it",
                    f"add {name} to required_outputs",
                )


def samples_can_be_drawn(parts: Parts) -> Problems:
    """If a template says which step produces the output that is sampled again, that step is read_only."""
    for decision, rules in judged(parts):
        wanted = rules.consistency
        for template in parts.templates if wanted is not None and wanted.draws else ():
            tool = parts.tool.get(_brought_by(template, wanted.into) if wanted else "")
            is_asked_for = template.intent in (decision.id, *decision.intents)
            if is_asked_for and tool is not None and tool.mode is not ApprovalMode.READ_ONLY:
                yield parts.problem(
                    "draw_not_read_only",
                    f"decision {decision.id}, quality.consistency.draws",
                    f"the template for {template.intent} has {wanted.into if wanted else ''} from {tool.name}, which is {tool.mode}: it is called once",
                    "let a read_only tool bring it, or let the plan bring samples",
                )


def _brought_by(template: Plan, output: str) -> str:
    """Return the tool of the step that an output of a template is read from; empty if it is computed."""
    read = [found for found in scan(template.outputs.get(output)) if isinstance(found, Reference)]
    names = {found.target for found in read if found.kind == "from"}
    return next((step.tool or "" for step in template.steps if step.id in names), "")


def task_classes_are_used(parts: Parts) -> Problems:
    """Each controller belongs to the task class of some decision."""
    if parts.is_partial("decision"):
        return
    used = {rules.task_class for _, rules in judged(parts)}
    for name in parts.control:
        if name != ANY_CLASS and name not in used:
            yield parts.warning(
                "task_class_unused",
                f"{PACK}, control.{name}",
                f"no decision has the task class {name}, so nothing is steered by this",
                f'say task_class = "{name}" under [decision.quality], or drop the table',
            )


def setpoints_are_measured(parts: Parts) -> Problems:
    """A controller with several setpoints uses dimensions of its decisions' rubrics."""
    for decision, rules in judged(parts):
        name = rules.task_class if rules.task_class in parts.control else ANY_CLASS
        spec = parts.control.get(name)
        wanted = spec.setpoint if spec is not None and isinstance(spec.setpoint, dict) else {}
        known = [each.name for each in rules.rubric.dimensions]
        for dimension in wanted:
            if dimension not in known:
                yield parts.problem(
                    "setpoint_unmeasured",
                    f"{PACK}, control.{name}.setpoint",
                    f"the rubric of decision {decision.id} has no dimension {dimension}",
                    f"aim at some of {', '.join(known)}",
                )


def sections_are_required(parts: Parts) -> Problems:
    """A text for a missing section belongs to one that is required, or that a critic of outputs may ask for."""
    for decision, rules in judged(parts):
        has_words = {each.heading.casefold() for each in rules.repair.sections}
        bare = [each for each in rules.required_sections if each.casefold() not in has_words]
        required = {each.casefold() for each in rules.required_sections}
        for number, section in enumerate(rules.repair.sections):
            near = did_you_mean(section.heading, bare)
            if section.heading.casefold() in required or (near is None and _is_looked_at(decision, rules)):
                continue
            yield parts.warning(
                "section_not_required",
                f"decision {decision.id}, quality.repair.sections.{number}.heading",
                f"the section {section.heading} is not required, so nothing finds out that it is missing",
                near or f'add "{section.heading}" to required_sections under [decision.quality]',
            )


def _is_looked_at(decision: DecisionSpec, rules: QualityRules) -> bool:
    """Return whether anyone besides the rules judges outputs, and may ask for more than they do."""
    is_scored = any(each.scorer == "model" for each in rules.rubric.dimensions)
    is_shown = decision.requires_human_approval or decision.confidence is not None or not rules.documents
    return is_shown or is_scored or rules.judge == "model"


QUALITY_CHECKS: tuple[Check, ...] = (
    output_gates_exist,
    *TRIAL_CHECKS,
    models_can_be_asked,
    thresholds_are_measured,
    *DOCUMENT_CHECKS,
    samples_count,
    confidence_is_measured,
    samples_are_produced,
    samples_can_be_drawn,
    task_classes_are_used,
    setpoints_are_measured,
    sections_are_required,
)


# --- quality places ---


def tests_read_what_is_there(parts: Parts) -> Problems:
    """Test commands read and repair existing outputs, and their results can have the report they point to."""
    for decision in parts.decisions:
        for number, command in enumerate(decision.quality.tests if decision.quality else ()):
            place = f"decision {decision.id}, quality.tests.{number}"
            for field, where in (("params", each) for each in find_outputs_given(command.params)):
                yield from _lacks_output(parts, decision, f"{place}.{field}", where)
            yield from _lacks_output(parts, decision, f"{place}.output", command.output)
            yield from _lacks_report(parts, f"{place}.report", command)


def _lacks_output(parts: Parts, decision: DecisionSpec, place: str, where: str) -> Problems:
    known = _outputs(decision)
    try:
        first = next(iter(pointer.parts(where)), None)
    except pointer.PointerError as error:
        yield _wrong(parts, place, str(error), f"write /{where}")
        return
    if known is None or first is None:
        return
    if first not in known:
        yield _wrong(
            parts, place, f"no output of the decision is at {where}", f"point at one of {_pointers(known)}"
        )
    elif (lost := missing_field(decision.outputs_schema or {}, where)) is not None:
        yield _wrong(parts, place, f"outputs_schema has no {lost} at {where}", "point at what it describes")


def _outputs(decision: DecisionSpec) -> tuple[str, ...] | None:
    """Return the declared outputs of a decision; None if it declares none, or leaves them open."""
    described = () if decision.outputs_schema is None else fields_of(decision.outputs_schema)
    if described is None:
        return None
    rules = decision.quality
    chosen = (rules.consistency.into,) if rules and rules.consistency else ()
    known = tuple(dict.fromkeys((*decision.required_outputs, *described)))
    return (*known, *chosen) if known else None


def _lacks_report(parts: Parts, place: str, command: TestCommand) -> Problems:
    tool = parts.tool.get(command.tool)
    try:
        pointer.parts(command.report)
    except pointer.PointerError as error:
        yield _wrong(parts, place, str(error), f"write /{command.report}")
        return
    if tool is None or tool.result is None:
        return
    if (lost := missing_field(tool.result, command.report)) is not None:
        yield _wrong(
            parts, place, f"the result of {command.tool} has no {lost}", "point at its JUnit XML with report"
        )


def _wrong(parts: Parts, place: str, message: str, remedy: str) -> Problem:
    return parts.problem("test_pointer_unknown", place, message, remedy)


def _pointers(names: tuple[str, ...]) -> str:
    return ", ".join(pointer.join([name]) for name in names)


def bands_are_in_order(parts: Parts) -> Problems:
    """Between rejecting and committing automatically there is room to ask a person."""
    for decision in parts.decisions:
        bands = decision.confidence
        if bands is not None and bands.auto_commit < bands.human_review:
            yield parts.problem(
                "confidence_bands_crossed",
                f"decision {decision.id}, confidence",
                f"auto_commit {bands.auto_commit:g} is below human_review {bands.human_review:g}: no person is ever asked, and scores between them are rejected",
                "let auto_commit be the larger of the two",
            )


PLACE_CHECKS: tuple[Check, ...] = (tests_read_what_is_there, bands_are_in_order)
