"""A chain of critics, asked in order until one objects."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tercet.critic.pluggable.builtin import PassThroughCritic
from tercet.critic.pluggable.critic import Evaluates, ToolResults, is_pure, name_of
from tercet.critic.pluggable.result import Action, CriticResult, Escalation
from tercet.critic.pluggable.shorthand import settle


class Judgement(NamedTuple):
    """One critic that was asked, and its answer."""

    critic: str
    result: CriticResult | Escalation


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """All answers, in order; the last one decided, and all before it were continue."""

    trace: tuple[Judgement, ...]

    @property
    def critic(self) -> str:
        """The name of the critic that decided."""
        return self.trace[-1].critic

    @property
    def result(self) -> CriticResult | Escalation:
        """Its result."""
        return self.trace[-1].result

    @property
    def action(self) -> Action | Literal["escalate"]:
        """The action to take."""
        return self.result.action


class CriticChain:
    """An ordered list of critics; an empty one passes everything."""

    def __init__(self, critics: Iterable[Evaluates] = ()) -> None:
        asked = tuple(critics) or (PassThroughCritic(),)
        self._critics = tuple((name_of(critic), critic) for critic in asked)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the critics, in order."""
        return tuple(name for name, _ in self._critics)

    @property
    def is_pure(self) -> bool:
        """Whether every critic is pure: one that is not may have written what the next one reads."""
        return all(is_pure(critic) for _, critic in self._critics)

    async def judge(self, state: Any, decision: Any, results: ToolResults) -> ChainVerdict:
        """Ask each critic; the first that does not return continue decides, and those after it are not called.

        Never raises an Exception: a critic that raises, or returns an invalid result, becomes an Escalation.
        Cancellation and other BaseExceptions pass through.
        """
        trace: list[Judgement] = []
        for name, critic in self._critics:
            trace.append(Judgement(name, await _ask(name, critic, state, decision, results)))
            if trace[-1].result.action != "continue":
                break
        return ChainVerdict(tuple(trace))


async def _ask(
    name: str, critic: Evaluates, state: Any, decision: Any, results: ToolResults
) -> CriticResult | Escalation:
    try:
        returned = critic.evaluate(state, decision, results)
        if inspect.isawaitable(returned):
            returned = await returned
        return settle(returned, critic=name)
    except Exception as error:  # noqa: BLE001 - a critic is user code, and its failure is an answer here
        return Escalation(critic=name, error=type(error).__name__, message=_text(error))


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - even the error's own __str__ may raise
        return "(its message cannot be read)"
