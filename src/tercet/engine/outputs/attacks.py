"""Attacks on outputs: edge cases are generated once, tried one after the other, and tried again after every repair.

Hypothesis and models cannot be reproduced by a replay, so the event records every case with its outcome, and the critic
judges that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec
import orjson

from tercet.contracts.outputs.quality_rules import Attack
from tercet.contracts.outputs.rubric import EdgeCase, EdgeOutcome, Probe
from tercet.contracts.shape import JsonObject
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.pointer import PointerError
from tercet.core import events as e
from tercet.core.answers import Done, Ended
from tercet.core.outputs.edge_cases import Wanted, inlined, make_edge_cases
from tercet.core.outputs.review import OutputReview
from tercet.engine.control import ActiveSession
from tercet.engine.evidence.retrieval import Spent
from tercet.engine.models.session import ModelSession
from tercet.engine.outputs.samples import Trials, fill_parameters
from tercet.engine.services import Services
from tercet.policy import schemas
from tercet.quality.rubric.adversarial import PROBES, imagine_edge_cases, plant

LONGEST = 16 * 1024
"""Results with more bytes are not recorded, only that there was one."""


class Attacks:
    """Attacks the outputs of one session."""

    def __init__(self, session: ActiveSession, services: Services, trials: Trials) -> None:
        self._session = session
        self._services = services
        self._trials = trials

    async def make(self, review: OutputReview, number: int) -> e.OutputsAttacked:
        """Run an attack and return its event; raises `Interrupted` if the session is released meanwhile."""
        attack, now = review.rules.attacks[number], self._session.now()
        if (why := self._trials.refusal(review, attack.tool, Spent(), now)) is not None:
            return _failed_attack(attack, number, now, why)
        try:
            params = fill_parameters(attack.params, review.outputs)
        except PointerError as error:
            return _failed_attack(attack, number, now, f"the outputs do not have what is attacked: {error}")
        model_session = self._interview()
        cases = _earlier_cases(await self._session.ledger.events_with_results(), number) or await self._cases(
            review, attack, params, model_session
        )
        if not cases:
            return _failed_attack(attack, number, now, f"there is no case that {attack.tool} takes")
        if attack.probe_at is not None and not any(case.probe for case in cases):
            return _failed_attack(
                attack, number, now, f"no case takes the text of a probe at {attack.probe_at!r}"
            )
        made = await self._try(review, number, params, cases)
        return msgspec.structs.replace(made, faults=dict(model_session.faults))

    async def _cases(
        self, review: OutputReview, attack: Attack, params: JsonObject, model_session: ModelSession
    ) -> tuple[EdgeCase, ...]:
        """Return every case of an attack: with a probe, from a model, and at the edges of the schema."""
        tool = self._services.tools[attack.tool]
        schema = attack.schema_for(tool)
        limit = review.rules.critique.max_edge_cases if attack.max_cases is None else attack.max_cases
        wanted = partial(_is_wanted, attack, tool, params)
        made = await _generate_cases(schema, limit, attack.seed, wanted)
        asked = imagine_edge_cases(
            review.critique_input, limit=min(attack.imagined, limit), inputs=inlined(schema)
        )
        imagined = [_relabel(case, schema) for case in await model_session.conduct(asked)]
        planted = _probe_cases(attack, made, review.rules.critique.probes or PROBES, schema)
        return _deduplicate(case for case in (*planted, *imagined, *made) if wanted(case))[:limit]

    def _interview(self) -> ModelSession:
        services = self._services
        return ModelSession(
            self._session,
            services.critics,
            clock=services.clock,
            draw=services.draw,
            limit=services.planning.limit_for("critic"),
            role="critic",
        )

    async def _try(
        self, review: OutputReview, number: int, params: JsonObject, cases: Sequence[EdgeCase]
    ) -> e.OutputsAttacked:
        attack, began = review.rules.attacks[number], self._session.now()
        cost = self._services.tools[attack.tool].cost_microcents
        tried: list[EdgeOutcome] = []
        error = ""
        for index, case in enumerate(cases):
            spent = Spent(calls=len(tried), cost=len(tried) * cost)
            if (why := self._trials.refusal(review, attack.tool, spent, began)) is not None:
                error = why
                break
            step = f"attacks:{number}:{index}"
            ended = await self._trials.call(review, attack.tool, {**params, attack.case: case.input}, step)
            tried.append(_outcome(case, ended))
        return e.OutputsAttacked(
            at=self._session.now(),
            number=number,
            tool=attack.tool,
            tried=tuple(each.model_dump(mode="json", exclude_defaults=True) for each in tried),
            error=error,
            calls=len(tried),
            cost=len(tried) * cost,
            latency=self._session.now() - began,
        )


async def _generate_cases(schema: JsonObject, limit: int, seed: int, wanted: Wanted) -> tuple[EdgeCase, ...]:
    """Generate cases at the edges of a schema in a thread, since that may take a while."""
    return await asyncio.to_thread(make_edge_cases, schema, limit=limit, seed=seed, wanted=wanted)


def _earlier_cases(events: Iterable[e.Event], number: int) -> tuple[EdgeCase, ...]:
    """Return the cases that an earlier complete attack of this session tried under the same pack."""
    found: tuple[EdgeCase, ...] = ()
    for event in events:
        if isinstance(event, e.SessionMigrated):
            found = ()
        elif isinstance(event, e.OutputsAttacked) and event.number == number and not event.error:
            found = tuple(EdgeOutcome.model_validate(each).case for each in event.tried)
    return found


def _is_wanted(attack: Attack, tool: ToolSpec, params: JsonObject, case: EdgeCase) -> bool:
    """Return whether a case is meaningful: the tool accepts it, and the outputs had to handle it."""
    is_asked = case.is_valid or attack.refuses_invalid
    return is_asked and not schemas.faults(tool.parameters_text, {**params, attack.case: case.input})


def _relabel(case: EdgeCase, schema: JsonObject) -> EdgeCase:
    """Return a model's case, labelled by whether its input fits the schema instead of by the model's own claim."""
    is_valid = not schemas.faults(canonical(schema).decode(), case.input)
    return EdgeCase(input=case.input, is_valid=is_valid, reason=f"a model: {case.reason}"[:300])


def _probe_cases(
    attack: Attack, made: Sequence[EdgeCase], probes: Sequence[Probe], schema: JsonObject
) -> Iterator[EdgeCase]:
    """Yield cases with a prompt injection probe in their text."""
    if attack.probe_at is None:
        return
    for case in made:
        try:
            pointer.follow(case.input, attack.probe_at)
        except PointerError:
            continue
        for probe in probes if case.is_valid else ():
            planted = plant(case.input, attack.probe_at, probe)
            is_valid = not schemas.faults(canonical(schema).decode(), planted)
            yield EdgeCase(
                input=planted, is_valid=is_valid, reason=f"with the probe {probe.name}", probe=probe
            )
        if case.is_valid:
            return


def _deduplicate(cases: Iterable[EdgeCase]) -> tuple[EdgeCase, ...]:
    found: dict[bytes, EdgeCase] = {}
    for case in cases:
        found.setdefault(canonical(case.input), case)
    return tuple(found.values())


def _outcome(case: EdgeCase, ended: Ended) -> EdgeOutcome:
    if not isinstance(ended, Done) or ended.error:
        return EdgeOutcome(case=case, error=ended.error or "it failed")
    size = len(orjson.dumps(ended.value))
    if size <= LONGEST:
        return EdgeOutcome(case=case, actual=ended.value)
    if case.probe is None:
        return EdgeOutcome(case=case)
    return EdgeOutcome(case=case, error=f"its result of {size:,} bytes is too long to be looked through")


def _failed_attack(attack: Attack, number: int, now: int, why: str) -> e.OutputsAttacked:
    return e.OutputsAttacked(at=now, number=number, tool=attack.tool, error=why)
