"""`@critic` makes a critic of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, overload

from tercet.critic.pluggable.critic import Critic, ToolResults
from tercet.critic.pluggable.errors import CriticError
from tercet.critic.pluggable.result import CriticResult
from tercet.critic.pluggable.shorthand import CriticReturn, check_default_score, settle

CriticFunction = Callable[[Any, Any, Any], CriticReturn | Awaitable[CriticReturn]]
"""A function of (state, decision, results), plain or async."""


class FunctionCritic(Critic):
    """A critic that asks a function, and still can be called as that function."""

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
        """What the function itself returns, unchecked."""
        return self._function(state, decision, results)

    def evaluate(self, state: Any, decision: Any, results: ToolResults) -> Any:
        """A checked CriticResult, or for an async function an awaitable of one."""
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
