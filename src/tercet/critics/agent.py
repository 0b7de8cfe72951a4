"""What an agent is to the Engine, and how its code is called."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from tercet.contracts.errors import UsageError
from tercet.tools import Tool

METHODS = ("init_state", "decide", "reduce")


class Agent(Protocol):
    """An agent that decides one step at a time.

    Each method may be plain or async. `decide` may also be a generator function that yields `Question`s and is sent
    `Reply`s: then each call of a model is recorded and paid from the budget, and is not made again after a crash.
    Promised: one call at a time, and `system_prompt` as the critics want it while `decide` is at work.
    Not promised: that `decide` is called for every step. A run that is taken up again hands the recorded decisions and
    results to `reduce`, so `init_state` and `reduce` must come to the same state each time, and `decide` changes none.
    """

    @property
    def tools(self) -> Sequence[Tool | str]:
        """What it may call: tools, or their names where a pack has them."""
        ...

    @property
    def system_prompt(self) -> str:
        """What it is told before anything else; a critic's patch stands here while it lasts."""
        ...

    def init_state(self, task: Any, /) -> Any:
        """The state to begin with: any object that can be copied, with a dict `metadata` that critics write to."""
        ...

    def decide(self, state: Any, /) -> Any:
        """What to do next: a `Decision`, a dict, or an object with the fields of one."""
        ...

    def reduce(self, state: Any, decision: Any, results: Any, /) -> Any:
        """Take in what a decision brought: return the new state, or change it and return None."""
        ...


def demand_agent(agent: object) -> None:
    """Raises `UsageError` for what cannot be an agent."""
    if isinstance(agent, type):
        raise _unfit(f"{agent.__name__} is a class, not an agent", f"pass {agent.__name__}(…)")
    for name in METHODS:
        if not callable(getattr(agent, name, None)):
            raise _unfit(f"{_name(agent)} has no method {name}", f"an agent has {', '.join(METHODS)}")
    if inspect.isasyncgenfunction(getattr(agent, "decide")):  # noqa: B009 - `agent` is anybody's type
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
    """Whether `decide` yields questions to language models."""
    return inspect.isgeneratorfunction(agent.decide)


async def settled(returned: Any) -> Any:
    """What a call of somebody's code comes to, awaited where it must be."""
    return await returned if inspect.isawaitable(returned) else returned


@contextmanager
def prompted(agent: Agent, prompt: str | None) -> Generator[None, None, None]:
    """The agent with another system prompt, and with its own again afterwards."""
    if prompt is None:
        yield
        return
    own = agent.system_prompt
    is_shared = "system_prompt" not in getattr(agent, "__dict__", {"system_prompt": own})
    try:
        setattr(agent, "system_prompt", prompt)  # noqa: B010 - `agent` is anybody's type
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
            delattr(agent, "system_prompt")  # it is the class's again
        else:
            setattr(agent, "system_prompt", own)  # noqa: B010 - `agent` is anybody's type


def _name(agent: object) -> str:
    return type(agent).__name__


def _unfit(message: str, remedy: str) -> UsageError:
    return UsageError(message, code="agent_invalid", remedy=remedy)
