"""Several critics, asked in their order until one objects."""

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
    """One critic that was asked, and what came of it."""

    critic: str
    result: CriticResult | Escalation


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """Everyone that was asked, in order; the last one decided, and everyone before it said continue."""

    trace: tuple[Judgement, ...]

    @property
    def critic(self) -> str:
        """The name of the critic that decided."""
        return self.trace[-1].critic

    @property
    def result(self) -> CriticResult | Escalation:
        """What it said."""
        return self.trace[-1].result

    @property
    def action(self) -> Action | Literal["escalate"]:
        """What is to be done."""
        return self.result.action


class CriticChain:
    """An ordered list of critics; an empty one lets everything pass."""

    def __init__(self, critics: Iterable[Evaluates] = ()) -> None:
        asked = tuple(critics) or (PassThroughCritic(),)
        self._critics = tuple((name_of(critic), critic) for critic in asked)

    @property
    def names(self) -> tuple[str, ...]:
        """The critics' names, in the order they are asked."""
        return tuple(name for name, _ in self._critics)

    @property
    def is_pure(self) -> bool:
        """Whether every critic is: one that is not may have written what the next one reads."""
        return all(is_pure(critic) for _, critic in self._critics)

    async def judge(self, state: Any, decision: Any, results: ToolResults) -> ChainVerdict:
        """Ask each critic; the first that does not say continue decides, and those after it are not called.

        Never raises an Exception: a critic that raises, or returns what is no result, becomes an Escalation.
        Cancellation and the like pass through.
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
    except Exception as error:  # noqa: BLE001 - a critic is anybody's code, and its failure is an answer here
        return Escalation(critic=name, error=type(error).__name__, message=_text(error))


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error may fail at telling itself, and must still be contained
        return "(its message cannot be read)"
