"""The outcome and the cost of one recorded run under another pack.

The facts stay as recorded, and the verdicts are those of the pack. Up to the first changed verdict the record is complete.
After it, the end of the run is known only if it follows by itself (refused, failed, committed, escalated). If a call, a
plan or an answer would be needed, the outcome is unknown and the run does not count.
"""

from __future__ import annotations

from functools import cached_property

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.loop import Phase
from tercet.contracts.mode import MODE_RANK, ApprovalMode
from tercet.contracts.packs.tuning import FLOORS
from tercet.contracts.plan import compensated_step
from tercet.contracts.shape import JsonObject, as_object
from tercet.contracts.values.canonical import digest
from tercet.core import codec
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core.answers import Answer, History
from tercet.core.decide import is_escalated
from tercet.core.messages import TEMPLATE
from tercet.core.plans import read_plan
from tercet.core.resolve import resolve
from tercet.core.retrieval import carried_over
from tercet.engine.models.planners import TaskPlanner, fill_template
from tercet.engine.planning import answer_failure
from tercet.engine.watchdog import LOST
from tercet.packs.declared import read_declarations
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.replay.comparison import event_type
from tercet.replay.recorded_run import RecordedRun, guarded
from tercet.replay.recording import Recording
from tercet.replay.rules import RuleSource
from tercet.replay.verdict_changes import BothVerdicts, compare_verdict

_MOST_STEPS = 8


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ends under a pack."""

    session: str
    case: str
    """The request: runs of the same request are one case."""
    is_told: bool = True
    is_elsewhere: bool = False
    """Whether it is ignored because it belongs to another plan or version, or is not over."""
    why: str = ""
    """Why it is left out, or which verdict changed."""
    position: int = 0
    """The first event that would differ; 0 if there is none."""
    status: str = ""
    is_accepted: bool = False
    is_escalated: bool = False
    is_below_floor: bool = False
    """Whether it was refused by policy, safety, schema or approval."""
    cost: int = 0
    trips: int = 0
    risky: tuple[str, ...] = ()
    """The calls above local_write that were made, by tool."""
    lanes: int = 0
    """How many lanes its steps started."""
    unaccepted: tuple[str, ...] = ()
    """The steps that were called although no plan that its critic accepted has them."""
    held_ms: int = 0
    """How long the session was open."""
    verdict: JsonObject = {}
    record: str = ""
    """The hash of the decision record, where there is one."""


class Measure:
    """Measures runs under the pack with this content; it is sent to another process before it is first called."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @cached_property
    def rulebook(self) -> RuleSource:
        """The rules of the pack."""
        return RuleSource(instead=read_declarations(self._content))

    def __call__(self, recording: Recording) -> Outcome:
        """Return how a run would have ended."""
        return measure(recording, self.rulebook)


def measure(recording: Recording, rulebook: RuleSource) -> Outcome:
    """Return how a run would have ended under the pack of a rulebook. Nothing is read, written or called."""
    with guarded():
        found = Enactment(recording, rulebook)
        try:
            return found.outcome()
        except TercetError as error:
            return found.untold(f"it cannot be judged: {error.message}")


def measure_recorded(recording: Recording, rulebook: RuleSource) -> Outcome:
    """Return the recorded end of a run; nothing is judged again."""
    with guarded():
        found = Enactment(recording, rulebook)
        try:
            return found.as_recorded()
        except TercetError as error:
            return found.untold(f"it cannot be read: {error.message}")


