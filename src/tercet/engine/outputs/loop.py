"""Carries VERIFY, CRITIQUE and REPAIR out: asks models, calls tools, recalls what earlier runs have taught.

Everything that was recorded is durable before anybody is asked, and whatever comes of it is one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tercet.contracts.canonical import hash_bytes
from tercet.contracts.errors import TercetError
from tercet.contracts.question import Inquiry
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import transcript
from tercet.core.outputs import judging as quality
from tercet.critic.score import score
from tercet.engine.calls import Calls
from tercet.engine.evidence.retrieval import keep, search
from tercet.engine.interruption import Interrupted
from tercet.engine.models.session import ModelSession
from tercet.engine.outputs.attacks import Attacks
from tercet.engine.outputs.samples import Sampling
from tercet.engine.outputs.trials import Trials
from tercet.engine.services import Services
from tercet.engine.streams import experience
from tercet.engine.thinking import Desk
from tercet.journal.errors import JournalError
from tercet.models.model import Model

JudgedT = TypeVar("JudgedT", e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired)

Judging = (
    c.DrawExperience
    | c.DrawSamples
    | c.RunTests
    | c.VerifyOutputs
    | c.Attack
    | c.Critique
    | c.FetchEvidence
    | c.Repair
)


class QualityLoop:
    """Judges and mends the outputs of one session."""

    def __init__(self, desk: Desk, around: Services, calls: Calls) -> None:
        self._desk = desk
        self._around = around
        self._trials = Trials(desk, around, calls)
        self._sampling = Sampling(desk, around, self._trials)
        self._attacks = Attacks(desk, around, self._trials)

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
                case c.DrawSamples():
                    desk.note(await self._sampling.draw(matter))
                case c.RunTests():
                    desk.note(await self._trials.test(matter, command.number))
                case c.VerifyOutputs():
                    desk.note(await self._conduct(quality.verify(matter, desk.now()), self._around.critics))
                case c.Attack():
                    desk.note(await self._attacks.make(matter, command.number))
                case c.Critique():
                    found = quality.criticise(matter, desk.now())
                    desk.note(await self._conduct(found, self._around.critics))
                case c.FetchEvidence():
                    await self._fetch(command)
                case c.Repair():
                    desk.note(await self._repaired(matter))
        except Interrupted:
            return

    async def matter(self) -> quality.OutputReview:
        """What is judged, as it stands now."""
        desk = self._desk
        events = await desk.events()
        if desk.course is None:
            raise ValueError("a run without a plan has no outputs")
        run = transcript.run_of(desk.setting, desk.course, desk.state, events, desk.blobs)
        return quality.OutputReview(
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
        await experience.teach(self._around.journal, start.tenant, task_class, lesson)

    async def _drawn(self, matter: quality.OutputReview) -> e.ExperienceDrawn:
        rules, tenant = matter.rules, str(matter.state.start.tenant)
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

    async def _repaired(self, matter: quality.OutputReview) -> e.OutputsRepaired:
        models = self._around.repairers
        if quality.wants_other_model(matter.state):
            models = models[1:] or models
        names = [model.name for model in models]
        return await self._conduct(quality.repair(matter, names, self._desk.now()), models)

    async def _conduct(self, inquiry: Inquiry[JudgedT], models: Sequence[Model]) -> JudgedT:
        """What an inquiry comes to, with all that somebody needs to derive it again without asking."""
        around = self._around
        limit = around.work.limit_for("critic")
        interview = ModelSession(
            self._desk,
            models,
            clock=around.clock,
            draw=around.draw,
            limit=limit,
            role="critic",
            # Judging is pure and may take seconds, which are the loop's to keep the lease in. These threads are daemons: a
            # process that is told to stop does not wait for what a judgement comes to.
            threads=self._around.gateway.threads,
        )
        judged = await interview.conduct(inquiry)
        return msgspec.structs.replace(judged, repairers=len(around.repairers), faults=dict(interview.faults))
