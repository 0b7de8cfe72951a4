"""Whatever people say and whenever processes die: no effect without the approval that its effective mode demands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tercet.contracts.shape import as_object
from tercet.contracts.values.canonical import digest
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.packs.pack import Pack

from .crowd import GATES, SCENES, TOOLS, Played, Scene, play

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Register:
    """Who has approved which call, by the events alone and by rules of its own."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.opened: dict[str, e.GateOpened] = {}
        self.approvals: dict[str, dict[str, tuple[str, ...]]] = {}
        self.grants: dict[str, str] = {}
        self.plan: dict[str, Any] = {}
        self.added: set[str] = set()
        self.undo: dict[str, e.Undo] = {}
        self.results: dict[str, Any] = {}
        self.settling: dict[str, str] = {}
        self.has_failed = False

    def read(self, event: e.Event) -> None:
        """Take an event down."""
        match event:
            case e.SessionStarted():
                self.begun = event
            case e.PlanProposed():
                self._planned({step["id"]: step for step in event.plan["steps"]})
            case e.GateOpened(kind="approval"):
                self.opened[event.gate] = event
                self.approvals[event.gate] = {}
            case e.GateAnswered(answer="approve"):
                assert event.actor not in self.approvals[event.gate]
                assert event.actor != self.begun.actor["id"]
                self.approvals[event.gate][event.actor] = event.roles
            case e.GateAnswered(answer="withdraw"):
                del self.approvals[event.gate][event.actor]
            case e.GateAnswered(answer="deny"):
                self.has_failed = True
            case e.ApprovalGranted():
                self.grants[event.step] = event.digest
            case e.SessionCancelled() | e.SessionExpired() | e.GivenUp() | e.PlanningFailed():
                self.has_failed = True
            case e.CompensationBegun():
                self.undo = {f"~{undo.step}": undo for undo in event.undo}
            case e.Intent() if event.tool:
                self._called(event)
            case _:
                self._brought(event)

    def _brought(self, event: e.Event) -> None:
        match event:
            case e.GateOpened(kind="reconcile"):
                self.settling[event.gate] = event.step
            case e.GateAnswered(answer="happened"):
                self.results[self.settling[event.gate]] = event.value
            case e.Complete():
                self.results[event.step] = event.value
            case _:
                pass

    def _planned(self, steps: dict[str, Any]) -> None:
        """What was approved of another plan counts no more."""
        if self.plan:
            kept = {
                name for name in self.plan if self.plan[name] == steps.get(name) and name not in self.added
            }
            self.added = set(steps) - kept
        self.plan = steps
        self.opened.clear()
        self.grants.clear()

    def _called(self, intent: e.Intent) -> None:
        if intent.step.startswith("~"):
            undo = self.undo[intent.step]
            assert (intent.tool, intent.params, intent.key) == (undo.tool, undo.params, undo.key)
            return
        assert not self.has_failed, f"{intent.step} is called in a run that has failed"
        declared = TOOLS[intent.tool]
        is_strong = declared["mode"] not in ("read_only", "local_write") or "gates" in declared
        if not is_strong:
            return
        bound = self._digest(intent)
        gates: tuple[str, ...] = declared.get("gates", ())
        if self.grants.get(intent.step) == bound:
            assert not gates
            assert declared["mode"] in ("network", "delegated")
            assert intent.step not in self.added
            assert intent.params["n"] <= 1
            return
        assert any(self._lets_through(gate, intent.step, bound, gates) for gate in self.opened), (
            f"{intent.step} runs without an approval of {bound}"
        )

    def _lets_through(self, gate: str, step: str, bound: str, names: tuple[str, ...]) -> bool:
        opened = self.opened[gate]
        if {opened.step: opened.digest, **opened.covers}.get(step) != bound:
            return False
        people = self.approvals[gate]
        if not names:
            return bool(people)
        return all(
            sum(bool(set(GATES[name].roles) & set(roles)) for roles in people.values()) >= GATES[name].quorum
            for name in names
        )

    def _digest(self, intent: e.Intent) -> str:
        """What an approval of exactly this call binds to."""
        tool = next(tool for tool in self.pack.tools if tool.name == intent.tool)
        gates = [gate.model_dump(mode="json") for gate in self.pack.gates if gate.name in tool.gates]
        # Every compensation of the crowd takes the id that its step was called with.
        is_undone = tool.compensate is not None and tool.effective_reversibility != "irreversible"
        undo = ["undo.it", {"id": {"$literal": intent.params["id"]}}] if is_undone else None
        source: str = (as_object(self.plan[intent.step]["params"]["n"]) or {}).get("$from", "")
        read = [source.partition("#")[0]] if source else []
        results = {name: digest(self.results[name]) for name in read}
        start = self.begun
        return digest(
            [start.tenant, start.run, intent.step, tool.hash, intent.params, intent.key, tool.mode, {},
             start.pack_hash, gates, undo, None, results]
        )  # fmt: skip


@pytest.mark.req("R134", "R135", "R136", "R140")
@QUICK
@given(SCENES)
def test_no_effect_comes_without_its_approval(scene: Scene) -> None:
    """Every INTENT above local_write, irreversible or gated has its people's approvals, or a grant where one may be, for
    the very call that it makes; nothing of the plan begins after a denial, a cancellation or an expiry."""
    played = play(scene)
    register = Register(played.pack)
    for event in played.history:
        register.read(event)
    intended = {(each.step, each.attempt) for each in played.history if isinstance(each, e.Intent)}
    assert set(played.calls) <= intended


@pytest.mark.req("R254")
@QUICK
@given(SCENES)
def test_a_process_that_starts_anew_finds_the_same_run(scene: Scene) -> None:
    """At every position that a living process made durable, its state is the fold of the events up to there."""
    played = play(scene)
    state = State()
    for event in played.history:
        state = fold_event(state, event)
        if state.position in played.told:
            assert played.told[state.position] == state
    assert state.is_over or not played.history


def _is_seen(played: Played, found: set[str]) -> None:
    found |= {str(type(event).__struct_config__.tag) for event in played.history}
    found |= {f"answer {event.answer}" for event in played.history if isinstance(event, e.GateAnswered)}


@pytest.mark.slow
def test_the_scenes_are_worth_playing() -> None:
    """Among four hundred scenes every kind of end and the usual answers happen: the properties above are not empty."""
    found: set[str] = set()

    @settings(max_examples=400, deadline=None, derandomize=True, database=None,
              suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
    @given(SCENES)
    def watch(scene: Scene) -> None:
        _is_seen(play(scene), found)

    watch()
    assert {
        "approval_granted",
        "compensation_begun",
        "effects_kept",
        "session_expired",
        "session_cancelled",
    } <= found
    answers = {"approve", "deny", "modify", "happened", "abandon"}
    assert {f"answer {answer}" for answer in answers} <= found
