"""The transition table: which events move a run where, which change nothing, and what holds whatever happens."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.loop import Phase
from tercet.contracts.plan import compensated_step
from tercet.contracts.values.canonical import digest
from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import TRANSITIONS, fold_event
from tercet.core.fold.base import IllegalEvent
from tercet.core.plans import read_plan
from tercet.core.state import TERMINAL, State
from tercet.core.table import TABLE, list_moves
from tercet.engine import checkpoint
from tercet.journal.protocol import StoredCheckpoint

from .happenings import ANYTHING, PLANS, intent, possible, proposed, reviewed, started


def fold(events: Iterable[e.Event], state: State | None = None) -> State:
    """The state after these events."""
    folded = state or State()
    for event in events:
        folded = fold_event(folded, event)
    return folded


def label(event: e.Event) -> str:
    """An event as the diagram names it."""
    outcome = TABLE[type(event)].outcome(event)
    return f"{type(event).__struct_config__.tag}{outcome and ': '}{outcome}"


def wander(
    draw: random.Random, length: int, start: State | None = None
) -> Iterator[tuple[State, e.Event, State]]:
    """A way through possible events, each with the state before and after it; those that end a run come seldom."""
    state = start or State()
    for _ in range(length):
        if state.is_over:
            return
        ways = possible(state, max(1_000, state.at) + draw.choice((0, 0, 1, 40)))
        kinds = sorted({label(event) for event in ways})
        chosen = draw.choice([kind for kind in kinds if kind not in SELDOM or draw.random() < 0.1] or kinds)
        event = draw.choice([event for event in ways if label(event) == chosen])
        before, state = state, fold_event(state, event)
        yield before, event, state


SELDOM = ("session_cancelled", "session_expired", "given_up", "planning_failed: fail", "planning_failed: escalate", "plan_reviewed: reject",
          "turn_judged: stop", "turn_judged: escalate", "turn_judged: limit", "turn_judged: retry", "turn_judged: replan",
          "session_paused", "session_migrated", "message_dropped", "session_resumed", "budget_extended",
          "step_judged: replan", "step_refused", "run_reported: fail", "run_reported: accept",
          "run_reported: replan")  # fmt: skip


def accepting() -> State:
    """A run whose outputs the critic has accepted, and that has steps which take them."""
    state = fold([started(), proposed(3), e.Decomposed(at=1_000, steps=3), e.EvidenceRetrieved(at=1_000)])
    state = fold_event(state, reviewed(state, "ok", 1_000))
    state = fold([intent("a", state.steps["a"], 1_000), e.Complete(at=1_000, step="a", attempt=1)], state)
    judged = e.StepJudged(at=1_000, step="a", attempt=1, outcome="accept")
    produced = e.OutputsProduced(at=1_000, outputs={"x": 1})
    return fold([judged, produced, e.RunReported(at=1_000, report={}, outcome="accept")], state)


def lane_at_work() -> State:
    """A lane whose plan was reviewed."""
    first = [
        started(is_lane=True),
        proposed(0),
        e.Decomposed(at=1_000, steps=3),
        e.EvidenceRetrieved(at=1_000),
    ]
    state = fold(first)
    return fold_event(state, reviewed(state, "ok", 1_000))


@cache
def reached() -> dict[Phase, list[State]]:
    """States in every phase, with calls in flight, gates open and effects being taken back, by many ways."""
    found: dict[Phase, dict[bytes, State]] = {phase: {} for phase in Phase}
    draw = random.Random(7)  # noqa: S311 - no secret: the same ways every time
    for way in range(WAYS):
        # Few ways by luck alone come to a delivery.
        start = accepting() if way % 10 == 0 else None
        for _, _, after in wander(draw, 60, start):
            found[after.phase].setdefault(_shape(after), after)
    # Lanes, by a draw of their own: they do what other runs do not.
    draw = random.Random(8)  # noqa: S311 - no secret: the same ways every time
    for _ in range(WAYS // 5):
        for _, _, after in wander(draw, 60, lane_at_work()):
            found[after.phase].setdefault(_shape(after), after)
    # One step further from everywhere, so that it is no matter of luck whether a rare event was met in a rare phase.
    for state in [state for states in found.values() for state in states.values() if not state.is_over]:
        for event in possible(state, state.at + 1):
            after = fold_event(state, event)
            found[after.phase].setdefault(_shape(after), after)
    return {phase: list(states.values()) for phase, states in found.items()}


def _shape(state: State) -> bytes:
    return msgspec.json.encode(
        [
            state.status,
            state.halted_from,
            state.ending,
            state.saga,
            bool(state.unjudged),
            state.accepted is not None and bool(state.frontier),
            state.accepted is not None,
            state.is_stepwise,
            bool(state.start.lane),
            bool(state.lane_proposals),
            state.start.shadow,
            state.is_turn_open,
            state.asking is not None,
            state.quality.stage,
            bool(state.quality.drawn),
            sorted(gate.kind for gate in state.gates.values()),
            sorted({each.status for each in state.steps.values()}),
        ]
    )


WAYS = 1_000


@cache
def samples() -> dict[str, e.Event]:
    """One event of each type, by its tag."""
    return {
        str(type(event).__struct_config__.tag): event
        for states in reached().values()
        for state in states
        if not state.is_over
        for event in possible(state, state.at + 1)
    } | {
        "session_started": started(),
        "decision_taken": e.DecisionTaken(at=1, decision="work", step="a", outcome="accept"),
        "loop_guard_tripped": e.LoopGuardTripped(at=1, step="a", reason="again", count=3),
    }


def test_every_event_has_its_row_and_its_samples() -> None:
    """The table, the union of events and these tests know the same types."""
    assert set(TABLE) == {type(event) for event in samples().values()}
    assert set(Phase) == {phase for phase, states in reached().items() if states}


@pytest.mark.parametrize("phase", Phase)
def test_an_event_that_the_table_does_not_allow_changes_nothing(phase: Phase) -> None:
    """It is refused with run, phase and event in the message, and the state is as it was."""
    refused = {tag: event for tag, event in samples().items() if phase not in TABLE[type(event)].phases}
    assert refused
    for state in reached()[phase][:10]:
        before = msgspec.msgpack.encode(state)
        for tag, event in refused.items():
            with pytest.raises(IllegalEvent) as caught:
                fold_event(state, event)
            assert caught.value.code == "illegal_event"
            if not state.is_over:
                assert caught.value.message.startswith(f"run run_1: {tag} cannot happen in phase {phase}")
            assert msgspec.msgpack.encode(state) == before, tag


def test_nothing_happens_after_the_end() -> None:
    """A session that is over takes no event at all."""
    over = [state for phase in (Phase.COMMIT, Phase.FAIL) for state in reached()[phase] if state.is_over]
    assert {state.status for state in over} == TERMINAL
    for state in over:
        for event in samples().values():
            with pytest.raises(IllegalEvent):
                fold_event(state, event)


@cache
def moves_made() -> set[tuple[Phase, str, Phase]]:
    """What `fold_event` does to the phase, tried out over every reachable phase and event."""
    return {
        (state.phase, label(event), after.phase)
        for states in reached().values()
        for state in states
        if not state.is_over
        for event in possible(state, state.at + 1)
        if (after := fold_event(state, event)).phase is not state.phase
    }


NOT_TRIED = {
    (Phase.REVIEW, "plan_reviewed: reject", Phase.PLAN),  # a change by an approver
    (Phase.REVIEW, "plan_reviewed: replan", Phase.FAIL),  # a call of unknown outcome
    (Phase.PLAN, "turn_judged: end", Phase.FAIL),  # an agent whose critic ends the run
    (Phase.ACT, "turn_judged: end", Phase.FAIL),
}
"""Moves that need more than possible events: runs in other tests make them."""


def test_the_diagram_shows_every_move_and_no_other() -> None:
    """What is drawn is what `fold_event` does."""
    assert moves_made() | NOT_TRIED == set(list_moves())
    assert not moves_made() & NOT_TRIED


@pytest.mark.req("R29")
def test_a_run_starts_with_planning_and_ends_in_three_ways() -> None:
    """COMMIT and FAIL end the session, HALT leaves it to whoever resumes it or answers its gate."""
    assert " ".join(Phase) == "PLAN DECOMPOSE RETRIEVE REVIEW ACT VERIFY CRITIQUE REPAIR COMMIT FAIL HALT"
    assert State().phase is Phase.PLAN
    assert TABLE[e.SessionEnded].phases == {Phase.COMMIT, Phase.FAIL}
    outside = ("session_", "gate_answered", "given_up")
    assert all(event.startswith(outside) for before, event, _ in moves_made() if before is Phase.HALT)


SYMBOLS = {
    "phase completion": "PLAN plan_proposed DECOMPOSE, DECOMPOSE decomposed RETRIEVE, ACT outputs_produced VERIFY, "
    "CRITIQUE outputs_critiqued:repair REPAIR, REPAIR outputs_repaired VERIFY",
    "error": "PLAN planning_failed:fail FAIL, ACT step_judged:replan PLAN, ACT step_judged:escalate HALT",
    "timeout": "ACT session_expired FAIL",
    "budget exceeded": "REPAIR given_up FAIL, VERIFY run_reported:escalate HALT, VERIFY run_reported:fail FAIL",
    "quality gate passed": "VERIFY run_reported:accept COMMIT",
    "quality gate failed": "VERIFY outputs_verified:critique CRITIQUE, VERIFY outputs_verified:repair REPAIR",
}


@pytest.mark.req("R30", "R31")
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_the_published_events_and_arcs_are_moves_of_the_machine(symbol: str) -> None:
    """Each symbol of the chapter's alphabet is one or more events here, and each leads where the chapter says."""
    for arc in SYMBOLS[symbol].split(", "):
        before, event, after = arc.split()
        assert (Phase(before), event.replace(":", ": "), Phase(after)) in moves_made()


