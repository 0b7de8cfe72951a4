"""What runs of one kind teach each other: how repairs went, how much they brought, what people said, how runs look.

Each kind of task of a tenant has a stream of its own beside the sessions, which needs no lease. A run writes one lesson at
its end; one that is written twice, since a process died in between, counts once. What a run goes by is written into its own
events, so nothing here is ever read again to judge it.

Feedback: what people say about runs that are over, each attached to the record that it is about.

Corrections stand in a stream of their own beside the session, which needs no lease. The record itself never changes.
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
from tercet.contracts.outputs.quality import Defect, RepairEntry
from tercet.contracts.outputs.repair import SuccessRates
from tercet.contracts.runs.record import FeedbackEntry
from tercet.contracts.runs.run import Run
from tercet.contracts.shape import JsonObject, Published
from tercet.contracts.values.plain import storable
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.session_reader import load_state, read_record
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_next, name_owner, read_all
from tercet.quality.control.estimation import estimate
from tercet.quality.repair.escalation import FEEDBACK
from tercet.quality.repair.rates import novelty, pattern_of, record

RECENT = 500
"""How many lessons back a run looks: what repairs brought long ago says little about those of today."""
LONGEST_NAME = 200
"""No session has a longer name."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one run teaches."""

    session: str
    at: int = 0
    log: tuple[dict[str, Any], ...] = ()
    """Every attempt at a repair."""
    observations: tuple[dict[str, Any], ...] = ()
    """What each repair brought, where a controller steered it."""
    outcomes: tuple[dict[str, Any], ...] = ()
    """What was measured when a person was asked, and whether they took it."""
    pattern: dict[str, float] = {}
    """How the run looks: names and kinds, no values."""
    tests: dict[str, tuple[str, ...]] = {}
    """The tests that passed in a run which was committed, by their tool, where every run of its kind has the same."""
    weights: dict[str, Any] = {}
    """Weights of confidence that somebody fitted and put into force."""
    by: str = ""
    """Who did."""


_decode = msgspec.json.Decoder(Lesson).decode

MOST = 1e6
"""No number that a run goes by is larger: sums of larger ones would not be numbers any more."""


def read(data: bytes) -> Lesson | None:
    """A lesson as it was stored; None for bytes that are none: they must not keep every later run from judging."""
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
    """The stream of a kind of task."""
    return f"experience:{task_class}"


def calibration_of(task_class: str) -> str:
    """The stream of the weights that were put into force for a kind of task: the last ones count, however many runs there
    have been since."""
    return f"calibration:{task_class}"


class Experience:
    """The lessons of one kind of task."""

    def __init__(self, lessons: Sequence[Lesson]) -> None:
        self.lessons = tuple({lesson.session: lesson for lesson in lessons}.values())

    @property
    def rates(self) -> SuccessRates:
        """How often each way of repairing helped."""
        rates = SuccessRates()
        for lesson in self.lessons:
            for entry in lesson.log:
                rates = record(rates, RepairEntry.model_validate(entry))
        return rates

    @property
    def observations(self) -> tuple[RepairObservation, ...]:
        """What each steered repair brought."""
        rows = (row for lesson in self.lessons for row in lesson.observations)
        return tuple(map(RepairObservation.model_validate, rows))

    @property
    def outcomes(self) -> tuple[OutcomeRow, ...]:
        """What people took, and what they did not."""
        rows = (row for lesson in self.lessons for row in lesson.outcomes)
        return tuple(map(OutcomeRow.model_validate, rows))

    @property
    def judges(self) -> dict[str, JudgeRecord]:
        """How often people refused what each model had called right."""
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
        """The weights of confidence that were last put into force."""
        found = [lesson.weights for lesson in self.lessons if lesson.weights]
        return Weights.model_validate(found[-1]) if found else None

    @property
    def tests(self) -> dict[str, tuple[str, ...]]:
        """The tests that passed in the last run that was committed, by their tool."""
        found: dict[str, tuple[str, ...]] = {}
        for lesson in self.lessons:
            found |= lesson.tests
        return found

    def drawn(
        self, task_class: str, pattern: dict[str, float], limit: float | None, now: int
    ) -> e.ExperienceDrawn:
        """What a run goes by; `limit` is how far from all runs before it a run may be without being novel."""
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
    """What the last runs of a kind have taught."""
    stream = stream_of(task_class)
    end = (await journal.head(tenant, stream)).seq
    stored = await read_all(journal, tenant, stream, after=max(0, end - RECENT))
    known = calibration_of(task_class)
    last = (await journal.head(tenant, known)).seq
    calibrated = await read_all(journal, tenant, known, after=max(0, last - 1))
    lessons = (read(event.data) for event in (*stored, *calibrated))
    return Experience([lesson for lesson in lessons if lesson is not None])


async def teach(journal: Journal, tenant: str, task_class: str, lesson: Lesson) -> None:
    """Write down what a run has taught."""
    data = name_owner(msgspec.json.encode(lesson), tenant, stream_of(task_class))
    await append_next(journal, tenant, stream_of(task_class), lambda _: (data,))


async def enforce(
    journal: Journal, tenant: str, task_class: str, weights: Weights, *, by: str, now: int
) -> Lesson:
    """Put weights of confidence into force: every run of the kind that begins to judge from now on goes by them."""
    lesson = Lesson(
        session=f"calibration-{now}", at=now, weights=weights.model_dump(mode="json"), by=storable(by)
    )
    data = name_owner(msgspec.json.encode(lesson), tenant, calibration_of(task_class))
    await append_next(journal, tenant, calibration_of(task_class), lambda _: (data,))
    return lesson


