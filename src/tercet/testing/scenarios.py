"""Runs scenarios of a pack: the real critic, runtime and gates, with tools and models that answer from the scenario.

No tool is called unless the scenario names it under `real`, no language model is asked, no one is notified, the
journal is in memory, and time is virtual: retries and timeouts take none.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tercet.contracts.errors import NotDone, TercetError, UsageError
from tercet.contracts.packs.scenario import Answer, Expectation, Scenario, ToolResult
from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import ModelFault
from tercet.contracts.request import Actor, Request
from tercet.contracts.shape import JsonObject
from tercet.core.fold.base import answers_to
from tercet.core.state import OpenGate
from tercet.engine.lists import PendingGate
from tercet.packs import Pack
from tercet.packs.scenarios import LoadedScenario
from tercet.runtime import RunResult, Runtime, RuntimeOptions
from tercet.testing.clock import VirtualClock
from tercet.testing.models import ScriptedModel
from tercet.tools import Tool
from tercet.tools.tool import Unknown
from tercet.view.session import find_refusal

_SCRIPTED = "scripted"


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """Something that came out otherwise than expected."""

    field: str
    expected: Any
    actual: Any


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    """What came of one scenario."""

    file: str
    name: str
    status: str
    verdict: str
    code: str
    reason: str
    gates: tuple[str, ...]
    calls: tuple[str, ...]
    outputs: JsonObject
    mismatches: tuple[Mismatch, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether everything came out as expected."""
        return not self.mismatches


def run_scenario(pack: Pack, loaded: LoadedScenario) -> ScenarioResult:
    """Run one scenario, and compare what came of it with what it expects."""
    scenario = loaded.scenario
    began = time.monotonic()
    start_ms = round(scenario.now.timestamp() * 1_000) if scenario.now else round(time.time() * 1_000)
    clock = VirtualClock(start_ms)
    play = _Play(scenario=scenario)
    error: TercetError | None = None
    result: RunResult | None = None
    try:
        result = clock.run(_run(play, pack, loaded, clock))
    except TercetError as raised:
        error = raised
    verdict = None if result is None else result.verdict
    outcome = ScenarioResult(
        file=loaded.file,
        name=scenario.name,
        status="not started" if result is None else result.status,
        verdict=verdict.outcome if verdict else "",
        code=play.code or (verdict.code or "" if verdict else "" if error is None else error.code),
        reason=str(error) if error else result.reason if result else "",
        gates=tuple(play.gates),
        calls=tuple(play.calls),
        outputs={} if result is None else result.outputs,
        mismatches=(),
        seconds=time.monotonic() - began,
    )
    found = (*play.mismatches, *_compare(scenario.expect, outcome, play.waits_for))
    if error is not None and not found and scenario.expect.code != error.code:
        found = (Mismatch(field="run", expected="a run", actual=str(error)),)
    return replace(outcome, mismatches=found)


async def _run(play: _Play, pack: Pack, loaded: LoadedScenario, clock: VirtualClock) -> RunResult:
    scenario = loaded.scenario
    spec = pack.decision_for(scenario.intent or (loaded.plan.intent if loaded.plan else None))
    request = Request(intent=scenario.intent or (*spec.intents, spec.id)[0], input=scenario.input)
    options = RuntimeOptions(clock=clock, open_model=play.open_model, draw=lambda: 0.5)
    async with Runtime(play.stand_in(pack), watchdog_ms=None, options=options) as runtime:
        result = await runtime.run(
            request,
            plan=loaded.plan,
            planner="model" if scenario.script else scenario.planner,
            models=(_SCRIPTED,) if scenario.script else (),
            snapshot=scenario.snapshot,
            safety_mode=scenario.safety_mode,
            actor=Actor(id=scenario.actor),
        )
        ended = await play.answer_gates(runtime, result)
        state = await runtime.state(ended.session_id)
        refusal = find_refusal(state)
        play.code = refusal.code if refusal else ""
        play.waits_for = next((_missing_answer(gate) for gate in state.gates.values()), "")
        return ended