@pytest.mark.req("R31")
def test_a_move_that_the_table_does_not_list_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself reads the table: a fold that leads elsewhere is an error, and changes nothing."""

    def astray(state: State, _: e.Event) -> State:
        return msgspec.structs.replace(state, phase=Phase.COMMIT)

    monkeypatch.setitem(TABLE, e.Decomposed, TABLE[e.Decomposed]._replace(fold=astray))
    with pytest.raises(IllegalEvent, match=r"decomposed .* it does not lead to COMMIT"):
        fold([started(), proposed(0), e.Decomposed(at=1_000, steps=3)])


@pytest.mark.req("R54")
def test_a_step_is_pending_dispatched_and_then_completed_or_failed() -> None:
    """Dispatched is called in_flight here, and completed done; a failed step is tried again from pending."""
    pending = acting()
    dispatched = fold_event(pending, intent("a", pending.steps["a"], 1_000))
    completed = fold_event(dispatched, e.Complete(at=1_000, step="a", attempt=1))
    failed = fold_event(
        dispatched, e.Abort(at=1_000, step="a", attempt=1, outcome="not_done", error="no", code="no")
    )
    retried = fold(
        [
            e.StepJudged(at=1_000, step="a", attempt=1, outcome="retry"),
            e.RetryScheduled(at=1_000, step="a", attempt=1, not_before=2_000),
        ],
        failed,
    )
    states = (pending, dispatched, completed, failed, retried)
    assert [state.steps["a"].status for state in states] == [
        "pending", "in_flight", "done", "failed", "pending",
    ]  # fmt: skip


def test_a_delivery_begins_only_with_the_text_that_was_accepted() -> None:
    """Over every way: when a step begins that takes an output, or waits for one that does, these outputs were accepted."""
    draw = random.Random(5)  # noqa: S311 - no secret: the same ways every time
    delivered = 0
    for _ in range(WAYS):
        accepted: str | None = None
        for before, event, after in wander(draw, 60, accepting()):
            if isinstance(event, e.OutputsAccepted):
                accepted = event.digest
            if isinstance(event, e.PlanProposed):
                accepted = None
            if isinstance(event, e.Intent) and not compensated_step(event.step):
                graph = read_plan(before.plan).graph
                if list(before.steps).index(event.step) in graph.delivery:
                    assert accepted == digest(after.outputs)
                    delivered += 1
    assert delivered > 50


def test_other_outputs_than_those_that_were_judged_are_not_accepted() -> None:
    """The digest is that of the outputs of the run, and they are accepted once."""
    with pytest.raises(IllegalEvent, match="it is about other outputs"):
        fold_event(accepting(), e.OutputsAccepted(at=1_000, digest=digest({"x": 2})))
    state = fold_event(accepting(), e.OutputsAccepted(at=1_000, digest=digest({"x": 1})))
    with pytest.raises(IllegalEvent):
        fold_event(state, e.OutputsProduced(at=1_000, outputs={"x": 2}))
    with pytest.raises(IllegalEvent, match="not delivered yet"):
        fold_event(accepting(), e.SessionEnded(at=1_000, status="completed", reason="over"))


def test_no_event_lets_a_delivery_begin_early() -> None:
    """Whatever happens before the acceptance, the INTENT of a delivery is refused."""
    tried = 0
    for state in (state for states in reached().values() for state in states):
        if state.accepted is None and state.plan and state.phase is Phase.ACT and not state.is_over:
            plan = read_plan(state.plan)
            for name in (plan.steps[index].id for index in plan.graph.delivery):
                tried += 1
                with pytest.raises(IllegalEvent):
                    fold_event(state, intent(name, state.steps[name], state.at))
    assert tried >= 5


@pytest.mark.slow
@pytest.mark.req("R139", "R251")
def test_every_transition_of_the_table_happens_and_no_other() -> None:
    """Over thousands of ways through possible events, sessions change their state exactly as the table says."""
    draw = random.Random(11)  # noqa: S311 - no secret: the same ways every time
    seen = {
        (before.status, after.status)
        for _ in range(4 * WAYS)
        for before, _, after in wander(draw, 60)
        if before.status != after.status
    }
    assert seen == {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


def test_a_session_starts_once() -> None:
    """A second start is refused, also before there is a plan."""
    with pytest.raises(IllegalEvent, match="it has started already"):
        fold([started(), started()])


def acting(number: int = 0) -> State:
    """A run that has begun to carry out a plan."""
    state = fold(
        [started(), proposed(number), e.Decomposed(at=1_000, steps=2), e.EvidenceRetrieved(at=1_000)]
    )
    return fold_event(state, reviewed(state, "ok", 1_000))


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([e.Complete(at=1, step="a", attempt=0)], "step a is pending"),
        ([e.Abort(at=1, step="z", attempt=1, outcome="unknown", error="")], "there is no step z"),
        ([intent("b", acting().steps["b"], 1)], "step b is pending"),
        ([intent("a", acting().steps["a"], 1, attempt=2)], "attempt 1 is due"),
        ([intent("a", acting().steps["a"], 1)] * 2, "step a is in_flight"),
        ([e.StepJudged(at=1, step="a", attempt=0, outcome="accept")], "step a is pending"),
        ([e.RetryScheduled(at=1, step="a", attempt=0, not_before=1)], "step a is pending"),
        ([e.Settled(at=1, step="a", attempt=0, how="absent", by="x")], "step a is pending"),
        ([e.GateAnswered(at=1, gate="g", digest="", answer="approve", actor="b")], "gate g is not open"),
        ([intent("a", acting().steps["a"], 1), e.SessionPaused(at=1, reason="")], "a call is in flight"),
        ([intent("a", acting().steps["a"], 1), e.OutputsProduced(at=1)], "a call is in flight"),
    ],
)  # fmt: skip
def test_an_event_that_does_not_fit_its_step_is_refused(events: list[e.Event], why: str) -> None:
    """The phase would allow it; where the step stands does not."""
    state = fold(events[:-1], acting())
    with pytest.raises(IllegalEvent, match=why):
        fold_event(state, events[-1])


def test_an_answer_is_bound_to_the_digest_and_to_the_kind_of_gate() -> None:
    """Another call's digest, and an answer that the gate does not ask for, are refused."""
    gate = e.GateOpened(at=1, gate="g", kind="approval", step="a", digest="this")
    state = fold_event(acting(), gate)
    assert state.status == "awaiting_gate"
    with pytest.raises(IllegalEvent, match="another call"):
        fold_event(state, e.GateAnswered(at=1, gate="g", digest="that", answer="approve", actor="b"))
    with pytest.raises(IllegalEvent, match="not an answer to a gate of kind approval"):
        fold_event(state, e.GateAnswered(at=1, gate="g", digest="this", answer="happened", actor="b"))
    with pytest.raises(IllegalEvent, match="this gate is open already"):
        fold_event(state, gate)


