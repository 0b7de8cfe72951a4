"""`tercet plan`: proposing a plan for a request, reviewing and analysing it. No tool is called."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack, read_input
from tercet.cli.journals import StoreUrl, open_library
from tercet.cli.options import AsJson, Intent, PackFolder, RequestInput, SafetyMode, SnapshotName
from tercet.cli.run.case_view import (
    applied_rules,
    rules_json,
    show_frame,
    show_refusals,
    show_rules,
    show_verdict,
    show_warnings,
)
from tercet.cli.run.review import Case, case_for_input, review_in, run_config_for
from tercet.cli.run.run import Models, Planner
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions.session_json import schedule_json, time_text, waiting_rows
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import PlanFormat, print_plan
from tercet.contracts.question import ModelFault
from tercet.contracts.request import Request
from tercet.contracts.shape import JsonObject
from tercet.contracts.steps.conditions import effects_in, exposures
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.plans import read_plan
from tercet.core.state import State
from tercet.engine.evidence.library import Library
from tercet.engine.models.planners import ASKING, PLANNER_NAMES, TaskPlanner, pack_planner, usual_planner
from tercet.engine.preview import request_for
from tercet.engine.session_reader import load_history
from tercet.packs import Pack
from tercet.planner.flexibility import Flexibility, flexibility
from tercet.planner.partial_order import Arrangement, Link, Ordering, Threat, arrange
from tercet.planner.schedule import Schedule, schedule
from tercet.planner.sources import PlanningError
from tercet.runtime import Runtime
from tercet.view.terminal.text import count, duration_text, listed, printable
from tercet.view.text import amount_text

LARGEST = 10**15
"""The largest integer that every JSON reader represents exactly; larger numbers are given as logarithms."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed plan with its review, its causal links and its cost."""

    planner: str
    case: Case
    schedule: Schedule
    flexibility: Flexibility
    links: tuple[Link, ...]
    """Which step meets which precondition of another step."""
    added: tuple[Ordering, ...]
    """The orderings that the planner added to protect these links."""
    threats: tuple[Threat, ...]
    """The steps that could undo a condition between producer and consumer; the critic refuses such a plan."""
    cost: ModelCost | None = None
    """The cost of asking language models; None if none was asked."""

    @property
    def plan(self) -> Plan:
        """The proposed plan."""
        return self.case.plan

    def as_json(self) -> dict[str, Any]:
        """Return the plan in its published shape, which `tercet run --plan` accepts, and its analysis."""
        return {
            "plan": print_plan(self.plan, PlanFormat.NAMED),
            "plan_hash": self.plan.hash,
            "planner": self.planner,
            **({"cost": msgspec.structs.asdict(self.cost)} if self.cost else {}),
            "verify": self.case.verdict.published().model_dump(mode="json"),
            "verdict": self.case.verdict.model_dump(mode="json"),
            "analysis": {
                "order": [self.plan.steps[index].id for index in self.plan.graph.order],
                "schedule": schedule_json(self.schedule),
                "flexibility": _flexibility_json(self.flexibility),
                "links": [link._asdict() for link in self.links],
                "added": [ordering._asdict() for ordering in self.added],
                "threats": [{"step": threat.step, **threat.link._asdict()} for threat in self.threats],
                "hashes": {step.id: step.hash for step in self.plan.steps},
            },
        }