def pattern(run: Run) -> dict[str, float]:
    """How a run looks."""
    request = run.compiled.request
    return pattern_of(
        intent=request.intent if request else run.spec.id,
        request=run.compiled.input(),
        tools=[step.tool for step in run.plan.steps if step.tool],
        evidence=sorted({entry.classification for entry in run.compiled.manifests.evidence_manifest}),
    )


def lesson_of(state: State, run: Run, events: Sequence[e.Event], now: int) -> Lesson:
    """What a run that is ending has taught."""
    task_class = str(state.quality.drawn.get("task_class", ""))
    session = str(state.start.session)
    return Lesson(
        session=session,
        at=now,
        log=tuple(_settled(events)),
        observations=tuple(_observed(events, task_class, session)),
        outcomes=tuple(_outcomes(events)),
        pattern=pattern(run),
        tests=_passed_tests(state, run),
    )


def _passed_tests(state: State, run: Run) -> dict[str, tuple[str, ...]]:
    """The tests that later runs must pass as well; none where the outputs were not committed."""
    if state.phase is not Phase.COMMIT or state.partial or run.spec.quality is None:
        return {}
    said = zip(run.spec.quality.tests, state.quality.tests, strict=False)
    return {
        command.tool: tuple(result["result"].get("passed_tests", ()))
        for command, result in said
        if command.same_suite and result["result"]
    }


def _observed(events: Sequence[e.Event], task_class: str, run: str) -> Iterator[dict[str, Any]]:
    """Each repair that a controller steered, with the quality before and after it."""
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
    """What was measured of outputs that a person was asked about, and whether they took them."""
    features: dict[str, float] = {}
    judged: dict[str, Any] = {}
    gates: set[str] = set()
    for event in events:
        match event:
            case e.OutputsVerified():
                judged = _judged(event.verdict.get("judgements", ()))
            case e.OutputsCritiqued():
                features = event.confidence.get("features", {})
            case e.GateOpened(kind="output"):
                gates.add(event.gate)
            case e.GateAnswered() if event.gate in gates and features:
                yield {"features": features, "is_correct": event.answer == "approve", **judged}
            case _:
                pass


def _judged(judgements: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Which model judged outputs, and whether it called all of them right; empty where none did."""
    names = {each["model"] for each in judgements if each["model"]}
    if len(names) != 1:
        return {}
    return {"judge": names.pop(), "is_passed": all(each["says"] == "right" for each in judgements)}


def _settled(events: Sequence[e.Event]) -> Iterator[dict[str, Any]]:
    """Every attempt at a repair, with whether it helped: one that waited for a test, a model or a person by what they said
    next; one that nobody judged is left out."""
    for at, event in enumerate(events):
        for entry in event.log if isinstance(event, e.OutputsRepaired) else ():
            success = entry["success"]
            if success is None:
                success = _has_helped(RepairEntry.model_validate(entry), events[at + 1 :])
            if success is not None:
                yield {**entry, "success": success}


def _has_helped(entry: RepairEntry, later: Sequence[e.Event]) -> bool | None:
    """Whether a repair helped, by whoever looked at its outcome next; None where nobody did."""
    for event in later:
        match event:
            case e.OutputsRepaired():
                return False if entry.defect.dimension != FEEDBACK else None
            case e.OutputsCritiqued() if entry.defect.dimension != FEEDBACK:
                left = map(Defect.model_validate, event.diagnosis.get("defects", ()))
                return not any(_is_same(entry.defect, each) for each in left)
            case e.GateAnswered(answer="approve" | "modify" | "deny") if entry.defect.dimension == FEEDBACK:
                return event.answer == "approve"
            case _:
                pass
    return None


def _is_same(one: Defect, other: Defect) -> bool:
    return (one.dimension, one.description) == (other.dimension, other.description)


LONGEST = 4_000
"""How many letters a correction may have."""


class Feedback(Published):
    """A correction, and where it stands."""

    id: str
    """The session, and the how-manieth correction of it: `ses_….f1`."""
    session_id: str
    entry: FeedbackEntry


def feedback_of(session: str) -> str:
    """The stream that holds what people said about a session."""
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
    """Attach a correction to the record of a run; raises `UsageError` if the run is not over, or nothing is said."""
    if not correction.strip() or len(correction) > LONGEST:
        raise UsageError(
            f"a correction has between 1 and {LONGEST:,} letters",
            code="no_correction",
            remedy="say what is wrong with the result, and what would have been right",
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
    position = await append_next(journal, tenant, feedback_of(session), lambda _: (data,))
    return Feedback(id=f"{session}.f{position.seq}", session_id=session, entry=entry)


async def read_feedback(journal: Journal, tenant: str, session: str) -> list[Feedback]:
    """What people said about a run, oldest first."""
    stored = await read_all(journal, tenant, feedback_of(session))
    return [
        Feedback(
            id=f"{session}.f{number}",
            session_id=session,
            entry=read_entry(each.data),
        )
        for number, each in enumerate(stored, 1)
    ]


def read_entry(data: bytes) -> FeedbackEntry:
    """Return a correction as it was stored."""
    fields = msgspec.json.decode(data, type=dict[str, Any])
    fields.pop("of", None)  # the stream that it was written to
    return FeedbackEntry.model_validate(fields)


async def find_feedback(journal: Journal, tenant: str, feedback_id: str) -> Feedback:
    """The correction with an id; raises `UsageError` if there is none."""
    session = feedback_id.rpartition(".")[0]
    for each in await read_feedback(journal, tenant, session) if session else ():
        if each.id == feedback_id:
            return each
    raise UsageError(
        f"there is no feedback {feedback_id}",
        code="unknown_feedback",
        remedy="tercet feedback list shows what there is",
    )