def test_a_plan_that_cannot_be_read_is_refused() -> None:
    """A journal changed by hand ends in a typed error, not in a crash of the reader."""
    with pytest.raises(IllegalEvent, match="its plan cannot be read"):
        fold([started(), e.PlanProposed(at=1, plan={"steps": "none"}, hash="h", origin="planner")])


def test_what_was_fetched_for_a_repair_is_kept_for_what_became_of_it() -> None:
    """The outputs stand on it when they are verified again; those of another plan do not."""
    found = e.EvidenceFetched(at=1, refs=("kg:order:1#snapshot_s1",), facts="sha256:5")
    brought = e.ToolRetry(step="a", tool="do.it", result=1)
    found = msgspec.structs.replace(
        found, results=(brought, e.ToolRetry(step="a", tool="do.it", error="no")), calls=2, cost=5
    )
    state = msgspec.structs.replace(acting(), phase=Phase.REPAIR)
    with pytest.raises(IllegalEvent, match="no call of step a has failed"):
        fold_event(state, found)
    failed = msgspec.structs.replace(
        state.steps["a"], status="skipped", attempt=1, calls=1, outcome="not_done"
    )
    state = msgspec.structs.replace(state, steps={**state.steps, "a": failed})
    now = fold_event(state, found)
    assert now.quality.fresh[:2] == (*found.refs, "kg:result:a#snapshot_run")
    assert (now.used.tool_calls - state.used.tool_calls, now.used.cost - state.used.cost) == (2, 5)
    again = fold([e.OutputsRepaired(at=1, outputs={"x": 2})], now)
    assert (again.quality.fresh, again.quality.fetched) == ((), found.refs)
    assert again.quality.retried == (brought,)
    anew = fold([e.OutputsProduced(at=1)], msgspec.structs.replace(again, phase=Phase.ACT))
    assert (anew.quality.fetched, anew.quality.retried) == ((), ())


