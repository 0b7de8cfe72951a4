"""Experience shared by the runs of a task class: repair outcomes, observations, human decisions and run patterns.

Each task class of a tenant has its own stream, which needs no lease. A run appends one lesson at its end; one that is
appended twice because of a crash counts once. A run records the values it uses in its own events, so a replay does not
read this stream.

Feedback: corrections by people, each attached to the record of a run that is over.

Corrections are in a side stream of the session, which needs no lease. The record itself never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic import ValidationError

from tercet.contracts.control import RepairObservation
from tercet.contracts.errors import UsageError
from tercet.contracts.loop import Phase
from tercet.contracts.outputs.exit import JudgeRecord, OutcomeRow, Weights
from tercet.contracts.outputs.quality import Defect, RepairEntry, RepairLog
from tercet.contracts.outputs.repair import SuccessRates
from tercet.contracts.runs.record import FeedbackEntry
from tercet.contracts.runs.run import Run
from tercet.contracts.shape import JsonObject, Published
from tercet.contracts.values.plain import storable
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.session_reader import load_state, read_record
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next, encode_entry, name_owner, read_all
from tercet.quality.control import estimate
from tercet.quality.repair.escalation import FEEDBACK
from tercet.quality.repair.rates import novelty, pattern_of, record

RECENT = 500
"""How many recent lessons a run considers."""
LONGEST_NAME = 200
"""The longest session id."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lesson of one run for later runs of its task class."""

    session: str
    at: int = 0
    log: tuple[dict[str, Any], ...] = ()
    """Every repair attempt."""
    observations: tuple[dict[str, Any], ...] = ()
    """The effect of each repair that a controller directed."""
    outcomes: tuple[dict[str, Any], ...] = ()
    """The measurements when a person was asked, and whether the person accepted."""
    pattern: dict[str, float] = {}
    """The shape of the run: names and kinds, no values."""
    tests: dict[str, tuple[str, ...]] = {}
    """The tests that passed in a committed run, by tool, if all runs of its class have the same tests."""
    weights: dict[str, Any] = {}
    """Fitted confidence weights that were activated."""
    by: str = ""
    """The person who activated them."""


_decode = msgspec.json.Decoder(Lesson).decode

MOST = 1e6
"""The largest accepted number: sums of larger ones could overflow."""


def read(data: bytes) -> Lesson | None:
    """Decode a lesson; None for invalid bytes, which must not keep every later run from judging."""
    try:
        lesson = _decode(data)
        alone = Experience([lesson])
        _ = alone.rates, alone.observations, alone.outcomes
        weights = alone.weights
    except (msgspec.MsgspecError, UnicodeDecodeError, ValidationError):
        return None
    numbers = [*lesson.pattern.values()]
    if weights is not None:
        numbers += [
            abs(each) for each in (weights.bias, *weights.weights.values(), *weights.centers.values())
        ]
    is_named = 0 < len(lesson.session) <= LONGEST_NAME
    return lesson if is_named and all(0.0 <= number <= MOST for number in numbers) else None


def stream_of(task_class: str) -> str:
    """Return the name of the stream of a task class."""
    return f"experience:{task_class}"


def calibration_of(task_class: str) -> str:
    """Return the name of the stream of activated weights of a task class; the last ones count."""
    return f"calibration:{task_class}"