class Enactment:
    """A recorded run, continued under another pack as far as its record allows."""

    def __init__(self, recording: Recording, rulebook: RuleSource) -> None:
        self.scene = RecordedRun(recording, rulebook)
        self._recording = recording
        self._rulebook = rulebook
        self._pack = rulebook.instead
        self._events = [codec.decode(data) for data in recording.events]
        self._lost_ms = 0

    def outcome(self) -> Outcome:
        """Return how it ends."""
        for position, event in enumerate(self._events, 1):
            if self._is_late(event):
                return self._expired(position)
            if isinstance(event, e.PlanProposed) and not self._is_own_plan(event):
                return self.untold("the pack would make another plan", is_elsewhere=True)
            found = compare_verdict(self.scene, event)
            if found is not None and not found.old.is_same(found.new):
                return self._derived_outcome(position, event, found)
            self._note_loss(event)
            self.scene.fold(event)
        return self._recorded_outcome()

    def as_recorded(self) -> Outcome:
        """Return how it ended, by its own verdicts."""
        for event in self._events:
            self.scene.fold(event)
        return self._recorded_outcome()

    # --- what the record does not hold ---

    def untold(self, why: str, *, is_elsewhere: bool = False) -> Outcome:
        """Return an outcome for a run whose end its record does not determine."""
        return Outcome(
            session=self._recording.session,
            case=self._case(),
            is_told=False,
            is_elsewhere=is_elsewhere,
            why=why,
        )

    def _case(self) -> str:
        start = next((event for event in self._events if isinstance(event, e.SessionStarted)), None)
        request = start.request if start is not None else {}
        return digest([request.get("intent"), request.get("input")])[7:19]

    def _is_own_plan(self, event: e.PlanProposed) -> bool:
        """Return whether the pack's own planner would have proposed this plan; another's plan does not depend on the pack."""
        pack = self._pack
        if event.origin != "planner" or pack is None or event.planner not in (TEMPLATE, TaskPlanner.name):
            return True
        state, config = self.scene.state, self.scene.run.config
        request = config.compiled.request
        try:
            if event.planner == TaskPlanner.name:
                setbacks = state.setbacks or (((),) if state.feedback else ())
                own = TaskPlanner(pack).arranged(config, setbacks).plan
            else:
                template = next(each for each in pack.templates if request and each.intent == request.intent)
                own = fill_template(template, request, config) if request else None
        except (PlanningError, StopIteration):
            return False
        return own is not None and carried_over(own, state.plan).hash == read_plan(event.plan).hash

    # --- time ---

    @property
    def _own(self) -> Pack | None:
        """The pack that the run was recorded with, where it is known."""
        return self._rulebook.own(self._recording, self.scene.state)

    def _ends_at(self) -> int:
        """Return when the session would expire; a time that the caller asked for is kept."""
        start = self.scene.state.start
        expires, began = start.expires, start.at
        own, tenant = self._own, start.tenant
        if self._pack is None or own is None or expires - began != own.session.for_tenant(tenant).ttl_ms:
            return expires
        return began + self._pack.session.for_tenant(tenant).ttl_ms

    def _is_late(self, event: e.Event) -> bool:
        """Return whether the session would have expired before this happened, and sooner than it was to."""
        state = self.scene.state
        if not state.is_started or state.is_over:
            return False
        return event.at >= self._ends_at() and self._ends_at() < state.start.expires

    def _expired(self, position: int) -> Outcome:
        began = self.scene.state.start.at
        outcome = self._outcome_now("expired", position)
        return msgspec.structs.replace(outcome, why="it would have expired", held_ms=self._ends_at() - began)

    def _note_loss(self, event: e.Event) -> None:
        """Note how much later or sooner a lost process is noticed: after two heartbeats, whose interval may differ."""
        if not isinstance(event, e.SessionPaused) or event.reason != LOST:
            return
        own, pack = self._own, self._pack
        if own is not None and pack is not None:
            beats = pack.session.heartbeat_interval_ms - own.session.heartbeat_interval_ms
            self._lost_ms += 2 * beats

    # --- how it ends ---

    def _recorded_outcome(self) -> Outcome:
        """Return the recorded end of the run, since no event of it would differ."""
        state = self.scene.state
        if state.is_over or is_escalated(state):
            is_expired = state.status == "expired" and state.at < self._ends_at()
            if is_expired:
                return self.untold("it would have lived longer")
            return self._outcome_now("escalated" if is_escalated(state) else state.status, 0)
        return self.untold("it is not over", is_elsewhere=True)

    def _derived_outcome(self, position: int, event: e.Event, found: BothVerdicts) -> Outcome:
        """Return how it ends after another verdict, if that follows by itself."""
        if found.event is None:
            return self.untold(f"{event_type(event)} would be {found.new.verdict}")
        self.scene.fold(found.event)
        for _ in range(_MOST_STEPS):
            if (status := self._status()) or not self._can_continue(event.at):
                break
        status = self._status()
        why = f"{event_type(event)}: {found.old.verdict} → {found.new.verdict}"
        if not status:
            return self.untold(why)
        return msgspec.structs.replace(self._outcome_now(status, position), why=why)

    def _status(self) -> str:
        state = self.scene.state
        match state.phase:
            case Phase.COMMIT:
                return "completed"
            case Phase.FAIL:
                return state.ending or "failed"
            case _:
                return "escalated" if is_escalated(state) else ""

    def _can_continue(self, at: int) -> bool:
        """Return whether there was something to do without people: judging the run as a whole, or a template, which knows no
        other plan once one was refused."""
        scene, due = self.scene, self.scene.commands()
        if any(isinstance(command, c.Score) for command in due):
            self._fold(c.Score(), History(at=at, events=scene.events))
            return True
        is_template = scene.state.start.planner == TEMPLATE and bool(scene.state.feedback)
        if is_template and any(isinstance(command, c.Propose) for command in due):
            error = PlanningError("the template knows no other plan")
            self._fold(c.Propose(), answer_failure(None, error, scene.run, at))
            return True
        return False

    def _fold(self, command: c.Command, answer: Answer) -> None:
        for event in resolve(self.scene.run, command, answer).events:
            self.scene.fold(event)

    def _outcome_now(self, status: str, position: int) -> Outcome:
        state, last = self.scene.state, self._events[position - 1] if position else self._events[-1]
        return Outcome(
            session=self._recording.session,
            case=self._case(),
            position=position,
            status=status,
            is_accepted=status == "completed",
            is_escalated=status == "escalated" or _was_escalated(self.scene.events),
            is_below_floor=status != "completed" and _is_below_floor(self.scene),
            cost=state.used.cost,
            trips=state.trips,
            risky=self._risky(),
            lanes=sum(isinstance(event, e.Intent) and event.lane_calls > 0 for event in self.scene.events),
            unaccepted=_unaccepted(self.scene.events),
            held_ms=max(0, last.at - state.start.at + self._lost_ms),
            verdict=state.verdict,
            record=state.record,
        )

    def _risky(self) -> tuple[str, ...]:
        tools = self.scene.run.tools
        return tuple(
            event.tool
            for event in self.scene.events
            if isinstance(event, e.Intent)
            and event.tool in tools
            and MODE_RANK[tools[event.tool].mode] > MODE_RANK[ApprovalMode.LOCAL_WRITE]
        )


