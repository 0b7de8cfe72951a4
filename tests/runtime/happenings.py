"""Events to try on a state: those that a driver could record there, and any others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from hypothesis import strategies as st

from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan
from tercet.journal import events as e
from tercet.runtime.state import State, StepState

from .workshop import plan, step

PLANS: tuple[Plan, ...] = (
    plan(
        step("a"),
        step("b", depends_on=("a",)),
        step("c", depends_on=("a",)),
        outputs={"x": {"$from": "b#/n"}},
    ),
    plan(step("a"), step("b", params={"other": 1}), declared_outputs=("n",)),
    plan(step("c"), step("n", None), step("d", depends_on=("c", "n"), optional=True)),
)


def started(at: int = 1_000) -> e.SessionStarted:
    """The first event of a session."""
    return e.SessionStarted(
        at=at, session="ses_1", run="run_1", trace="trace_1", tenant="default", actor={"id": "ada"},
        request={"intent": "work"}, decision="work", safety_mode="local_write", budget={}, pack="p@1.0.0",
        pack_hash="sha256:0", snapshot="", context="sha256:1",
    )  # fmt: skip


def proposed(number: int, at: int = 1_000, origin: str = "planner") -> e.PlanProposed:
    """One of the plans."""
    chosen = PLANS[number % len(PLANS)]
    dumped = chosen.model_dump(mode="json", exclude_defaults=True)
    return e.PlanProposed(at=at, plan=dumped, hash=chosen.hash, origin=origin)


def reviewed(state: State, outcome: str, at: int) -> e.PlanReviewed:
    """What the critic said of the plan of a state."""
    return e.PlanReviewed(at=at, hash=state.plan_hash, verdict={"outcome": outcome, "reasons": [outcome]})


def intent(name: str, step: StepState, at: int, **more: Any) -> e.Intent:
    """The next attempt at a step."""
    given: dict[str, Any] = {
        "tool": "do.it",
        "params": {"n": name},
        "key": f"key {name}",
        "call": "call",
        "tokens": 3,
        "cost": 5,
        "attempt": step.attempt + 1,
    }
    return e.Intent(at=at, step=name, deadline=at + 50, **{**given, **more})


def possible(state: State, at: int) -> list[e.Event]:
    """Every event that a driver could record now: none of them may be refused."""
    if not state.start:
        return [started(at)]
    found: list[e.Event] = [e.SessionResumed(at=at, owner="o", epoch=1, in_flight=state.in_flight)]
    match state.phase:
        case Phase.PLAN:
            found += [proposed(number, at) for number in range(len(PLANS))]
            found.append(e.PlanningFailed(at=at, reason="no idea"))
        case Phase.DECOMPOSE:
            found.append(e.Decomposed(at=at, steps=len(state.steps)))
        case Phase.RETRIEVE:
            found.append(e.EvidenceRetrieved(at=at))
        case Phase.REVIEW:
            found += [reviewed(state, outcome, at) for outcome in ("ok", "replan", "reject")]
        case Phase.ACT:
            found += _acts(state, at)
        case Phase.VERIFY:
            found += [e.RunReported(at=at, report={}, outcome=o) for o in ("accept", "replan", "escalate")]
        case Phase.HALT:
            found += _answers(state, at)
        case Phase.COMMIT | Phase.FAIL:
            found += _last(state, at)
        case Phase.CRITIQUE | Phase.REPAIR:
            raise AssertionError("nothing leads here yet")
    if state.phase not in (Phase.COMMIT, Phase.FAIL, Phase.HALT) and not state.in_flight:
        found.append(e.SessionPaused(at=at, reason="stop"))
        found.append(e.GivenUp(at=at, reason="iteration_budget_exceeded", iterations=50))
    return found


def _last(state: State, at: int) -> Iterator[e.Event]:
    for name in state.in_flight:
        yield from _ends(name, state.steps[name], at)
    if not state.in_flight:
        status = "completed" if state.phase is Phase.COMMIT else "failed"
        yield e.SessionEnded(at=at, status=status, reason="over")


def _acts(state: State, at: int) -> Iterator[e.Event]:
    for name, each in state.steps.items():
        yield from _of_step(state, name, each, at)
    yield from _answers(state, at)
    if not state.frontier:
        yield e.OutputsProduced(at=at, outputs={"x": 1})


def _of_step(state: State, name: str, step: StepState, at: int) -> Iterator[e.Event]:
    if name in state.unjudged:
        yield e.StepJudged(at=at, step=name, attempt=step.attempt, outcome="accept")
        if not state.in_flight:
            for outcome in ("replan", "escalate"):
                yield e.StepJudged(at=at, step=name, attempt=step.attempt, outcome=outcome, reason="why")
    if name not in state.frontier:
        return
    if step.status == "in_flight":
        yield from _ends(name, step, at)
    elif step.status == "pending":
        yield intent(name, step, at)
        yield intent(name, step, at, tool="", call="", tokens=0, cost=0)
        yield e.StepSkipped(at=at, step=name, reason="condition_false")
        yield e.StepRefused(at=at, step=name, code="unresolved", reason="no value")
        yield _opened(state, name, "approval", at)
    elif step.status == "unknown" and not step.gate:
        hows: tuple[Literal["absent", "ask_again", "run_again"], ...] = ("absent", "ask_again", "run_again")
        for how in hows:
            yield e.Settled(at=at, step=name, attempt=step.attempt, how=how, by="test", not_before=at + 5)
        yield e.Complete(at=at, step=name, attempt=step.attempt, value={"n": 1}, reconciled=True, cost=5)
        yield _opened(state, name, "reconcile", at)
    elif step.status == "failed" and name not in state.unjudged:
        yield e.RetryScheduled(at=at, step=name, attempt=step.attempt, not_before=at + 9)
        yield e.StepSkipped(at=at, step=name, reason="optional_failed")


def _ends(name: str, step: StepState, at: int) -> Iterator[e.Event]:
    attempt = step.attempt
    yield e.Complete(at=at, step=name, attempt=attempt, value={"n": name}, tokens=3, cost=5)
    yield e.Complete(at=at, step=name, attempt=attempt, blob="sha256:2", carries=("n",), tokens=3, cost=5)
    yield e.Complete(at=at, step=name, attempt=attempt, error="against its schema", tokens=3, cost=5)
    yield e.Abort(at=at, step=name, attempt=attempt, outcome="not_done", error="no")
    yield e.Abort(at=at, step=name, attempt=attempt, outcome="unknown", error="lost")


def _opened(state: State, name: str, kind: Literal["approval", "reconcile"], at: int) -> e.GateOpened:
    return e.GateOpened(
        at=at, gate=f"ses_1.g{state.opened + 1}", kind=kind, step=name, digest=f"digest {name}"
    )


def _answers(state: State, at: int) -> Iterator[e.Event]:
    for gate in state.gates.values():
        answers: tuple[Literal["approve", "deny", "happened", "did_not_happen"], ...] = (
            ("approve", "deny") if gate.kind == "approval" else ("happened", "did_not_happen")
        )
        for answer in answers:
            yield e.GateAnswered(
                at=at, gate=gate.id, digest=gate.digest, answer=answer, actor="bob", value={"n": 2}
            )


_STEPS = st.sampled_from(["a", "b", "c", "d", "n", "nobody"])
_TIMES = st.integers(0, 5_000)
_NUMBERS = st.integers(0, 3)
_WORDS = st.sampled_from(
    ["ok", "replan", "reject", "accept", "escalate", "retry", "completed", "failed", "?"]
)
_GATES = st.sampled_from(["ses_1.g1", "ses_1.g2", "gate"])
_DIGESTS = st.sampled_from(["digest a", "digest b", ""])

ANYTHING: st.SearchStrategy[e.Event] = st.one_of(
    st.builds(started, _TIMES),
    st.builds(e.SessionResumed, at=_TIMES, owner=_WORDS, epoch=_NUMBERS),
    st.builds(e.SessionPaused, at=_TIMES, reason=_WORDS),
    st.builds(e.GivenUp, at=_TIMES, reason=_WORDS, iterations=st.integers(0, 9)),
    st.builds(e.SessionEnded, at=_TIMES, status=_WORDS, reason=_WORDS),
    st.builds(proposed, _NUMBERS, _TIMES),
    st.builds(e.PlanProposed, at=_TIMES, plan=st.just({"steps": 3}), hash=_WORDS, origin=_WORDS),
    st.builds(e.PlanningFailed, at=_TIMES, reason=_WORDS),
    st.builds(e.Decomposed, at=_TIMES, steps=_NUMBERS),
    st.builds(e.EvidenceRetrieved, at=_TIMES),
    st.builds(
        e.PlanReviewed,
        at=_TIMES,
        hash=st.sampled_from([PLANS[0].hash, ""]),
        verdict=st.dictionaries(st.just("outcome"), _WORDS),
    ),
    st.builds(e.OutputsProduced, at=_TIMES),
    st.builds(
        e.Intent, at=_TIMES, step=_STEPS, tool=_WORDS, params=st.just({}), key=_WORDS, attempt=_NUMBERS,
        tokens=_NUMBERS, cost=_NUMBERS,
    ),
    st.builds(e.Complete, at=_TIMES, step=_STEPS, attempt=_NUMBERS, value=_NUMBERS, error=st.sampled_from(["", "x"])),
    st.builds(
        e.Abort, at=_TIMES, step=_STEPS, attempt=_NUMBERS, outcome=st.sampled_from(["not_done", "unknown"]), error=_WORDS
    ),
    st.builds(e.RetryScheduled, at=_TIMES, step=_STEPS, attempt=_NUMBERS, not_before=_TIMES),
    st.builds(
        e.Settled, at=_TIMES, step=_STEPS, attempt=_NUMBERS, how=st.sampled_from(["absent", "ask_again", "run_again"]),
        by=_WORDS,
    ),
    st.builds(e.StepRefused, at=_TIMES, step=_STEPS, code=_WORDS, reason=_WORDS),
    st.builds(e.StepSkipped, at=_TIMES, step=_STEPS, reason=st.sampled_from(["condition_false", "optional_failed"])),
    st.builds(e.StepJudged, at=_TIMES, step=_STEPS, attempt=_NUMBERS, outcome=_WORDS),
    st.builds(e.LoopGuardTripped, at=_TIMES, step=_STEPS, reason=_WORDS, count=_NUMBERS),
    st.builds(e.RunReported, at=_TIMES, report=st.just({}), outcome=_WORDS),
    st.builds(
        e.GateOpened, at=_TIMES, gate=_GATES, kind=st.sampled_from(["approval", "reconcile", "escalation"]), step=_STEPS,
        digest=_DIGESTS,
    ),
    st.builds(
        e.GateAnswered, at=_TIMES, gate=_GATES, digest=_DIGESTS, actor=_WORDS,
        answer=st.sampled_from(["approve", "deny", "happened", "did_not_happen"]),
    ),
)  # fmt: skip
"""Events of every type, whether they make sense or not."""
