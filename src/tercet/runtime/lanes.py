"""The lanes of a runtime: started from a step of another run, resumed, answered and ended with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from tercet.contracts.errors import UsageError
from tercet.contracts.lane import Lane
from tercet.contracts.request import Actor, Request
from tercet.contracts.shape import JsonObject
from tercet.core import messages
from tercet.core.fold.base import copy_fields
from tercet.core.lanes import dump_envelope, envelope_of
from tercet.engine import sessions
from tercet.engine.lanes import LaneStart, bind_lanes, budget_of_lane
from tercet.engine.leases import Held
from tercet.engine.result import RunResult
from tercet.runtime.operations import Operations
from tercet.tools import Tool, ToolContext


class LaneRuns(Operations):
    """What lanes need from the runtime of their parent."""

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
