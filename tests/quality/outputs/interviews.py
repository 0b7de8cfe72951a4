"""Asks what pure code wants to know, from a script: what the shell does with a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from tercet.contracts.question import Inquiry, ModelFault, Question, Reply
from tercet.contracts.values.canonical import canonical

ResultT = TypeVar("ResultT")


class Heard(NamedTuple):
    """What came out of an inquiry, and what was asked on the way."""

    result: Any
    questions: list[Question]


def interview(inquiry: Inquiry[ResultT], answers: Iterable[str | Mapping[str, Any] | ModelFault]) -> Heard:
    """Answer every question of an inquiry with the next answer of the script."""
    questions: list[Question] = []
    script = iter(answers)
    try:
        question = next(inquiry)
        while True:
            questions.append(question)
            answer = next(script)
            if isinstance(answer, ModelFault):
                question = inquiry.throw(answer)
            else:
                text = answer if isinstance(answer, str) else canonical(dict(answer)).decode()
                question = inquiry.send(Reply(text=text, model="scripted:model"))
    except StopIteration as done:
        return Heard(done.value, questions)
