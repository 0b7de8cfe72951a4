"""Hooks, which observe every stage of a run without affecting it.

    start · decide · act · reduce · critic · check_stop  (again for each step)  · end
                      └ tool, for each call · recovery, whenever something failed and is tried otherwise

An exception of a hook is kept and reported with the result; the run continues.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast

from tercet.contracts.errors import UsageError
from tercet.critic.pluggable.chain import ChainVerdict
from tercet.critic.pluggable.stop import StopReason
from tercet.critics.decision import Decision

Stage = Literal["start", "decide", "act", "tool", "recovery", "reduce", "critic", "check_stop", "end"]
"""The part of a run that a hook is called before or after."""
When = Literal["before", "after"]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call of a tool, at the stage `tool`."""

    step: str
    """The id of the step in the journal, such as `t2`."""
    tool: str
    args: dict[str, Any]
    attempt: int
    result: dict[str, Any] | None = None
    """None before the call. With an `error` if it failed; `blob` names a large result, which the step's results hold."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What the run does after a failure, at the stage `recovery`."""

    kind: Literal["decide", "retry", "resume", "compensate"]
    """The agent decides again; a call is made again; another process goes on; an effect is compensated."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The stage of a run when a hook is called; values that are not known yet are None."""

    run_id: str = ""
    step: int = 0
    state: Any = None
    """The state itself, not a copy: do not change it."""
    decision: Decision | None = None
    results: tuple[dict[str, Any], ...] = ()
    verdict: ChainVerdict | None = None
    stop_reason: StopReason | None = None
    prompt: str = ""
    call: ToolCall | None = None
    recovery: Recovery | None = None


class Hook:
    """A hook that does nothing: override one method or both, plain or async."""

    def before(self, stage: Stage, moment: Moment) -> Awaitable[None] | None:
        """A stage is about to begin."""

    def after(self, stage: Stage, moment: Moment) -> Awaitable[None] | None:
        """A stage has ended."""


class Before(Protocol):
    """An object with a `before` method."""

    def before(self, stage: Stage, moment: Moment, /) -> Any:
        """A stage is about to begin."""
        ...


class After(Protocol):
    """An object with an `after` method."""

    def after(self, stage: Stage, moment: Moment, /) -> Any:
        """A stage has ended."""
        ...


AnyHook: TypeAlias = Hook | Before | After | Callable[[Stage, Moment], Any]
"""An object with one of the methods, or a function that is called after each stage."""


@dataclass(frozen=True, kw_only=True)
class HookError:
    """A hook that raised: which one, where, and what."""

    hook: str
    stage: Stage
    when: When
    error: str


Told: TypeAlias = Callable[[Stage, Moment], Any]


@dataclass(frozen=True, kw_only=True)
class _Listener:
    name: str
    before: Told | None
    after: Told | None


@dataclass
class Hooks:
    """The hooks of one run, and their errors."""

    hooks: tuple[_Listener, ...]
    errors: list[HookError] = field(default_factory=list[HookError])
    _late: list[tuple[HookError, Awaitable[Any]]] = field(
        default_factory=list[tuple[HookError, Awaitable[Any]]]
    )
    """Pending work of async hooks that were called from synchronous code."""

    @classmethod
    def of(cls, hooks: Iterable[object]) -> Hooks:
        """Return the hooks; raise `UsageError` for an invalid one."""
        return cls(tuple(_listener(hook) for hook in hooks))

    def again(self) -> Hooks:
        """Return the same hooks for another run."""
        return Hooks(self.hooks)

    async def tell(self, when: When, stage: Stage, moment: Moment) -> None:
        """Call each hook in turn, and wait for it."""
        self.mention(when, stage, moment)
        await self.settle()

    def mention(self, when: When, stage: Stage, moment: Moment) -> None:
        """Call each hook in turn; awaitables are awaited by `settle`."""
        for hook in self.hooks:
            method = hook.before if when == "before" else hook.after
            if method is None:
                continue
            place = HookError(hook=hook.name, stage=stage, when=when, error="")
            try:
                returned = method(stage, moment)
            except Exception as error:  # noqa: BLE001 - a hook is user code and must not affect the run
                self._failed(place, error)
            else:
                if inspect.isawaitable(returned):
                    self._late.append((place, returned))

    async def settle(self) -> None:
        """Wait for pending async hooks."""
        while self._late:
            place, returned = self._late.pop(0)
            try:
                await returned
            except Exception as error:  # noqa: BLE001 - see above
                self._failed(place, error)

    def _failed(self, place: HookError, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        self.errors.append(HookError(hook=place.hook, stage=place.stage, when=place.when, error=said))


def _listener(hook: object) -> _Listener:
    before, after = getattr(hook, "before", None), getattr(hook, "after", None)
    is_class = isinstance(hook, type)
    if not is_class and (callable(before) or callable(after)):
        return _Listener(
            name=type(hook).__name__,
            before=cast("Told", before) if callable(before) else None,
            after=cast("Told", after) if callable(after) else None,
        )
    if not is_class and callable(hook):
        return _Listener(name=getattr(hook, "__name__", type(hook).__name__), before=None, after=hook)
    raise UsageError(
        f"{hook!r} is not a hook",
        code="hook_invalid",
        remedy="give an object with before(stage, moment) or after(stage, moment), or a function of both",
    )