# --- whatever happens ---


def play(choices: list[tuple[int, int]]) -> list[e.Event]:
    """A history that a driver could have recorded: each pair chooses one possible event, and how much later it is."""
    state, history = State(), list[e.Event]()
    for choice, later in choices:
        if state.is_over:
            break
        ways = possible(state, max(1_000, state.at) + later)
        event = ways[choice % len(ways)]
        state = fold_event(state, event)
        history.append(event)
    return history


HISTORIES = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from([0, 0, 1, 40])), min_size=1, max_size=60
).map(play)


@settings(max_examples=300, deadline=None)
@given(HISTORIES)
def test_no_budget_is_ever_negative_and_every_event_counts(history: list[e.Event]) -> None:
    """Positions count up, nothing is used backwards, and what is reserved is reserved for calls in flight or unknown."""
    state = State()
    for number, event in enumerate(history, start=1):
        before, state = state, fold_event(state, event)
        assert state.position == number
        assert state.at >= before.at
        used, was = msgspec.structs.asdict(state.used), msgspec.structs.asdict(before.used)
        assert all(amount >= 0 for amount in used.values())
        assert all(used[name] >= was[name] for name in used if not name.startswith(("reserved", "held")))
        flying = [state.steps[name] for name in state.in_flight]
        assert state.used.reserved_calls == sum(step.calls for step in flying)
        kept = [step for step in state.steps.values() if step.is_reserving]
        asked = 0 if state.asking is None else state.asking.tokens
        assert state.used.reserved_tokens == sum(step.tokens for step in kept) + asked
        paid = 0 if state.asking is None else state.asking.cost
        assert state.used.reserved_cost == sum(step.cost for step in kept) + paid


