"""A REPAIR phase as an inquiry: it yields the questions for models, and what else it needs comes in as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tercet.contracts.evidence import Evidence
from tercet.contracts.outputs.quality import Consensus, CritiqueDiagnosis, Defect, DefectSeverity
from tercet.contracts.outputs.repair import RepairResult
from tercet.contracts.question import Inquiry, ModelFault
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.case import (
    Answered,
    Ask,
    Check,
    Checked,
    End,
    Fact,
    Faulted,
    Fetch,
    Fetched,
    RepairCase,
)
from tercet.quality.repair.escalation import FEEDBACK
from tercet.quality.repair.prompts import WARM, NoReplacement, read_answer
from tercet.quality.repair.session import begin, decide, fold_event

IsGone = Callable[[JsonObject, Defect], bool]
"""Whether a defect is gone from an output. It is asked after each repair, about that defect alone."""
OTHER_MODEL = "repair_by_another_model"
"""The purpose of a question that the models before could not answer well enough: another one is to be asked."""
FetchMore = Callable[[Fetch], Sequence[Evidence]]


def _nothing(_: Fetch) -> Sequence[Evidence]:
    return ()


Vote = Callable[[Sequence[JsonObject | None]], Consensus]
"""What several documents agree on, and which stands for them; None is an answer that holds none."""


def repair_output(
    case: RepairCase, is_gone: IsGone, *, fetch: FetchMore = _nothing, vote: Vote | None = None
) -> Inquiry[RepairResult]:
    """Repair an output as far as its bounds allow. Only models take time, and their answers say how much.

    `vote` chooses among the answers of a model that is asked several times.
    """
    state = begin(case)
    elapsed = 0
    while True:
        command = decide(state)
        match command:
            case End():
                return command.result
            case Check():
                fact: Fact = Checked(is_gone=is_gone(command.output, command.defect), elapsed_ms=elapsed)
            case Fetch():
                fact = Fetched(evidence=tuple(fetch(command)), elapsed_ms=elapsed)
            case Ask():
                is_voted = vote is not None and command.draws > 1
                fact = (
                    yield from _ask_repeatedly(command, elapsed, vote)
                    if is_voted
                    else _ask_model(command, elapsed)
                )
                elapsed = fact.elapsed_ms
        state = fold_event(state, fact)


def _ask_model(command: Ask, elapsed: int) -> Inquiry[Answered | Faulted]:
    question = command.question
    if command.wants_other:
        question = question.model_copy(update={"purpose": OTHER_MODEL})
    try:
        reply = yield question
    except ModelFault as fault:
        return Faulted(reason=fault.message, elapsed_ms=elapsed)
    taken = reply.tokens_in + reply.tokens_out
    return Answered(text=reply.text, tokens=taken, elapsed_ms=elapsed + reply.latency_ms)


def _ask_repeatedly(command: Ask, elapsed: int, vote: Vote) -> Inquiry[Answered | Faulted]:
    """The answer that most agree on, of a model that is asked the same several times and is free to vary."""
    facts: list[Answered | Faulted] = []
    for seed in range(command.draws):
        question = command.question.model_copy(update={"seed": seed, "temperature": WARM})
        fact = yield from _ask_model(replace(command, question=question), elapsed)
        elapsed = fact.elapsed_ms
        facts.append(fact)
    tokens = sum(fact.tokens for fact in facts)
    agreed = vote([_document(fact) for fact in facts])
    taken = facts[agreed.index]
    if isinstance(taken, Faulted):
        return Faulted(reason=taken.reason, tokens=tokens, elapsed_ms=elapsed)
    return Answered(text=taken.text, tokens=tokens, elapsed_ms=elapsed, consensus=agreed)


def _document(fact: Answered | Faulted) -> JsonObject | None:
    """Return the document in an answer; None if there is none."""
    try:
        return read_answer(fact.text, {}, is_whole=True) if isinstance(fact, Answered) else None
    except NoReplacement:
        return None


def command_bound(case: RepairCase) -> int:
    """More commands than this a phase never gives, whatever comes of them.

    An attempt asks and checks; each other defect is then looked at again at most twice, where it was touched and where
    nothing fits it; evidence is fetched once, and once more to break a loop; and the phase ends.
    """
    return case.rules.max_attempts * (2 + 2 * len(case.diagnosis.defects)) + 3


def with_feedback(
    diagnosis: CritiqueDiagnosis, feedback: str, location: str | None = None
) -> CritiqueDiagnosis:
    """Return a diagnosis with what a person asked to be changed, as the first of its defects."""
    defect = Defect(
        dimension=FEEDBACK,
        severity=DefectSeverity.HIGH,
        description=feedback,
        location=location,
        scope="GLOBAL" if location is None else "SECTION",
    )
    hints = tuple(hint.model_copy(update={"defect": hint.defect + 1}) for hint in diagnosis.repair_hints)
    return diagnosis.model_copy(
        update={
            "defects": (defect, *diagnosis.defects),
            "severity": max(diagnosis.severity, defect.severity),
            "repair_hints": hints,
        }
    )
