"""Deriving a judgement of outputs again from recorded model answers, without calls.

The state before the event holds the models' answers, and the event names the questions without an answer. So both give
the same event, byte for byte, or one of them was changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.question import Inquiry, ModelFault, Question, Reply
from tercet.core import events as e
from tercet.core.outputs.judging import criticise, verify
from tercet.core.outputs.repairing import repair
from tercet.core.outputs.review import OutputReview
from tercet.core.state import Replied

ResultT = TypeVar("ResultT")
Judged: TypeAlias = e.OutputsVerified | e.OutputsCritiqued | e.OutputsRepaired


class Unrecorded(TercetError):  # noqa: N818 - what is missing is named
    """A question without a recorded answer, so that the judgement cannot be derived."""

    default_code = "answer_not_recorded"


def judge_again(review: OutputReview, event: Judged, texts: Mapping[str, str] | None = None) -> Judged:
    """Return the event of VERIFY, CRITIQUE or REPAIR that follows from recorded answers; `texts` are long answers by
    their digests.

    Raises `Unrecorded` where it would have to ask something that no one has answered.
    """
    match event:
        case e.OutputsVerified():
            inquiry: Inquiry[Judged] = verify(review, event.at)
        case e.OutputsCritiqued():
            inquiry = criticise(review, event.at)
        case e.OutputsRepaired():
            inquiry = repair(review, event.models, event.at)
    derived = answer_from(inquiry, review.state.replies, event.faults, texts or {})
    return msgspec.structs.replace(derived, repairers=event.repairers, faults=event.faults)


def answer_from(
    inquiry: Inquiry[ResultT], replies: Sequence[Replied], faults: Mapping[str, str], texts: Mapping[str, str]
) -> ResultT:
    """Return the result of an inquiry from recorded answers alone."""
    left = list(replies)
    try:
        question = next(inquiry)
        number = 0
        while True:
            fault = faults.get(str(number))
            if fault is not None:
                question = inquiry.throw(ModelFault(fault))
            else:
                question = inquiry.send(_reply(question, left, texts))
            number += 1
    except StopIteration as ended:
        return ended.value
    finally:
        inquiry.close()


def _reply(question: Question, left: list[Replied], texts: Mapping[str, str]) -> Reply:
    found = next((each for each in left if each.prompt == question.hash), None)
    if found is None:
        raise Unrecorded(
            f"there is no recorded answer to question {question.hash}",
            remedy="check that the record, the pack and the rules are those of the run",
        )
    left.remove(found)
    return found.as_reply(texts[found.blob] if found.blob else found.answer)