class Experience:
    """The lessons of one task class."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self.lessons = tuple({lesson.session: lesson for lesson in lessons}.values())

    @property
    def rates(self) -> SuccessRates:
        """Return the success rate of each repair strategy."""
        rates = SuccessRates()
        for lesson in self.lessons:
            for entry in lesson.log:
                rates = record(rates, RepairEntry.model_validate(entry))
        return rates

    @property
    def observations(self) -> tuple[RepairObservation, ...]:
        """The effects of repairs that a controller directed."""
        rows = (row for lesson in self.lessons for row in lesson.observations)
        return tuple(map(RepairObservation.model_validate, rows))

    @property
    def outcomes(self) -> tuple[OutcomeRow, ...]:
        """The outcomes that people accepted or refused."""
        rows = (row for lesson in self.lessons for row in lesson.outcomes)
        return tuple(map(OutcomeRow.model_validate, rows))

    @property
    def judges(self) -> dict[str, JudgeRecord]:
        """For each model, how often people refused outputs that it had judged correct."""
        passed = [row for row in self.outcomes if row.is_passed]
        return {
            name: JudgeRecord(
                passed=sum(row.judge == name for row in passed),
                refused=sum(row.judge == name and not row.is_correct for row in passed),
            )
            for name in sorted({row.judge for row in passed})
        }

    @property
    def weights(self) -> Weights | None:
        """The confidence weights that were activated last."""
        found = [lesson.weights for lesson in self.lessons if lesson.weights]
        return Weights.model_validate(found[-1]) if found else None

    @property
    def tests(self) -> dict[str, tuple[str, ...]]:
        """The tests that passed in the last committed run, by tool."""
        found: dict[str, tuple[str, ...]] = {}
        for lesson in self.lessons:
            found |= lesson.tests
        return found

    def drawn(
        self, task_class: str, pattern: dict[str, float], limit: float | None, now: int
    ) -> e.ExperienceDrawn:
        """Return the experience that a run uses; a run farther than `limit` from all earlier runs is novel."""
        gain, weights = estimate(self.observations), self.weights
        past = {lesson.session: lesson.pattern for lesson in self.lessons if lesson.pattern}
        found = None if limit is None else novelty(pattern, past, limit=limit)
        return e.ExperienceDrawn(
            at=now,
            task_class=task_class,
            rates=self.rates.model_dump(mode="json"),
            gain=gain.model_dump(mode="json") if gain else {},
            weights=weights.model_dump(mode="json") if weights else {},
            novelty=found.model_dump(mode="json") if found else {},
            judges={name: each.model_dump(mode="json") for name, each in self.judges.items()},
            tests=self.tests,
        )


async def recall(journal: Journal, tenant: str, task_class: str) -> Experience:
    """Load the recent lessons of a task class."""
    stream = stream_of(task_class)
    end = (await journal.head(tenant, stream)).seq
    stored = await read_all(journal, tenant, stream, after=max(0, end - RECENT))
    known = calibration_of(task_class)
    last = (await journal.head(tenant, known)).seq
    calibrated = await read_all(journal, tenant, known, after=max(0, last - 1))
    lessons = (read(event.data) for event in (*stored, *calibrated))
    return Experience([lesson for lesson in lessons if lesson is not None])


async def teach(journal: Journal, tenant: str, task_class: str, lesson: Lesson) -> None:
    """Append the lesson of a run."""
    stream = stream_of(task_class)
    await append_next(journal, tenant, stream, encode_entry(lesson, tenant, stream))


async def activate_weights(
    journal: Journal, tenant: str, task_class: str, weights: Weights, *, by: str, now: int
) -> Lesson:
    """Activate confidence weights for every run of the task class that starts judging from now on."""
    lesson = Lesson(
        session=f"calibration-{now}", at=now, weights=weights.model_dump(mode="json"), by=storable(by)
    )
    stream = calibration_of(task_class)
    await append_next(journal, tenant, stream, encode_entry(lesson, tenant, stream))
    return lesson


def pattern(run: Run) -> dict[str, float]:
    """Return the shape of a run as features."""
    request = run.compiled.request
    return pattern_of(
        intent=request.intent if request else run.spec.id,
        request=run.compiled.input(),
        tools=[step.tool for step in run.plan.steps if step.tool],
        evidence=sorted({entry.classification for entry in run.compiled.manifests.evidence_manifest}),
    )


def lesson_of(state: State, run: Run, events: Sequence[e.Event], now: int) -> Lesson:
    """Return the lesson of a run that is ending."""
    task_class = str(state.quality.drawn.get("task_class", ""))
    session = state.start.session
    return Lesson(
        session=session,
        at=now,
        log=tuple(_settled_repairs(events)),
        observations=tuple(_observations(events, task_class, session)),
        outcomes=tuple(_outcomes(events)),
        pattern=pattern(run),
        tests=_passed_tests(state, run),
    )


def _passed_tests(state: State, run: Run) -> dict[str, tuple[str, ...]]:
    """Return the tests that later runs must pass too; empty if the outputs were not committed."""
    if state.phase is not Phase.COMMIT or state.partial or run.spec.quality is None:
        return {}
    said = zip(run.spec.quality.tests, state.quality.tests, strict=False)
    return {
        command.tool: tuple(result["result"].get("passed_tests", ()))
        for command, result in said
        if command.same_suite and result["result"]
    }


def _observations(events: Sequence[e.Event], task_class: str, run: str) -> Iterator[dict[str, Any]]:
    """Yield each repair that a controller directed, with the quality before and after it."""
    before: dict[str, Any] = {}
    iteration, is_asked = 0, False
    for event in events:
        if isinstance(event, e.OutputsRepaired):
            is_asked = any(entry["means"] == "model" for entry in event.log)
        if not isinstance(event, e.OutputsCritiqued) or "quality" not in event.control:
            continue
        command = before.get("command", {})
        if command.get("kind") == "repair":
            yield {
                "task_class": task_class,
                "run": run,
                "iteration": iteration,
                "intensity": command["intensity"],
                "before": before["quality"],
                "after": event.control["quality"],
                "means": "model" if is_asked else "rule",
            }
            iteration += 1
        before = event.control if event.next == "repair" else {}


def _outcomes(events: Sequence[e.Event]) -> Iterator[dict[str, Any]]:
    """Yield the measurements of outputs that a person was asked about, and whether the person accepted them."""
    features: dict[str, float] = {}
    judged: dict[str, Any] = {}
    gates: set[str] = set()
    for event in events:
        match event:
            case e.OutputsVerified():
                judged = _model_judgement(event.verdict.get("judgements", ()))
            case e.OutputsCritiqued():
                features = event.confidence.get("features", {})
            case e.GateOpened(kind="output"):
                gates.add(event.gate)
            case e.GateAnswered() if event.gate in gates and features:
                yield {"features": features, "is_correct": event.answer == "approve", **judged}
            case _:
                pass


def _model_judgement(judgements: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return which model judged the outputs, and whether it judged all correct; empty if none did."""
    names = {each["model"] for each in judgements if each["model"]}
    if len(names) != 1:
        return {}
    return {"judge": names.pop(), "is_passed": all(each["says"] == "right" for each in judgements)}


