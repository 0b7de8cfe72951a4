"""Messages to sessions, emergency stops, maintenance, reading sessions, and the lanes of runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.lane import Lane
from tercet.contracts.request import Actor, Request
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.runs.saga import RollbackResult
from tercet.contracts.runs.session import (
    BackgroundSession,
    LoopCheckpoint,
    ProgressEnvelope,
)
from tercet.contracts.shape import JsonObject
from tercet.contracts.values.plain import storable
from tercet.core import message_rules, messages
from tercet.core.fold.base import copy_fields
from tercet.core.lanes import dump_envelope, envelope_of
from tercet.core.messages import Message
from tercet.core.state import State
from tercet.engine import inbox, progress, sessions
from tercet.engine.arguments import as_actor
from tercet.engine.checks import retention
from tercet.engine.lanes import LaneStart, bind_lanes, budget_of_lane
from tercet.engine.leases import Held
from tercet.engine.lists import ListedSession, PendingGate, open_gates
from tercet.engine.personal.erasure import Erasure, erase_and_log
from tercet.engine.personal.reveal import Revealer
from tercet.engine.personal.vault import seal_message
from tercet.engine.result import RunResult
from tercet.engine.session_reader import load_state, read_record
from tercet.engine.streams import artifacts
from tercet.engine.streams.artifacts import Artifact
from tercet.engine.streams.recent_calls import recent_calls
from tercet.engine.streams.stops import Stop, StopKind, demand_kind, demand_name
from tercet.engine.watchdog import SweepResult
from tercet.replay.recording import load_run
from tercet.replay.replay import replay_recording
from tercet.replay.rules import Agents, Recalls, RuleSource
from tercet.runtime.lifecycle import OpenRuntime
from tercet.tools import Tool, ToolContext
from tercet.view.run import ReplayReport


class Operations(OpenRuntime):
    """The methods of a runtime for approvers, operators and lanes."""

    async def _result(self, state: State, record: bytes = b"") -> RunResult:
        return await RunResult.load(self.journal, self.tenant, state, record)

    async def say(self, said: Message) -> RunResult:
        """Send a message to a session, in whichever process it runs, and return the result once it is recorded."""
        driver = self._pool.get(said.session)
        if driver is not None:
            position = await inbox.find_posted(self.journal, self.tenant, said)
            if position is None:
                # Raises at once if the message cannot be accepted.
                message_rules.event_of(said, driver.state, driver.now())
                said = await seal_message(self.journal, self.tenant, said, driver.state)
                position = await inbox.post(self.journal, self.tenant, said)
            if (state := await driver.control.read_up_to(position)) is not None:
                return await self._result(
                    await inbox.check_received(self.journal, self.tenant, state, position)
                )
            # The session was released before it had read the message, which is not sent twice.
            return await self._result(
                await inbox.wait_until_read(self._leases, said.session, position, self._options.held)
            )
        return await self._result(await inbox.deliver(self._leases, said, self._options.held))

    # --- operators ---

    async def halt(self, kind: StopKind, name: str, *, actor: Actor, note: str = "", key: str = "") -> Stop:
        """Stop a tool, a pack or the tenant in every process: nothing that it names is called any more. Runs that would
        call it are paused, and can be resumed once the stop is lifted. Sent again with the same `key`, it is made once."""
        demand_kind(kind)
        demand_name(name)
        if kind == "tenant" and name != self.tenant:
            raise UsageError(
                f"this runtime belongs to tenant {self.tenant}, and cannot stop {name}",
                code="wrong_tenant",
                remedy="stop it from a runtime of that tenant",
            )
        return await self._stops.write(self._stop_of(kind, name, actor, note, key))

    async def lift(self, kind: StopKind, name: str, *, actor: Actor, note: str = "", key: str = "") -> Stop:
        """End an emergency stop; sent again with the same `key`, once."""
        demand_kind(kind)
        return await self._stops.write(self._stop_of(kind, name, actor, note, key, is_lifted=True))

    def _stop_of(
        self, kind: StopKind, name: str, actor: Actor, note: str, key: str, *, is_lifted: bool = False
    ) -> Stop:
        sender = messages.by(as_actor(actor))
        return Stop(
            kind=kind,
            name=storable(name),
            by=sender["actor"],
            simulated_by=sender["simulated_by"],
            at=self._clock.now(),
            note=storable(note),
            is_lifted=is_lifted,
            key=key,
        )

    async def sweep(self) -> SweepResult:
        """Check the sessions that no process runs, as the watchdog does: those past their time to live expire, and those
        whose process has died are paused, or resumed if their pack says so."""
        return await self._watchdog.sweep()

    async def record_overdue(self, session_id: str) -> State:
        """Record what is overdue for one session that no process runs: its messages, its expiry, or the pause after a lost
        heartbeat. Returns its state; raises `LeaseHeld` if a process may run it after all."""
        return await self._watchdog.record_overdue(session_id)

    async def settle_rollback(
        self, session_id: str, step: str, *, actor: Actor, note: str = "", key: str = ""
    ) -> RollbackResult:
        """Record how an operator settled an effect that could not be compensated: not the owner of the run, and for a call
        that was approved only a person of its gates. Sent again with the same `key`, it is recorded once."""
        person = self.known(as_actor(actor))
        said = messages.Reply(
            session=session_id,
            gate="",
            answer="happened",
            listed=self.roles(person.id) is not None,
            note=storable(note),
            nonce=key,
            **messages.by(person),
        )
        state = await self.state(session_id)
        return await artifacts.settle_rollback(
            self.journal, self.tenant, state, step, said, self._clock.now()
        )

    async def prune(self, *, older_than_ms: int | None = None) -> int:
        """Delete sessions that ended longer ago than `older_than_ms`, or than this pack keeps its own; return how many.
        A session that cannot be read stays, and sends the signal `prune_failed`."""
        age = retention.demand_age(older_than_ms, self.pack.session.for_tenant(self.tenant).retention_days)
        if age is None:
            return 0
        is_any = older_than_ms is not None
        return await retention.prune(
            self._leases,
            before_ms=self._clock.now() - age,
            is_ours=lambda row: is_any or row.pack.partition("@")[0] == self.pack.name,
            signal=self._subscription.signal,
        )

    async def erase_subject(self, subject: str, *, actor: Actor, force: bool = False) -> Erasure:
        """Erase the personal values of a subject of this tenant by destroying its key; this cannot be undone. Raises
        `UsageError` while one of its sessions is not over, unless `force` is set."""
        by = storable(as_actor(actor).id)
        return await erase_and_log(
            self.journal, self.tenant, subject, by=by, now_ms=self._clock.now(), is_forced=force
        )

    # --- views ---

    async def reveal(self, value: Any, session_id: str) -> Any:
        """Return a JSON value of a session, such as its outputs, with the personal values that its tokens stand for, and
        `erased` where they were erased. Tokens that are not of this session stay."""
        return await Revealer(self.journal, self.tenant, session_id).reveal(value)

    async def state(self, session_id: str) -> State:
        """Return the state of a session, from its events."""
        return await load_state(self.journal, self.tenant, session_id)

    async def refresh(self, session_id: str) -> State:
        """Return the state of a session, after recording its expiry if that is overdue and no process runs it."""
        return await inbox.refresh_state(self._leases, session_id)

    async def session(self, session_id: str) -> BackgroundSession:
        """Return a session in its published shape, with its heartbeat and its checkpoints."""
        return await progress.session_row(self.journal, await self.state(session_id))

    async def checkpoint(self, session_id: str, checkpoint_id: str | None = None) -> LoopCheckpoint:
        """Return a session as it was at one of its checkpoints, by default the newest."""
        return await progress.read_checkpoint(self.journal, self.tenant, session_id, checkpoint_id)

    def watch(self, session_id: str) -> AsyncIterator[ProgressEnvelope]:
        """Yield the progress of a session, now and after each change until it has ended, in whichever process it runs."""
        return progress.watch(self.journal, self.tenant, session_id, clock=self._clock)

    async def artifact(self, session_id: str) -> Artifact:
        """Return what a session that does not run has left: an AgentResult, a FailureReport or a HaltRecord."""
        return await artifacts.artifact(self.journal, self.tenant, session_id)

    async def sessions(self, *, status: str | None = None, limit: int = 50) -> list[ListedSession]:
        """Return the sessions of this tenant, newest first."""
        wanted = None if status is None else storable(status)
        rows = await self.journal.sessions(self.tenant, status=wanted, limit=limit)
        return [ListedSession.of(row) for row in rows]

    async def gates(self, *, limit: int = 200) -> list[PendingGate]:
        """Return the gates of this tenant that wait for an answer, of every pack."""
        found = await open_gates(self.journal, self.tenant, limit)
        now = self._clock.now()
        return [
            PendingGate.of(
                state,
                gate,
                await recent_calls(self.journal, self.tenant, state.start.session, gate, now),
            )
            for state, gate in found
        ]

    async def record(self, session_id: str) -> DecisionRecord:
        """Return the decision record of a session that has ended; raises `UsageError` before that."""
        state = await self.state(session_id)
        if not state.record:
            raise UsageError(
                f"session {session_id} has no record yet", code="no_record", remedy="it is not over"
            )
        return DecisionRecord.model_validate(await read_record(self.journal, self.tenant, state))

    async def replay(self, run_id: str, *, agents: Iterable[Recalls] = ()) -> ReplayReport:
        """Replay a run of this journal, by its session or run id. Nothing is called or written.

        `agents` are the engines of runs that an agent decided in: their pure critics are run again.
        """
        recording = await load_run(self.journal, self.tenant, run_id)
        rules = RuleSource((self.pack,), agents=Agents(agents, has_installed=True))
        return replay_recording(recording, rules)

    # --- lanes: runs that a step of another run starts, resumes and ends ---

    @abstractmethod
    async def start_lane(self, request: Request, start: LaneStart) -> None:
        """Start the session of a lane and carry it as far as it goes."""

    @abstractmethod
    async def _resume(
        self, session_id: str, planner: Any = None, *, held: Held, is_left: bool = False
    ) -> RunResult:
        """Carry a session on."""

    @cached_property
    def _lanes(self) -> Mapping[str, Tool]:
        """The lanes of the pack, with the code that runs them."""
        return bind_lanes(self.pack, self, self._clock)

    def start_of(self, lane: Lane, context: ToolContext, left_ms: int) -> LaneStart:
        """Return what a lane of a session that this process carries is started with."""
        driver = self._pool.get(context.session_id)
        if driver is None:
            raise UsageError(
                f"session {context.session_id} is not carried by this process",
                code="session_elsewhere",
                remedy="resume it here",
            )
        if driver.state.start.pack_hash != self.pack.hash:
            raise UsageError(
                f"session {context.session_id} is pinned to {driver.state.start.pack}, and lanes run in {self.pack.ref}",
                code="pack_version_mismatch",
                remedy="move it to this pack: tercet sessions migrate",
            )
        config = driver.run.config
        return LaneStart(
            lane=lane,
            tools=tuple(name for name in lane.tools if name in config.surface),
            budget=budget_of_lane(lane, self.pack.budget, left_ms),
            safety_mode=config.ctx.safety_mode,
            snapshot=config.compiled.snapshot or None,
            parent=context,
        )

    async def find_lane(self, request: Request, owner: Actor) -> str | None:
        """Return the session that was started for the request of a lane; None if there is none."""
        return await sessions.find_session(self.journal, self.tenant, request, self.pack, self.known(owner))

    async def answer_lane(self, session: str, context: ToolContext) -> None:
        """Pass the answers that people gave at the step of a lane on to the gates that the lane waits at."""
        driver = self._pool.get(context.session_id)
        given = [] if driver is None else [a for a in driver.state.answers if a.step == context.step_id]
        gates = (await self.state(session)).gates.values() if given else ()
        for gate in gates:
            for answer in (each for each in given if each.digest == gate.digest):
                passed = {"session": session, "gate": gate.id, "via": context.session_id}
                with suppress(UsageError):  # the lane has it already, or its giver may no longer give it
                    await self.say(copy_fields(messages.Reply, answer, **passed))

    async def end_lane(self, session: str) -> JsonObject:
        """Cancel a lane whose parent no longer waits for it, and return its envelope."""
        start = (await self.state(session)).start
        with suppress(UsageError):  # it has just ended
            await self.cancel(session, actor=Actor.model_validate(start.actor), note="its parent ended")
        await self.drive_lane(session)
        return dump_envelope(envelope_of(await self.state(session)))

    async def drive_lane(self, session: str) -> None:
        """Carry the session of a lane on as far as it goes, once no other process has it."""
        if session in self._pool:
            async for _ in self.watch(session):
                pass
        else:
            await self._resume(session, held=self._options.held)

    def is_stopping(self, session: str) -> bool:
        """Whether the process, or an operator, lets a session come to a halt."""
        driver = self._pool.get(session)
        return driver is None or driver.control.halt is not None or self._stops.stopped("") is not None
