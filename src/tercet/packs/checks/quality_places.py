"""Checks that the pointers of the quality loop exist in outputs and in results of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.outputs.quality_rules import TestCommand
from tercet.contracts.problem import Problem
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer
from tercet.packs.checks import Check, Problems, fields_of, missing_field
from tercet.packs.parts import Parts

_OUTPUT = "$output"


def tests_read_what_is_there(parts: Parts) -> Problems:
    """Test commands read and repair existing outputs, and their results can have the report they point to."""
    for decision in parts.decisions:
        for number, command in enumerate(decision.quality.tests if decision.quality else ()):
            place = f"decision {decision.id}, quality.tests.{number}"
            for field, where in (("params", each) for each in _outputs_read(command.params)):
                yield from _lacks_output(parts, decision, f"{place}.{field}", where)
            yield from _lacks_output(parts, decision, f"{place}.output", command.output)
            yield from _lacks_report(parts, f"{place}.report", command)


def _outputs_read(params: Any) -> Iterator[str]:
    """Yield the pointers of `{"$output": …}` in parameters, at any depth."""
    if (members := as_object(params)) is not None:
        if set(members) == {_OUTPUT}:
            yield str(members[_OUTPUT])
            return
        params = list(members.values())
    for item in as_list(params) or ():
        yield from _outputs_read(item)


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
