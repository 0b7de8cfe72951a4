"""`decide`: what is due in a state. Pure calls; nothing runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tercet.contracts.loop import Phase
from tercet.contracts.plan import Plan
from tercet.contracts.runs.session import RoleLimit
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.decide import MAX_ASKED, SLOTS, decide
from tercet.core.fold.apply import fold_event
from tercet.core.run import Run
from tercet.core.state import State, Used
from tercet.engine import sessions

from .happenings import intent, reviewed, started
from .workshop import ASK, Workshop, plan, step


def run_of(config: RunConfig, state: State) -> Run:
    """A run in a state."""
    return Run(config, state, tools=config.surface, limit_for=lambda _: RoleLimit(), blobs={}, facts={})


class Case:
    """A run that carries out a plan, moved on by events."""

    def __init__(self, workshop: Workshop, proposed: Plan, **pack: Any) -> None:
        made = workshop.pack(**pack)
        self.config: RunConfig = sessions.build_run_config(made, made.run_context(), ASK, None)
        dumped = proposed.model_dump(mode="json", exclude_defaults=True)
        self.state = State()
        self.happen(
            started(),
            e.PlanProposed(at=1_000, plan=dumped, hash=proposed.hash, origin="caller"),
            e.Decomposed(at=1_000, steps=1),
            e.EvidenceRetrieved(at=1_000),
        )
        self.happen(reviewed(self.state, "ok", 1_000))

    def happen(self, *events: e.Event) -> None:
        """Something happened."""
        for event in events:
            self.state = fold_event(self.state, event)

    def begin(self, *names: str) -> None:
        """The calls of these steps begin, as decided."""
        for name in names:
            [due] = [one for one in self.due() if isinstance(one, c.Dispatch) and one.step == name]
            self.happen(
                e.Intent(
                    at=self.state.at, step=name, tool="do.it", params=due.params, key=due.key, attempt=due.attempt,
                    occurrence=due.occurrence, deadline=self.state.at + 100, call=name,
                )
            )  # fmt: skip

    def end(self, name: str, **fields: Any) -> None:
        """The call of a step ends well, and the critic accepts it."""
        attempt = self.state.steps[name].attempt
        value = fields.pop("value", {"n": name})
        self.happen(e.Complete(at=self.state.at, step=name, attempt=attempt, value=value, **fields))
        self.happen(e.StepJudged(at=self.state.at, step=name, attempt=attempt, outcome="accept"))

    def abort(self, name: str, outcome: Any = "not_done", **fields: Any) -> None:
        """The call of a step fails."""
        attempt = self.state.steps[name].attempt
        self.happen(
            e.Abort(at=self.state.at, step=name, attempt=attempt, outcome=outcome, error="no", **fields)
        )

    def due(self) -> tuple[c.Command, ...]:
        """What is due."""
        return tuple(decide(run_of(self.config, self.state)))

    def going(self) -> list[str]:
        """The steps that would go out now, in order."""
        return [command.step for command in self.due() if isinstance(command, c.Dispatch)]


def test_each_phase_asks_for_what_is_its_turn(workshop: Workshop) -> None:
    """Planner, decomposer, retriever and critic each get their turn; a run that halts or is over needs nothing."""
    state, config = State(), Case(workshop, plan(step("a", None))).config
    due = {
        str(phase): tuple(decide(run_of(config, msgspec.structs.replace(state, phase=phase))))
        for phase in Phase
        if phase not in (Phase.ACT, Phase.CRITIQUE, Phase.REPAIR)
    }
    assert due == {
        "PLAN": (c.Propose(),),
        "DECOMPOSE": (c.Decompose(),),
        "RETRIEVE": (c.Retrieve(),),
        "REVIEW": (c.Review(),),
        "VERIFY": (c.Score(),),
        "COMMIT": (c.End(status="completed"),),
        "FAIL": (c.End(status="failed"),),
        "HALT": (),
    }
    assert (
        tuple(decide(run_of(config, msgspec.structs.replace(state, phase=Phase.FAIL, status="failed")))) == ()
    )


@pytest.mark.req("R118")
def test_only_steps_whose_predecessors_have_ended_are_ready(workshop: Workshop) -> None:
    """Declared dependencies, references and conditions all hold a step back."""
    workshop.tool("do.it")
    case = Case(
        workshop,
        plan(
            step("a"),
            step("b", depends_on=("a",)),
            step("c", params={"x": {"$from": "b#/n"}}),
            step("d", when="c.x == 'b'"),
        ),
    )
    for name in "abcd":
        assert case.going() == [name]
        case.begin(name)
        assert case.due() == ()
        case.end(name, value={"n": name, "x": "b"})
    assert case.due() == (c.Finish(),)


@pytest.mark.req("R119")
def test_the_order_is_priority_then_waiting_then_position(workshop: Workshop) -> None:
    """Ties are broken by how much waits, and then by where a step stands in the plan."""
    workshop.tool("do.it")
    mixed = plan(
        step("p"), step("q"), step("r", priority=1), step("s"), step("t", depends_on=("s",)), step("u", priority=-1)
    )  # fmt: skip
    assert Case(workshop, mixed).going() == ["r", "s", "p", "q", "u"]


@pytest.mark.parametrize(
    ("budget", "limit"), [({}, SLOTS), ({"max_parallel": 3}, 3), ({"max_parallel": 10}, 10)]
)
def test_there_are_so_many_slots(workshop: Workshop, budget: dict[str, int], limit: int) -> None:
    """A budget's `max_parallel` stands in for the executor's slots; calls in flight take theirs."""
    workshop.tool("do.it")
    case = Case(workshop, plan(*(step(f"s{n}") for n in range(12))), budget=budget)
    assert len(case.going()) == limit
    case.begin("s0", "s1")
    assert len(case.going()) == min(limit - 2, 10)


def test_conditions_are_decided_when_a_step_is_ready(workshop: Workshop) -> None:
    """False skips; what is no boolean, or reads what is not there, is a fault, or a skip where the step is optional."""
    workshop.tool("do.it")
    case = Case(
        workshop,
        plan(
            step("yes", when="request.count == 2"),
            step("no", when="request.count == 3"),
            step("odd", when="request.count"),
            step("gone", when="request.nothing == 1"),
            step("maybe", when="request.nothing == 1", optional=True),
        ),
    )
    found = {getattr(command, "step", ""): type(command).__name__ for command in case.due()}
    assert found == {"yes": "Dispatch", "no": "Skip", "odd": "Fault", "gone": "Fault", "maybe": "Skip"}


def test_what_waits_for_a_skipped_step_goes_on(workshop: Workshop) -> None:
    """A dependency on a skipped step is met; a reference to it leads nowhere."""
    workshop.tool("do.it")
    case = Case(
        workshop,
        plan(
            step("a", when="false"), step("b", depends_on=("a",)), step("c", params={"x": {"$from": "a#/n"}})
        ),
    )
    assert case.due() == (c.Skip(step="a", reason="condition_false"),)
    case.happen(e.StepSkipped(at=1_000, step="a", reason="condition_false"))
    assert [type(command).__name__ for command in case.due()] == ["Dispatch", "Fault"]


@pytest.mark.req("R221")
@pytest.mark.parametrize(("used", "is_made"), [(40, True), (41, False)])
def test_no_call_goes_beyond_the_tokens_of_the_run(workshop: Workshop, used: int, is_made: bool) -> None:
    """A call that reserves more tokens than are left is refused when it is due, whatever the review has found."""
    workshop.tool("do.it")
    case = Case(workshop, plan(step("a", estimated_tokens=60)), budget={"tokens": 100})
    spent = msgspec.structs.replace(case.state.used, tokens=used)
    case.state = msgspec.structs.replace(case.state, used=spent)
    [due] = case.due()
    assert isinstance(due, c.Dispatch if is_made else c.Fault)
    if isinstance(due, c.Fault):
        assert (due.code, due.reason) == ("budget_exceeded", "60 tokens are needed, 59 are left")


@pytest.mark.req("R111", "R127", "R323")
def test_an_action_happens_once(workshop: Workshop) -> None:
    """The same identity again is a fault while the first is under way and after it; elsewhere it is another action."""
    workshop.tool("do.it", identity=("to",))
    same = {"to": "x"}
    case = Case(
        workshop,
        plan(
            step("a", params={**same, "text": 1}),
            step("b", params={**same, "text": 2}),
            step("c", params={"to": "y"}),
        ),
    )
    case.begin("a")
    assert [type(command).__name__ for command in case.due()] == ["Fault", "Dispatch"]
    fault = case.due()[0]
    assert isinstance(fault, c.Fault)
    assert (fault.step, fault.code) == ("b", "duplicate_action")
    case.end("a")
    assert isinstance(case.due()[0], c.Fault)


@pytest.mark.parametrize(
    ("mode", "decision"), [("read_only", {}), ("local_write", {"repeatable": ("do.it",)})]
)
def test_what_may_be_repeated_gets_another_occurrence(
    workshop: Workshop, mode: str, decision: dict[str, Any]
) -> None:
    """Reads, and tools that the decision lists, may happen again: under another key each time."""
    workshop.tool("do.it", mode=mode)
    case = Case(workshop, plan(*(step(name, params={"n": 1}) for name in "abc")), decision=decision)
    case.begin("a")
    case.end("a")
    case.begin("b")
    [due] = [command for command in case.due() if isinstance(command, c.Dispatch)]
    assert due.occurrence == 2
    keys = {case.state.steps["a"].key, case.state.steps["b"].key, due.key}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("budget", "used"),
    [
        ({"tool_calls": 5}, {"tool_calls": 4}),
        ({"tokens": 100}, {"tokens": 91}),
        ({"cost_microcents": 50}, {"cost": 44}),
    ],
    ids=["calls", "tokens", "cost"],
)
def test_a_budget_for_one_lets_one_of_two_go(
    workshop: Workshop, budget: dict[str, int], used: dict[str, int]
) -> None:
    """The second of two ready steps waits while the first may still give something back, and is refused after it."""
    workshop.tool("do.it", cost_microcents=6)
    case = Case(workshop, plan(step("a", estimated_tokens=9), step("b", estimated_tokens=9)), budget=budget)
    case.state = msgspec.structs.replace(case.state, used=Used(**used))
    case.happen(intent("a", case.state.steps["a"], 1_000, tokens=9, cost=6))
    assert case.due() == ()
    case.end("a", tokens=9, cost=6)
    [fault] = case.due()
    assert isinstance(fault, c.Fault)
    assert (fault.step, fault.code) == ("b", "budget_exceeded")


@pytest.mark.req("R318")
def test_no_call_goes_out_when_the_time_is_used_up(workshop: Workshop) -> None:
    """The wall clock counts what was used, and what a step still has to wait."""
    workshop.tool("do.it")
    case = Case(workshop, plan(step("a")), budget={"wall_clock_ms": 100})
    case.state = msgspec.structs.replace(case.state, used=Used(wall_clock=99))
    assert case.going() == ["a"]
    case.state = msgspec.structs.replace(case.state, used=Used(wall_clock=100))
    [fault] = case.due()
    assert isinstance(fault, c.Fault)
    assert fault.reason == "1 ms of wall clock is needed, 0 are left"
    waiting = msgspec.structs.replace(case.state.steps["a"], not_before=case.state.at + 60)
    case.state = msgspec.structs.replace(case.state, used=Used(wall_clock=50), steps={"a": waiting})
    assert [type(command).__name__ for command in case.due()] == ["Fault"]


@pytest.mark.req("R115")
def test_a_failure_for_good_stops_what_has_not_begun(workshop: Workshop) -> None:
    """What is in flight is waited for; only then is the failure judged, and nothing new goes out meanwhile."""
    workshop.tool("do.it")
    case = Case(workshop, plan(*map(step, "abc")), budget={"max_parallel": 2})
    case.begin("a", "b")
    case.abort("a", retriable=False)
    assert case.due() == ()
    case.end("b")
    assert case.due() == (c.Judge(step="a"),)


def test_a_failure_that_can_be_retried_holds_nobody_up(workshop: Workshop) -> None:
    """It is judged at once, and so is the failure of an optional step."""
    workshop.tool("do.it")
    for fields, retriable in (({}, True), ({"optional": True}, False)):
        case = Case(workshop, plan(step("a", **fields), step("b")))
        case.begin("a", "b")
        case.abort("a", retriable=retriable)
        assert case.due() == (c.Judge(step="a"),)


@pytest.mark.req("R110", "R156")
@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"mode": "read_only"}, "Settle"),
        ({"mode": "local_write", "reversibility": "pure"}, "Settle"),
        ({"mode": "local_write", "idempotent": True}, "Settle"),
        ({"mode": "local_write", "reconcile": lambda: None}, "Settle"),
        ({"mode": "local_write"}, "Ask"),
    ],
    ids=["read_only", "pure", "idempotent", "reconcile", "nothing"],
)
def test_an_unknown_outcome_is_settled_by_what_the_tool_declares(
    workshop: Workshop, declared: dict[str, Any], expected: str
) -> None:
    """Run again, ask the tool, or ask a person: never simply dispatched."""
    workshop.tool("do.it", **declared)
    case = Case(workshop, plan(step("a")))
    case.begin("a")
    case.abort("a", "unknown")
    [command] = case.due()
    assert type(command).__name__ == expected
    if isinstance(command, c.Ask):
        assert (command.kind, command.step) == ("reconcile", "a")


def test_a_look_up_is_repeated_only_so_often(workshop: Workshop) -> None:
    """After three look-ups without an answer a person is asked."""
    workshop.tool("do.it", reconcile=lambda: None)
    case = Case(workshop, plan(step("a")))
    case.begin("a")
    case.abort("a", "unknown")
    for number in range(MAX_ASKED):
        assert case.due() == (c.Settle(step="a", not_before=number * 10),)
        case.happen(
            e.Settled(at=1_000, step="a", attempt=1, how="ask_again", by="r", not_before=(number + 1) * 10)
        )
    assert isinstance(case.due()[0], c.Ask)


def test_a_call_cut_off_by_a_crash_is_settled_whatever_the_retries(workshop: Workshop) -> None:
    """That a process died is not held against the tool: it is run again, and the retry budget is as it was."""
    workshop.tool("do.it", idempotent=True)
    case = Case(workshop, plan(step("a")), budget={"max_retries": 0, "max_step_retries": 0})
    for _ in range(3):
        case.begin("a")
        case.happen(e.SessionResumed(at=1_000, owner="o", epoch=2, in_flight=("a",)))
        assert case.due() == (c.Settle(step="a"),)
        attempt = case.state.steps["a"].attempt
        case.happen(e.Settled(at=1_000, step="a", attempt=attempt, how="run_again", by="idempotent"))
    assert (case.state.used.retries, case.state.used.tool_calls) == (0, 3)
    case.begin("a")
    case.abort("a", "unknown")
    assert isinstance(case.due()[0], c.Ask)


def test_an_approval_binds_to_the_resolved_call(workshop: Workshop) -> None:
    """Another value, another key or another gate definition is another digest."""
    workshop.tool("net.it", mode="network", authority=())
    gates = [Case(workshop, plan(step("a", "net.it", params={"n": value}))).due()[0] for value in (1, 1, 2)]
    digests = [gate.digest for gate in gates if isinstance(gate, c.Ask)]
    assert digests[0] == digests[1] != digests[2]


def test_a_run_that_fails_waits_for_its_calls(workshop: Workshop) -> None:
    """After a denial what was done is taken back when the last call has ended, and then the end comes."""
    workshop.tool("do.it")
    case = Case(workshop, plan(*map(step, "ab")))
    case.begin("a")
    case.happen(
        e.GateOpened(at=1_000, gate="g", kind="approval", step="b", digest="d"),
        e.GateAnswered(at=1_000, gate="g", digest="d", answer="deny", actor="bob"),
    )
    assert case.due() == ()
    case.happen(e.Complete(at=1_000, step="a", attempt=1))
    assert case.due() == (c.Compensate(how="ask"),)
    case.happen(e.EffectsKept(at=1_000))
    assert case.due() == (c.End(status="rejected"),)