@settings(max_examples=200, deadline=None)
@given(HISTORIES)
def test_what_a_state_says_of_itself_agrees(history: list[e.Event]) -> None:
    """Steps behind the frontier have ended, those on it wait for nothing, and gates belong to steps that know them."""
    state = fold(history)
    for name, step in state.steps.items():
        is_ahead = step.unmet == 0 and step.status not in ("done", "skipped")
        assert (name in state.frontier) == is_ahead or (
            state.saga == "undoing" and not compensated_step(name)
        )
    asked = {name: gate.id for gate in state.gates.values() if gate.step for name in gate.calls}
    # What follows a plan that is given up finds its steps as they were.
    if state.phase not in (Phase.PLAN, Phase.COMMIT) and not state.is_over:
        assert {name: step.gate for name, step in state.steps.items() if step.gate} == asked
    if state.status == "awaiting_gate" and not state.ending:
        assert state.gates
        assert not state.in_flight
    if state.active_since:
        assert state.status == "in_progress"


@pytest.mark.req("R155")
@settings(max_examples=200, deadline=None)
@given(HISTORIES, st.integers(0, 60))
def test_a_fold_in_two_halves_is_the_fold_at_once(history: list[e.Event], cut: int) -> None:
    """Through a checkpoint in the middle, and through the bytes of every event, the same state comes out."""
    half = fold(history[:cut])
    written = checkpoint.fold(half)
    read = checkpoint.read_fold(StoredCheckpoint(written.seq, "fold", "", written.data))
    assert read == half
    stored = [codec.encode(event) for event in history]
    assert [codec.decode(data) for data in stored] == history
    whole = fold(history)
    assert fold((codec.decode(data) for data in stored[cut:]), read) == whole
    assert checkpoint.summary(fold(history[cut:], read)) == checkpoint.summary(whole)


