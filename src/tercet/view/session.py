"""A session as a view model: status, numbers, people, budgets, outputs, scores and hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tercet.contracts.policy import Policy
from tercet.contracts.request import SIMULATED
from tercet.contracts.runs.saga import RollbackResult, RollbackStatus
from tercet.contracts.runs.scorecard import FLOORS
from tercet.contracts.shape import JsonObject
from tercet.contracts.verdict import Code, CriticReport
from tercet.core import events as e
from tercet.core.budget import DIMENSIONS, budget_of
from tercet.core.state import State
from tercet.critic.checks.rules import violation_text
from tercet.view.events import RunData
from tercet.view.text import amount_text, cents, count, duration_text, with_plain_causes
from tercet.view.timeline import lost_processes
from tercet.view.vocabulary import (
    MARKS,
    RUN_VERDICTS,
    SCORES,
    STANDINGS,
    Tone,
    answer_tone,
    answer_word,
    login_words,
    meaning,
    standing,
)


@dataclass(frozen=True, kw_only=True)
class CallRefusal:
    """The refusal of one call: its step, the code and reason of the critic, and the remedy of the policy."""

    step: str
    code: str
    reason: str
    remedy: str
    """Empty if no policy refused it, or the policy has none."""

    @property
    def text(self) -> str:
        """The refusal in one sentence, without its remedy."""
        return f"{self.step} was refused before its call ({self.code}): {self.reason}"


def find_refusal(state: State, policies: Iterable[Policy] = ()) -> CallRefusal | None:
    """Return the refused call that a run failed or was escalated for; `policies` are those of its pack."""
    why = state.reason if state.escalation is None else state.escalation
    if state.escalation is None and state.status != "failed":
        return None
    for name, step in state.steps.items():
        if step.outcome == "refused" and step.code in _CODES and step.error in why:
            violated = next((each for each in policies if violation_text(each) in step.error), None)
            remedy = "" if violated is None else violated.remedy
            return CallRefusal(step=name, code=step.code, reason=step.error, remedy=remedy)
    return None


_CODES = frozenset(map(str, Code))
"""The codes of the critic: a call can also be refused for an open circuit or a lost role."""


# --- session ---


# --- numbers ---


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The numbers of a run, as every page and the terminal show them."""

    steps: int
    """The steps of the current plan, without compensating ones."""
    done: int
    skipped: int
    calls: int
    """The attempts at calling tools, including compensating calls."""
    plans: int
    approvals: int
    """Each person or policy once per gate; withdrawn approvals do not count."""
    repairs: int
    """The attempts at repairing outputs."""
    lost_processes: int
    facts: int
    """The facts that the current plan is based on."""

    @property
    def steps_text(self) -> str:
        """The progress: `2 of 3 steps done, 1 skipped`."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.done} of {count(self.steps, 'step')} done{skipped}"

    @property
    def record_text(self) -> str:
        """The numbers of a decision record."""
        return f"{count(self.calls, 'call')}, {count(self.approvals, 'approval')}, {count(self.facts, 'fact')} pinned"


def count_run(state: State, events: Sequence[e.Event]) -> Counts:
    """Return the numbers of a run."""
    planned = [step for step in state.steps.values() if not step.compensates]
    steps: Sequence[JsonObject] = state.plan.get("steps", ())
    return Counts(
        steps=len(planned),
        done=sum(step.status == "done" for step in planned),
        skipped=sum(step.status == "skipped" for step in planned),
        calls=sum(isinstance(event, e.Intent) and bool(event.tool) for event in events),
        plans=sum(isinstance(event, e.PlanProposed) for event in events),
        approvals=len(approvers(state)),
        repairs=sum(len(event.log) for event in events if isinstance(event, e.OutputsRepaired)),
        lost_processes=lost_processes(events),
        facts=len({ref for step in steps for ref in step.get("evidence_refs") or ()}),
    )


def approvers(state: State) -> frozenset[tuple[str, str]]:
    """Return every approval by gate (or step, for a policy's grant) and approver, without withdrawn ones."""
    found: set[tuple[str, str]] = set()
    for answer in state.answers:
        key = (answer.gate or answer.step, answer.actor)
        if answer.answer in ("approve", "grant"):
            found.add(key)
        elif answer.answer == "withdraw":
            found.discard(key)
    return frozenset(found)


# --- budgets ---


@dataclass(frozen=True, kw_only=True)
class BudgetUse:
    """The use of one dimension of the budget."""

    name: str
    label: str
    used: int
    limit: int | None
    extended: int = 0
    """The amount that operators added."""
    reserved: int = 0
    """The amount that is reserved for calls in flight, and held back for compensations."""

    @property
    def left(self) -> int | None:
        """The amount that no call has taken or reserved; None without a limit."""
        return None if self.limit is None else max(0, self.limit - self.used - self.reserved)

    @property
    def reserved_share(self) -> float:
        """The reserved share in percent, beside the used one."""
        if not self.limit:
            return 0.0
        return round(min(100.0 - self.share, 100 * self.reserved / self.limit), 1)

    @property
    def tone(self) -> Tone:
        """Whether it is within its limit, near it, or beyond."""
        if self.limit is None:
            return "quiet"
        if self.used > self.limit:
            return "bad"
        return "wait" if self.limit and self.used >= 0.9 * self.limit else "good"

    @property
    def share(self) -> float:
        """The used share in percent, at most 100."""
        if self.limit is None:
            return 0.0
        return round(min(100.0, 100 * self.used / self.limit), 1) if self.limit else 100.0 * bool(self.used)

    def amount(self, number: int) -> str:
        """Return an amount of this dimension without its noun."""
        match self.name:
            case "wall_clock_ms":
                return duration_text(number)
            case "cost_microcents":
                return cents(number)
            case _:
                return f"{number:,}"

    @property
    def text(self) -> str:
        """The use with its noun and its limit: `3 tool calls of 10`."""
        limit = "" if self.limit is None else f" of {self.amount(self.limit)}"
        return f"{amount_text(self.name, self.used)}{limit}"


_FIRST = ("tool_calls", "wall_clock_ms")
"""The dimensions that are shown before the others."""


def budget_use(state: State) -> tuple[BudgetUse, ...]:
    """Return the use of every dimension of the budget, and the number of phases."""
    return tuple(_budget_use(state))


def _budget_use(state: State) -> Iterator[BudgetUse]:
    budget, is_judged = budget_of(state), bool(state.quality.drawn or state.used.repairs)
    for each in sorted(DIMENSIONS, key=lambda each: each.name not in _FIRST):
        if each.limit and (each.name != "repairs" or is_judged):
            used, limit = getattr(state.used, each.used), getattr(budget, each.limit)
            yield BudgetUse(
                name=each.name,
                label=each.label,
                used=used,
                limit=limit,
                extended=state.extended.get(each.name, 0),
                reserved=each.spent(state.used) - used,
            )
    yield BudgetUse(name="iterations", label="phases", used=state.iterations, limit=budget.max_iterations)


# --- people ---


@dataclass(frozen=True, kw_only=True)
class AnswerLine:
    """An answer of a person or a policy, once for each gate."""

    gate: str
    """The gate's number in the session, such as `g1`; the step where there was none."""
    who: str
    word: str
    tone: Tone
    login: str
    note: str

    @property
    def text(self) -> str:
        """The answer in one line."""
        return f"{self.gate} {self.word} by {self.who}{self.login}{f' ({self.note})' if self.note else ''}"


def answer_lines(state: State) -> tuple[AnswerLine, ...]:
    """Return every answer of people and policies once, in order; a gate over several calls records one for each call."""
    found: dict[AnswerLine, None] = {}
    for each in state.answers:
        line = AnswerLine(
            gate=each.gate.rpartition(".")[2] or each.step, who=each.actor, word=answer_word(each), tone=answer_tone(each),
            login=login_words(each.login, each.simulated_by), note=each.note,
        )  # fmt: skip
        found[line] = None
    return tuple(found)


# --- scores ---


@dataclass(frozen=True, kw_only=True)
class ScoreView:
    """The score of one evaluator."""

    name: str
    value: float
    status: str
    tone: Tone
    is_floor: bool
    findings: tuple[str, ...]
    version: str


def score_views(report: JsonObject) -> tuple[ScoreView, ...]:
    """Return the scores of a critic's report; empty if the run was not scored."""
    read = CriticReport.model_validate(report) if report else None
    if read is None or read.score is None:
        return ()
    return tuple(
        ScoreView(
            name=name,
            value=found.score,
            status=found.status,
            tone=SCORES[found.status],
            is_floor=name in FLOORS,
            findings=tuple(f"{each.code}: {each.message}" for each in found.findings),
            version=found.version,
        )
        for name, found in read.score.scorecard.scores.items()
    )


# --- compensation ---


@dataclass(frozen=True, kw_only=True)
class CompensatedStep:
    """One effect of a run that ended without success: compensated, settled or left."""

    step: str
    text: str
    note: str
    tone: Tone


def compensated_steps(rollback: RollbackResult | None) -> tuple[CompensatedStep, ...]:
    """Return the effects of a run with their compensation, the last one first."""
    found: list[CompensatedStep] = []
    for entry in rollback.log if rollback is not None else ():
        if entry.status is RollbackStatus.COMPENSATED:
            by = f" by {entry.compensating.tool}" if entry.compensating else ""
            found.append(CompensatedStep(step=entry.step_id, text=f"compensated{by}", note="", tone="good"))
            continue
        settled = f", settled by {entry.settled_by}" if entry.settled_by else ""
        note = "; ".join(filter(None, [entry.error, entry.note]))
        found.append(
            CompensatedStep(
                step=entry.step_id,
                text=f"not compensated{settled}",
                note=note,
                tone="quiet" if settled else "bad",
            )
        )
    return tuple(found)


# --- the session ---


@dataclass(frozen=True, kw_only=True)
class Hash:
    """A hash or an id that the run can be checked against."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class SessionView:
    """A session: its request, owner, status and numbers."""

    session: str
    intent: str
    input: Any
    owner: str
    roles: tuple[str, ...]
    acting_login: str
    """The login that acts as the owner in a development session, as text to follow their name."""
    is_dev: bool
    is_shadow: bool
    decision: str
    pack: str
    snapshot: str
    library: str
    safety_mode: str
    planner: str
    models: tuple[str, ...]
    started_at: int
    updated_at: int
    is_over: bool
    standing: str
    tone: Tone
    mark: str
    meaning: str
    reason: str
    remedy: str
    """What a policy that refused a call says to do; empty if none did."""
    counts: Counts
    work_ms: int
    budget: tuple[BudgetUse, ...]
    answers: tuple[AnswerLine, ...]
    outputs: JsonObject
    missing: dict[str, str]
    verdict: str
    """The last verdict of the critic on the run; empty if there is none."""
    verdict_tone: Tone
    rationale: tuple[str, ...]
    scores: tuple[ScoreView, ...]
    compensated: tuple[CompensatedStep, ...]
    hashes: tuple[Hash, ...]

    @property
    def effects(self) -> tuple[str, ...]:
        """Its effects with their compensation, one sentence each, for its headline."""
        return tuple(f"{each.step} was {each.text}." for each in self.compensated)

    @property
    def evidence(self) -> str:
        """The sources of its evidence."""
        return (
            ", ".join(filter(None, (self.snapshot, f"store at {self.library}" if self.library else "")))
            or "none"
        )


def session_view(run: RunData) -> SessionView:
    """Return the view of a session."""
    state, start = run.state, run.state.start
    where = standing(state)
    is_partial = where == "completed" and state.partial and not start.shadow
    tone: Tone = "wait" if is_partial else STANDINGS[where][0]
    reported = next((event for event in reversed(run.events) if isinstance(event, e.RunReported)), None)
    reason = state.reason if state.escalation is None else with_plain_causes(state.escalation)
    refusal = find_refusal(state, run.policies)
    return SessionView(
        session=start.session,
        intent=start.request["intent"],
        input=start.request.get("input", {}),
        owner=start.actor["id"],
        roles=tuple(start.actor.get("roles") or ()),
        acting_login=login_words(
            "", start.actor.get("os_user", "") if start.actor.get("auth") == SIMULATED else ""
        ),
        is_dev=bool(start.dev),
        is_shadow=bool(start.shadow),
        decision=start.decision,
        pack=start.pack,
        snapshot=start.snapshot,
        library=start.library,
        safety_mode=start.safety_mode,
        planner=start.planner or "",
        models=tuple(start.models or ()),
        started_at=start.at,
        updated_at=state.at,
        is_over=state.is_over,
        standing="completed as partial" if is_partial else where,
        tone=tone,
        mark=MARKS[tone],
        meaning=meaning(state),
        reason=""
        if state.status == "completed" and not state.partial
        else refusal.text
        if refusal
        else reason,
        remedy=refusal.remedy if refusal else "",
        counts=count_run(state, run.events),
        work_ms=state.used.wall_clock,
        budget=budget_use(state),
        answers=answer_lines(state),
        outputs=state.outputs,
        missing=state.missing,
        verdict=reported.outcome if reported else "",
        verdict_tone=RUN_VERDICTS.get(reported.outcome, "quiet") if reported else "quiet",
        rationale=tuple(map(with_plain_causes, reported.reasons)) if reported else (),
        scores=score_views(state.report),
        compensated=compensated_steps(run.rollback),
        hashes=tuple(_hashes(run)),
    )


def _hashes(run: RunData) -> Iterator[Hash]:
    state, start = run.state, run.state.start
    chained = f"the chain was verified over {count(len(run.events), 'event')} when this page was made"
    recorded = "the record matched this hash when this page was made" if run.record else ""
    found = (
        Hash(label="session", value=start.session),
        Hash(label="run", value=start.run),
        Hash(label="trace", value=start.trace),
        Hash(label="plan", value=state.plan_hash),
        Hash(label="decision record", value=state.record, note=recorded),
        Hash(label="chain head", value=run.chain and f"sha256:{run.chain}", note=chained),
        Hash(label="pack", value=start.pack_hash),
        Hash(label="context", value=start.context),
        Hash(label="evidence, frozen", value=start.evidence),
        Hash(label="store of evidence", value=start.library_hash),
    )
    yield from (each for each in found if each.value)
