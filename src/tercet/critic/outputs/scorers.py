"""The deterministic scorers of a rubric. Each reads task, output and evidence, and says what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from tercet.contracts import pointer
from tercet.contracts.evidence import Evidence
from tercet.contracts.quality import Claim, Entailment, Judgement
from tercet.contracts.rubric import CritiqueInput
from tercet.contracts.shape import JsonObject
from tercet.critic.outputs.claims import Leaf, extract, leaves
from tercet.critic.outputs.grounding.check import GroundingCheck
from tercet.critic.outputs.locations import Location, parse_location
from tercet.critic.outputs.safety import find_dangers, mask
from tercet.critic.outputs.totals import find_wrong_totals

UNSETTLED = 0.75
"""What a claim counts that the evidence neither bears out nor contradicts."""
MAX_COMPARED = 120
"""As many claims are held against each other: it takes the square of that."""
_PLACEHOLDER = re.compile(
    r"\b(?:TODO|TBD|FIXME|XXX)\b|\[(?:insert|your|name|date|placeholder)[^\]\n]{0,60}\]|\blorem ipsum\b|\{\{[^{}\n]{1,60}\}\}"
)
_HEADING = re.compile(
    r"^\s{0,3}(?:#{1,6}\s+(?P<marked>.+?)\s*#*|\*\*(?P<bold>[^*\n]+)\*\*:?|(?P<plain>[^\n:]{2,60}):)\s*$",
    re.MULTILINE,
)
_SPACES = re.compile(r"\W+")
_PARAGRAPH = re.compile(r"\S(?:(?!\n\s*\n).)*", re.DOTALL)


class Fault(NamedTuple):
    """Something that takes off a score."""

    description: str
    location: str | None = None
    scope: Literal["LOCAL", "SECTION", "GLOBAL"] = "LOCAL"
    hint: str = ""


class Scored(NamedTuple):
    """A score with its explanation."""

    score: float
    faults: tuple[Fault, ...] = ()


def score_grounded(given: CritiqueInput) -> Scored:
    """The part of the claims that stand on the evidence.

    A claim that is contradicted counts nothing, and so does one with a number, date, name or identifier that is nowhere
    in the evidence. One that nothing settles counts `UNSETTLED`: it may be true, and nobody has shown it.
    """
    claims = extract(given.output)
    check = GroundingCheck(_known(given))
    judged = [(claim, check.judge(claim.text)) for claim in claims]
    score = sum(_worth(said) for _, said in judged) / len(judged) if judged else 1.0
    worst_first = sorted(
        judged, key=lambda pair: (_worth(pair[1]), pair[1].label is not Entailment.CONTRADICT)
    )
    faults = [_ungrounded(*pair) for pair in worst_first if pair[1].label is not Entailment.ENTAIL]
    return Scored(round(score, 6), tuple(faults))


def _worth(said: Judgement) -> float:
    if said.label is Entailment.ENTAIL:
        return 1.0
    return UNSETTLED if said.label is Entailment.NEUTRAL and not said.missing else 0.0


def _known(given: CritiqueInput) -> tuple[Evidence, ...]:
    """The evidence, and what the task itself says."""
    task = Evidence(id="kg:task:request#snapshot_task", content=given.task.input)
    return (*given.evidence, task) if given.task.input else given.evidence


def _ungrounded(claim: Claim, said: Judgement) -> Fault:
    # The words of the claim are where the location says: a description that quotes them would be read, by whoever looks
    # for the cause, as if they described the defect; and it would repeat what must not go out.
    reason = mask(said.reason)
    if said.label is not Entailment.CONTRADICT:
        return Fault(
            f"the claim is ungrounded: {reason}", claim.location, hint="cite evidence for it, or leave it out"
        )
    source = said.support[0] if said.support else None
    hint = (
        f"say what {source.evidence} says at {source.pointer or '/'}: {mask(source.text)}"
        if source
        else "correct it"
    )
    return Fault(f"the claim is contradicted: {reason}", claim.location, hint=hint)


def score_complete(given: CritiqueInput) -> Scored:
    """The part of the required outputs and sections that is there, less what is only a placeholder."""
    faults = [*_missing_outputs(given), *_missing_sections(given)]
    required = len(given.task.required_outputs) + len(given.task.required_sections)
    texts = [leaf for leaf in leaves(given.output) if isinstance(leaf.value, str)]
    gaps = [fault for leaf in texts for fault in _placeholders(leaf)]
    count = required + len(gaps)
    missing = len(faults) + len(gaps)
    is_empty = not any(leaf.value not in (None, "") for leaf in leaves(given.output))
    if is_empty:
        return Scored(0.0, (*faults, Fault("the output is empty", "", "GLOBAL", "produce it")))
    return Scored(round(1 - missing / count, 6) if count else 1.0, (*faults, *gaps))


def _missing_outputs(given: CritiqueInput) -> list[Fault]:
    return [
        Fault(
            f"the required output {name!r} is missing", pointer.join((name,)), "SECTION", f"produce {name!r}"
        )
        for name in given.task.required_outputs
        if given.output.get(name) in (None, "", [], {})
    ]


def _missing_sections(given: CritiqueInput) -> list[Fault]:
    texts = [leaf for leaf in leaves(given.output) if isinstance(leaf.value, str)]
    present = {_plain(title) for leaf in texts for title in headings(leaf.value)}
    longest = max(texts, key=lambda leaf: len(leaf.value), default=None)
    end = len(longest.value) if longest else 0
    place = str(Location(pointer.join(longest.place), end, end)) if longest else ""
    return [
        Fault(f"the section {title!r} is missing", place, "SECTION", f"add a section {title!r}")
        for title in given.task.required_sections
        if _plain(title) not in present
    ]


def headings(text: str) -> list[str]:
    """The headings of a text: in Markdown, in bold, or a line that ends with a colon."""
    return [match["marked"] or match["bold"] or match["plain"] for match in _HEADING.finditer(text)]


def _placeholders(leaf: Leaf) -> list[Fault]:
    where = pointer.join(leaf.place)
    return [
        Fault(
            f"{match[0]!r} stands for something that is missing",
            str(Location(where, *match.span())),
            hint="fill it in",
        )
        for match in _PLACEHOLDER.finditer(leaf.value)
    ]


def _plain(text: str) -> str:
    return _SPACES.sub(" ", text).strip().casefold()


def score_coherent(given: CritiqueInput) -> Scored:
    """The part of the claims that contradict no other, are not said twice, and add up."""
    claims = extract(given.output)[:MAX_COMPARED]
    sentences = tuple(claim for claim in claims if parse_location(claim.location).start is not None)
    faults = [*_at_odds(sentences), *_repeated(given.output), *_wrong_sums(given.output)]
    count = max(len(claims), len(faults), 1)
    return Scored(round(1 - len(faults) / count, 6), tuple(faults))


def _at_odds(claims: tuple[Claim, ...]) -> list[Fault]:
    """Sentences that cannot both be right; members of an object say something each about their own."""
    facts = [
        Evidence(id=f"kg:output:{number}#snapshot_output", content=claim.text)
        for number, claim in enumerate(claims)
    ]
    check = GroundingCheck(facts)
    found: list[Fault] = []
    for number, claim in enumerate(claims):
        said = check.judge(claim.text, apart_from=number)
        if said.label is Entailment.CONTRADICT:
            other = said.support[0].text
            found.append(
                Fault(
                    f"{mask(claim.text)[:120]!r} is at odds with {mask(other)[:120]!r}",
                    claim.location,
                    "SECTION",
                    "decide for one of them",
                )
            )
    return found


def _repeated(output: JsonObject) -> list[Fault]:
    found: list[Fault] = []
    seen: set[str] = set()
    for leaf in leaves(output):
        for match in _PARAGRAPH.finditer(leaf.value) if isinstance(leaf.value, str) else ():
            text = _plain(match[0])
            if text in seen:
                place = str(Location(pointer.join(leaf.place), *match.span()))
                found.append(
                    Fault(f"{mask(match[0])[:80]!r} is said twice", place, hint="leave one of them out")
                )
            elif len(text.split()) > 5:
                seen.add(text)
    return found


def _wrong_sums(output: JsonObject) -> list[Fault]:
    return [
        Fault(
            f"the total is {wrong.given}, its items come to {wrong.computed}",
            pointer.join(wrong.place),
            hint=f"write {wrong.computed}",
        )
        for wrong in find_wrong_totals(output)
    ]


def score_safe(given: CritiqueInput) -> Scored:
    """One, less what each danger takes off; a single secret leaves nothing."""
    faults: list[Fault] = []
    penalty = 0.0
    for leaf in leaves(given.output):
        for danger in find_dangers(leaf.value) if isinstance(leaf.value, str) else ():
            place = str(Location(pointer.join(leaf.place), danger.start, danger.end))
            faults.append(
                Fault(f"it holds something that must not go out: {danger.kind}", place, hint="remove it")
            )
            penalty += danger.penalty
    return Scored(round(max(0.0, 1 - penalty), 6), tuple(faults))


SCORERS: Mapping[str, Callable[[CritiqueInput], Scored]] = {
    "grounded": score_grounded,
    "complete": score_complete,
    "coherent": score_coherent,
    "safe": score_safe,
}