@dataclass(kw_only=True)
class _Play:
    """One scenario in progress: what was called, asked and answered so far."""

    scenario: Scenario
    calls: list[str] = field(default_factory=list[str])
    gates: list[str] = field(default_factory=list[str])
    mismatches: list[Mismatch] = field(default_factory=list[Mismatch])
    code: str = ""
    """The code of the refusal, if a call was refused at dispatch."""
    waits_for: str = ""
    """The gate at which it waits in the end, and the answer that is missing."""
    used: Counter[int] = field(default_factory=Counter[int])

    def stand_in(self, pack: Pack) -> Pack:
        """Return the pack with tools that answer from the scenario, and without notifications."""
        tools = tuple(self._stand_in_for(tool) for tool in pack.tools)
        return pack.model_copy(update={"tools": tools, "notify": None})

    def _stand_in_for(self, tool: Tool) -> Tool:
        if tool.name in self.scenario.real:
            return tool.model_copy(update={"call": self._counted(tool)})

        async def call(**params: Any) -> Any:
            return self._call(tool.name, params)

        async def look_up(**_: Any) -> Unknown:
            return Unknown("a scenario does not look calls up")

        update = {"call": call, "outside": None, "reconcile": look_up if tool.reconcile else None}
        return tool.model_copy(update=update)

    def _counted(self, tool: Tool) -> Any:
        """Return a real call that is also listed; it keeps the signature, by which the context is passed."""
        original = tool.call

        async def call(**params: Any) -> Any:
            self.calls.append(tool.name)
            result = original(**params)
            return await result if inspect.isawaitable(result) else result

        call.__wrapped__ = original  # type: ignore[attr-defined]
        call.__annotations__ = dict(getattr(original, "__annotations__", {}))
        return call

    def _call(self, tool: str, params: Mapping[str, Any]) -> Any:
        self.calls.append(tool)
        for number, result in enumerate(self.scenario.results):
            if result.tool == tool and _fits(result, params) and not self._is_spent(number, result):
                self.used[number] += 1
                return _answer_of(result)
        expected = f"a result for {tool} with these parameters"
        self.mismatches.append(Mismatch(field="results", expected=expected, actual=dict(params)))
        raise NotDone(f"the scenario has no result for {tool}", code="no_result", is_retriable=False)

    def _is_spent(self, number: int, result: ToolResult) -> bool:
        return result.times is not None and self.used[number] >= result.times

    def open_model(self, name: str, *, prices: TokenPrices | None = None) -> ScriptedModel:
        """Return the model of the script; any other model is not available in a scenario."""
        if name == _SCRIPTED:
            return ScriptedModel(answers=self.scenario.script, prices=prices)
        fault = ModelFault(f"a scenario does not ask {name}")
        return ScriptedModel(name, answers=iter(lambda: fault, None))

    async def answer_gates(self, runtime: Runtime, result: RunResult) -> RunResult:
        """Answer the gates of a run as the scenario says, until it is over or no answer fits."""
        left = list(self.scenario.answers)
        seen: set[str] = set()
        while result.gate is not None:  # an escalated session waits too
            gate = result.gate
            names = gate.names or (gate.kind,)
            if gate.id not in seen:
                seen.add(gate.id)
                self.gates += names
            answer = next((answer for answer in left if answer.gate in names), None)
            if answer is None:
                break
            left.remove(answer)
            if problem := await _find_ambiguity(runtime, gate):
                self.mismatches.append(
                    Mismatch(field="answers", expected="one open approval", actual=problem)
                )
                break
            if await self._give(runtime, gate.id, answer):
                result = await runtime.resume(result.session_id)
        for answer in left:
            asked = f"a question at {answer.gate}, which {answer.by} answers with {answer.answer}"
            self.mismatches.append(Mismatch(field="answers", expected=asked, actual="it was not asked"))
        return result

    async def _give(self, runtime: Runtime, gate: str, answer: Answer) -> bool:
        """Give an answer, and return whether it counts; one that must be refused is compared with its code."""
        try:
            await _answer(runtime, gate, answer)
        except UsageError as error:
            if error.code != answer.refused:
                said = f"{answer.by}: {answer.answer} at {answer.gate}"
                expected = f"{said}, refused with {answer.refused}" if answer.refused else said
                actual = f"refused with {error.code}: {error}"
                self.mismatches.append(Mismatch(field="answers", expected=expected, actual=actual))
            return False
        if answer.refused:
            expected = f"{answer.by} is refused with {answer.refused}"
            self.mismatches.append(Mismatch(field="answers", expected=expected, actual="the answer counts"))
        return True


async def _find_ambiguity(runtime: Runtime, gate: PendingGate) -> str:
    """Return the open approvals without a name if `approval` could mean more than one of them; else an empty text."""
    if gate.names or gate.kind != "approval":
        return ""
    state = await runtime.state(gate.session_id)
    steps = [each.step for each in state.gates.values() if each.kind == "approval" and not each.names]
    return f"{' and '.join(steps)} wait at once: give their tools gates with names" if len(steps) > 1 else ""


def _missing_answer(gate: OpenGate) -> str:
    """Return the step that waits at a gate, and the answer that a scenario would give."""
    name = next(iter((*gate.unmet, *gate.names)), "") or gate.kind
    options = gate.shown.get("options", answers_to(gate))
    said = "" if "approve" in options else f', answer = "{next(iter(options))}"'
    who = f"step {gate.step}" if gate.step else "the run"
    return f'{who} waits at {name}; to answer, write answers = [{{ gate = "{name}", by = "…"{said} }}]'


async def _answer(runtime: Runtime, gate: str, answer: Answer) -> None:
    actor = Actor(id=answer.by)
    match answer.answer:
        case "approve":
            await runtime.approve(gate, actor=actor, note=answer.note)
        case "deny":
            await runtime.deny(gate, actor=actor, note=answer.note)
        case "modify":
            await runtime.modify(gate, actor=actor, note=answer.note, changes=answer.changes)
        case "happened" | "did_not_happen" as said:
            happened = said == "happened"
            await runtime.settle(gate, happened=happened, value=answer.value, actor=actor, note=answer.note)
        case decision:
            await runtime.decide(gate, decision, actor=actor, note=answer.note, value=answer.value)


def _fits(result: ToolResult, params: Mapping[str, Any]) -> bool:
    return all(name in params and params[name] == value for name, value in result.params.items())


def _answer_of(result: ToolResult) -> Any:
    if result.outcome == "not_done":
        raise NotDone(result.error, is_retriable=False)
    if result.outcome == "unknown":
        raise ConnectionError(result.error)
    return result.value


def _compare(expect: Expectation, outcome: ScenarioResult, waits_for: str) -> Iterator[Mismatch]:
    for name in ("verdict", "code", "status", "gates", "calls"):
        expected = getattr(expect, name)
        actual = getattr(outcome, name)
        if expected is not None and expected != actual:
            shown = f"{actual}: {waits_for}" if actual == "awaiting_gate" and waits_for else actual
            yield Mismatch(field=name, expected=expected, actual=shown)
    for name, value in (expect.outputs or {}).items():
        if name not in outcome.outputs or outcome.outputs[name] != value:
            yield Mismatch(field=f"outputs.{name}", expected=value, actual=outcome.outputs.get(name))
    if expect.reason is not None and expect.reason not in outcome.reason:
        yield Mismatch(field="reason", expected=expect.reason, actual=outcome.reason)
