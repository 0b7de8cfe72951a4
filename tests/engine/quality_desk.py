"""A desk at which outputs are judged and mended: a tool that drafts what a test says, rules, models, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.plan import Plan
from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import Question
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.outputs.rounds import rank, round_of
from tercet.core.state import Round, State
from tercet.engine.result import RunResult
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.testing.models import Line, ScriptedModel
from tercet.tools import ToolContext

from .workshop import ADA, ASK, BOB, Behave, Workshop, events, plan, step

EventT = TypeVar("EventT", bound=e.Event)

FACT = Evidence(
    id="kg:order:881#snapshot_s1",
    trust=Trust.TRUSTED,
    source="orders",
    content={"order_id": "ord_881", "total": 245, "currency": "EUR", "shipped_on": "2026-05-04"},
)
GOOD = "Order ord_881 was shipped on 2026-05-04. Its total is 245 EUR."
"""A text whose values are all known, each in its role."""
WRONG = "Order ord_881 was shipped on 2026-05-04. Its total is 999 EUR."
"""One whose total is another."""
KEY = "sk_live_4f9a8b7c6d5e4f3a2b1c"
LEAKY = f"{GOOD} Sign in with {KEY} if needed."
"""One with a key in it, which a rule redacts."""

BAD_TONE: JsonObject = {
    "score": 0.2,
    "defects": [{"quote": "", "problem": "the tone is curt", "hint": "thank them"}],
}
FINE_TONE: JsonObject = {"score": 1.0, "defects": []}
TONE: JsonObject = {
    "dimensions": [
        {"name": "tone", "weight": 0.6, "minimum": 0.8, "scorer": "model", "question": "Is it kind?"},
        {"name": "safety", "weight": 0.4, "minimum": 0.95, "scorer": "safe"},
    ]
}
"""A rubric that asks a model about the tone."""
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"letter": {"type": "string"}, "language": {"enum": ["en", "de"]}},
    "required": ["letter"],
}
VALUES: tuple[JsonObject, ...] = (
    {"name": "order_id", "from": "order#/order_id", "type": "identifier", "labels": {"en": ["order"]}},
    {
        "name": "total",
        "from": "order#/total",
        "type": "money",
        "currency": "EUR",
        "labels": {"en": ["total"]},
    },
    {"name": "shipped_on", "from": "order#/shipped_on", "type": "date", "labels": {"en": ["shipped"]}},
)
"""What letters about the order may state."""
THRESHOLDS = ({"name": "schema"}, {"name": "policy"}, {"name": "safety"})


def drafting(*outputs: JsonObject) -> Behave:
    """A tool that brings one draft after the other, and the last one again and again."""
    left = list(outputs)

    async def draft(_: ToolContext, __: dict[str, Any]) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return draft


def desk(workshop: Workshop, *drafts: JsonObject, quality: JsonObject | None = None, **header: Any) -> Pack:
    """A pack whose decision is judged by these rules; what its tool drafts is the output."""
    workshop.tool("do.it", drafting(*drafts), mode="read_only")
    decision: JsonObject = {
        "outputs_schema": SCHEMA,
        "required_outputs": ("letter",),
        "description": "Tell the customer about the order.",
        "quality": {"task_class": "letter", "values": VALUES, **(quality or {})},
        **header.pop("decision", {}),
    }
    return workshop.pack(decision=decision, **{"evidence": (FACT,), **header})


AUTHORED: JsonObject = {
    "documents": [
        {
            "output": "letter",
            "template": "Order {{ order_id }} was shipped on {{ shipped_on }}. Its total is {{ total }}.",
        }
    ]
}
"""Rules by which the pack renders the letter in the words of its author, for which nobody else has to vouch."""
LETTER = "Order ord_881 was shipped on May 4, 2026. Its total is €245.00."
"""What that comes to."""
WRITE: Plan = plan(step("draft"), outputs={"letter": {"$from": "draft#/letter"}})
"""A plan whose output is what the tool drafted."""


def model(*answers: Line, name: str = "scripted:model", logprob: float | None = None) -> ScriptedModel:
    """A model with this script, which costs something."""
    prices = TokenPrices.model_validate({"input": 1, "output": 2})
    return ScriptedModel(name, answers=answers, prices=prices, logprob=logprob)


def rewritten(text: str) -> JsonObject:
    """An answer to a question for a replacement: a text, or all outputs."""
    return {"replacement": text}


def whole(text: str) -> JsonObject:
    """An answer that makes everything anew."""
    return {"replacement": {"letter": text}}


def mended(text: str) -> Any:
    """A line that answers whatever part is asked for: the text, or the whole document with it."""

    def answer(question: Question) -> JsonObject:
        schema = question.answer_schema or {}
        kind = schema["properties"]["replacement"].get("type")
        return whole(text) if kind == "object" else rewritten(text)

    return answer


def told(question: Question) -> str:
    """All that a model was told."""
    return "\n".join((question.system, *(message.text for message in question.messages)))


def of(kind: type[EventT], found: Iterable[e.Event]) -> list[EventT]:
    """The events of one type."""
    return [event for event in found if isinstance(event, kind)]


def last(kind: type[EventT], found: Iterable[e.Event]) -> EventT:
    """The last event of one type."""
    return of(kind, found)[-1]


_LOOP = (
    e.OutputsProduced, e.SamplesDrawn, e.TestsRun, e.OutputsVerified, e.OutputsAttacked, e.OutputsCritiqued,
    e.EvidenceFetched, e.OutputsRepaired, e.RunReported, e.GateOpened, e.GateAnswered,
)  # fmt: skip


def way(found: Iterable[e.Event]) -> list[str]:
    """The way that outputs went, in a word for each event about them. That a person accepted words which only people can
    vouch for is left out: it is so in every run of this desk."""
    seen = list(found)
    accepted = {
        event.gate for event in seen if isinstance(event, e.GateOpened) and is_only_unjudged(event.shown)
    }
    told = (event for event in seen if getattr(event, "gate", None) not in accepted)
    return [_word(event) for event in told if isinstance(event, _LOOP)]


def is_only_unjudged(shown: JsonObject) -> bool:
    """Whether a person is asked about outputs for no other reason than that nothing vouches for their words."""
    return shown.get("exit", {}).get("triggers") == ["unjudged"] and shown["exit"]["needs_approval"]


def _word(event: e.Event) -> str:
    tag = str(type(event).__struct_config__.tag)
    match event:
        case e.OutputsVerified() | e.OutputsCritiqued():
            return f"{tag}: {event.next}"
        case e.RunReported() if event.outcome == "ask" and is_only_unjudged({"exit": event.exit}):
            return f"{tag}: accept"
        case e.RunReported() | e.OutputsRepaired():
            return f"{tag}: {event.outcome}"
        case e.GateOpened():
            return f"{tag}: {event.kind}"
        case e.GateAnswered():
            return f"{tag}: {event.answer}"
        case _:
            return tag


def phases(found: Iterable[e.Event]) -> list[str]:
    """The phases that a run went through."""
    state = State()
    seen = [str(state.phase)]
    for event in found:
        state = fold_event(state, event)
        if seen[-1] != state.phase:
            seen.append(str(state.phase))
    return seen


async def demand_within_bounds(journal: Journal, session: str) -> tuple[State, list[e.Event]]:
    """What must hold of any run through the loop: budgets, bounds, and that nothing is kept for a call that is over."""
    found = await events(journal, session)
    state = State()
    for event in found:
        state = fold_event(state, event)
        used, budget = state.used, state.start.budget
        for name, amount in (
            ("tokens", used.tokens + used.reserved_tokens),
            ("cost_microcents", used.cost + used.reserved_cost),
            ("tool_calls", used.tool_calls),
            ("max_repairs", used.repairs),
            ("max_replans", used.replans),
        ):
            assert amount <= budget.get(name, amount), name
        assert state.iterations <= budget.get("max_iterations", 50) + 1
    assert (state.used.reserved_tokens, state.used.reserved_cost) == (0, 0)
    assert state.asking is None
    demand_best(found)
    return state, found


def demand_best(found: Iterable[e.Event]) -> None:
    """What must hold of outputs that are handed over: none that were judged before them, since they were produced or since
    a person spoke, are better."""
    state, rounds = State(), list[Round]()
    for event in found:
        before, state = state, fold_event(state, event)
        has_escalated = before.reason.startswith("escalated: ")
        if isinstance(event, e.OutputsProduced | e.SessionMigrated | e.GateAnswered) or has_escalated:
            rounds.clear()
        if isinstance(event, e.OutputsRepaired) and not before.quality.feedback:
            rounds.append(round_of(before))
        if isinstance(event, e.RunReported | e.GivenUp) and getattr(event, "outcome", "") not in (
            "accept",
            "ask",
        ):
            goes_by = Behaviour.BEST_HANDED_OVER in state.start.behaviour
            assert not goes_by or all(rank(each) <= rank(round_of(state)) for each in rounds)


@dataclass(frozen=True)
class Carried:
    """What became of a run."""

    result: RunResult
    found: list[e.Event]
    state: State

    @property
    def way(self) -> list[str]:
        """The way that the outputs went."""
        return way(self.found)


async def run_accepted(runtime: Runtime, **given: Any) -> RunResult:
    """Run a plan that writes, and let a person accept words that nothing vouches for."""
    given.setdefault("plan", WRITE)
    given.setdefault("actor", ADA)
    return await accept(runtime, await runtime.run(ASK, **given))


async def accept(runtime: Runtime, result: RunResult) -> RunResult:
    """Let a person accept outputs that wait only because nothing vouches for their words."""
    if result.gate is None or result.gate.kind != "output" or not is_only_unjudged(result.gate.shown):
        return result
    await runtime.approve(result.gate.id, actor=BOB)
    return await runtime.resume(result.session_id)


def carry(
    workshop: Workshop, pack: Pack, url: str = "memory:", *, accepts: bool = True, **given: Any
) -> Carried:
    """Run the pack's decision to its rest; `critics` and `repairers` are the runtime's, the rest is the run's.

    A person accepts words that nothing vouches for, unless `accepts` is false.
    """
    models = {name: given.pop(name) for name in ("critics", "repairers") if name in given}

    async def main() -> Carried:
        async with workshop.journal(url) as journal, workshop.runtime(pack, journal, **models) as runtime:
            asked: dict[str, Any] = given if "planner" in given else {"plan": WRITE, **given}
            result = await runtime.run(ASK, actor=ADA, **asked)
            if accepts:
                result = await accept(runtime, result)
            state, found = await demand_within_bounds(runtime.journal, result.session_id)
            assert state == await runtime.state(result.session_id)
            return Carried(result, found, state)

    return workshop.run(main())