def _settled_repairs(events: Sequence[e.Event]) -> Iterator[dict[str, Any]]:
    """Yield every repair attempt with whether it helped; attempts without a verdict are left out."""
    for log in settled_logs(events):
        for entry in log.entries:
            if entry.success is not None:
                yield entry.model_dump(mode="json")


def settled_logs(events: Sequence[e.Event]) -> Iterator[RepairLog]:
    """Yield the log of each REPAIR phase, in which attempts that no rule could judge have succeeded or failed by the next
    verdict of a test, a model or a person."""
    for at, event in enumerate(events):
        if isinstance(event, e.OutputsRepaired):
            entries = map(RepairEntry.model_validate, event.log)
            yield RepairLog(entries=tuple(_settled(each, events[at + 1 :]) for each in entries))


def _settled(entry: RepairEntry, later: Sequence[e.Event]) -> RepairEntry:
    if entry.success is not None:
        return entry
    return entry.model_copy(update={"success": _has_helped(entry, later)})


def _has_helped(entry: RepairEntry, later: Sequence[e.Event]) -> bool | None:
    """Return whether a repair helped according to the next verdict on it; None without one."""
    for event in later:
        match event:
            case e.OutputsRepaired():
                return False if entry.defect.dimension != FEEDBACK else None
            case e.OutputsCritiqued() if entry.defect.dimension != FEEDBACK:
                left = map(Defect.model_validate, event.diagnosis.get("defects", ()))
                return all(entry.defect.key != each.key for each in left)
            case e.GateAnswered(answer="approve" | "modify" | "deny") if entry.defect.dimension == FEEDBACK:
                return event.answer == "approve"
            case _:
                pass
    return None


LONGEST = 4_000
"""The most characters a correction may have."""


class Feedback(Published):
    """A correction with its id and session."""

    id: str
    """The session and the number of the correction: `ses_….f1`."""
    session_id: str
    entry: FeedbackEntry


def feedback_of(session: str) -> str:
    """Return the name of the side stream with the corrections of a session."""
    return f"feedback:{session}"


async def add_feedback(
    journal: Journal,
    tenant: str,
    session: str,
    *,
    author: str,
    correction: str,
    expected: JsonObject | None = None,
    now: int,
) -> Feedback:
    """Attach a correction to the record of a run; raises `UsageError` if the run is not over or the text is empty."""
    if not correction.strip() or len(correction) > LONGEST:
        raise UsageError(
            f"a correction has between 1 and {LONGEST:,} characters",
            code="no_correction",
            remedy="describe what is wrong with the result, and what would be right",
        )
    state = await load_state(journal, tenant, session)
    if not state.is_over or not state.record:
        raise UsageError(
            f"session {session} is not over: it is {state.status}",
            code="session_not_over",
            remedy=f"tercet sessions resume {session} brings it to its end",
        )
    record = await read_record(journal, tenant, state)
    entry = FeedbackEntry(
        record_hash=state.record,
        report=record["report"],
        author=author,
        correction=storable(correction.strip()),
        expected=expected or {},
        given_at=datetime.fromtimestamp(now / 1000, UTC),
    )
    data = name_owner(entry.model_dump_json(exclude_none=True).encode(), tenant, feedback_of(session))
    position = await append_next(journal, tenant, feedback_of(session), data)
    return Feedback(id=f"{session}.f{position.seq}", session_id=session, entry=entry)


async def read_feedback(journal: Journal, tenant: str, session: str) -> list[Feedback]:
    """Return the corrections of a run, oldest first."""
    stored = await read_all(journal, tenant, feedback_of(session))
    return [
        Feedback(id=f"{session}.f{number}", session_id=session, entry=read_entry(each.data))
        for number, each in enumerate(stored, 1)
    ]


def read_entry(data: bytes) -> FeedbackEntry:
    """Return a correction in its stored form."""
    fields = msgspec.json.decode(data, type=dict[str, Any])
    fields.pop("of", None)  # the stream that it was written to
    return FeedbackEntry.model_validate(fields)


async def find_feedback(journal: Journal, tenant: str, feedback_id: str) -> Feedback:
    """Return the correction with an id; raises `UsageError` if there is none."""
    session = feedback_id.rpartition(".")[0]
    for each in await read_feedback(journal, tenant, session) if session else ():
        if each.id == feedback_id:
            return each
    raise UsageError(
        f"there is no feedback {feedback_id}",
        code="unknown_feedback",
        remedy="tercet feedback list shows the existing ones",
    )
