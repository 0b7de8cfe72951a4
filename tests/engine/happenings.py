"""Events to try on a state: those that a driver or a person could bring about there, and any others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec
from hypothesis import strategies as st

from tercet.contracts.decision import OnFailure
from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan, compensated_step
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.core.events.gate import Answered, GateKind
from tercet.core.events.plan import TurnAction
from tercet.core.fold.base import ANSWERS
from tercet.core.fold.gate import acceptances, can_be_held
from tercet.core.fold.quality import awaits_delivery
from tercet.core.state import OpenGate, State, StepState

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
    plan(
        step("a"),
        step("b", params={"text": {"$from": "outputs#/x"}}),
        step("c", depends_on=("b",)),
        outputs={"x": {"$from": "a#/n"}},
    ),
)
NEEDS: tuple[dict[str, e.Need], ...] = (
    {"": e.Need()},
    {"BOSS": e.Need(roles=("boss",), quorum=2), "LAW": e.Need(roles=("law",))},
)
PEOPLE = {"bob": ("boss",), "cleo": ("boss", "law"), "dan": ()}
"""Who may answer: their roles by name. Ada, who started the run, is none of them."""
TTL_MS = 500


def started(
    at: int = 1_000, *, on_failure: OnFailure = "ask", shadow: bool = False, stepwise: bool = False
) -> e.SessionStarted:
    """The first event of a session; an agent that decides turn by turn may fail."""
    return e.SessionStarted(
        at=at, session="ses_1", run="run_1", trace="trace_1", tenant="default", actor={"id": "ada"},
        request={"intent": "work"}, decision="work", safety_mode="local_write", budget={}, pack="p@1.0.0",
        pack_hash="sha256:0", snapshot="", context="sha256:1", expires=at + 2_000, on_failure=on_failure,
        shadow=shadow, fallible=stepwise, stepwise=stepwise,
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


def answered(gate: OpenGate, answer: Answered, at: int, actor: str = "bob", **more: Any) -> e.GateAnswered:
    """An answer of somebody to a gate."""
    roles = PEOPLE.get(actor, ())
    return e.GateAnswered(
        at=at, gate=gate.id, digest=gate.digest, answer=answer, actor=actor, roles=roles, **more
    )


def possible(state: State, at: int) -> list[e.Event]:
    """Every event that a driver or a person could bring about now: none of them may be refused."""
    if not state.is_started:
        return [
            started(at),
            started(at, on_failure="compensate"),
            started(at, shadow=True),
            started(at, stepwise=True),
        ]
    found: list[e.Event] = [
        e.SessionResumed(at=at, owner="o", epoch=1, in_flight=state.in_flight),
        e.MessageDropped(at=at, inbox=state.inbox + 1, code="gate_not_open", reason="too late"),
    ]
    found += _in_phase(state, at)
    if state.phase not in (Phase.COMMIT, Phase.FAIL):
        found += _from_outside(state, at)
    is_busy = bool(state.in_flight) or state.asking is not None
    if state.phase not in (Phase.COMMIT, Phase.FAIL, Phase.HALT) and not is_busy:
        found.append(e.GivenUp(at=at, reason="iteration_budget_exceeded", iterations=50))
    return found


def _in_phase(state: State, at: int) -> Iterator[e.Event]:
    match state.phase:
        case Phase.PLAN:
            yield from _plans(state, at)
        case Phase.DECOMPOSE:
            yield e.Decomposed(at=at, steps=len(state.steps))
        case Phase.RETRIEVE:
            yield e.EvidenceRetrieved(at=at)
        case Phase.REVIEW:
            yield from [reviewed(state, outcome, at) for outcome in ("ok", "replan", "reject")]
            if state.start.fallible:
                yield msgspec.structs.replace(reviewed(state, "reject", at), escalates=True)
        case Phase.ACT:
            yield from _acts(state, at)
        case Phase.VERIFY:
            yield from _verifies(state, at)
        case Phase.CRITIQUE:
            yield from _critiques(state, at)
        case Phase.REPAIR:
            yield from _repairs(state, at)
        case Phase.HALT:
            yield from _halts(state, at)
        case Phase.COMMIT | Phase.FAIL:
            yield from _last(state, at)


def _plans(state: State, at: int) -> Iterator[e.Event]:
    if state.asking is None and state.is_turn_open:
        yield from _turned(state, at, ("continue", "retry", "replan", "stop", "escalate", "limit"))
        return
    yield from _asks(state, at, "plan")
    if state.asking is None:
        yield from [proposed(number, at) for number in range(len(PLANS))]
        outcomes: tuple[Literal["fail", "replan", "escalate"], ...] = ("fail", "replan", "escalate")
        yield from [e.PlanningFailed(at=at, reason="no idea", outcome=outcome) for outcome in outcomes]


def _asks(state: State, at: int, purpose: str) -> Iterator[e.Event]:
    """A model is asked, or has answered."""
    if (asked := state.asking) is not None:
        yield e.ModelAnswered(at=at, call=asked.call, answer="a plan", tokens_in=2, tokens_out=3, cost=1)
        yield e.ModelAnswered(at=at, call=asked.call, error="down", code="model_unavailable")
        return
    attempt = 1 + state.asked % 2
    yield e.ModelAsked(
        at=at, call=state.asked + 1, purpose=purpose, model="m", prompt="sha256:3", attempt=attempt, tokens=9, cost=4
    )  # fmt: skip


def _verifies(state: State, at: int) -> Iterator[e.Event]:
    """What becomes of outputs: they are tested and verified, scored, and shown to a person."""
    quality = state.quality
    yield from _answers(state, at)
    if state.gates:
        return
    if quality.stage == "asking":
        yield from (_opened(state, "", "output", at, needs) for needs in NEEDS)
        return
    if state.asking is None:
        outcomes = ("accept", "replan", "escalate", "ask", "fail")
        yield from [e.RunReported(at=at, report={}, outcome=outcome) for outcome in outcomes]
    if quality.stage:
        return
    if not quality.drawn:
        yield e.ExperienceDrawn(at=at, task_class="letter")
    if not quality.vote and not quality.tests:
        yield e.SamplesDrawn(at=at, samples=(1, 1, 2), chosen={"x": 1}, calls=2)
    yield from _asks(state, at, "verify")
    if state.asking is None:
        result = {"passed": 1, "failed": 0}
        if quality.read is None:
            yield e.OutputsRead(at=at, locale="en", texts=({"pointer": "/x", "text": "1"},), outputs={"x": 1})
        yield e.TestsRun(at=at, number=len(quality.tests), tool="test.it", result=result, cost=3)
        yield from [_verified(following, at) for following in ("critique", "repair", "exit")]


def _critiques(state: State, at: int) -> Iterator[e.Event]:
    yield from _asks(state, at, "critique")
    if state.asking is None:
        tried = ({"case": {"input": 0}, "error": "boom"},)
        if (number := len(state.quality.attacks)) < 2:
            yield e.OutputsAttacked(at=at, number=number, tool="try.it", tried=tried, calls=1, cost=2)
        yield _critiqued("repair", at)
        yield _critiqued("exit", at)


def _repairs(state: State, at: int) -> Iterator[e.Event]:
    yield from _asks(state, at, "repair")
    if state.asking is not None:
        return
    if not state.quality.has_fetched:
        failed = (name for name, step in state.steps.items() if step.has_failed_call)
        results = tuple(e.ToolRetry(step=name, tool="do.it", result=1) for name in failed)
        calls = len(results)
        yield e.EvidenceFetched(
            at=at,
            refs=("kg:order:1#snapshot_s1",),
            facts="sha256:5",
            results=results,
            calls=calls,
            cost=calls,
        )
    yield e.OutputsRepaired(at=at, outputs={"x": 2}, log=({"success": True},))
    yield e.OutputsRepaired(at=at, outputs=state.outputs, outcome="escalated", escalation={"kind": "HUMAN"})


def _verified(following: Literal["critique", "repair", "exit"], at: int) -> e.OutputsVerified:
    return e.OutputsVerified(at=at, verdict={"schema_valid": following != "repair"}, next=following)


def _critiqued(following: Literal["repair", "exit"], at: int) -> e.OutputsCritiqued:
    return e.OutputsCritiqued(
        at=at, diagnosis={}, rubric={}, confidence={}, exit={}, next=following, control={"quality": 0.5}
    )


def _turned(state: State, at: int, actions: tuple[TurnAction, ...]) -> Iterator[e.Event]:
    done = tuple(name for name in state.steps if state.steps[name].status == "done")
    for action in actions:
        yield e.TurnJudged(
            at=at, turn=state.turns + 1, action=action, reason=action, critic="c", trusted=done[:1]
        )


def _from_outside(state: State, at: int) -> Iterator[e.Event]:
    """What people and time do to a run whose end is not decided."""
    yield e.SessionCancelled(at=at, by="ada", reason="never mind", inbox=state.inbox + 1)
    yield e.SessionExpired(at=at, reason="Session expired", outside=True)
    yield e.BudgetExtended(at=at, by="bob", more={"tokens": 5}, outside=True)
    is_busy = bool(state.in_flight) or state.asking is not None
    is_open = any(each.is_reserving for each in state.steps.values())
    if not is_busy and not is_open and state.accepted is None:
        yield _migrated(at)
    if state.status == "in_progress" and state.phase is not Phase.HALT:
        yield e.SessionPaused(at=at, reason="heartbeat lost", outside=True)
        if not state.in_flight:
            yield e.SessionPaused(at=at, reason="stop")


def _migrated(at: int) -> e.SessionMigrated:
    return e.SessionMigrated(
        at=at, pack="p@2.0.0", pack_hash="sha256:9", snapshot="s2", context="sha256:8", by="bob"
    )


def _last(state: State, at: int) -> Iterator[e.Event]:
    if given := acceptances(state):
        yield e.AcceptanceLapsed(at=at, gate=given[-1].gate, reason="bob is no boss any more")
    if awaits_delivery(state):
        yield e.OutputsAccepted(at=at, digest=digest(state.outputs), by=tuple(each.actor for each in given))
        yield _migrated(at)
        return
    for name in state.in_flight:
        yield from _ends(name, state.steps[name], at)
    yield from _answers(state, at)
    is_open = any(state.steps[name].is_reserving for name in state.frontier)
    if state.saga == "undoing":
        for name in state.frontier:
            yield from _of_step(state, name, state.steps[name], at)
    elif is_open:
        yield from _asked_whether(state, at)
    elif state.phase is Phase.FAIL and not state.gates and state.saga in ("", "agreed"):
        yield from _taken_back(state, at)
    is_undone = state.saga != "undoing" or not state.frontier
    is_told = state.ending != "rejected" or state.status == "awaiting_gate"
    if not is_open and not state.gates and is_undone and is_told:
        status = "completed" if state.phase is Phase.COMMIT else state.ending
        yield e.SessionEnded(at=at, status=status, reason="over")


def _asked_whether(state: State, at: int) -> Iterator[e.Event]:
    for name in state.frontier:
        if state.steps[name].status == "unknown" and not state.steps[name].gate:
            yield _opened(state, name, "reconcile", at)


def _taken_back(state: State, at: int) -> Iterator[e.Event]:
    done = dict.fromkeys(reversed(state.done))
    ways = tuple(
        e.Undo(step=name, tool="undo.it" if number % 3 else "", key=f"undo {name}")
        for number, name in enumerate(done)
    )
    yield e.CompensationBegun(at=at, undo=ways)
    if not state.saga:
        yield e.EffectsKept(at=at)
        yield _opened(state, "", "compensation", at)


def _halts(state: State, at: int) -> Iterator[e.Event]:
    yield from _answers(state, at)
    if state.reason.startswith("escalated: ") and all(g.kind != "escalation" for g in state.gates.values()):
        yield _opened(state, "", "escalation", at)


def _acts(state: State, at: int) -> Iterator[e.Event]:
    for name, each in state.steps.items():
        yield from _of_step(state, name, each, at)
    yield from _answers(state, at)
    if not state.frontier and state.is_turn_open:
        yield from _turned(state, at, ("continue", "retry", "replan", "stop", "escalate", "limit", "final"))
    elif not state.frontier and state.accepted is None:
        yield e.OutputsProduced(at=at, outputs={"x": 1})
    elif not state.frontier and not state.unjudged and not state.gates:
        yield from [e.RunReported(at=at, report={}, outcome=outcome) for outcome in ("accept", "escalate")]


def _of_step(state: State, name: str, step: StepState, at: int) -> Iterator[e.Event]:
    is_undo = bool(compensated_step(name))
    if name in state.unjudged:
        yield from _judged(state, name, step, at)
    if name not in state.frontier:
        return
    if step.status == "in_flight" and not is_undo:
        yield from _ends(name, step, at)
    elif step.status == "pending":
        yield from _ready(state, name, step, at)
    elif step.status == "unknown" and not step.gate:
        yield from _unknown(state, name, step, at)
    elif step.status == "failed" and name not in state.unjudged:
        if step.outcome == "not_done":
            yield e.RetryScheduled(at=at, step=name, attempt=step.attempt, not_before=at + 9)
        yield e.StepSkipped(at=at, step=name, reason="optional_failed")


def _judged(state: State, name: str, step: StepState, at: int) -> Iterator[e.Event]:
    yield e.StepJudged(at=at, step=name, attempt=step.attempt, outcome="accept")
    if compensated_step(name):
        return
    # A run is not left while it is not known of each of its calls whether it happened.
    if not any(state.steps[other].is_reserving for other in state.frontier):
        for outcome in ("replan", "escalate"):
            yield e.StepJudged(at=at, step=name, attempt=step.attempt, outcome=outcome, reason="why")


def _ready(state: State, name: str, step: StepState, at: int) -> Iterator[e.Event]:
    if compensated_step(name):
        yield intent(name, step, at, tokens=0, tool="undo.it", cost=2)
    else:
        yield intent(name, step, at, hold_calls=1, hold_cost=2)
    if step.is_unsettled:
        return
    yield e.StepRefused(at=at, step=name, code="unresolved", reason="no value")
    earlier = e.EarlierCall(session="ses_0", step="a", key="key", at=1)
    yield e.RepeatsChecked(at=at, step=name, key=f"key {name}", found=(earlier,))
    if compensated_step(name):
        return
    yield intent(name, step, at, tool="", call="", tokens=0, cost=0)
    yield e.StepSkipped(at=at, step=name, reason="condition_false")
    yield from (_opened(state, name, "approval", at, needs) for needs in NEEDS)
    if not step.is_added:
        yield e.ApprovalGranted(at=at, step=name, policy="cheap", digest=f"digest {name}")


def _unknown(state: State, name: str, step: StepState, at: int) -> Iterator[e.Event]:
    hows: tuple[Literal["absent", "ask_again", "run_again"], ...] = ("absent", "ask_again", "run_again")
    for how in hows:
        yield e.Settled(at=at, step=name, attempt=step.attempt, how=how, by="test", not_before=at + 5)
    yield e.Complete(
        at=at, step=name, attempt=step.attempt, value={"n": 1}, reconciled=True, tokens=step.tokens, cost=step.cost
    )  # fmt: skip
    yield _opened(state, name, "reconcile", at)


def _ends(name: str, step: StepState, at: int) -> Iterator[e.Event]:
    used: dict[str, Any] = {"attempt": step.attempt, "tokens": step.tokens, "cost": step.cost}
    yield e.Complete(at=at, step=name, value={"n": name}, **used)
    yield e.Complete(at=at, step=name, blob="sha256:2", carries=("n",), **used)
    yield e.Complete(at=at, step=name, error="against its schema", **used)
    yield e.Abort(at=at, step=name, attempt=step.attempt, outcome="not_done", error="no")
    yield e.Abort(
        at=at, step=name, attempt=step.attempt, outcome="not_done", error="no", code="lease_expired"
    )
    yield e.Abort(at=at, step=name, attempt=step.attempt, outcome="unknown", error="lost")


def _opened(
    state: State, name: str, kind: GateKind, at: int, needs: dict[str, e.Need] | None = None
) -> e.GateOpened:
    """A gate; one that several people are asked about covers every other call that has not begun."""
    covered = [
        other
        for other, each in state.steps.items()
        if other != name and each.status == "pending" and not each.attempt and needs == NEEDS[1]
    ]
    return e.GateOpened(
        at=at,
        gate=f"ses_1.g{state.opened + 1}",
        kind=kind,
        step=name,
        digest=f"digest {name}",
        needs=needs or {},
        covers={other: f"digest {other}" for other in covered},
        expires=at + TTL_MS if kind == "approval" else 0,
    )


def _answers(state: State, at: int) -> Iterator[e.Event]:
    for gate in (*state.gates.values(), *state.approved.values()):
        if gate.expires and at >= gate.expires:
            continue
        if gate.id in state.gates:
            yield from _answers_to(state, gate, at)
        for approval in gate.approvals if gate.kind == "approval" else ():
            if any(can_be_held(state.steps[name], gate) for name in gate.calls):
                yield answered(gate, "withdraw", at, approval.actor)


def _answers_to(state: State, gate: OpenGate, at: int) -> Iterator[e.Event]:
    for answer in ANSWERS[gate.kind]:
        said = msgspec.convert(answer, Answered)
        match answer:
            case "approve":
                approved = {approval.actor for approval in gate.approvals}
                yield from (answered(gate, said, at, name) for name in PEOPLE if name not in approved)
            case "withdraw":
                pass
            case "extend":
                yield answered(gate, said, at, value={"tool_calls": 1})
            case "accept_partial" if any(state.steps[name].is_reserving for name in state.frontier):
                pass
            case _:
                yield answered(gate, said, at, value={"n": 2}, note="so be it")


_STEPS = st.sampled_from(["a", "b", "c", "d", "n", "~a", "nobody", ""])
_TIMES = st.integers(0, 5_000)
_NUMBERS = st.integers(0, 3)
_WORDS = st.sampled_from(
    [
        "ok",
        "replan",
        "reject",
        "accept",
        "escalate",
        "retry",
        "ask",
        "fail",
        "completed",
        "failed",
        "rejected",
        "expired",
        "?",
    ]
)
_GATES = st.sampled_from(["ses_1.g1", "ses_1.g2", "gate"])
_DIGESTS = st.sampled_from(["digest a", "digest b", "digest ", ""])
_KINDS = st.sampled_from(["approval", "reconcile", "escalation", "compensation", "output"])
_MORE = st.dictionaries(
    st.sampled_from(["tokens", "tool_calls", "luck"]), st.integers(-2, 2) | st.just("much")
)
_PEOPLE = st.sampled_from([*PEOPLE, "ada"])

ANYTHING: st.SearchStrategy[e.Event] = st.one_of(
    st.builds(started, _TIMES, stepwise=st.booleans()),
    st.builds(e.SessionResumed, at=_TIMES, owner=_WORDS, epoch=_NUMBERS),
    st.builds(e.SessionPaused, at=_TIMES, reason=_WORDS, outside=st.booleans()),
    st.builds(e.SessionCancelled, at=_TIMES, by=_PEOPLE, outside=st.booleans()),
    st.builds(e.SessionExpired, at=_TIMES, reason=_WORDS, outside=st.booleans()),
    st.builds(
        e.SessionMigrated, at=_TIMES, pack=_WORDS, pack_hash=_WORDS, snapshot=_WORDS, context=_WORDS, by=_PEOPLE
    ),
    st.builds(e.BudgetExtended, at=_TIMES, by=_PEOPLE, more=_MORE),
    st.builds(e.GivenUp, at=_TIMES, reason=_WORDS, iterations=st.integers(0, 9)),
    st.builds(e.SessionEnded, at=_TIMES, status=_WORDS, reason=_WORDS),
    st.builds(proposed, _NUMBERS, _TIMES),
    st.builds(e.PlanProposed, at=_TIMES, plan=st.just({"steps": 3}), hash=_WORDS, origin=_WORDS),
    st.builds(
        e.PlanningFailed, at=_TIMES, reason=_WORDS, outcome=st.sampled_from(["fail", "replan", "escalate"])
    ),
    st.builds(e.ModelAsked, at=_TIMES, call=_NUMBERS, purpose=_WORDS, model=_WORDS, prompt=_WORDS, tokens=_NUMBERS),
    st.builds(e.ModelAnswered, at=_TIMES, call=_NUMBERS, tokens_in=_NUMBERS, cost=_NUMBERS, code=_WORDS),
    st.builds(
        e.TurnJudged, at=_TIMES, turn=_NUMBERS, action=st.sampled_from(get_args(TurnAction)),
        trusted=st.lists(_STEPS, max_size=2).map(tuple),
    ),
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
        tokens=_NUMBERS, cost=_NUMBERS, hold_calls=_NUMBERS, hold_cost=_NUMBERS,
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
    st.builds(e.RepeatsChecked, at=_TIMES, step=_STEPS, key=_WORDS),
    st.builds(e.StepRefused, at=_TIMES, step=_STEPS, code=_WORDS, reason=_WORDS),
    st.builds(e.StepSkipped, at=_TIMES, step=_STEPS, reason=st.sampled_from(["condition_false", "optional_failed"])),
    st.builds(e.StepJudged, at=_TIMES, step=_STEPS, attempt=_NUMBERS, outcome=_WORDS),
    st.builds(e.LoopGuardTripped, at=_TIMES, step=_STEPS, reason=_WORDS, count=_NUMBERS),
    st.builds(e.RunReported, at=_TIMES, report=st.just({}), outcome=_WORDS),
    st.builds(
        e.GateOpened, at=_TIMES, gate=_GATES, kind=_KINDS, step=_STEPS, digest=_DIGESTS,
        needs=st.sampled_from(NEEDS), covers=st.dictionaries(_STEPS, _DIGESTS, max_size=2), expires=_TIMES,
    ),
    st.builds(
        e.GateAnswered, at=_TIMES, gate=_GATES, digest=_DIGESTS, actor=_PEOPLE, roles=st.sampled_from([(), ("boss",)]),
        answer=st.sampled_from([answer for answers in ANSWERS.values() for answer in answers]),
        value=st.none() | _MORE,
    ),
    st.builds(
        e.OutputsAccepted, at=_TIMES, digest=st.sampled_from([digest({}), digest({"x": 1}), digest({"x": 2}), ""])
    ),
    st.builds(e.AcceptanceLapsed, at=_TIMES, gate=_GATES, reason=_WORDS),
    st.builds(e.ApprovalGranted, at=_TIMES, step=_STEPS, policy=_WORDS, digest=_DIGESTS),
    st.builds(e.MessageDropped, at=_TIMES, inbox=_NUMBERS, code=_WORDS, reason=_WORDS),
    st.builds(
        e.CompensationBegun, at=_TIMES,
        undo=st.lists(st.builds(e.Undo, step=_STEPS, tool=st.sampled_from(["", "undo.it"])), max_size=2).map(tuple),
    ),
    st.builds(e.EffectsKept, at=_TIMES, by=_PEOPLE),
    st.builds(e.ExperienceDrawn, at=_TIMES, task_class=_WORDS),
    st.builds(e.OutputsRead, at=_TIMES, locale=_WORDS),
    st.builds(e.TestsRun, at=_TIMES, number=_NUMBERS, tool=_WORDS, cost=_NUMBERS),
    st.builds(_verified, st.sampled_from(["critique", "repair", "exit"]), _TIMES),
    st.builds(_critiqued, st.sampled_from(["repair", "exit"]), _TIMES),
    st.builds(e.EvidenceFetched, at=_TIMES, facts=_WORDS),
    st.builds(e.OutputsRepaired, at=_TIMES, outputs=st.just({"x": 2})),
)  # fmt: skip
"""Events of every type, whether they make sense or not."""
