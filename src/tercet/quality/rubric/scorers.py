"""The deterministic scorers of a rubric. Each reads task, output and what was found in it, and says what is wrong where.

They refuse; none of them says that a text is right. What only meaning can decide takes nothing off a score.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from tercet.contracts.documents import MissingPart, TokenVerdict
from tercet.contracts.outputs.quality import DefectSeverity
from tercet.contracts.outputs.rubric import CritiqueInput
from tercet.contracts.shape import JsonObject
from tercet.contracts.text.words import is_blank
from tercet.contracts.values import pointer
from tercet.quality.rubric.safety import CARD, Danger, find_dangers, mask
from tercet.quality.verification.places import Leaf, Location, leaves, names, parse_location
from tercet.quality.verification.verification import REFUSED

_PARAGRAPH = re.compile(r"\S(?:(?!\n\s*\n).)*", re.DOTALL)
_PLACEHOLDER = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX)\b|\blorem ipsum\b|(?<![\w\]])\[(?!redacted\])(?:[^\W\d_]|[ _'’/-]){1,40}\](?![(\[:])"
    r"|<(?:insert|your|name|date|amount|enter)[^<>\n]{0,40}>"
)
"""What a writer leaves to be filled in: `[amount]`, `<your name>`; links and references of Markdown are none."""
_CODE = re.compile(r"```|=>|[;{]\s*$|^\s*(?:def|class|import|return|function|const|let|var)\b", re.MULTILINE)
_SPACES = re.compile(r"\W+")


class Fault(NamedTuple):
    """Something that takes off a score."""

    description: str
    location: str | None = None
    scope: Literal["LOCAL", "SECTION", "GLOBAL"] = "LOCAL"
    hint: str = ""
    least: DefectSeverity = DefectSeverity.NONE
    """How bad it is at least, however much of the output is right; NONE where it matters only if the score is low."""


class Scored(NamedTuple):
    """A score with its explanation."""

    score: float
    faults: tuple[Fault, ...] = ()


def score_grounded(given: CritiqueInput) -> Scored:
    """The share of tokens that are bound or found in their role; each other one is a grave fault."""
    faults = tuple(token_faults(given.tokens))
    return Scored(round(1 - len(faults) / len(given.tokens), 6) if given.tokens else 1.0, faults)


def token_faults(tokens: Iterable[TokenVerdict]) -> Iterator[Fault]:
    """Yield a fault for each token that no known value equals, or none in its role."""
    for each in tokens:
        if each.status not in REFUSED:
            continue
        shown = mask(repr(each.token.text))
        if each.status == "unknown":
            told = f"{shown} is ungrounded: no known value equals it"
        else:
            where = f" ({', '.join(each.sources[:3])})" if each.sources else ""
            told = (
                f"{shown} does not match what is stated here: the value is known, but in another role{where}"
            )
        hint = f"write {{{{ {each.slot} }}}}" if each.slot else "state a known value, or leave it out"
        # The name of a member may itself be confidential.
        place = "" if find_dangers(each.location) else each.location
        yield Fault(told, place, hint=hint, least=DefectSeverity.HIGH)


def score_complete(given: CritiqueInput) -> Scored:
    """The share of required outputs, values and sections that are there, less what is only a placeholder."""
    empty = [*_empty_outputs(given)]
    gaps = [
        fault for leaf in leaves(given.output) if isinstance(leaf.value, str) for fault in _placeholders(leaf)
    ]
    faults = (*empty, *missing_faults(given.missing), *gaps)
    if empty or is_empty(given.output):
        nothing = (
            () if empty else (Fault("the output is empty", "", "GLOBAL", "produce it", DefectSeverity.HIGH),)
        )
        return Scored(0.0, (*faults, *nothing))
    task = given.task
    required = (
        len(task.required_outputs) + len(task.required_sections) + len(task.required_values) + len(gaps)
    )
    return Scored(round(max(0.0, 1 - len(faults) / max(required, len(faults), 1)), 6), faults)


def is_empty(output: JsonObject) -> bool:
    """Return whether an output says nothing at all."""
    return all(leaf.value in (None, "") for leaf in leaves(output))


def missing_faults(missing: Iterable[MissingPart]) -> Iterator[Fault]:
    """Yield a fault for each thing that an output must have and does not."""
    for each in missing:
        hints = {
            "section": f"add a section {each.name!r}",
            "value": f"state {{{{ {each.name} }}}}",
            "rows": f"state every row of {{{{ {each.name} }}}}",
            "empty_section": f"write the section {each.name!r}",
            "slot": "name a declared value in its own role",
        }
        yield Fault(mask(each.message), each.location, "SECTION", hints[each.kind], DefectSeverity.HIGH)


def _empty_outputs(given: CritiqueInput) -> Iterator[Fault]:
    for name in given.task.required_outputs:
        value = given.output.get(name)
        if value in (None, "", [], {}) or (isinstance(value, str) and is_blank(value)):
            told = f"the required output {name!r} is missing"
            yield Fault(told, pointer.join((name,)), "GLOBAL", f"write {name!r}", DefectSeverity.HIGH)


def _placeholders(leaf: Leaf) -> Iterator[Fault]:
    for match in () if _CODE.search(leaf.value) else _PLACEHOLDER.finditer(leaf.value):
        place = str(Location(pointer.join(leaf.place), *match.span()))
        yield Fault(
            f"{match[0]!r} stands for something that is missing",
            place,
            hint="fill it in",
            least=DefectSeverity.HIGH,
        )


def score_coherent(given: CritiqueInput) -> Scored:
    """The share of paragraphs that are not said twice."""
    paragraphs = [
        (Location(pointer.join(leaf.place), *match.span()), match[0])
        for leaf in leaves(given.output)
        if isinstance(leaf.value, str)
        for match in _PARAGRAPH.finditer(leaf.value)
    ]
    seen: set[str] = set()
    faults: list[Fault] = []
    for place, text in paragraphs:
        plain = _SPACES.sub(" ", text).strip().casefold()
        if plain in seen:
            faults.append(
                Fault(f"{mask(text)[:80]!r} is said twice", str(place), hint="leave one of them out")
            )
        elif len(plain.split()) > 5:
            seen.add(plain)
    return Scored(round(1 - len(faults) / max(len(paragraphs), 1), 6), tuple(faults))


def score_safe(given: CritiqueInput) -> Scored:
    """Return one, less what each danger takes off; a single secret leaves nothing."""
    accounts = [parse_location(each.location) for each in given.tokens if _is_known_account(each)]
    found = [each for each in _dangers(given.output) if not _is_account(*each, accounts)]
    faults = tuple(
        Fault(f"it holds something that must not go out: {danger.kind}", place, hint="remove it")
        for danger, place in found
    )
    return Scored(round(max(0.0, 1 - sum(danger.penalty for danger, _ in found)), 6), faults)


def _is_known_account(token: TokenVerdict) -> bool:
    return token.token.kind == "account" and token.status in ("bound", "found")


def _is_account(danger: Danger, place: str, accounts: Iterable[Location]) -> bool:
    """Return whether a card number is a part of a known account: one in ten has its check digit by chance."""
    where = parse_location(place) if danger.kind == CARD else None
    return where is not None and any(
        where.pointer == each.pointer
        and (each.start is None or (each.start <= danger.start and danger.end <= (each.end or 0)))
        for each in accounts
    )


def _dangers(output: JsonObject) -> Iterator[tuple[Danger, str]]:
    """Yield each danger with its place: in a text its characters, in a number or the name of a member the member."""
    for leaf in leaves(output):
        is_string = isinstance(leaf.value, str)
        where = pointer.join(leaf.place)
        for danger in find_dangers(leaf.value if is_string else str(leaf.value)):
            yield danger, str(Location(where, danger.start, danger.end) if is_string else Location(where))
    for name in names(output):
        for danger in find_dangers(name.value):
            # The place itself would reveal the secret, so the place of the parent is used.
            yield danger, pointer.join(name.place[:-1])


SCORERS: Mapping[str, Callable[[CritiqueInput], Scored]] = {
    "grounded": score_grounded,
    "complete": score_complete,
    "coherent": score_coherent,
    "safe": score_safe,
}
