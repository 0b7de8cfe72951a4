"""Two runs side by side, or one run under another version of its pack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlencode

from starlette.responses import Response

from tercet.console.run_parts import read_run_at
from tercet.console.session import session_path
from tercet.console.visit import HOME, Page, Visit
from tercet.contracts.shape import as_object
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.replay.recording import load
from tercet.replay.rules import RuleSource
from tercet.replay.what_if import Rejudged, rejudge
from tercet.service.errors import ServiceError, not_found
from tercet.service.hub import pack_name
from tercet.view.diff import Lines, OutputChange, compare_outputs
from tercet.view.events import RunData
from tercet.view.plan import PlanView, StepView, plan_views
from tercet.view.run import unreadable
from tercet.view.session import BudgetUse, SessionView, session_view

COMPARE = f"{HOME}/compare"
MOST_STEPS = 200
_MOST_PLANS = 8
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of two runs."""

    data: RunData
    session: SessionView
    plans: tuple[PlanView, ...]
    """The last one first."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One property of both runs."""

    label: str
    a: str
    b: str
    is_hash: bool = False

    @property
    def differs(self) -> bool:
        """Whether the runs differ in it."""
        return self.a != self.b


@dataclass(frozen=True, kw_only=True)
class StepPair:
    """A step of the last plans, by its id; None where a run does not have it."""

    id: str
    a: StepView | None
    b: StepView | None
    params: tuple[OutputChange, ...]
    """The differences of its parameters."""

    @property
    def differs(self) -> bool:
        """Whether tool, parameters, verdicts or status differ."""
        if self.a is None or self.b is None or self.params:
            return True
        return any(
            getattr(self.a, name) != getattr(self.b, name)
            for name in ("tool", "status", "verdicts", "depends_on", "people")
        )