def propose(
    pack: Pack,
    *,
    intent: str | None,
    request_input: JsonObject,
    snapshot: str | None,
    safety_mode: ApprovalMode | None,
    planner: str,
    models: Sequence[str] = (),
    store: str = "",
) -> Proposal:
    """Ask a planner for a plan and let the critic review it; raise `PlanningError` if there is no plan.

    A language model is asked once; only failed requests are repeated.
    """
    request = request_for(pack, intent, request_input)

    async def ask() -> Proposal:
        async with open_library(store) as library:
            setting = await run_config_for(
                pack, request, library, snapshot=snapshot, safety_mode=safety_mode, origin="planner"
            )
            chosen = usual_planner(pack, request.intent, planner, models)
            if chosen in ASKING:
                plan, cost = await _ask_models(pack, request, setting, library, chosen, models)
                links = _links_in_order(plan, setting)
                told_why = setting.ctx.model_copy(update={"answers_feedback": True})  # if it is refused
                return await _analyse(chosen, replace(setting, ctx=told_why), plan, links, (), library, cost)
            offline = pack_planner(pack, request.intent, chosen)
            if isinstance(offline, TaskPlanner):
                arranged = offline.arranged(setting)
                return await _analyse(
                    offline.name, setting, arranged.plan, arranged.links, arranged.added, library
                )
            plan = await offline.propose(setting, ())
            found = await _analyse(offline.name, setting, plan, _links_in_order(plan, setting), (), library)
            return replace(found, case=case_for_input(found.case))

    return asyncio.run(ask())


async def _analyse(
    planner: str,
    setting: RunConfig,
    proposed: Plan,
    links: tuple[Link, ...],
    added: tuple[Ordering, ...],
    library: Library | None,
    cost: ModelCost | None = None,
) -> Proposal:
    case = await review_in(setting, proposed, library, is_planned=True)
    plan = case.plan
    return Proposal(
        planner=planner,
        case=case,
        cost=cost,
        schedule=schedule(plan, setting.surface),
        flexibility=flexibility(plan.graph),
        links=links,
        added=added,
        threats=_threats(plan, setting),
    )


def _links_in_order(plan: Plan, setting: RunConfig) -> tuple[Link, ...]:
    """Return the links of a plan in its present order."""
    found: Arrangement = arrange(plan, setting.surface, frozenset(setting.spec.conditions))
    missing = {(ordering.before, ordering.after) for ordering in found.added}
    return tuple(link for link in found.links if (link.producer, link.consumer) not in missing)


def _threats(plan: Plan, setting: RunConfig) -> tuple[Threat, ...]:
    if not plan.graph.is_acyclic:
        return ()
    ids = [step.id for step in plan.steps]
    found = exposures(plan.graph, effects_in(plan, setting.surface), frozenset(setting.spec.conditions))
    return tuple(
        Threat(ids[t], Link(None if producer is None else ids[producer], condition, ids[consumer]))
        for t, condition, producer, consumer in found
    )


def _flexibility_json(found: Flexibility) -> dict[str, Any]:
    """Return the number of orders; of numbers beyond `LARGEST` only the decimal logarithm."""
    return {
        "is_exact": found.is_exact,
        "low": found.low if found.low <= LARGEST else None,
        "high": found.high if found.high <= LARGEST else None,
        "low_log10": round(math.log10(found.low), 6) if found.low else None,
        "high_log10": round(math.log10(found.high), 6) if found.high else None,
    }


