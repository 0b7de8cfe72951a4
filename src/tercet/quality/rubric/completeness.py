"""Whether an output is whole: its required outputs, sections and facts are there, and nothing was left to be filled in."""

from __future__ import annotations

import re

from tercet.contracts import pointer
from tercet.contracts.prose import is_blank
from tercet.contracts.quality import Claim, DefectSeverity
from tercet.contracts.rubric import CritiqueInput
from tercet.contracts.shape import JsonObject
from tercet.quality.grounding.judges import Judges
from tercet.quality.rubric.faults import Fault, Scored
from tercet.quality.rubric.placeholders import find_placeholders
from tercet.quality.rubric.required import find_unstated
from tercet.quality.verification.choices import is_listed
from tercet.quality.verification.claims import Leaf, leaves
from tercet.quality.verification.locations import Location

_HEADING = re.compile(
    r"^\s{0,3}(?:#{1,6}\s+(?P<marked>.+?)\s*#*|\*\*(?P<bold>[^*\n]+)\*\*:?|(?P<plain>[^\n:]{2,60}):)\s*$",
    re.MULTILINE,
)
_SPACES = re.compile(r"\W+")


def score_complete(given: CritiqueInput, judges: Judges) -> Scored:
    """The part of the required outputs and sections that is there, less what is only a placeholder; an empty text leaves nothing."""
    empty = _empty_outputs(given) if judges.edition >= 3 else []
    places = {fault.location for fault in empty}
    missing_outputs = [fault for fault in _missing_outputs(given) if fault.location not in places]
    faults = [*empty, *missing_outputs, *_missing_sections(given), *_missing_facts(given, judges)]
    task = given.task
    required = len(task.required_outputs) + len(task.required_sections) + len(task.required_facts)
    texts = [leaf for leaf in leaves(given.output) if isinstance(leaf.value, str)]
    gaps = [fault for leaf in texts for fault in _placeholders(leaf, judges.edition)]
    count = required + len(gaps)
    missing = len(faults) + len(gaps)
    if empty:
        return Scored(0.0, (*faults, *gaps))
    is_empty = not any(leaf.value not in (None, "") for leaf in leaves(given.output))
    if is_empty:
        return Scored(0.0, (*faults, Fault("the output is empty", "", "GLOBAL", "produce it")))
    return Scored(round(1 - missing / count, 6) if count else 1.0, (*faults, *gaps))


def _missing_outputs(given: CritiqueInput) -> list[Fault]:
    return [
        Fault(
            f"the required output {name!r} is missing",
            pointer.join((name,)),
            "SECTION",
            f"produce {name!r}",
            DefectSeverity.MEDIUM,
        )
        for name in given.task.required_outputs
        if given.output.get(name) in (None, "", [], {})
    ]


def _empty_outputs(given: CritiqueInput) -> list[Fault]:
    """Required texts that say nothing: no section that the pack has words for makes good for what is not written."""
    return [
        Fault(
            f"the required output {name!r} is empty",
            pointer.join((name,)),
            "GLOBAL",
            f"write {name!r}",
            DefectSeverity.HIGH,
        )
        for name in given.task.required_outputs
        if isinstance(text := given.output.get(name), str) and is_blank(text)
        if not is_listed(Claim(text=text, location=pointer.join((name,))), given.task.outputs_schema)
    ]


def _missing_facts(given: CritiqueInput, judges: Judges) -> list[Fault]:
    """What the output must state and does not; it is written into its longest text."""
    place = _end_of_text(given.output)
    return [
        Fault(one.told, place, "SECTION", one.hint, DefectSeverity.HIGH)
        for one in find_unstated(given, judges)
    ]


def _end_of_text(output: JsonObject) -> str:
    """The end of the longest text."""
    texts = [leaf for leaf in leaves(output) if isinstance(leaf.value, str)]
    longest = max(texts, key=lambda leaf: len(leaf.value), default=None)
    end = len(longest.value) if longest else 0
    return str(Location(pointer.join(longest.place), end, end)) if longest else ""


def _missing_sections(given: CritiqueInput) -> list[Fault]:
    texts = [leaf for leaf in leaves(given.output) if isinstance(leaf.value, str)]
    present = {plain(title) for leaf in texts for title in headings(leaf.value)}
    place = _end_of_text(given.output)
    return [
        Fault(
            f"the section {title!r} is missing",
            place,
            "SECTION",
            f"add a section {title!r}",
            DefectSeverity.MEDIUM,
        )
        for title in given.task.required_sections
        if plain(title) not in present
    ]


def headings(text: str) -> list[str]:
    """The headings of a text: in Markdown, in bold, or a line that ends with a colon."""
    return [match["marked"] or match["bold"] or match["plain"] for match in _HEADING.finditer(text)]


def _placeholders(leaf: Leaf, edition: int) -> list[Fault]:
    where = pointer.join(leaf.place)
    return [
        Fault(
            f"{match[0]!r} stands for something that is missing",
            str(Location(where, *match.span())),
            hint="fill it in",
            least=DefectSeverity.HIGH if edition >= 3 and match[0][0] in "[<{" else DefectSeverity.MEDIUM,
        )
        for match in find_placeholders(leaf.value, edition=edition)
    ]


def plain(text: str) -> str:
    """A text without what makes two of the same words look different."""
    return _SPACES.sub(" ", text).strip().casefold()
