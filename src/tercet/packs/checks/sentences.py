"""Checks declarations about prose fields of requests: each has an effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.relations import REQUEST, SENTENCE, FieldSpec
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.kinds import declared_kind, suggested_kind
from tercet.contracts.values.trust import input_marks, overlaps, with_dotted
from tercet.packs.checks import Check, Problems, did_you_mean, offers
from tercet.packs.parts import Parts


def sentences_are_declared_as_such(parts: Parts) -> Problems:
    """Patterns and pasted text are declared for sentences, and sentences for trusted fields of the request."""
    for decision in parts.decisions:
        for field in decision.fields:
            place = f"decision {decision.id}, fields {field.of}"
            if field.kind != SENTENCE:
                if field.patterns or field.pasted != "untrusted":
                    yield parts.problem(
                        "sentence_settings_unused",
                        place,
                        f"patterns and pasted apply to sentences only, and the kind of this field is {field.kind}",
                        f'write kind = "{SENTENCE}", or leave them out',
                    )
            elif field.path.owner != REQUEST:
                yield parts.problem(
                    "sentence_not_in_request",
                    place,
                    "only fields of the request can be sentences, so this one vouches for nothing",
                    f"write {REQUEST}.FIELD, or give the field of the evidence another kind",
                )
            elif _is_untrusted(decision, field):
                yield parts.problem(
                    "sentence_untrusted",
                    place,
                    "untrusted_inputs marks this field, so nothing that it names counts",
                    "remove one of the two declarations",
                    severity="warning",
                )


def _is_untrusted(decision: DecisionSpec, field: FieldSpec) -> bool:
    marks = input_marks(with_dotted(decision.untrusted_inputs))
    return any(overlaps(mark, field.path.place) for mark in marks)


def groups_name_parameters(parts: Parts) -> Problems:
    """Each named group of a pattern is a parameter, or a kind of parameters, of a tool that the decision may use."""
    if parts.is_partial("tool"):
        return
    for decision in parts.decisions:
        known = {
            name for tool in parts.tools if offers(decision, tool.name) for name in _names_and_kinds(tool)
        }
        for field in decision.fields:
            for group in dict.fromkeys(
                name for pattern in field.patterns for name in re.compile(pattern).groupindex
            ):
                if group not in known:
                    yield parts.problem(
                        "pattern_group_unknown",
                        f"decision {decision.id}, fields {field.of}",
                        f"no tool of the decision has a parameter or a kind {group}, so what the group captures counts for nothing",
                        did_you_mean(group, sorted(known)) or "name the group after a parameter or its kind",
                        severity="warning",
                    )


def _names_and_kinds(tool: ToolSpec) -> Iterator[str]:
    """Yield the parameters of a tool, and the kinds of values that they take at any depth."""
    yield from tool.parameter_names
    yield from (suggested_kind(name).name for name in tool.known_keys)
    yield from (declared_kind(kind).name for kind in tool.kinds.values())
    yield from (declared_kind(text).name for text in _formats(tool.parameters))


def _formats(schema: Any) -> Iterator[str]:
    if (members := as_object(schema)) is not None:
        if isinstance(text := members.get("format"), str):
            yield text
        for member in members.values():
            yield from _formats(member)
    for item in as_list(schema) or ():
        yield from _formats(item)


SENTENCE_CHECKS: tuple[Check, ...] = (sentences_are_declared_as_such, groups_name_parameters)
