"""Who may judge a step: a subclass of Critic, a decorated function, or anything with an `evaluate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, cast

from tercet.critic.pluggable.errors import CriticError
from tercet.critic.pluggable.shorthand import CriticReturn

ToolResults = Sequence[dict[str, Any]]
"""What the step's tools brought, in the order of the calls; a failure carries a truthy "error"."""


class Evaluates(Protocol):
    """The one method that a critic has.

    Promised to it: `state` after the step, the `decision` that led there, and the results as dicts.
    It may write to `state.metadata`; whatever else it changes is lost when a step is tried again.
    Not promised: that it is called for every step, since a critic before it may have ended the matter.
    What it raises is contained by the chain.
    """

    def evaluate(
        self, state: Any, decision: Any, results: ToolResults, /
    ) -> CriticReturn | Awaitable[CriticReturn]:
        """Judge one step, at once or awaited."""
        ...


class _ClassName:
    """Answers with the name of the class it is read from, until a class or an instance sets its own."""

    def __get__(self, instance: object, owner: type) -> str:
        return owner.__name__


class Critic(ABC):
    """A critic written as a class; its name is the class name unless it sets `name`."""

    # A property would forbid `self.name = ...`, and a value set per subclass would be inherited by the next one.
    name: str = cast("str", _ClassName())
    pure: bool = False
    """Whether what it says follows from the state, the decision and the results alone, and it changes nothing but
    `state.metadata`: then a replay may ask it again. Whoever writes another `evaluate` says so again."""

    @abstractmethod
    def evaluate(
        self, state: Any, decision: Any, results: ToolResults
    ) -> CriticReturn | Awaitable[CriticReturn]:
        """Judge one step, at once or, as `async def`, awaited."""


def is_pure(critic: object) -> bool:
    """Whether a critic is declared pure, by itself or by the class that has its `evaluate`: one is not inherited without
    the other."""
    own = getattr(critic, "__dict__", {})
    if "pure" in own:
        return own["pure"] is True
    for kind in type(critic).__mro__:
        if "pure" in vars(kind) or "evaluate" in vars(kind):
            return vars(kind).get("pure") is True
    return False


def name_of(critic: object) -> str:
    """The critic's own name, else that of its class; raises CriticError for what cannot judge."""
    if isinstance(critic, type):
        raise CriticError(
            f"{critic.__name__} is a class, not a critic", remedy=f"pass {critic.__name__}(...)"
        )
    if not callable(getattr(critic, "evaluate", None)):
        remedy = (
            "decorate a function with @critic"
            if callable(critic)
            else "give it evaluate(state, decision, results)"
        )
        raise CriticError(f"{critic!r} has no evaluate method, so it cannot judge", remedy=remedy)
    name = getattr(critic, "name", None) or type(critic).__name__
    if not isinstance(name, str):
        raise CriticError(f"the name of a critic is a string, not {name!r}")
    return name