# --- asking a language model ---


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of asking language models."""

    models: tuple[str, ...]
    """The models that answered."""
    calls: int
    tokens: int
    cost_microcents: int


async def _ask_models(
    pack: Pack,
    request: Request,
    setting: RunConfig,
    library: Library | None,
    planner: str,
    models: Sequence[str],
) -> tuple[Plan, ModelCost]:
    """Return the plan that a model proposes, and what that took, from a rehearsal in a journal in memory.

    The rehearsal is a run like any other until its plan is reviewed, so the model is asked within the same budgets,
    timeouts and fail-over. No tool is called, and a refused plan is not planned again.
    Raises `ModelFault` if no model answers, and `PlanningError` if what they answer is not a plan.
    """
    budget = pack.budget.model_copy(update={"max_replans": 0})
    once, store = pack.model_copy(update={"budget": budget}), library.store if library else None
    async with Runtime(once, "memory:", evidence=store, watchdog_ms=None) as runtime:
        result = await runtime.run(
            request,
            planner=next(name for name in PLANNER_NAMES if name == planner),
            models=models,
            safety_mode=setting.ctx.safety_mode,
            snapshot=setting.compiled.snapshot or None,
            actor=setting.ctx.actor,
            shadow=True,
        )
        events = (await load_history(runtime.journal, runtime.tenant, result.session_id)).events
        state = await runtime.state(result.session_id)
    if result.code:
        raise ModelFault(
            result.reason, remedy="start the model or correct its key, or name another model with --model"
        )
    proposed = [event for event in events if isinstance(event, e.PlanProposed)]
    if not proposed:
        raise _no_plan(events, state)
    return read_plan(proposed[0].plan), _cost_of(events, state)


def _no_plan(events: Sequence[e.Event], state: State) -> PlanningError:
    failed = next((event for event in events if isinstance(event, e.PlanningFailed)), None)
    spent = f"; asking took {state.used.model_tokens:,} tokens"
    if failed is None:
        return PlanningError(f"{state.reason}{spent}")
    return PlanningError(
        f"{failed.reason}{spent}", code=failed.code, remedy="ask again, or name another model with --model"
    )


def _cost_of(events: Sequence[e.Event], state: State) -> ModelCost:
    answers = [event for event in events if isinstance(event, e.ModelAnswered)]
    return ModelCost(
        models=tuple(dict.fromkeys(event.model for event in answers if event.model)),
        calls=len(answers),
        tokens=state.used.model_tokens,
        cost_microcents=state.used.cost,
    )


# --- plan view ---


MOST = 30
"""Plans with more steps are shortened."""
HEAD = ("", "#", "step", "calls", "waits for", "takes", "may wait")


def show_proposal(screen: Screen, proposal: Proposal) -> None:
    """Print a proposed plan, its schedule, and the verdict."""
    show_frame(screen, proposal.case, f"by {proposal.planner}")
    screen.say()
    _show_table(screen, proposal)
    screen.say()
    for label, text in _rows(proposal).items():
        if text:
            screen.put(text, first=f"{label:<10}")
    screen.say()
    show_refusals(screen, proposal.case.verdict, proposal.case)
    show_verdict(screen, proposal.case)


def _show_table(screen: Screen, proposal: Proposal) -> None:
    steps = proposal.plan.steps
    graph = proposal.plan.graph
    order = graph.order if graph.is_acyclic else range(len(steps))
    critical = set(proposal.schedule.critical_path)
    rows = [tuple(_cells(proposal, index, is_critical=steps[index].id in critical)) for index in order[:MOST]]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    for number, row in enumerate([HEAD, *rows]):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        style = "dim" if not number else "bold" if row[0] else ""
        screen.print(screen.escape_undecodable(Text(line, style=style)), soft_wrap=True)
    if len(steps) > MOST:
        more = f"… {count(len(steps) - MOST, 'more step')}; --json lists them"
        screen.put(Text(more, style="dim"))


def _cells(proposal: Proposal, index: int, *, is_critical: bool) -> Iterator[str]:
    """Return the cells of a step's row."""
    step = proposal.plan.steps[index]
    window = proposal.schedule.windows.get(step.id)
    yield "▸" if is_critical else ""
    yield str(index)
    yield printable(step.id, 64)
    yield printable(step.tool or step.kind, 40)
    yield listed(
        [proposal.plan.steps[before].id for before in proposal.plan.graph.predecessors[index]], most=3
    )
    yield "" if window is None or window.source == "unknown" else duration_text(window.duration_ms)
    yield "" if window is None or not window.slack_ms else duration_text(window.slack_ms)


