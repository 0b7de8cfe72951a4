"""The deterministic scorers of a rubric. Each reads task, output and evidence, and says what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tercet.contracts import pointer
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Claim, DefectSeverity, Entailment, Judgement
from tercet.contracts.rubric import CritiqueInput
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.quality.grounding.check import OTHER, GroundingCheck, has_particulars
from tercet.quality.grounding.judges import Judges
from tercet.quality.rubric.completeness import plain, score_complete
from tercet.quality.rubric.credentials import FindsSecrets
from tercet.quality.rubric.faults import Fault, Scored
from tercet.quality.rubric.greetings import Greeting, find_strangers
from tercet.quality.rubric.placeholders import hide_placeholders
from tercet.quality.rubric.safety import Danger, find_dangers, hide, mask
from tercet.quality.rubric.telling import tell
from tercet.quality.rubric.totals import find_wrong_totals, own_totals
from tercet.quality.verification.choices import is_choice
from tercet.quality.verification.claims import (
    MAX_CLAIMS,
    claims_behind_greetings,
    extract,
    has_more,
    leaves,
    names,
)
from tercet.quality.verification.locations import Location, parse_location
from tercet.quality.verification.verification import authoritative

UNSETTLED = 0.85
"""What a claim counts that the evidence neither bears out nor contradicts, although it has all that the claim names.

