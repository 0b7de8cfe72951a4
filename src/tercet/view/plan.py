"""The plans of a run as view models: steps with their state, attempts and people, graph layers, reviews and revisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.contracts.plan import Plan, Step
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.plans import read_plan
from tercet.core.same_calls import find_compensations
from tercet.core.state import State, StepState
from tercet.view.diff import Revision, revisions
from tercet.view.events import RunData, attempt_text, describe, describe_turn, failure_text, lane_use
from tercet.view.text import duration_text, join_names, join_parts, reasons_text
from tercet.view.vocabulary import (
    CALL_OUTCOMES,
    REVIEWS,
    STEPS,
    Status,
    Tone,
    answer_word,
    settlement,
    skip_text,
)

_APPROVALS = ("approve", "grant", "deny", "modify", "withdraw")


@dataclass(frozen=True, kw_only=True)
class Chip:
    """A verdict in a few words."""

    text: str
    tone: Tone


@dataclass(frozen=True, kw_only=True)
class CallAttempt:
    """One call of a step, from INTENT to its end."""

    number: int
    at: int
    outcome: str
    """Its outcome in words."""
    tone: Tone
    note: str
    key: str


@dataclass(frozen=True, kw_only=True)
class StepView:
    """A step of a plan: its state, verdicts, approvals and calls."""

    id: str
    tool: str
    status: str
    mark: str
    tone: Tone
    word: str
    """Its status in a few words."""
    is_undone: bool
    """Whether the run has compensated it, or tries to."""
    error: str
    """Why it failed, is unknown or was skipped."""
    is_kept: bool
    """Whether it was executed under an earlier plan."""
    latency_ms: int | None
    """The duration of its last call."""
    verdicts: tuple[Chip, ...]
    people: tuple[str, ...]
    """The answers about it, each with all people who gave it."""
    waits_for: tuple[str, ...]
    """The gates that it waits at."""
    depends_on: tuple[str, ...]
    predecessors: tuple[int, ...]
    """The positions of the steps that it depends on."""
    layer: int
    """Its layer in the graph: 0 for a step without predecessors."""
    when: str
    gates: tuple[str, ...]
    evidence: tuple[str, ...]
    is_optional: bool
    lane: str
    """The session of the lane that it ran, and what that used; empty for any other step."""
    key: str
    planned: Any
    """Its parameters as planned, with references."""
    params: Any
    """The parameters of its last call; as planned if it was never called."""
    result: Any
    result_digest: str
    """The digest of a result that is too large to show."""
    has_result: bool
    attempts: tuple[CallAttempt, ...]

    @property
    def progress(self) -> str:
        """Its status, the duration of its last call, and the number of attempts."""
        return join_parts(
            (
                self.word,
                "under an earlier plan" if self.is_kept else "",
                duration_text(self.latency_ms) if self.latency_ms else "",
                f"{len(self.attempts)} attempts" if len(self.attempts) > 1 else "",
            ),
            " · ",
        )


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A problem that the critic found in a plan, and its remedy."""

    code: str
    step: str
    reason: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class PlanView:
    """One plan of a run, or one turn of an agent that decides step by step."""

    number: int
    is_turn: bool
    is_last: bool
    planner: str
    hash: str
    review: Chip | None
    reasons: tuple[str, ...]
    refusals: tuple[Refused, ...]
    why: tuple[str, ...]
    """Why it replaced the plan before it."""
    kept: tuple[str, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    given_up: tuple[str, ...]
    steps: tuple[StepView, ...]

    @property
    def title(self) -> str:
        """Its number and its planner."""
        by = "from the caller" if self.planner == "caller" else f"by {self.planner}"
        return f"{'Turn' if self.is_turn else 'Plan'} {self.number}, {by}"


def plan_views(run: RunData, most: int | None = None) -> tuple[PlanView, ...]:
    """Return the plans of a run, the last one first; `most` limits their number."""
    found = plan_periods(run.events)
    compared = {revision.number: revision for revision in revisions(run.events)}
    shown = found if most is None else found[-most:]
    return tuple(
        _plan(run, period, compared.get(period.number), is_last=period is found[-1])
        for period in reversed(shown)
    )


def _plan(run: RunData, period: PlanPeriod, revision: Revision | None, *, is_last: bool) -> PlanView:
    plan, review = read_plan(dict(period.plan)), period.review
    words = REVIEWS.get(str(review.get("outcome")))
    is_turn = run.state.is_stepwise
    compared = revision if revision and revision.number > 1 and not is_turn else None
    return PlanView(
        number=period.number,
        is_turn=is_turn,
        is_last=is_last,
        planner=period.proposed.planner or period.proposed.origin,
        hash=period.proposed.hash,
        review=Chip(text=words[0], tone=words[1]) if words else None,
        reasons=(
            *(reasons_text([reason]) for reason in review.get("reasons", ())),
            *(describe_turn(event).text for event in period.events if isinstance(event, e.TurnJudged)),
        ),
        refusals=tuple(
            Refused(code=str(each.get("code")), step=str(each.get("step_id") or ""), reason=str(each.get("reason", "")), remedy=str(each.get("remedy", "")))
            for each in review.get("refusals", ())
        ),
        why=revision.why if revision else (),
        kept=tuple(f"{each.id}{' (done)' if each.is_done else ''}" for each in compared.kept) if compared else (),
        new=tuple(each.id for each in compared.new) if compared else (),
        changed=tuple(f"{each.id} ({', '.join(each.fields)})" for each in compared.changed) if compared else (),
        given_up=tuple(f"{each.id}: {each.why}" for each in compared.given_up) if compared else (),
        steps=tuple(_steps(run, period, plan, is_last=is_last)),
    )  # fmt: skip


# --- steps ---


def _steps(run: RunData, period: PlanPeriod, plan: Plan, *, is_last: bool) -> Iterator[StepView]:
    people, layers = approvals_by_step(run.state), find_layers(plan.graph.predecessors)[0]
    waiting = {gate.step: gate.names or ("people",) for gate in run.state.gates.values()} if is_last else {}
    under_it, before_it = _by_step(period.events), _by_step(run.events[: period.start])
    is_over, review = run.state.is_over or not is_last, period.review
    for index, step in enumerate(plan.steps):
        mine = under_it.get(step.id, [])
        state = period.steps[step.id]
        is_kept = state.status == "done" and not any(
            isinstance(event, e.Intent | e.Complete) for event in mine
        )
        if is_kept:
            mine = before_it.get(step.id, [])
        done = next((event for event in reversed(mine) if isinstance(event, e.Complete)), None)
        undone = _compensation(run.state, state)
        mark, tone, word = undone or _status(state, is_over=is_over)
        yield StepView(
            id=step.id,
            tool=step.tool or step.kind,
            status=state.status,
            mark=mark,
            tone=tone,
            word=word,
            is_undone=undone is not None,
            error=step_error(state, step.when),
            is_kept=is_kept,
            latency_ms=next((event.latency for event in reversed(mine) if isinstance(event, e.Complete | e.Abort)), None),
            verdicts=tuple(_verdicts(step, mine, review)),
            people=people.get(step.id, ()),
            waits_for=waiting.get(step.id, ()),
            depends_on=tuple(step.depends_on),
            predecessors=tuple(plan.graph.predecessors[index]),
            layer=layers[index],
            when=step.when or "",
            gates=tuple(step.gates or ()),
            evidence=tuple(step.evidence_refs),
            is_optional=step.optional,
            lane=f"session {state.lane}, {lane_use(state)}" if state.lane else "",
            key=state.key,
            planned=step.params,
            params=next((event.params for event in reversed(mine) if isinstance(event, e.Intent)), step.params),
            result=done.value if done and not done.blob else None,
            result_digest=done.blob if done else "",
            has_result=done is not None,
            attempts=call_attempts(mine),
        )  # fmt: skip


def _by_step(events: Iterable[e.Event]) -> dict[str, list[e.Event]]:
    found: dict[str, list[e.Event]] = {}
    for event in events:
        if step := getattr(event, "step", ""):
            found.setdefault(step, []).append(event)
    return found


def _status(state: StepState, *, is_over: bool) -> Status:
    is_idle = is_over and state.status in ("gated", "pending")
    return Status("·", "quiet", "never called") if is_idle else STEPS[state.status]


def _compensation(state: State, step: StepState) -> Status | None:
    """Return how far the compensation of a step is; None if the run does not compensate it."""
    undo = next(find_compensations(state, step.key), None) if step.key else None
    if undo is None:
        return None
    made = state.steps[undo.name]
    if made.status == "done":
        mark, tone, word = CALL_OUTCOMES["compensated"]
        return Status(mark, tone, f"{word} by {undo.tool}")
    mark, tone, word = compensation_status(made)
    return Status(mark, tone, f"compensation by {undo.tool}: {word}")


def compensation_status(step: StepState) -> Status:
    """Return the state of a compensating step, which is never left out: it is recorded as skipped once it has failed."""
    return STEPS["failed" if step.status == "skipped" else step.status]


def step_error(state: StepState, when: str | None = None) -> str:
    """Return why a step failed, is unknown or was skipped; else an empty text. `when` is its condition."""
    if state.status == "skipped":
        return skip_text(state.error, when)
    return state.error if state.status in ("failed", "unknown") else ""


def progress_text(state: StepState, latency_ms: int | None, *, is_over: bool, when: str | None = None) -> str:
    """Return the progress of a step, for one line; `when` is its condition."""
    again, error = attempt_text(state.attempt), step_error(state, when)
    match state.status:
        case "done" if state.lane:
            return f"lane {state.lane}, {lane_use(state)}{again}"
        case "done":
            return join_parts(
                ("" if latency_ms is None else duration_text(latency_ms), again.removeprefix(", "))
            )
        case "gated" if is_over:
            return "never called"
        case "gated":
            return f"waits at gate {state.gate.rpartition('.')[2]}"
        case "pending":
            return ""
        case "skipped" if state.compensates:
            return join_parts((failure_text(state.attempt), state.error), ": ")
        case _:
            return join_parts((f"{STEPS[state.status].word}{again}", error), ": ")


def _verdicts(step: Step, events: Iterable[e.Event], review: Mapping[str, Any]) -> Iterator[Chip]:
    mine = (each for each in review.get("refusals", ()) if each.get("step_id") == step.id)
    for code in dict.fromkeys(each.get("code") for each in mine):
        yield Chip(text=f"refused: {code}", tone="bad")
    for event in events:
        if isinstance(event, e.StepJudged | e.StepRefused | e.LoopGuardTripped):
            line = describe(event)
            yield Chip(text=line.text, tone=line.tone)


def approvals_by_step(state: State) -> dict[str, tuple[str, ...]]:
    """Return the answers about each step: one text for each kind of answer, with all people who gave it."""
    found: dict[str, dict[str, list[str]]] = {}
    for answer in state.answers:
        if answer.answer in _APPROVALS:
            is_grant = answer.answer == "grant"
            who = f"policy {answer.actor.removeprefix('policy:')}" if is_grant else answer.actor
            people = found.setdefault(answer.step, {}).setdefault(answer_word(answer), [])
            people += [who] if who not in people else []
    return {
        step: tuple(f"{word} by {join_names(people)}" for word, people in said.items())
        for step, said in found.items()
    }


def critical_path(steps: Sequence[StepView]) -> tuple[int, ...]:
    """Return the positions of the chain of steps that takes longest by its calls; empty if every step is on it."""
    before = [[p for p in step.predecessors if p < len(steps)] for step in steps]
    layers, back = find_layers(before)
    total, came_from = [0] * len(steps), [-1] * len(steps)
    for step in sorted(range(len(steps)), key=layers.__getitem__):
        kept = [p for p in before[step] if step not in back.get(p, ())]
        came_from[step] = max(kept, key=total.__getitem__, default=-1)
        longest = total[came_from[step]] if kept else 0
        total[step] = longest + 1 + (steps[step].latency_ms or 0)
    path, at = list[int](), max(range(len(steps)), key=total.__getitem__, default=-1)
    while at >= 0:
        path.append(at)
        at = came_from[at]
    return tuple(reversed(path)) if len(path) < len(steps) else ()


def find_layers(predecessors: Sequence[Sequence[int]]) -> tuple[list[int], dict[int, set[int]]]:
    """Return the layer of every step, and the dependencies (by start and end) that close a cycle.

    The layer is one below the deepest predecessor; a dependency that closes a cycle does not count.
    """
    layers = [-1] * len(predecessors)
    back: dict[int, set[int]] = {}
    for root in range(len(predecessors)):
        if layers[root] < 0:
            _descend(root, predecessors, layers, back)
    return layers, back


def _descend(
    root: int, predecessors: Sequence[Sequence[int]], layers: list[int], back: dict[int, set[int]]
) -> None:
    """Depth first without recursion: a plan may be a chain of thousands."""
    stack: list[tuple[int, Iterator[int]]] = [(root, iter(predecessors[root]))]
    open_steps = {root}
    while stack:
        step, rest = stack[-1]
        before = next(rest, None)
        if before is None:
            kept = [layers[p] for p in predecessors[step] if step not in back.get(p, ())]
            layers[step] = 1 + max(kept, default=-1)
            open_steps.discard(step)
            stack.pop()
        elif before in open_steps:
            back.setdefault(before, set()).add(step)
        elif layers[before] < 0:
            open_steps.add(before)
            stack.append((before, iter(predecessors[before])))


# --- attempts ---


def call_attempts(events: Sequence[e.Event]) -> tuple[CallAttempt, ...]:
    """Return the calls of one step."""
    return tuple(_attempt(event, events) for event in events if isinstance(event, e.Intent) and event.tool)


def _attempt(intent: e.Intent, events: Sequence[e.Event]) -> CallAttempt:
    mine = [event for event in events if getattr(event, "attempt", 0) == intent.attempt]
    end = next((each for each in reversed(mine) if isinstance(each, e.Complete | e.Abort)), None)
    settled = next((settlement(each) for each in reversed(mine) if isinstance(each, e.Settled)), "")
    outcome, tone, note = _ended(end, settled)
    return CallAttempt(
        number=intent.attempt, at=intent.at, outcome=outcome, tone=tone, note=note, key=intent.key
    )


def _ended(end: e.Complete | e.Abort | None, settled: str) -> tuple[str, Tone, str]:
    """Return the outcome of a call as text, with its tone and a note."""
    _, tone, word = CALL_OUTCOMES[call_outcome(end, is_settled=bool(settled))]
    match end:
        case e.Complete() if end.error:
            return word, tone, end.error
        case e.Complete():
            return (
                "found to have happened" if end.reconciled else f"{word} after {duration_text(end.latency)}",
                tone,
                "",
            )
        case e.Abort(outcome="not_done"):
            return f"{word}, after {duration_text(end.latency)}", tone, end.error
        case e.Abort():
            return word, tone, join_parts((end.error, settled), "; ")
        case None if settled:
            return word, tone, f"its process was lost before it could record the outcome; {settled}"
        case None:
            return word, "wait", ""


def call_outcome(end: e.Complete | e.Abort | None, *, is_settled: bool = False) -> str:
    """Return the outcome of a call, as `CALL_OUTCOMES` names it."""
    match end:
        case e.Complete():
            return "unusable" if end.error else "done"
        case e.Abort():
            return end.outcome
        case None:
            return "cut off" if is_settled else "running"


# --- periods ---


@dataclass(frozen=True, kw_only=True)
class PlanPeriod:
    """The events under one plan, from its proposal to the next one or to the end."""

    number: int
    start: int
    """The position of its proposal among the events."""
    proposed: e.PlanProposed
    plan: Mapping[str, Any]
    """The plan as it was reviewed, with the evidence that was found for it."""
    steps: Mapping[str, StepState]
    events: tuple[e.Event, ...]

    @property
    def review(self) -> Mapping[str, Any]:
        """The last verdict of the critic on it; empty if it was never reviewed."""
        found = [event.verdict for event in self.events if isinstance(event, e.PlanReviewed)]
        return found[-1] if found else {}


def plan_periods(events: Sequence[e.Event]) -> tuple[PlanPeriod, ...]:
    """Return the plans of a run with their events; events before the first plan belong to none."""
    starts = [number for number, event in enumerate(events) if isinstance(event, e.PlanProposed)]
    state, found, at = State(), list[PlanPeriod](), 0
    for number, (start, end) in enumerate(zip(starts, [*starts, len(events)][1:], strict=True), start=1):
        for event in events[at:end]:
            state = fold_event(state, event)
        at, proposed = end, events[start]
        if isinstance(proposed, e.PlanProposed):
            period = PlanPeriod(
                number=number, start=start, proposed=proposed, plan=state.plan, steps=state.steps, events=tuple(events[start:end])
            )  # fmt: skip
            found.append(period)
    return tuple(found)