def _rows(proposal: Proposal) -> dict[str, str]:
    """Return the rows below the table by label; empty where there is nothing to show."""
    timed = proposal.schedule
    return {
        "asked": _cost_text(proposal.cost) if proposal.cost else "",
        "time": f"at least {time_text(timed)}" if timed.sequential_ms else "",
        **waiting_rows(timed),
        "orders": orders_text(proposal.flexibility),
        "links": "\n".join(map(_link_text, proposal.links[:6])) + _more(len(proposal.links)),
        "added": "\n".join(map(_ordering_text, proposal.added[:6])) + _more(len(proposal.added)),
        "threats": "\n".join(map(_threat_text, proposal.threats[:6])) + _more(len(proposal.threats)),
    }


def _cost_text(cost: ModelCost) -> str:
    """Return the cost of asking language models."""
    calls = count(cost.calls, "call")
    names = printable(", ".join(cost.models), 200)
    return f"{names}: {calls}, {cost.tokens:,} tokens, {amount_text('cost_microcents', cost.cost_microcents)}"


def _more(number: int) -> str:
    return f"\n… {number - 6} more" if number > 6 else ""


def _link_text(link: Link) -> str:
    source = "the start" if link.producer is None else printable(link.producer, 64)
    return f"{source} → {printable(link.condition, 64)} → {printable(link.consumer, 64)}"


def _ordering_text(added: Ordering) -> str:
    return f"{printable(added.before, 64)} before {printable(added.after, 64)}: {printable(added.why, 120)}"


def _threat_text(threat: Threat) -> str:
    return f"{printable(threat.step, 64)} could come in between: {_link_text(threat.link)}"


def orders_text(found: Flexibility) -> str:
    """Return the number of orders in which the steps could run one by one."""
    if not found.high:
        return "none: steps wait for each other"
    if found.is_exact:
        return "one" if found.low == 1 else _size(found.low)
    return f"between {_size(found.low)} and {_size(found.high)}"


def _size(number: int) -> str:
    return f"{number:,}" if number <= LARGEST else f"10^{math.floor(math.log10(number)):,}"


# --- plan ---


PLAN_EXAMPLES = """\
tercet plan examples/runbook --intent ops.recover --input '{"service": "cart"}'
tercet plan examples/refunds --input '{"order_id": "ord_881", "window_id": "rw_881"}' --planner template
tercet plan examples/runbook --input '{"service": "cart"}' --json | jq .plan > plan.json
"""


def plan(
    pack: PackFolder,
    *,
    intent: Intent = None,
    input_: RequestInput = None,
    planner: Planner = None,
    model: Models = None,
    snapshot: SnapshotName = None,
    safety_mode: SafetyMode = None,
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Propose a plan for a request and review it. No session is started, and no tool is called.

    A language model is asked once, and its cost is shown; unlike in a run, it is not asked again if the critic refuses
    its plan. Evidence that the plan asks for is searched as in a run; look-ups by a tool are listed as deferred.

    The steps are listed in an order in which they could run, with their dependencies and how long they may wait; the longest path
    is marked. Below are the number of possible orders, the preconditions that steps meet for each other, and the
    verdict. Then come the rules of the pack: the steps that each gate, policy, limit, evidence requirement and relation
    applied to, or why it did not apply. A step that cannot be undone and may run before another one is denied is
    reported as a warning.

    With --json the plan is printed in its published shape under `plan`; `tercet run --plan` accepts it from a file.

    Exits with 0 if the plan may run, with 3 if the critic refuses it, with 2 if there is no plan, and with 5 if no model
    answers.
    """
    found = propose(
        load_pack(pack),
        intent=intent,
        request_input=read_input(input_),
        snapshot=snapshot,
        safety_mode=safety_mode,
        planner=planner or "",
        models=tuple(model or ()),
        store=store,
    )
    if as_json:
        print_json({**found.as_json(), **rules_json(applied_rules(found.case))})
    else:
        screen, report = Screen(), applied_rules(found.case)
        show_proposal(screen, found)
        show_warnings(screen, report)
        show_rules(screen, report)
    return ExitCode.ACCEPTED if found.case.verdict.ok else ExitCode.REFUSED