As much as the usual threshold of correctness: such claims alone fail nothing, and make good for no wrong one.
"""
MAX_COMPARED = 120
"""As many claims are held against each other: it takes the square of that."""
_PARAGRAPH = re.compile(r"\S(?:(?!\n\s*\n).)*", re.DOTALL)


class Judged(NamedTuple):
    """A claim, and what the evidence says about it."""

    claim: Claim
    said: Judgement
    is_greeted: bool = False
    """Whether it stands in one sentence with a greeting, which must not be taken out along with it."""

    @property
    def is_wrong(self) -> bool:
        """Whether it is contradicted, or names something that is nowhere in the evidence."""
        return self.said.label is Entailment.CONTRADICT or bool(self.said.missing)

    @property
    def is_idle(self) -> bool:
        """Whether it names nothing that could be looked up, and nothing speaks for or against it: plain words."""
        is_open = self.said.label is Entailment.NEUTRAL and not self.said.missing
        return is_open and not has_particulars(self.claim.text)


def score_grounded(given: CritiqueInput, judges: Judges) -> Scored:
    """The part of the claims that stand on the evidence.

    A claim that is contradicted counts nothing, and so does one with a number, date, name or identifier that is nowhere
    in the evidence. One that nothing settles counts `UNSETTLED`: it may be true, and nobody has shown it. Plain words,
    in which there is nothing to look up, do not count.
    """
    if has_more(given.output):  # what nobody has looked at is not borne out
        told = f"it makes more claims than the {MAX_CLAIMS} that are judged"
        return Scored(0.0, (Fault(told, None, "GLOBAL", "make it shorter, or several outputs of it"),))
    if judges(given.evidence).is_cut:
        told = f"the evidence has more than the {judges.most:,} statements that are read"
        return Scored(0.0, (Fault(told, None, "GLOBAL", "let the plan pin what the output stands on"),))
    judged = [judged for judged in _judge(given, judges) if not judged.is_idle]
    greeted = [_misdirected(each) for each in _strangers(given, judges)]
    count = len(judged) + len(greeted)
    score = sum(map(_worth, judged)) / count if count else 1.0
    wrong = sorted(
        (item for item in judged if item.is_wrong),
        key=lambda item: item.said.label is not Entailment.CONTRADICT,
    )
    return Scored(
        round(score, 6), (*greeted, *(_ungrounded(item, given, judges) for item in wrong)), _unsettled(judged)
    )


def _judge(given: CritiqueInput, judges: Judges) -> Iterator[Judged]:
    sure, check = judges(authoritative(given.evidence)), judges(_known(given))
    own = GroundingCheck(own_totals(given.output), edition=judges.edition)
    greeted = tuple(claims_behind_greetings(given.output)) if judges.edition >= 3 else ()
    for claim in (*extract(given.output), *greeted):
        # What must not go out is the matter of safety: it is taken out, and what is left may well be true.
        text = hide_placeholders(hide(claim.text, judges.secrets), edition=judges.edition)
        said = sure.judge(text)
        if (
            said.label is not Entailment.CONTRADICT
        ):  # what trusted facts contradict, nobody's word makes right
            said = check.judge(text)
        if said.label is Entailment.NEUTRAL and (summed := own.judge(text)).label is not Entailment.NEUTRAL:
            said = summed
        if said.label is Entailment.NEUTRAL and is_choice(claim, given.task.outputs_schema):
            said = said.model_copy(update={"missing": ()})
            text = ""
        yield Judged(claim.model_copy(update={"text": text}), said, claim in greeted)


def _strangers(given: CritiqueInput, judges: Judges) -> list[Greeting]:
    return find_strangers(given.output, _known(given)) if judges.edition >= 3 else []


def _misdirected(greeting: Greeting) -> Fault:
    """A greeting of a stranger: it is not taken out, since the rest may well be meant for that stranger too."""
    told = f"the greeting is wrong: {mask(greeting.name)!r} is neither in the evidence nor in the request"
    return Fault(told, greeting.location, hint="greet whom the evidence names", least=DefectSeverity.HIGH)


def _worth(item: Judged) -> float:
    if item.said.label is Entailment.ENTAIL:
        return 1.0
    return 0.0 if item.is_wrong else UNSETTLED


def _unsettled(judged: Sequence[Judged]) -> Fault | None:
    unsettled = sum(item.said.label is Entailment.NEUTRAL for item in judged)
    told = f"insufficient evidence: nothing settles {unsettled} of {len(judged)} claims"
    return Fault(told, None, "GLOBAL", "find evidence that settles them") if unsettled else None


def _known(given: CritiqueInput) -> tuple[Evidence, ...]:
    """The evidence, and what the task itself says in its own words."""
    own = _without_marked(given.task.input, given.task.untrusted_inputs)
    task = Evidence(id="kg:task:request#snapshot_task", content=own)
    return (*given.evidence, task) if own else given.evidence


def _without_marked(value: Any, marks: Sequence[str], place: tuple[str, ...] = ()) -> Any:
    """A value without the members that carry other people's words."""
    pointers = tuple(mark if mark.startswith("/") else f"/{mark}" for mark in marks)
    if (members := as_object(value)) is not None:
        return {
            name: _without_marked(member, pointers, (*place, name))
            for name, member in members.items()
            if pointer.join((*place, name)) not in pointers
        }
    if (items := as_list(value)) is not None:
        return [
            _without_marked(item, pointers, (*place, str(number)))
            for number, item in enumerate(items)
            if pointer.join((*place, str(number))) not in pointers
        ]
    return value


def _ungrounded(item: Judged, given: CritiqueInput, judges: Judges) -> Fault:
    # The words of the claim are where the location says: a description that quotes them would be read, by whoever looks
    # for the cause, as if they described the defect; and it would repeat what must not go out.
    claim, said, is_greeted = item
    reason = mask(said.reason)
    if said.label is not Entailment.CONTRADICT:
        told, hint = f"the claim is ungrounded: {reason}", "cite evidence for it, or leave it out"
        if is_greeted:
            told, hint = (
                f"the claim behind the greeting is wrong: {reason}",
                "keep the greeting, and correct it",
            )
        return Fault(told, claim.location, hint=hint, least=DefectSeverity.MEDIUM)
    source = said.support[0] if said.support else None
    if source is None:
        told, hint = f"the claim is contradicted: {reason}", "correct it"
    else:
        where = f"{source.evidence} at {source.pointer or '/'}"
        told = f"the claim is contradicted ({where}): {reason}"
        if judges.edition >= 3:
            told = f"the claim is contradicted: {_against(reason, tell(source, _known(given)))}"
        hint = f"say what {source.evidence} says at {source.pointer or '/'}: {mask(source.text)}"
    # However much of a letter is right besides, it does not go out with what trusted evidence says is wrong.
    is_sure = judges.edition >= 3 and source is not None and source.trust is Trust.TRUSTED
    least = DefectSeverity.HIGH if is_sure else DefectSeverity.MEDIUM
    return Fault(told, claim.location, hint=hint, least=least)


