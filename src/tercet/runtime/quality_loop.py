"""Carries VERIFY, CRITIQUE and REPAIR out: asks models, calls test commands, recalls what earlier runs have taught.

Everything that was recorded is durable before anybody is asked, and whatever comes of it is one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tercet.contracts import pointer
from tercet.contracts.canonical import hash_bytes
from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.pointer import PointerError
from tercet.contracts.quality_rules import TestCommand
from tercet.contracts.question import Inquiry
from tercet.contracts.shape import as_list, as_object
from tercet.critic.outputs.junit import read_junit
from tercet.critic.score import score
from tercet.executor.attempt import Done
from tercet.journal import events as e
from tercet.journal.errors import JournalError
from tercet.models.model import Model
from tercet.runtime import commands as c
from tercet.runtime import experience, quality, transcript
from tercet.runtime.calls import Calls
from tercet.runtime.interruption import Interrupted, unless_interrupted
from tercet.runtime.interview import Interview
from tercet.runtime.looking_up import shortage
from tercet.runtime.retrieving import Spent, keep, search
from tercet.runtime.surroundings import Surroundings
from tercet.runtime.thinking import Desk

JudgedT = TypeVar("JudgedT", e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired)
OUTPUT = "$output"
"""The key of a parameter that stands for a part of the outputs."""

Judging = c.DrawExperience | c.RunTests | c.VerifyOutputs | c.Critique | c.FetchEvidence | c.Repair


class QualityLoop:
    """Judges and mends the outputs of one session."""

    def __init__(self, desk: Desk, around: Surroundings, calls: Calls) -> None:
        self._desk = desk
        self._around = around
        self._calls = calls

    async def carry_out(self, command: Judging) -> None:
        """Carry a command out; nothing is recorded if the session is let go of on the way."""
        desk = self._desk
        await desk.flush()
        if desk.is_let_go:
            return
        matter = await self.matter()
        try:
            match command:
                case c.DrawExperience():
                    desk.note(await self._drawn(matter))
                case c.RunTests():
                    desk.note(await self._tested(matter, command.number))
                case c.VerifyOutputs():
                    desk.note(await self._conduct(quality.verify(matter, desk.now()), self._around.critics))
                case c.Critique():
                    found = quality.criticise(matter, desk.now())
                    desk.note(await self._conduct(found, self._around.critics))
                case c.FetchEvidence():
                    await self._fetch(command)
                case c.Repair():
                    desk.note(await self._repaired(matter))
        except Interrupted:
            return

    async def matter(self) -> quality.Matter:
        """What is judged, as it stands now."""
        desk = self._desk
        events = await desk.events()
        if desk.course is None:
            raise ValueError("a run without a plan has no outputs")
        run = transcript.run_of(desk.setting, desk.course, desk.state, events, desk.blobs)
        return quality.Matter(
            state=desk.state,
            setting=desk.setting,
            run=run,
            scored=score(run),
            repairers=len(self._around.repairers),
        )

    async def teach(self, events: Sequence[e.Event]) -> None:
        """Let later runs of the same kind know what this one has taught."""
        desk, start = self._desk, self._desk.state.start
        task_class = desk.state.quality.drawn.get("task_class")
        if task_class is None or desk.course is None:
            return
        run = transcript.run_of(desk.setting, desk.course, desk.state, events, {})
        lesson = experience.lesson_of(desk.state, run, events, desk.now())
        await experience.teach(self._around.journal, start["tenant"], task_class, lesson)

    async def _drawn(self, matter: quality.Matter) -> e.ExperienceDrawn:
        rules, tenant = matter.rules, str(matter.state.start["tenant"])
        known = await experience.recall(self._around.journal, tenant, rules.task_class)
        now = self._desk.now()
        return known.drawn(rules.task_class, experience.pattern(matter.run), rules.novelty, now)

    async def _fetch(self, command: c.FetchEvidence) -> None:
        """Look for more evidence; a library that cannot be reached lets the run come to a halt."""
        desk = self._desk
        try:
            found = await search(desk.setting, self._around.library, command.queries, desk.now())
        except TercetError as error:
            if isinstance(error, JournalError):
                raise
            desk.let_go(f"evidence cannot be looked up: {error.message}")
            return
        new = [fact for fact in found if fact.evidence.id not in desk.setting.evidence]
        blob = keep(new)
        digest = hash_bytes(blob) if blob else ""
        desk.learn(digest, tuple(fact.evidence for fact in new))
        event = e.EvidenceFetched(
            at=desk.now(),
            queries=tuple(query.model_dump(mode="json", exclude_defaults=True) for query in command.queries),
            refs=tuple(fact.evidence.id for fact in new),
            facts=digest,
        )
        desk.note(event, *([blob] if blob else ()))

    async def _repaired(self, matter: quality.Matter) -> e.OutputsRepaired:
        models = self._around.repairers
        if quality.wants_other_model(matter.state):
            models = models[1:] or models
        names = [model.name for model in models]
        return await self._conduct(quality.repair(matter, names, self._desk.now()), models)

    async def _conduct(self, inquiry: Inquiry[JudgedT], models: Sequence[Model]) -> JudgedT:
        """What an inquiry comes to, with all that somebody needs to derive it again without asking."""
        around = self._around
        limit = around.work.limit_for("critic")
        interview = Interview(
            self._desk, models, clock=around.clock, draw=around.draw, limit=limit, role="critic"
        )
        judged = await interview.conduct(inquiry)
        return msgspec.structs.replace(judged, repairers=len(around.repairers), faults=dict(interview.faults))

    # --- test commands ---

    async def _tested(self, matter: quality.Matter, number: int) -> e.TestsRun:
        """What a test command says of the outputs. It is read_only, so one that was cut off is simply called again."""
        command = matter.rules.tests[number]
        tool, now = self._around.tools.get(command.tool), self._desk.now()
        if (
            tool is None
            or command.tool not in matter.setting.surface
            or tool.mode is not ApprovalMode.READ_ONLY
        ):
            return _untested(command, number, now, f"{command.tool} is no read_only tool of this run")
        if self._around.board.stopped(tool.name) is not None:
            return _untested(command, number, now, f"an operator stopped {tool.name}")
        if (short := shortage(matter.state.used, matter.setting, tool, Spent())) is not None:
            return _untested(command, number, now, short)
        try:
            params = filled(command.params, matter.outputs)
        except PointerError as error:
            return _untested(command, number, now, f"the outputs do not have what is tested: {error}")
        step = f"tests:{number}"
        context = self._calls.context(matter.state.start, step, step, 1, now + tool.timeout_ms)
        calling = self._around.gateway.call(tool, params, context, timeout_ms=tool.timeout_ms)
        # It changes nothing, so one that is given up is simply called again by whoever goes on.
        ended = await unless_interrupted(self._desk, calling)
        made = e.TestsRun(
            at=self._desk.now(),
            number=number,
            tool=tool.name,
            cost=tool.cost_microcents,
            latency=ended.latency_ms,
        )
        if not isinstance(ended, Done) or ended.error:
            return _said(made, error=ended.error or "it failed")
        try:
            report = pointer.follow(ended.value, command.report)
            return _said(made, result=read_junit(str(report)).model_dump(mode="json"))
        except (PointerError, UsageError) as error:
            return _said(made, error=f"its report cannot be read: {error}")


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


def _said(made: e.TestsRun, *, result: dict[str, Any] | None = None, error: str = "") -> e.TestsRun:
    return e.TestsRun(
        at=made.at,
        number=made.number,
        tool=made.tool,
        result=result or {},
        error=error,
        cost=made.cost,
        latency=made.latency,
    )
