"""The critic interface: a subclass of Critic, a function decorated with `@critic`, or any object with `evaluate`."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, cast, overload

from tercet.critic.pluggable.errors import CriticError
from tercet.critic.pluggable.result import CriticResult
from tercet.critic.pluggable.shorthand import CriticReturn, check_default_score, settle

ToolResults = Sequence[dict[str, Any]]
"""The results of the step's tools, in call order; a failure has a truthy "error"."""


class Evaluates(Protocol):
    """The one method of a critic.

    Promised: `state` after the step, the `decision` that led there, and the results as dicts. It may write to
    `state.metadata`; all other changes are lost when a step is retried. Not promised: that it is called for every step,
    since an earlier critic may have decided already. The chain contains what it raises.
    """

    def evaluate(
        self, state: Any, decision: Any, results: ToolResults, /
    ) -> CriticReturn | Awaitable[CriticReturn]:
        """Judge one step, synchronously or as an awaitable."""
        ...


class _ClassName:
    """Returns the name of the class it is read from, until a class or an instance sets its own."""

    def __get__(self, instance: object, owner: type) -> str:
        return owner.__name__


class Critic(ABC):
    """A critic written as a class; its name is the class name unless it sets `name`."""

    # A property would forbid `self.name = ...`, and a value set per subclass would be inherited by the next one.
    name: str = cast("str", _ClassName())
    pure: bool = False
    """Whether its result depends only on the state, the decision and the results, and it changes nothing but
    `state.metadata`: then a replay may ask it again. A subclass that overrides `evaluate` must declare it again."""

    @abstractmethod
    def evaluate(
        self, state: Any, decision: Any, results: ToolResults
    ) -> CriticReturn | Awaitable[CriticReturn]:
        """Judge one step, synchronously or as `async def`."""


def is_pure(critic: object) -> bool:
    """Return whether a critic is declared pure, by itself or by the class that defines its `evaluate`: neither is
    inherited without the other.
    """
    own = getattr(critic, "__dict__", {})
    if "pure" in own:
        return own["pure"] is True
    for kind in type(critic).__mro__:
        if "pure" in vars(kind) or "evaluate" in vars(kind):
            return vars(kind).get("pure") is True
    return False


def name_of(critic: object) -> str:
    """Return the critic's own name, else that of its class; raise CriticError for an object that is not a critic."""
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


CriticFunction = Callable[[Any, Any, Any], CriticReturn | Awaitable[CriticReturn]]
"""A function of (state, decision, results), plain or async."""


class FunctionCritic(Critic):
    """A critic that wraps a function, and can still be called as that function."""

    def __init__(self, function: CriticFunction, *, name: str | None, score: float, pure: bool) -> None:
        if not callable(function) or isinstance(function, type):
            raise CriticError(
                f"@critic decorates a function, not {function!r}",
                remedy="write @critic, or @critic(name=..., score=...); a class derives from Critic instead",
            )
        functools.update_wrapper(self, function)
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.default_score = check_default_score(score)
        self.pure = pure
        self._function = function

    def __call__(self, state: Any, decision: Any, results: ToolResults) -> Any:
        """Return the function's own result, unchecked."""
        return self._function(state, decision, results)

    def evaluate(self, state: Any, decision: Any, results: ToolResults) -> Any:
        """Return a checked CriticResult, or for an async function an awaitable of one."""
        returned = self._function(state, decision, results)
        return self._settle_later(returned) if inspect.isawaitable(returned) else self._settle(returned)

    def _settle(self, returned: object) -> CriticResult:
        return settle(returned, critic=self.name, default_score=self.default_score)

    async def _settle_later(self, returned: Awaitable[object]) -> CriticResult:
        return self._settle(await returned)

    def __repr__(self) -> str:
        return f"<critic {self.name!r}>"


@overload
def critic(function: CriticFunction, /) -> FunctionCritic: ...
@overload
def critic(
    *, name: str | None = None, score: float = 1.0, pure: bool = False
) -> Callable[[CriticFunction], FunctionCritic]: ...
def critic(
    function: CriticFunction | None = None,
    /,
    *,
    name: str | None = None,
    score: float = 1.0,
    pure: bool = False,
) -> FunctionCritic | Callable[[CriticFunction], FunctionCritic]:
    """Make a critic of a function of (state, decision, results), plain or async.

    Bare, it takes the function's name and the default score 1.0; `@critic(name=..., score=...)` sets its own.
    The default score counts only where the function gives none. `pure` says that the result follows from the arguments
    alone, and that nothing but `state.metadata` is changed: then a replay may ask it again.
    """
    if function is None:
        check_default_score(score)
        return functools.partial(FunctionCritic, name=name, score=score, pure=pure)
    return FunctionCritic(function, name=name, score=score, pure=pure)