def _against(reason: str, told: str) -> str:
    """Why a claim is wrong, and what the evidence says."""
    if reason.startswith(OTHER):
        return f"{told}, not {reason.removeprefix(OTHER)}"
    return f"{reason}: {told}"


def score_coherent(given: CritiqueInput, judges: Judges) -> Scored:
    """The part of the claims that contradict no other, are not said twice, and add up."""
    claims = extract(given.output)[:MAX_COMPARED]
    sentences = tuple(claim for claim in claims if parse_location(claim.location).start is not None)
    faults = [*_at_odds(sentences, judges), *_repeated(given.output), *_wrong_sums(given, judges)]
    count = max(len(claims), len(faults), 1)
    return Scored(round(1 - len(faults) / count, 6), tuple(faults))


def _at_odds(claims: tuple[Claim, ...], judges: Judges) -> list[Fault]:
    """Sentences that cannot both be right; members of an object say something each about their own."""
    facts = [
        Evidence(id=f"kg:output:{number}#snapshot_output", content=claim.text)
        for number, claim in enumerate(claims)
    ]
    check = GroundingCheck(facts, edition=judges.edition)
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
            text = plain(match[0])
            if text in seen:
                place = str(Location(pointer.join(leaf.place), *match.span()))
                found.append(
                    Fault(f"{mask(match[0])[:80]!r} is said twice", place, hint="leave one of them out")
                )
            elif len(text.split()) > 5:
                seen.add(text)
    return found


def _wrong_sums(given: CritiqueInput, judges: Judges) -> list[Fault]:
    return [
        Fault(
            f"the total is {wrong.given}, its items come to {wrong.computed}",
            pointer.join(wrong.place),
            hint=f"write {wrong.computed}",
            least=DefectSeverity.MEDIUM,
        )
        for wrong in find_wrong_totals(given.output)
        # A total that the evidence states counts before the items beside it: it may know of a rebate.
        if judges(given.evidence).judge(f"total: {wrong.given}").label is not Entailment.ENTAIL
    ]


def score_safe(given: CritiqueInput, judges: Judges) -> Scored:
    """One, less what each danger takes off; a single secret leaves nothing."""
    found = [*_dangers(given.output, judges.secrets)]
    faults = tuple(
        Fault(f"it holds something that must not go out: {danger.kind}", place, hint="remove it")
        for danger, place in found
    )
    return Scored(round(max(0.0, 1 - sum(danger.penalty for danger, _ in found)), 6), faults)


def _dangers(output: JsonObject, secrets: FindsSecrets) -> Iterator[tuple[Danger, str]]:
    """Each danger with its place: in a text its characters, in a number or the name of a member the member."""
    for leaf in leaves(output):
        is_text = isinstance(leaf.value, str)
        where = pointer.join(leaf.place)
        for danger in find_dangers(leaf.value if is_text else str(leaf.value), secrets):
            yield danger, str(Location(where, danger.start, danger.end) if is_text else Location(where))
    for name in names(output):
        for danger in find_dangers(name.value, secrets):
            # The place itself would tell what must not be told: it is that of what holds the member.
            yield danger, pointer.join(name.place[:-1])


SCORERS: Mapping[str, Callable[[CritiqueInput, Judges], Scored]] = {
    "grounded": score_grounded,
    "complete": score_complete,
    "coherent": score_coherent,
    "safe": score_safe,
}