@settings(max_examples=300, deadline=None)
@given(HISTORIES, st.lists(ANYTHING, max_size=8))
def test_any_event_at_any_time_is_taken_or_refused(history: list[e.Event], more: list[e.Event]) -> None:
    """`fold_event` is total: a next state, or `IllegalEvent` and the state as it was; nothing else ever comes out."""
    state = fold(history)
    for event in more:
        before = msgspec.msgpack.encode(state)
        try:
            following = fold_event(state, event)
        except IllegalEvent:
            assert msgspec.msgpack.encode(state) == before
        else:
            assert following.position == state.position + 1
            assert all(amount >= 0 for amount in msgspec.structs.asdict(following.used).values())
            state = following


def test_a_kept_step_is_not_done_again() -> None:
    """A step that a new plan says in the same words stays done; one that it words differently is new."""
    state = acting()
    for event in (
        intent("a", state.steps["a"], 2_000),
        e.Complete(at=2_000, step="a", attempt=1, value={"n": 1}),
        e.StepJudged(at=2_000, step="a", attempt=1, outcome="accept"),
        intent("b", state.steps["b"], 2_000),
        e.Abort(at=2_000, step="b", attempt=1, outcome="not_done", error="no"),
        e.StepJudged(at=2_000, step="b", attempt=1, outcome="replan", reason="b failed"),
        proposed(1, 2_000),
    ):
        state = fold_event(state, event)
    assert (state.steps["a"].status, state.steps["a"].value) == ("done", {"n": 1})
    assert (state.steps["b"].status, state.steps["b"].attempt) == ("pending", 0)
    assert state.frontier == ("b",)
    assert state.refused == (PLANS[0].hash,)
    assert (state.used.replans, state.feedback, state.revision) == (1, ("b failed",), 2)
