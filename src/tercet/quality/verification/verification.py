"""Verification of outputs: their schema, what can be looked up in them, and what no one vouches for.

A broken schema ends it: the composite score is 0, and the faults go to REPAIR as they are. Otherwise each text is held
against the known values. The check may refuse a token, and never says that a text is right: words that are neither the
pack's author's nor a bound value are unjudged, unless tests that the pack declares for them have passed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import (
    KnownValue,
    MissingPart,
    ReadText,
    TextToken,
    TokenVerdict,
    UnjudgedText,
)
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.quality import SchemaFault
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.outputs.rubric import VerificationSettings
from tercet.contracts.shape import JsonObject
from tercet.contracts.values import pointer
from tercet.policy import schemas
from tercet.quality.missing import missing_parts
from tercet.quality.rubric.safety import mask
from tercet.quality.screen import is_arranged, screen
from tercet.quality.verification.places import Location, is_text
from tercet.quality.verification.records import find_misplaced
from tercet.quality.verification.roles import check_role, is_plain_place

MAX_FAULTS = 100
REFUSED = ("elsewhere", "unknown")
"""The statuses of tokens that are defects."""


def verify_output(
    spec: DecisionSpec,
    outputs: JsonObject,
    read: Sequence[ReadText],
    known: Sequence[KnownValue],
    *,
    language: str = "en",
    executed: Collection[str] = (),
    passed: Collection[str] = (),
    request_input: JsonObject | None = None,
) -> VerificationVerdict:
    """Return what schema and screen say about outputs.

    `executed` are pointers to outputs that are judged by running them instead of by the screen, `passed` those whose
    tests vouch for them.
    """
    rules = spec.quality or QualityRules()
    faults = find_schema_faults(spec, outputs, request_input)
    if faults:
        return refuse(faults, rules.verification)
    screened = [each for each in read if not is_within(each.pointer, executed)]
    tokens = tuple(
        _locate_verdict(verdict, each, outputs) for each in screened for verdict in screen(each, known)
    )
    references = [each for each in screened if _is_reference(each)]
    roles = {each.pointer: check_role(each, known) for each in references}
    misplaced = find_misplaced(references, known)
    tokens += tuple(_misplaced(each) for each in screened if roles.get(each.pointer) == "other")
    missing = tuple(find_missing(screened, known, rules))
    unclear = (
        place for place, role in roles.items() if role == "none" or (role == "own" and place in misplaced)
    )
    declared = frozenset((*spec.required_outputs, *spec.rendered_outputs))
    signed = (
        each.pointer
        for each in screened
        if not is_plain_place(pointer.parts(each.pointer), spec.outputs_schema, declared)
    )
    unjudged = (
        *find_unjudged(read, language, passed),
        *(UnjudgedText(location=place, reason="free") for place in dict.fromkeys((*unclear, *signed))),
    )
    return _conclude(tokens, missing, unjudged, rules.verification)


def _is_reference(read: ReadText) -> bool:
    """Return whether a reading is of a single value that came by reference."""
    piece = read.pieces[-1] if read.pieces else None
    return piece is not None and piece.source == "bound" and not piece.slot and not read.tokens


def _misplaced(read: ReadText) -> TokenVerdict:
    """Return the verdict on a value under the name of another one."""
    piece = read.pieces[-1]
    text = read.text[piece.start : piece.end]
    token = TextToken(start=piece.start, end=piece.end, text=text, kind="identifier", value=text)
    return TokenVerdict(location=read.pointer, token=token, status="elsewhere", sources=(piece.pointer,))


def find_schema_faults(
    spec: DecisionSpec, outputs: JsonObject, request_input: JsonObject | None = None
) -> tuple[SchemaFault, ...]:
    """Return every way in which outputs break the contract of their decision."""
    found = [
        SchemaFault(
            pointer=pointer.join((name,)),
            keyword="required",
            message=f"{name!r} is a required output{_explain_missing(spec, name, request_input)}",
        )
        for name in spec.required_outputs
        if name not in outputs
    ]
    if spec.outputs_text:
        found += [
            SchemaFault(pointer=pointer.join(fault.place), keyword=fault.keyword, message=fault.message)
            for fault in schemas.faults(spec.outputs_text, outputs)
        ]
    return tuple(found[:MAX_FAULTS])


def _explain_missing(spec: DecisionSpec, name: str, request_input: JsonObject | None) -> str:
    return (
        ""
        if spec.quality is None or request_input is None
        else spec.quality.explain_missing(name, request_input, spec.untrusted_inputs)
    )


def refuse(faults: tuple[SchemaFault, ...], settings: VerificationSettings) -> VerificationVerdict:
    """Return the verdict on outputs that break their schema."""
    return VerificationVerdict(
        passed=False,
        schema_valid=False,
        score=0.0,
        failures=tuple(f"{fault.pointer or '/'}: {fault.message}" for fault in faults),
        threshold=settings.threshold,
        schema_faults=faults,
    )


def is_within(place: str, pointers: Collection[str]) -> bool:
    """Return whether a JSON Pointer leads to one of these places, or into it."""
    return any(place == each or place.startswith(f"{each}/") for each in pointers)


def _locate_verdict(verdict: TokenVerdict, read: ReadText, outputs: JsonObject) -> TokenVerdict:
    """Return a verdict with its place in the outputs: a single value was read behind its name.

    Nothing is replaced in its name, nor in a number that was written otherwise to be read.
    """
    value = pointer.value_at(outputs, read.pointer)
    if value == read.text:
        return verdict
    token, size = verdict.token, len(value) if isinstance(value, str) else 0
    start = len(read.text) - size
    if isinstance(value, str) and read.text.endswith(value) and start <= token.start:
        place = Location(read.pointer, token.start - start, token.end - start)
        return verdict.model_copy(update={"location": str(place)})
    return verdict.model_copy(update={"location": read.pointer, "slot": ""})


def find_missing(
    read: Sequence[ReadText], known: Sequence[KnownValue], rules: QualityRules
) -> Iterator[MissingPart]:
    """Yield what the outputs must have and do not, and slots that could not be filled."""
    for each in read:
        for fault in each.faults:
            yield MissingPart(
                location=f"{each.pointer}#char={fault.start},{fault.end}",
                kind="slot",
                name=each.text[fault.start : fault.end],
                message=fault.message,
            )
    if not rules.required_values and not rules.required_sections:
        return
    found = [
        {
            part.name: part
            for part in missing_parts(each, known, rules.required_values, rules.required_sections)
        }
        for each in read
    ]
    longest = max(read, key=lambda each: len(each.text), default=None)
    for name in dict.fromkeys((*rules.required_values, *rules.required_sections)):
        parts = [each.get(name) for each in found]
        if longest is not None and all(parts):  # one text that has it is enough
            nearest = next(
                (part for part in parts if part and part.kind in ("rows", "empty_section")), parts[0]
            )
            if nearest is not None:
                end = len(longest.text)
                yield nearest.model_copy(update={"location": str(Location(longest.pointer, end, end))})


def find_unjudged(read: Sequence[ReadText], language: str, passed: Collection[str]) -> Iterator[UnjudgedText]:
    """Yield the texts with signs that neither the pack's author wrote nor a value brought nor tests vouch for.

    A sign says as much as a word: `-`, a cross, a bracket. So does the order of several values that no author has
    arranged. Outputs that say nothing at all are unjudged as well: there is nothing that anybody could vouch for.
    """
    if not any(
        piece.source == "bound" or _has_words(each, piece.start, piece.end)
        for each in read
        for piece in each.pieces
    ):
        yield UnjudgedText(location="", reason="empty")
        return
    for each in read:
        if _is_free(each) and not is_within(each.pointer, passed):
            is_understood = read_in(each, language) or not is_text(each.text)
            yield UnjudgedText(location=each.pointer, reason="free" if is_understood else "language")


def _is_free(read: ReadText) -> bool:
    brought = [piece for piece in read.pieces if piece.source != "free"]
    is_composed = len(brought) > 1 and any(map(is_arranged, brought))
    return is_composed or any(
        piece.source == "free" and read.text[piece.start : piece.end].strip() for piece in read.pieces
    )


def read_in(read: ReadText, language: str) -> bool:
    """Return whether a text was read in the language that is configured."""
    return bool(read.language) and read.language == language


def _has_words(read: ReadText, start: int, end: int) -> bool:
    return any(char.isalnum() for char in read.text[start:end])


def _conclude(
    tokens: tuple[TokenVerdict, ...],
    missing: tuple[MissingPart, ...],
    unjudged: tuple[UnjudgedText, ...],
    settings: VerificationSettings,
) -> VerificationVerdict:
    semantic = _share(sum(each.status != "unknown" for each in tokens), len(tokens))
    factual = _share(sum(each.status not in REFUSED for each in tokens), len(tokens))
    score = 1.0
    if semantic is not None and factual is not None:
        score = round(settings.semantic_weight * semantic + settings.factual_weight * factual, 6)
    refused = [each for each in tokens if each.status in REFUSED]
    return VerificationVerdict(
        passed=score >= settings.threshold and not refused and not missing,
        schema_valid=True,
        semantic=semantic,
        factual=factual,
        score=score,
        failures=(
            *(mask(f"{each.location}: {each.token.text!r} is {each.status}") for each in refused),
            *(mask(f"{each.location}: {_explain_part(each)}") for each in missing),
        ),
        threshold=settings.threshold,
        tokens=tokens,
        missing=missing,
        unjudged=unjudged,
    )


def _explain_part(part: MissingPart) -> str:
    """Return what is wrong; with a slot as it is written, so that its author finds it."""
    return f"{part.name}: {part.message}" if part.kind == "slot" else part.message


def _share(count: int, of: int) -> float | None:
    return round(count / of, 6) if of else None
