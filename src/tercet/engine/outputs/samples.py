"""Calls of read_only tools on outputs: samples, test commands and retries.

Such a call changes nothing: it needs no approval, and an interrupted one is simply made again. Emergency stops and
budgets apply to it as to any other call. A sample repeats the call that produced an output, with the same parameters, to
compare the results. Each sample has its own key, since a tool that recognises a key would return the same answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.outputs.quality_rules import OUTPUT, TestCommand
from tercet.contracts.runs.run import Outcome, ToolCall
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.pointer import PointerError
from tercet.contracts.values.references import Reference, scan
from tercet.core import events as e
from tercet.core.answers import Done, Ended
from tercet.core.decide import needs_approval
from tercet.core.outputs.judging import vote_on
from tercet.core.outputs.review import OutputReview
from tercet.core.required_gates import gates_of
from tercet.engine.calls import Calls
from tercet.engine.control import ActiveSession, unless_interrupted
from tercet.engine.evidence.lookups import shortage
from tercet.engine.evidence.retrieval import Spent
from tercet.engine.services import Services
from tercet.quality.verification.junit import hold_to, read_junit


class Trials:
    """Calls tools on the outputs of one session."""

    def __init__(self, session: ActiveSession, services: Services, calls: Calls) -> None:
        self._session = session
        self._services = services
        self._calls = calls

    def refusal(self, review: OutputReview, name: str, spent: Spent, began: int) -> str | None:
        """Return why a tool must not be called on the outputs now, given what was spent since `began`; None if it may."""
        tool = self._services.tools.get(name)
        if tool is None or name not in review.config.surface or tool.mode is not ApprovalMode.READ_ONLY:
            return f"{name} is no read_only tool of this run"
        if tool.gates:
            return f"{name} waits for a person, and nobody can be asked here"
        if self._services.stops.stopped(name) is not None:
            return f"an operator stopped {name}"
        used = self._session.run.state.used
        used = msgspec.structs.replace(used, wall_clock=used.wall_clock + self._session.now() - began)
        short = shortage(used, review.config, tool, spent)
        return None if short is None else str(short)

    async def call(
        self, review: OutputReview, name: str, params: dict[str, Any], step: str, key: str = ""
    ) -> Ended:
        """Call a tool. Raises `Interrupted` if the session is released meanwhile."""
        tool, now = self._services.tools[name], self._session.now()
        context = self._calls.context(review.state.start, step, key or step, 1, now + tool.timeout_ms)
        guard = self._calls.guard(review.state.start, name)
        calling = self._services.gateway.call(tool, params, context, timeout_ms=tool.timeout_ms, guard=guard)
        # It changes nothing, so the process that resumes the session simply repeats a cancelled call.
        return await unless_interrupted(self._session.control, calling)

    async def test(self, review: OutputReview, number: int) -> e.TestsRun:
        """Run a test command on the outputs, and return its event."""
        command, now = review.rules.tests[number], self._session.now()
        if (why := self.refusal(review, command.tool, Spent(), now)) is not None:
            return _failed_test(command, number, now, why)
        try:
            params = fill_parameters(command.params, review.outputs)
        except PointerError as error:
            return _failed_test(command, number, now, f"the outputs do not have what is tested: {error}")
        ended = await self.call(review, command.tool, params, f"tests:{number}")
        result, error = _read(ended, command, review.baseline(number))
        return e.TestsRun(
            at=self._session.now(),
            number=number,
            tool=command.tool,
            result=result,
            error=error,
            cost=self._services.tools[command.tool].cost_microcents,
            latency=ended.latency_ms,
        )

    async def retry(
        self, review: OutputReview, steps: Sequence[str]
    ) -> tuple[tuple[e.ToolRetry, ...], Spent]:
        """Retry the calls of these steps with their parameters and new keys; return them with their cost."""
        began, spent, room = self._session.now(), Spent(), LONGEST
        found: list[e.ToolRetry] = []
        for name in steps:
            tool, step = self._session.run.followed.calls[name].tool.name, review.state.steps[name]
            said = e.ToolRetry(step=name, tool=tool, error=self.refusal(review, tool, spent, began) or "")
            if not said.error:
                spent.calls += 1
                spent.cost += self._services.tools[tool].cost_microcents
                suffix = f"repair{review.state.used.repairs + 1}"
                ended = await self.call(review, tool, step.params, f"{name}:{suffix}", f"{step.key}:{suffix}")
                said = _with_result(said, ended, room)
            room -= len(msgspec.json.encode(said.result))
            found.append(said)
        return tuple(found), spent


def _with_result(said: e.ToolRetry, ended: Ended, room: int) -> e.ToolRetry:
    """Return a retry with its result, if that is not too large for the event."""
    if not isinstance(ended, Done) or ended.error:
        return msgspec.structs.replace(said, error=ended.error or "it failed")
    size = len(msgspec.json.encode(ended.value))
    if size > room:
        why = f"its result has {size:,} bytes, and results of more than {LONGEST:,} together are not kept"
        return msgspec.structs.replace(said, error=why)
    return msgspec.structs.replace(said, result=ended.value)


def fill_parameters(params: Any, outputs: dict[str, Any]) -> Any:
    """Return parameters with their references to outputs filled in; raises `PointerError` for a missing part."""
    if (members := as_object(params)) is not None:
        if set(members) == {OUTPUT}:
            return pointer.follow(outputs, str(members[OUTPUT]))
        return {name: fill_parameters(value, outputs) for name, value in members.items()}
    if (items := as_list(params)) is not None:
        return [fill_parameters(item, outputs) for item in items]
    return params


def _failed_test(command: TestCommand, number: int, now: int, why: str) -> e.TestsRun:
    return e.TestsRun(at=now, number=number, tool=command.tool, error=why, calls=0)


def _read(ended: Ended, command: TestCommand, baseline: Collection[str]) -> tuple[dict[str, Any], str]:
    """Return the report of a test command, or the reason for its absence; `baseline` are the tests that must have run."""
    if not isinstance(ended, Done) or ended.error:
        return {}, ended.error or "it failed"
    try:
        result = read_junit(str(pointer.follow(ended.value, command.report)))
        held = hold_to(result, max_skipped=command.max_skipped, baseline=baseline)
        return held.model_dump(mode="json"), ""
    except (PointerError, UsageError) as error:
        return {}, f"its report cannot be read: {error}"


LONGEST = 256 * 1024
"""A sample with more bytes is not compared, since one event holds all samples."""


class Source(NamedTuple):
    """The call that produced an output, and the place of the output in its result."""

    call: ToolCall
    pointer: str


class Sampling:
    """Draws samples of an output of one session."""

    def __init__(self, session: ActiveSession, services: Services, trials: Trials) -> None:
        self._session = session
        self._services = services
        self._trials = trials

    async def draw(self, review: OutputReview) -> e.SamplesDrawn:
        """Return the samples and their common result; raises `Interrupted` if the session is released meanwhile."""
        wanted, began = review.sampled, self._session.now()
        source = find_source(review, wanted.into)
        if source is None:
            none = e.SamplesDrawn(at=began, error=f"no step has brought {wanted.into}")
            return vote_on(review, none)
        tool = self._services.tools.get(source.call.tool)
        price = tool.cost_microcents if tool is not None else 0
        drawn: list[Any] = [review.outputs.get(wanted.into)]
        calls, error = 0, self._refusal(review, source)
        while not error and len(drawn) < (wanted.draws or 0):
            spent = Spent(calls=calls, cost=calls * price)
            error = self._trials.refusal(review, source.call.tool, spent, began) or ""
            if not error:
                calls += 1
                error = await self._sample(review, source, drawn)
        event = e.SamplesDrawn(
            at=self._session.now(),
            step=source.call.step_id,
            tool=source.call.tool,
            samples=tuple(drawn),
            error=error,
            calls=calls,
            cost=calls * price,
            latency=self._session.now() - began,
        )
        return vote_on(review, event)

    def _refusal(self, review: OutputReview, source: Source) -> str:
        """Return why the step cannot be repeated without an approval; empty if it can."""
        course, name = self._session.run.plan, source.call.step_id
        if course is None or name not in course.calls:
            return f"{name} is no step of the plan"
        if why := _size_problem(review.outputs.get(review.sampled.into)):
            return why
        gates = gates_of(review.config, course, name, source.call.params)
        return f"a person approves every call of {name}" if needs_approval(course.calls[name], gates) else ""

    async def _sample(self, review: OutputReview, source: Source, drawn: list[Any]) -> str:
        """Draw one more sample; return why that failed, or an empty text."""
        call, number = source.call, len(drawn)
        step, key = f"{call.step_id}:sample{number}", f"{call.idempotency_key}:sample{number}"
        ended = await self._trials.call(review, call.tool, call.params, step, key)
        if not isinstance(ended, Done) or ended.error:
            return f"sample {number + 1} could not be drawn: {ended.error or 'it failed'}"
        try:
            sample = pointer.follow(ended.value, source.pointer)
        except PointerError as error:
            return f"sample {number + 1} does not have it: {error}"
        if not (why := _size_problem(sample)):
            drawn.append(sample)
        return why


def _size_problem(sample: Any) -> str:
    """Return why a sample is too large to compare; empty if it is not."""
    size = len(orjson.dumps(sample))
    return (
        f"a sample has {size:,} bytes, and more than {LONGEST:,} are not compared" if size > LONGEST else ""
    )


def find_source(review: OutputReview, name: str) -> Source | None:
    """Return the call that produced an output; None if it was computed or written by the planner."""
    done = [
        each
        for each in review.run.transcript
        if each.result.outcome is Outcome.DONE and not each.result.error
    ]
    bound = review.run.plan.outputs.get(name)
    if bound is None:
        carrying = [each for each in done if name in (as_object(each.result.value) or {})]
        return Source(carrying[-1].call, pointer.join((name,))) if carrying else None
    read = [found for found in scan(bound) if isinstance(found, Reference)]
    if len(read) != 1 or read[0].kind != "from" or read[0].place:
        return None
    calls = [each.call for each in done if each.call.step_id == read[0].target]
    return Source(calls[-1], read[0].pointer) if calls else None
