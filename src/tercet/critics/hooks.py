"""Hooks, which observe every stage of a run without affecting it, and the interface of an agent.

    start · decide · act · reduce · critic · check_stop  (again for each step)  · end

An exception of a hook is kept and reported with the result; the run continues.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast

from tercet.contracts.errors import UsageError
from tercet.critic.pluggable.chain import ChainVerdict
from tercet.critic.pluggable.stop import StopReason
from tercet.critics.decision import Decision
from tercet.tools import Tool

Stage = Literal["start", "decide", "act", "reduce", "critic", "check_stop", "end"]
"""The part of a run that a hook is called before or after."""
When = Literal["before", "after"]


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


METHODS = ("init_state", "decide", "reduce")


class Agent(Protocol):
    """An agent that decides one step at a time.

    Each method may be plain or async. `decide` may also be a generator function that yields `Question`s and is sent
    `Reply`s: then each call of a model is recorded and paid from the budget, and is not repeated after a crash.
    Promised: one call at a time, and `system_prompt` with the critics' patches while `decide` runs. Not promised: that
    `decide` is called for every step. A resumed run passes the recorded decisions and results to `reduce`, so
    `init_state` and `reduce` must produce the same state each time, and `decide` must not change it.
    """

    @property
    def tools(self) -> Sequence[Tool | str]:
        """The tools that it may call, or their names if a pack has them."""
        ...

    @property
    def system_prompt(self) -> str:
        """The system prompt; while a critic's patch is active, it is set here."""
        ...

    def init_state(self, task: Any, /) -> Any:
        """Return the initial state: any object that can be copied, with a dict `metadata` that critics write to."""
        ...

    def decide(self, state: Any, /) -> Any:
        """Return the next decision: a `Decision`, a dict, or an object with the same fields."""
        ...

    def reduce(self, state: Any, decision: Any, results: Any, /) -> Any:
        """Apply the results of a decision: return the new state, or change it and return None."""
        ...


def demand_agent(agent: object) -> None:
    """Raise `UsageError` for an object that is not an agent."""
    if isinstance(agent, type):
        raise _unfit(f"{agent.__name__} is a class, not an agent", f"pass {agent.__name__}(…)")
    for name in METHODS:
        if not callable(getattr(agent, name, None)):
            raise _unfit(f"{_name(agent)} has no method {name}", f"an agent has {', '.join(METHODS)}")
    if inspect.isasyncgenfunction(getattr(agent, "decide")):  # noqa: B009 - `agent` may have any type
        raise _unfit(
            f"{_name(agent)}.decide is an async generator",
            "yield questions from a plain generator, or await the model in an async function",
        )
    if not isinstance(getattr(agent, "system_prompt", None), str):
        raise _unfit(f"{_name(agent)} has no system_prompt", 'give it a string, be it ""')
    tools = getattr(agent, "tools", None)
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise _unfit(f"{_name(agent)} has no list of tools", "give it tools = […], be it empty")


def asks_models(agent: Agent) -> bool:
    """Return whether `decide` yields questions to language models."""
    return inspect.isgeneratorfunction(agent.decide)


async def settled(returned: Any) -> Any:
    """Return the result of user code, awaited if necessary."""
    return await returned if inspect.isawaitable(returned) else returned


@contextmanager
def prompted(agent: Agent, prompt: str | None) -> Generator[None, None, None]:
    """Set another system prompt on the agent, and restore its own afterwards."""
    if prompt is None:
        yield
        return
    own = agent.system_prompt
    is_shared = "system_prompt" not in getattr(agent, "__dict__", {"system_prompt": own})
    try:
        setattr(agent, "system_prompt", prompt)  # noqa: B010 - `agent` may have any type
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"the system prompt of {_name(agent)} cannot be set: {error}",
            code="prompt_fixed",
            remedy="make system_prompt an attribute that can be assigned, or use critics that patch no prompt",
        ) from error
    try:
        yield
    finally:
        if is_shared and "system_prompt" in getattr(agent, "__dict__", {}):
            delattr(agent, "system_prompt")  # the class attribute applies again
        else:
            setattr(agent, "system_prompt", own)  # noqa: B010 - `agent` may have any type


def _name(agent: object) -> str:
    return type(agent).__name__


def _unfit(message: str, remedy: str) -> UsageError:
    return UsageError(message, code="agent_invalid", remedy=remedy)