@dataclass(frozen=True, kw_only=True)
class BudgetPair:
    """One dimension of both budgets; None where a run does not have it."""

    name: str
    label: str
    a: BudgetUse | None
    b: BudgetUse | None

    @property
    def differs(self) -> bool:
        """Whether use or limit differ; the time that two runs take always does, and says nothing."""
        mine, theirs = ((each.used, each.limit) if each else None for each in (self.a, self.b))
        return self.name != "wall_clock_ms" and mine != theirs


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two runs, property by property."""

    a: Side
    b: Side
    rows: tuple[Row, ...]
    steps: tuple[StepPair, ...]
    steps_left_out: int
    outputs: tuple[OutputChange, ...]
    budgets: tuple[BudgetPair, ...]

    @property
    def differences(self) -> int:
        """The number of properties, budgets, steps and outputs that differ."""
        return sum(each.differs for each in (*self.rows, *self.budgets, *self.steps)) + len(self.outputs)


def side_of(data: RunData) -> Side:
    """Return one side of a comparison; raises `ReplayError` if a recorded value does not have the expected shape."""
    try:
        return Side(data=data, session=session_view(data), plans=plan_views(data, _MOST_PLANS))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(f"something in session {data.state.start.session}") from error


def compare_runs(a: Side, b: Side, lines: Lines) -> Comparison:
    """Return two runs side by side; `lines` turns values into the lines that are compared."""
    steps = {name: (mine, theirs) for name, mine, theirs in _pairs(_steps(a), _steps(b))}
    shown = list(steps.items())[:MOST_STEPS]
    mine, theirs = ({each.name: each for each in side.session.budget} for side in (a, b))
    return Comparison(
        a=a,
        b=b,
        rows=tuple(_rows(a, b)),
        steps=tuple(
            StepPair(id=name, a=first, b=second, params=_params(first, second, lines))
            for name, (first, second) in shown
        ),
        steps_left_out=len(steps) - len(shown),
        outputs=compare_outputs(a.session.outputs, b.session.outputs, lines),
        budgets=tuple(
            BudgetPair(name=name, label=either.label, a=first, b=second)
            for name, first, second in _pairs(mine, theirs)
            if (either := first or second) is not None
        ),
    )


def _steps(side: Side) -> dict[str, StepView]:
    return {step.id: step for step in side.plans[0].steps} if side.plans else {}


def _pairs(a: Mapping[str, _T], b: Mapping[str, _T]) -> Iterator[tuple[str, _T | None, _T | None]]:
    for name in {**a, **b}:
        yield name, a.get(name), b.get(name)


def _params(a: StepView | None, b: StepView | None, lines: Lines) -> tuple[OutputChange, ...]:
    if a is None or b is None:
        return ()
    # Where only one was called, its values are not compared with the references of the other.
    were_called = bool(a.attempts and b.attempts)
    given = [step.params if were_called else step.planned for step in (a, b)]
    mine, theirs = (as_object(params) or {"parameters": params} for params in given)
    return compare_outputs(mine, theirs, lines)


def _rows(a: Side, b: Side) -> Iterator[Row]:
    def row(label: str, value: Callable[[Side], object]) -> Row:
        return Row(label=label, a=str(value(a)), b=str(value(b)))

    yield row("status", lambda s: s.session.standing)
    yield row("intent", lambda s: s.session.intent)
    yield row("owner", lambda s: s.session.owner)
    yield row("pack", lambda s: s.session.pack)
    hashes = (str(side.data.state.start.pack_hash) for side in (a, b))
    yield Row(label="pack hash", a=next(hashes), b=next(hashes), is_hash=True)
    yield row("decision", lambda s: s.session.decision)
    yield row("risk", lambda s: s.data.state.start.risk_tier)
    yield row("safety mode", lambda s: s.session.safety_mode)
    yield row("evidence", lambda s: s.session.evidence)
    yield row("planner", lambda s: s.session.planner or "the caller's own plan")
    yield row("plan revisions", lambda s: s.session.counts.plans)
    yield row("review", lambda s: s.plans[0].review.text if s.plans and s.plans[0].review else "none")
    yield row("reasons", lambda s: "; ".join(s.plans[0].reasons) if s.plans else "")
    yield row("verdict on the run", lambda s: s.session.verdict or "none")
    yield row("why", lambda s: "; ".join(s.session.rationale))
    yield row("scores", lambda s: ", ".join(f"{each.name} {each.value:.2f}" for each in s.session.scores))
    yield row("steps done", lambda s: f"{s.session.counts.done} of {s.session.counts.steps}")
    yield row("calls", lambda s: s.session.counts.calls)
    yield row("approvals", lambda s: s.session.counts.approvals)
    yield row("repairs", lambda s: s.session.counts.repairs)


# --- the page ---


@dataclass(kw_only=True)
class _Found:
    """What was asked for, as far as it was found."""

    first: Side | None = None
    versions: list[Pack] = field(default_factory=list[Pack])
    found: Comparison | None = None
    changed: Rejudged | None = None


async def show_comparison(visit: Visit) -> Response:
    """Show two runs side by side, one run under another pack version, or a form that asks for them."""
    visit.caller.demand("read")
    a, b, pack = (visit.query.get(name, "").strip()[:512] for name in ("a", "b", "pack"))
    shown, error = _Found(), None
    try:
        await _find(visit, shown, a, b, pack)
    except ServiceError as refused:
        if refused.code != "not_found":
            raise
        error = refused
    return visit.render(
        "compare.html.j2",
        status=error.status if error else 200,
        title="Compare",
        section="compare",
        a=a,
        b=b,
        pack=pack,
        error=error,
        first=shown.first,
        found=shown.found,
        changed=shown.changed,
        versions=shown.versions,
        swapped=f"{COMPARE}?{urlencode({'a': b, 'b': a})}",
        session_path=session_path,
    )


async def _find(visit: Visit, shown: _Found, a: str, b: str, pack: str) -> None:
    """Find what the page compares; raises `ServiceError` for a run or a version that is not there."""
    hub, tenant = visit.console.http.service.hub, visit.caller.tenant
    if not a:
        return
    row = await hub.find_row(tenant, a)
    shown.versions = list(hub.packs.get(pack_name(row.pack), ()))
    shown.first = side_of((await read_run_at(hub.journal, tenant, row.session_id)).data)
    if b:
        other = await hub.find_row(tenant, b)
        second = side_of((await read_run_at(hub.journal, tenant, other.session_id)).data)
        lines = visit.console.safe.lines
        shown.found = await asyncio.to_thread(compare_runs, shown.first, second, lines)
    elif pack:
        chosen = next((each for each in shown.versions if each.ref == pack), None)
        if chosen is None:
            raise not_found("served version", pack)
        shown.changed = await judge_under(visit, a, chosen)


async def judge_under(visit: Visit, session: str, pack: Pack) -> Rejudged:
    """Judge a recorded run under another version of its pack, up to the first verdict that would differ."""
    recording = await load(visit.console.http.service.hub.journal, visit.caller.tenant, session)
    rules = RuleSource(instead=read_declarations(pack.content))
    # In a thread: a long run would keep this process from renewing its leases.
    return await asyncio.to_thread(rejudge, recording, rules)


PAGES = (Page(COMPARE, show_comparison),)