def _unaccepted(events: list[e.Event]) -> tuple[str, ...]:
    """Return the steps of a run with lanes that were called without being in any plan that its critic accepted."""
    proposed: JsonObject = {}
    accepted, found = set[str](), list[str]()
    for event in events:
        match event:
            case e.PlanProposed():
                proposed = event.plan
            case e.PlanReviewed() if event.verdict.get("outcome") == "ok":
                accepted |= {step["id"] for step in proposed.get("steps", ())}
            case e.ProposalsReviewed() if event.verdict.get("outcome") == "ok":
                accepted |= {step["id"] for step in event.plan.get("steps", ())}
            case e.Intent() if event.step not in accepted and not compensated_step(event.step):
                found.append(event.step)
            case _:
                pass
    return tuple(found)


def _was_escalated(events: list[e.Event]) -> bool:
    return any(isinstance(event, e.GateOpened) and event.kind == "escalation" for event in events)


def _is_below_floor(scene: RecordedRun) -> bool:
    """Return whether a run was refused by policy, safety, schema or approval."""
    verdict = scene.state.verdict
    if verdict.get("outcome") == "reject":
        return verdict.get("kind") == "approval_mode_mismatch" or verdict.get("code") in (
            "policy_invariant",
            "unbound_argument",
        )
    reported = [event for event in scene.events if isinstance(event, e.RunReported)]
    return bool(reported) and _is_floor(reported[-1])


def _is_floor(event: e.RunReported) -> bool:
    """Return whether a run as a whole missed a floor: one of the evaluators that are, or a threshold that is."""
    score = as_object(event.report.get("score")) or {}
    missed = [each["name"] for each in event.exit.get("thresholds", ()) if not each["passed"]]
    missed += [word.strip(":,") for reason in event.reasons for word in reason.split()[:2]]
    return not score.get("ok", True) or not FLOORS.isdisjoint(missed)
