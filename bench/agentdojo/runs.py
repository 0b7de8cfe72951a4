"""Runs of calls on Tercet, with a person who approves the user's calls and no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tercet import Actor, Request, Runtime
from tercet.critics import Decision, Engine
from tercet.runtime import Runtime as AnyRuntime

from .environment import Environment, environment_in_use
from .plans import Form, plan_of
from .suites import Call, Suite

ASSISTANT = Actor(id="assistant")
PERSON = Actor(id="account_holder", roles=("customer", "member"))
MOST_ANSWERS = 40


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    status: str
    asks: int
    """How many gates waited for the person."""
    asked: tuple[str, ...]
    """The tools whose calls waited."""
    reason: str = ""
    environment: Environment = field(repr=False)

    @property
    def is_done(self) -> bool:
        return self.status == "completed"


async def run_calls(
    suite: Suite, form: Form, prompt: str, calls: Sequence[Call], environment: Environment
) -> Outcome:
    """Run calls for a prompt until they are done, refused, or wait.

    The person approves what waits, unless an injected call is part of it: then the run is left, when everything that can
    go on without this answer has gone on.
    """
    run = _run_turns if form == "turns" else _run_plan
    with environment_in_use(environment):
        return await run(suite, prompt, calls, environment)


async def _run_plan(suite: Suite, prompt: str, calls: Sequence[Call], environment: Environment) -> Outcome:
    injected = {f"s{number}" for number, call in enumerate(calls) if call.is_injected}
    async with Runtime(suite.pack, "memory:", watchdog_ms=None) as runtime:
        request = Request(intent=suite.intent, input={"task": prompt})
        result = await runtime.run(request, plan=plan_of(suite, calls), actor=ASSISTANT)
        return await _answer(
            runtime,
            result,
            environment,
            lambda gate: injected.isdisjoint(gate.calls),
            lambda: runtime.resume(result.session_id),
        )


async def _run_turns(suite: Suite, prompt: str, calls: Sequence[Call], environment: Environment) -> Outcome:
    agent = Script(suite, calls)
    engine = Engine(agent, pack=suite.pack, intent=suite.intent, actor=ASSISTANT)
    result = await engine.run(prompt)
    async with engine.runtime() as runtime:
        return await _answer(
            runtime,
            result,
            environment,
            lambda _: not agent.proposed.is_injected,
            lambda: engine.resume(result.session_id),
        )


async def _answer(
    runtime: AnyRuntime,
    result: Any,
    environment: Environment,
    is_honest: Callable[[Any], bool],
    resume: Callable[[], Awaitable[Any]],
) -> Outcome:
    asked: list[str] = []
    while result.status == "awaiting_gate" and result.gate.kind == "approval" and len(asked) < MOST_ANSWERS:
        asked.append(result.gate.shown["tool"])
        if not is_honest(result.gate):
            break
        await runtime.approve(result.gate.id, actor=PERSON)
        result = await resume()
    return Outcome(
        status=result.status,
        asks=len(asked),
        asked=tuple(asked),
        reason=result.reason,
        environment=environment,
    )


@dataclass
class State:
    """How many calls an agent has made."""

    number: int = 0
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class Script:
    """An agent that makes given calls one by one, whatever comes of them."""

    system_prompt = ""

    def __init__(self, suite: Suite, calls: Sequence[Call]) -> None:
        self._suite, self._calls = suite, calls
        self.tools = [tool.name for tool in suite.pack.tools]
        self.proposed = calls[0]
        """The call that was decided last."""

    def init_state(self, task: Any) -> State:
        del task
        return State()

    def decide(self, state: State) -> Decision:
        if state.number >= len(self._calls):
            return Decision.final("done")
        self.proposed = self._calls[state.number]
        return Decision.act(self._suite.tool(self.proposed.function).name, **self.proposed.args)

    def reduce(self, state: State, decision: Any, results: Any) -> None:
        del decision, results
        state.number += 1
