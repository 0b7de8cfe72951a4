"""The attributes of events in spans and logs: names, counts, sizes and codes, but no values.

Parameters, results, outputs, reasons, notes, prompts, answers and people's names stay in the journal, at the position
`tercet.seq`. Hashes of parameters are left out too: the account number behind a hash is found by trying all of them.
Names for calls of models and tools are those of OpenTelemetry's conventions for generative AI.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeAlias

import msgspec

from tercet.core import events as e
from tercet.core.state import State

Value: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

REQUEST_MODEL = "gen_ai.request.model"
UNUSABLE = "unusable_result"
_MOST_NAMES = 20
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_LONGEST = 80
_TOLD = frozenset(
    {"attempt", "how", "code", "outcome", "kind", "answer", "action", "turn", "count", "iterations", "step",
     "gate", "epoch", "steps", "policy", "reconciled", "latency", "tokens", "cost"}
)  # fmt: skip
"""The fields of events that are exported unchanged: numbers, and names of the runtime or the pack."""


def short(name: str) -> str:
    """Return a name of a plan or a tool, cut to the longest allowed name."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def word(code: str) -> str:
    """Return a code, which may come from a tool; empty for other text."""
    return code if _WORD.fullmatch(code) else "other"


def action_of(event: e.Event) -> str:
    """Return the action of an event."""
    return str(type(event).__struct_config__.tag).lower()


def of_start(start: e.SessionStarted) -> Attributes:
    """Return the attributes of a run at its start."""
    name, _, version = str(start.pack).partition("@")
    attrs: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.agent.version": version,
        "gen_ai.conversation.id": start.session,
        "tercet.run": start.run,
        "tercet.session": start.session,
        "tercet.tenant": start.tenant,
        "tercet.intent": start.request["intent"],
        "tercet.decision": start.decision,
        "tercet.pack": start.pack,
        "tercet.pack.hash": start.pack_hash,
        "tercet.safety_mode": start.safety_mode,
    }
    for field in ("risk_tier", "planner", "shadow", "depth"):
        if value := getattr(start, field):
            attrs[f"tercet.{field}"] = value
    return attrs


def of_end(state: State) -> Attributes:
    """Return the attributes of a run at its end."""
    used = state.used
    return {
        "tercet.status": state.status,
        "tercet.steps": len(state.steps),
        "tercet.tool_calls": used.tool_calls,
        "tercet.tokens": used.tokens,
        "tercet.cost_microcents": used.cost,
        "tercet.retries": used.retries,
        "tercet.replans": used.replans,
        "tercet.working_ms": used.wall_clock,
    }


def of_phase_end(event: e.PlanReviewed | e.RunReported | e.EvidenceRetrieved | e.Decomposed) -> Attributes:
    """Return the attributes of a phase at its end."""
    match event:
        case e.PlanReviewed():
            verdict = event.verdict
            words = {name: verdict.get(name) for name in ("outcome", "kind", "code")}
            return {f"tercet.verdict.{name}": str(word) for name, word in words.items() if word}
        case e.RunReported():
            return {"tercet.verdict.outcome": event.outcome}
        case e.EvidenceRetrieved():
            return {"tercet.evidence": len(event.evidence), "tercet.cost_microcents": event.cost}
        case e.Decomposed():
            return {"tercet.steps": event.steps}


def of_intent(event: e.Intent, position: int) -> Attributes:
    """Return the attributes of a call at its start."""
    names = tuple(short(name) for name in sorted(event.params)[:_MOST_NAMES])
    attrs: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.tool,
        "tercet.attempt": event.attempt,
        "tercet.seq": position,
        "tercet.params": names,
        "tercet.params.bytes": _size(event.params),
    }
    return attrs if event.breaker == "CLOSED" else {**attrs, "tercet.breaker": event.breaker}


def of_complete(event: e.Complete) -> Attributes:
    """Return the attributes of a completed call."""
    attrs: Attributes = {"tercet.outcome": "done"}
    if event.cost:
        attrs["tercet.cost_microcents"] = event.cost
    if event.tokens:
        attrs["tercet.tokens"] = event.tokens
    # The size of a blob is not looked up.
    return attrs if event.blob else {**attrs, "tercet.result.bytes": _size(event.value)}


def of_abort(event: e.Abort) -> Attributes:
    """Return the attributes of a call that did not happen, or whose outcome is unknown."""
    return {"tercet.outcome": event.outcome, "tercet.retriable": event.retriable}


def of_gate(event: e.GateOpened) -> Attributes:
    """Return the attributes of a gate."""
    attrs: Attributes = {
        "tercet.gate": event.gate,
        "tercet.gate.kind": event.kind,
        "tercet.gate.names": event.names,
    }
    if event.step:
        attrs["tercet.step"] = short(event.step)
    return attrs


def of_question(event: e.ModelAsked) -> Attributes:
    """Return the attributes of a request to a model, without the address of a private server."""
    provider, colon, name = event.model.partition(":")
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider if colon else "tercet",
        REQUEST_MODEL: (name if colon else provider).partition("@")[0],
        "tercet.purpose": event.purpose,
        "tercet.attempt": event.attempt,
        "tercet.tokens.reserved": event.tokens,
    }


def of_answer(event: e.ModelAnswered) -> Attributes:
    """Return the attributes of a model's answer."""
    attrs: Attributes = {
        "gen_ai.usage.input_tokens": event.tokens_in,
        "gen_ai.usage.output_tokens": event.tokens_out,
        "tercet.cost_microcents": event.cost,
    }
    if not event.code:
        attrs["gen_ai.response.finish_reasons"] = ("length" if event.cut else "stop",)
    if event.model:
        attrs["gen_ai.response.model"] = event.model.partition(":")[2].partition("@")[0] or event.model
    return attrs


def of_moment(event: e.Event) -> Attributes:
    """Return the attributes of any other event."""
    return {f"tercet.{name}": value for name, value in facts_of(event).items()}


def facts_of(event: e.Event) -> dict[str, str | int | float]:
    """Return the exported fields of any event by name."""
    found: dict[str, str | int | float] = {}
    for name in _exported_fields(type(event)):
        value = getattr(event, name)
        if not value:
            continue
        if isinstance(value, str):
            value = word(value) if name == "code" else short(value)
        found[name] = value
    if isinstance(event, e.SessionResumed):
        found["recovered"] = len(event.in_flight)
    return found


@cache
def _exported_fields(kind: type[e.Event]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name in _TOLD)


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))
