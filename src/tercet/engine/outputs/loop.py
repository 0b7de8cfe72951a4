"""Executes VERIFY, CRITIQUE and REPAIR: asks models, calls tools, and loads the experience of earlier runs.

Recorded events are written before a model or tool is asked, and each outcome is one event.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.question import Inquiry
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import commands as c
from tercet.core import events as e
from tercet.core import transcript
from tercet.core.answers import Observed
from tercet.core.outputs.judging import criticise, verify
from tercet.core.outputs.repairing import repair, wants_other_model
from tercet.core.outputs.review import OutputReview
from tercet.critic.score import score
from tercet.engine.calls import Calls
from tercet.engine.control import ActiveSession, Interrupted
from tercet.engine.evidence.retrieval import keep, search
from tercet.engine.models.session import ModelSession
from tercet.engine.outputs.attacks import Attacks
from tercet.engine.outputs.reading import read_outputs
from tercet.engine.outputs.samples import Sampling, Trials
from tercet.engine.services import Services
from tercet.engine.streams import experience
from tercet.journal.errors import JournalError
from tercet.models.model import Model

JudgedT = TypeVar("JudgedT", e.OutputsVerified, e.OutputsCritiqued, e.OutputsRepaired)


class QualityLoop:
    """Judges and repairs the outputs of one session."""

    def __init__(self, session: ActiveSession, services: Services, calls: Calls) -> None:
        self._session = session
        self._services = services
        self._trials = Trials(session, services, calls)
        self._sampling = Sampling(session, services, self._trials)
        self._attacks = Attacks(session, services, self._trials)

    async def answer(self, command: c.OutputCommand) -> Observed | None:
        """Return the answer to a command; None if the session is released meanwhile."""
        session = self._session
        await session.flush()
        if session.control.is_stopping:
            return None
        review = await self.review()
        try:
            match command:
                case c.DrawExperience():
                    return Observed(event=await self._draw_experience(review))
                case c.DrawSamples():
                    return Observed(event=await self._sampling.draw(review))
                case c.ReadOutputs():
                    work = partial(read_outputs, review, session.now())
                    return Observed(event=await self._services.gateway.threads.work(work))
                case c.RunTests():
                    return Observed(event=await self._trials.test(review, command.number))
                case c.VerifyOutputs():
                    verifying = verify(review, session.now())
                    return Observed(event=await self._conduct(verifying, self._services.critics))
                case c.Attack():
                    return Observed(event=await self._attacks.make(review, command.number))
                case c.Critique():
                    judging = criticise(review, session.now())
                    return Observed(event=await self._conduct(judging, self._services.critics))
                case c.FetchEvidence():
                    return await self._fetch(review, command)
                case c.Repair():
                    return Observed(event=await self._repair(review))
        except Interrupted:
            return None

    async def review(self) -> OutputReview:
        """Return the current review of the outputs."""
        session = self._session
        events, run = await session.ledger.events_with_results(), session.run
        found = transcript.run_of(run.config, run.followed, run.state, events, run.blobs)
        return OutputReview(
            state=run.state,
            config=run.config,
            run=found,
            scored=score(found),
            repairers=len(self._services.repairers),
        )

    async def teach(self, events: Sequence[e.Event]) -> None:
        """Store what this run has taught, for later runs of the same task class."""
        run = self._session.run
        task_class = run.state.quality.drawn.get("task_class")
        if task_class is None or run.plan is None:
            return
        found = transcript.run_of(run.config, run.plan, run.state, events, {})
        lesson = experience.lesson_of(run.state, found, events, self._session.now())
        await experience.teach(self._services.journal, run.state.start.tenant, task_class, lesson)

    async def _draw_experience(self, review: OutputReview) -> e.ExperienceDrawn:
        rules, tenant = review.rules, review.state.start.tenant
        known = await experience.recall(self._services.journal, tenant, rules.task_class)
        now = self._session.now()
        return known.drawn(rules.task_class, experience.pattern(review.run), rules.novelty, now)

    async def _fetch(self, review: OutputReview, command: c.FetchEvidence) -> Observed | None:
        """Look for more evidence, and retry failed tool calls; the session is released if the library is unavailable."""
        session = self._session
        config, library = session.run.config, self._services.library
        try:
            found = await search(config, library, command.queries, session.now()) if command.queries else []
        except TercetError as error:
            if isinstance(error, JournalError):
                raise
            session.control.release(f"evidence cannot be looked up: {error.message}")
            return None
        new = [fact for fact in found if fact.evidence.id not in config.evidence]
        blob = keep(new)
        digest = hash_bytes(blob) if blob else ""
        session.values.learn(digest, tuple(fact.evidence for fact in new))
        results, spent = await self._trials.retry(review, command.retries)
        event = e.EvidenceFetched(
            at=session.now(),
            queries=tuple(query.model_dump(mode="json", exclude_defaults=True) for query in command.queries),
            refs=tuple(fact.evidence.id for fact in new),
            facts=digest,
            results=results,
            calls=spent.calls,
            cost=spent.cost,
        )
        return Observed(event=event, blobs=(blob,) if blob else ())

    async def _repair(self, review: OutputReview) -> e.OutputsRepaired:
        models = self._services.repairers
        if wants_other_model(review.state):
            models = models[1:] or models
        names = [model.name for model in models]
        return await self._conduct(repair(review, names, self._session.now()), models)

    async def _conduct(self, inquiry: Inquiry[JudgedT], models: Sequence[Model]) -> JudgedT:
        """Return the event of an inquiry, with the model answers that a replay needs."""
        services = self._services
        limit = services.planning.limit_for("critic")
        model_session = ModelSession(
            self._session,
            models,
            clock=services.clock,
            draw=services.draw,
            limit=limit,
            role="critic",
            # Judging is pure and may take seconds, in which the event loop must renew the lease. The threads are daemons, so
            # that a process that is asked to stop does not wait for a judgement.
            threads=self._services.gateway.threads,
        )
        judged = await model_session.conduct(inquiry)
        return msgspec.structs.replace(
            judged, repairers=len(services.repairers), faults=dict(model_session.faults)
        )
