"""Calls of read_only tools that try outputs: test commands, and whatever else is called while they are judged.

Such a call changes nothing: it needs no approval, and one that was cut off is simply made again. Stops and budgets hold
for it as for any other.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tercet.contracts import pointer
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.pointer import PointerError
from tercet.contracts.quality_rules import TestCommand
from tercet.contracts.shape import as_list, as_object
from tercet.core import events as e
from tercet.core.attempt import Done, Ended
from tercet.core.outputs.judging import OutputReview
from tercet.critic.outputs.junit import read_junit
from tercet.engine.active_session import ActiveSession, unless_interrupted
from tercet.engine.calls import Calls
from tercet.engine.evidence.lookups import shortage
from tercet.engine.evidence.retrieval import Spent
from tercet.engine.services import Services

OUTPUT = "$output"
"""The key of a parameter that stands for a part of the outputs."""


class Trials:
    """Calls tools on the outputs of one session."""

    def __init__(self, session: ActiveSession, services: Services, calls: Calls) -> None:
        self._session = session
        self._services = services
        self._calls = calls

    def refusal(self, matter: OutputReview, name: str, spent: Spent, began: int) -> str | None:
        """Why a tool may not be called on the outputs now, after what was spent since `began`; None if it may."""
        tool = self._services.tools.get(name)
        if tool is None or name not in matter.setting.surface or tool.mode is not ApprovalMode.READ_ONLY:
            return f"{name} is no read_only tool of this run"
        if tool.gates:
            return f"{name} waits for a person, and nobody can be asked here"
        if self._services.stops.stopped(name) is not None:
            return f"an operator stopped {name}"
        used = self._session.run.state.used
        used = msgspec.structs.replace(used, wall_clock=used.wall_clock + self._session.now() - began)
        short = shortage(used, matter.setting, tool, spent)
        return None if short is None else str(short)

    async def call(
        self, matter: OutputReview, name: str, params: dict[str, Any], step: str, key: str = ""
    ) -> Ended:
        """Call a tool that may be called. Raises `Interrupted` if the session is let go of meanwhile."""
        tool, now = self._services.tools[name], self._session.now()
        context = self._calls.context(matter.state.start, step, key or step, 1, now + tool.timeout_ms)
        calling = self._services.gateway.call(tool, params, context, timeout_ms=tool.timeout_ms)
        # It changes nothing, so one that is given up is simply called again by whoever goes on.
        return await unless_interrupted(self._session, calling)

    async def test(self, matter: OutputReview, number: int) -> e.TestsRun:
        """What a test command says of the outputs."""
        command, now = matter.rules.tests[number], self._session.now()
        if (why := self.refusal(matter, command.tool, Spent(), now)) is not None:
            return _untested(command, number, now, why)
        try:
            params = filled(command.params, matter.outputs)
        except PointerError as error:
            return _untested(command, number, now, f"the outputs do not have what is tested: {error}")
        ended = await self.call(matter, command.tool, params, f"tests:{number}")
        result, error = _read(ended, command.report)
        return e.TestsRun(
            at=self._session.now(),
            number=number,
            tool=command.tool,
            result=result,
            error=error,
            cost=self._services.tools[command.tool].cost_microcents,
            latency=ended.latency_ms,
        )


def filled(params: Any, outputs: dict[str, Any]) -> Any:
    """Parameters with the parts of the outputs that they stand for; raises `PointerError` where there is no such part."""
    if (members := as_object(params)) is not None:
        if set(members) == {OUTPUT}:
            return pointer.follow(outputs, str(members[OUTPUT]))
        return {name: filled(value, outputs) for name, value in members.items()}
    if (items := as_list(params)) is not None:
        return [filled(item, outputs) for item in items]
    return params


def _untested(command: TestCommand, number: int, now: int, why: str) -> e.TestsRun:
    return e.TestsRun(at=now, number=number, tool=command.tool, error=why, calls=0)


def _read(ended: Ended, report: str) -> tuple[dict[str, Any], str]:
    """What a test command reported, or why there is nothing."""
    if not isinstance(ended, Done) or ended.error:
        return {}, ended.error or "it failed"
    try:
        return read_junit(str(pointer.follow(ended.value, report))).model_dump(mode="json"), ""
    except (PointerError, UsageError) as error:
        return {}, f"its report cannot be read: {error}"
