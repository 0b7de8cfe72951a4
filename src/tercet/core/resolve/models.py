"""Calls of language models: one event before each call, with its reservation, and one after it."""

from __future__ import annotations

from tercet.contracts.plain import storable
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import ModelReply, Now
from tercet.core.resolve.made import Made, made
from tercet.core.run import Run


def ask(run: Run, command: c.AskModel, answer: Now) -> Made:
    """A model is about to be asked: what is reserved for it, and until when it may answer."""
    return made(
        e.ModelAsked(
            at=answer.at,
            call=run.state.asked + 1,
            purpose=storable(command.purpose),
            model=storable(command.model),
            prompt=command.prompt,
            attempt=command.attempt,
            tokens=command.tokens,
            cost=command.cost,
            deadline=answer.at + command.timeout_ms,
        ),
        blobs=(command.question,) if command.question else (),
    )


def settle(run: Run, command: c.AwaitModel, answer: ModelReply) -> Made:
    """A model has answered, or has not: what that took is settled. Numbers below zero would add to the budget."""
    del run
    return made(
        e.ModelAnswered(
            at=answer.at,
            call=command.call,
            answer="" if answer.blob else storable(answer.text),
            blob=answer.blob,
            model=storable(answer.model),
            tokens_in=max(0, answer.tokens_in),
            tokens_out=max(0, answer.tokens_out),
            cost=max(0, answer.cost),
            cut=answer.cut,
            latency=max(0, answer.at - command.began),
            error=storable(answer.error),
            code=answer.code,
        ),
        blobs=(answer.data,) if answer.blob else (),
    )
