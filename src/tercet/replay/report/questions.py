"""Questions to language models, and what they answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tercet.contracts.shape import as_list, as_object
from tercet.core import events as e
from tercet.replay.report.case import Case
from tercet.replay.report.page import Exchange, Row, Tone
from tercet.replay.report.wording import BLOCK, Wording, cents, joined
from tercet.view.events import answered_text

MOST = 60


def exchanges(case: Case, wording: Wording) -> tuple[tuple[Exchange, ...], str]:
    """Every question with its answer, in order, and in words how many more there were."""
    asked = [event for event in case.events if isinstance(event, e.ModelAsked)]
    answers = {event.call: event for event in case.events if isinstance(event, e.ModelAnswered)}
    shown = tuple(_exchange(each, answers.get(each.call), case, wording) for each in asked[:MOST])
    return shown, f"{len(asked) - MOST:,} later questions are left out." if len(asked) > MOST else ""


def _exchange(
    asked: e.ModelAsked, answered: e.ModelAnswered | None, case: Case, wording: Wording
) -> Exchange:
    question = as_object(case.texts.get(asked.prompt)) or {}
    how, tone = _how(answered)
    again = f", attempt {asked.attempt}" if asked.attempt > 1 else ""
    return Exchange(
        title=wording.text(f"{asked.call}. {asked.model} is asked for a {asked.purpose}{again}", 200),
        tone=tone,
        how=wording.text(how, 400),
        system=wording.text(question.get("system") or "", BLOCK),
        messages=_messages(as_list(question.get("messages")) or (), wording)
        if question
        else (_gone(asked, wording),),
        answer=_answer(answered, case, wording),
    )


def _how(answered: e.ModelAnswered | None) -> tuple[str, Tone]:
    if answered is None:
        return "no answer is recorded", "wait"
    if answered.code:
        return f"no answer, {answered.code}: {answered.error}", "bad"
    cost = cents(answered.cost) if answered.cost else ""
    cut = "the answer was cut off, it became too long" if answered.cut else ""
    return joined((answered_text(answered), cost, cut)), "good"


def _messages(messages: Sequence[Any], wording: Wording) -> tuple[Row, ...]:
    found = [as_object(message) or {} for message in messages]
    return tuple(
        Row(label=wording.text(each.get("role", "user"), 40), text=wording.text(each.get("text", ""), BLOCK))
        for each in found
    )


def _gone(asked: e.ModelAsked, wording: Wording) -> Row:
    return Row(label="question", text=wording.text(f"it is not kept any more: {asked.prompt}", 200))


def _answer(answered: e.ModelAnswered | None, case: Case, wording: Wording) -> str:
    if answered is None or answered.code:
        return ""
    text = (
        case.texts.get(answered.blob, f"it is not kept any more: {answered.blob}")
        if answered.blob
        else answered.answer
    )
    return wording.text(text, BLOCK)
