"""One REPAIR phase as an inquiry: it yields the questions for models, and what else it needs comes in as functions.

The worst defect comes first, with the cheapest repair that fits, and each is looked at again by itself. A repair that did
not repair its defect is abandoned: the output stays as it was. Only when everything is made again the new output counts in
any case, and nothing is left to repair: VERIFY looks at it. Every attempt counts against `max_attempts`; a question is
asked only if its reservation fits into what is left of `max_tokens`; nothing begins at or after `max_ms`.

The same case and the same answers give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.outputs.quality import (
    Consensus,
    CritiqueDiagnosis,
    Defect,
    DefectSeverity,
    RepairEntry,
    RepairLog,
    RootCauseClass,
)
from tercet.contracts.outputs.repair import (
    Impression,
    LeftDefect,
    LoopBreak,
    LoopMemory,
    RepairResult,
    RepairRules,
    SuccessRates,
)
from tercet.contracts.question import Inquiry, ModelFault, Question
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.causes import NEEDS_EVIDENCE, Circumstances, classify
from tercet.quality.repair.escalation import (
    EXHAUSTED,
    FEEDBACK,
    LADDER,
    LOOPED,
    Resources,
    escalate,
    impression_of,
    notice,
    rung_of,
)
from tercet.quality.repair.losses import Materials, find_loss
from tercet.quality.repair.prompts import (
    WARM,
    Errand,
    NoReplacement,
    demand_same_outputs,
    is_shown_whole,
    part_of,
    read_answer,
    write_question,
)
from tercet.quality.repair.regions import WHOLE, Edit, follow_edit, locate, splice_all
from tercet.quality.repair.rules import propose
from tercet.quality.repair.strategies import Option, choose, model_options
from tercet.quality.verification.places import Location

OTHER_MODEL = "repair_by_another_model"
"""The purpose of a question that the models before could not answer well enough: another one is to be asked."""
NO_ATTEMPTS = "no attempts are left"
NO_TIME = "no time is left"
NO_TOKENS = "no tokens are left for it"
TOO_LONG = "it is too long to be shown to a model whole"
OVERDRAWN = "a model took more tokens than there were"

IsGone = Callable[[JsonObject, Defect], bool]
"""Whether a defect is gone from an output. It is asked after each repair, about that defect alone."""
FetchMore = Callable[[Defect], Sequence[Evidence]]
"""What is new about a defect: more evidence, and what failed tools brought that were called again."""
Vote = Callable[[Sequence[JsonObject | None]], Consensus]
"""What several documents agree on, and which stands for them; None is an answer that holds none."""


@dataclass(frozen=True, kw_only=True)
class RepairCase:
    """What a REPAIR phase is given."""

    output: JsonObject
    diagnosis: CritiqueDiagnosis
    task: str = ""
    materials: Materials = field(default_factory=Materials)
    known: Circumstances = field(default_factory=Circumstances)
    rules: RepairRules = field(default_factory=RepairRules)
    rates: SuccessRates = field(default_factory=SuccessRates)
    resources: Resources = field(default_factory=Resources)
    unseen: frozenset[str] = frozenset()
    """Dimensions of which REPAIR itself cannot see whether a defect is gone, other than by a change of its place."""
    told_later: frozenset[str] = frozenset()
    """Dimensions of which only a model, a test or a person can tell whether a defect is gone: such repairs stay pending."""
    draws: int = 1
    """How often a model is asked that makes everything again: 1, or a number of which a majority can be had."""
    memory: LoopMemory = field(default_factory=LoopMemory)
    """What the phases before this one saw."""
    history: RepairLog = field(default_factory=RepairLog)
    """What they tried."""


def repair_output(
    case: RepairCase, is_gone: IsGone, *, fetch: FetchMore = lambda _: (), vote: Vote | None = None
) -> Inquiry[RepairResult]:
    """Repair an output as far as its bounds allow. Only models take time, and their answers say how much.

    `vote` chooses among the answers of a model that is asked several times.
    """
    return (yield from _Phase(case, is_gone, fetch, vote).run())


@dataclass(kw_only=True)
class _Open:
    """A defect that is not repaired yet."""

    defect: Defect
    cause: RootCauseClass
    place: Location | None
    hints: tuple[str, ...] = ()
    tried: frozenset[str] = frozenset()
    attempts: int = 0
    is_touched: bool = False
    """Whether another repair changed its place, so that it may be gone."""
    seen: JsonObject | None = None
    """The output in which it was looked for once more, since nothing fits it."""
    is_deferred: bool = False
    """Whether it waits for the repairs of others, since nothing fits it."""

    @property
    def now(self) -> Defect:
        """The defect with the place where it is now."""
        location = self.defect.location if self.place is None else str(self.place)
        return self.defect.model_copy(update={"location": location})

    def moved(self, edits: tuple[Edit, ...]) -> _Open:
        """The same after other places, or its own, were changed."""
        place, is_touched = self.place, self.is_touched
        for edit in edits:
            place, was_touched = follow_edit(place, edit)
            is_touched |= was_touched
        return replace(self, place=place, is_touched=is_touched)

    def left(self, reason: str) -> LeftDefect:
        """The defect as one that is not repaired any more."""
        return LeftDefect(
            defect=self.now,
            root_cause=self.cause,
            tried=self.attempts,
            reason=reason,
            strategies=tuple(sorted(self.tried)),
        )


def _order_defects(case: RepairCase) -> list[_Open]:
    """Return the defects, the worst first; of those that are equally bad, in their order."""
    found = [
        _Open(
            defect=defect,
            cause=classify(defect, case.known),
            place=locate(case.output, defect.location),
            hints=tuple(hint.hint for hint in case.diagnosis.repair_hints if hint.defect == index),
        )
        for index, defect in enumerate(case.diagnosis.defects)
    ]
    return sorted(found, key=lambda each: -each.defect.severity)


class _Phase:
    """How far a REPAIR phase is."""

    def __init__(self, case: RepairCase, is_gone: IsGone, fetch: FetchMore, vote: Vote | None) -> None:
        self._case, self._is_gone, self._fetch, self._vote = case, is_gone, fetch, vote
        self._rules, self._resources = case.rules, case.resources
        self._output, self._open, self._memory = case.output, _order_defects(case), case.memory
        sections = (*case.materials.sections, *case.rules.sections)
        self._materials = replace(case.materials, sections=sections)
        self._left: list[LeftDefect] = []
        self._log: list[RepairEntry] = []
        self._breaks: list[LoopBreak] = []
        self._attempts = self._tokens = self._elapsed = 0
        self._has_fetched = self._has_news = False
        self._consensus: Consensus | None = None

    def run(self) -> Inquiry[RepairResult]:
        """Repair one defect after the other, until none is left or nothing more may be tried."""
        self._break_loop(impression_of(self._output, self._case.diagnosis.defects))
        if rung_of(self._memory) is LoopBreak.SWITCH_STRATEGY:
            self._take_up_history()
        spent = LOOPED if self._is_stuck else ""
        while self._open and not spent:
            spent = self._stop_reason() or ""
            if not spent:
                yield from self._take_step()
        return self._result(spent)

    @property
    def _is_stuck(self) -> bool:
        """Whether only another model could break a loop, and there is none."""
        return LoopBreak.OTHER_MODEL_OR_HUMAN in self._breaks and not self._resources.has_other_model

    def _is_at(self, rung: LoopBreak) -> bool:
        """Return whether the loops so far lead to a rung of the ladder, or above it."""
        return self._memory.loops > LADDER.index(rung)

    def _take_up_history(self) -> None:
        """Take what was tried in vain before as tried."""
        for each in self._open:
            each.tried |= {
                f"{entry.note.partition(':')[0] if entry.means == 'rule' else 'model'}:{entry.strategy}"
                for entry in self._case.history.entries
                if entry.defect.key == each.defect.key
            }

    # ---- what comes next ----

    def _stop_reason(self) -> str | None:
        """Return why nothing more may be tried; None if something may."""
        if self._attempts >= self._rules.max_attempts:
            return NO_ATTEMPTS
        if self._elapsed >= self._rules.max_ms:
            return NO_TIME
        return OVERDRAWN if self._tokens > self._rules.max_tokens else None

    def _take_step(self) -> Inquiry[None]:
        first = self._open[0]
        if first.is_touched:
            first.is_touched = False
            if self._is_gone(self._output, first.now):
                self._open.pop(0)
            return
        if self._wants_evidence(first):
            self._fetch_evidence(first)
            return
        option = choose(self._untried(first), self._rules.least_chance)
        if option is not None:
            yield from self._attempt(first, option)
            return
        if not first.is_deferred and any(not each.is_deferred for each in self._open[1:]):
            first.is_deferred = True
            self._open.append(self._open.pop(0))
            return
        is_visible = first.defect.dimension not in self._case.unseen
        if is_visible and self._output is not self._case.output and first.seen is not self._output:
            # Repairs of others may have repaired it too: a value that was missing stands where a wrong one was.
            first.is_touched, first.seen = True, self._output
            return
        self._set_aside(EXHAUSTED if first.attempts else "nothing fits it")

    def _wants_evidence(self, first: _Open) -> bool:
        is_due = first.cause in NEEDS_EVIDENCE and not self._has_fetched
        return self._resources.can_fetch and (is_due or self._wants_fresh)

    @property
    def _wants_fresh(self) -> bool:
        return self._is_at(LoopBreak.FRESH_EVIDENCE) and not self._memory.has_fetched

    def _fetch_evidence(self, first: _Open) -> None:
        if self._wants_fresh:
            self._memory = self._memory.model_copy(update={"has_fetched": True})
        self._has_fetched = True
        found, known = self._fetch(first.defect), {each.id for each in self._materials.evidence}
        new = (each for each in found if each.id not in known)
        self._materials = replace(self._materials, evidence=(*self._materials.evidence, *new))
        self._has_news |= bool(found)

    def _untried(self, first: _Open) -> list[Option]:
        case, output = self._case, self._output
        proposed = propose(output, first.defect, first.cause, first.place, self._materials)
        found = [Option.by_rule(name, edits, first.cause, case.rates) for name, edits in proposed.items()]
        # What a tool did not bring no model can write: without new results there is nothing to ask one for.
        is_hopeless = first.cause is RootCauseClass.TOOL_FAILURE and not self._has_news
        if self._resources.has_model and not is_hopeless:
            found += model_options(
                output, first.defect, first.place, first.cause, rules=self._rules, rates=case.rates
            )
        return [option for option in found if option.key not in first.tried]

    def _set_aside(self, reason: str) -> None:
        self._left.append(self._open.pop(0).left(reason))

    # ---- one attempt ----

    def _attempt(self, first: _Open, option: Option) -> Inquiry[None]:
        question = None if option.means == "rule" else self._question(first, option)
        if isinstance(question, str):
            # A repair that asks for too much counts as tried; one that does not may be left.
            first.tried |= {option.key}
            if not self._untried(first):
                self._set_aside(question)
            return
        self._attempts += 1
        edits, made, before, note = option.edits, None, self._tokens, ""
        if question is None:
            made = splice_all(self._output, edits)
            note = self._loss(first, option, made)
        else:
            try:
                text, agreed = yield from self._ask(question, self._draws(option))
                edits, made = self._read(first, option, text)
                self._consensus = agreed or self._consensus
            except (ModelFault, NoReplacement, UsageError) as error:
                note = error.message if isinstance(error, ModelFault) else str(error)
        is_gone = made is not None and not note and self._is_gone(made, first.moved(edits).now)
        is_whole = option.strategy == "FULL_REGENERATION"
        success: bool | None = is_gone
        if is_gone or (is_whole and made is not None and not note):
            places = ", ".join(str(edit.region) or "everything" for edit in edits[:4])
            note = f"{option.name}: changed {places}"
            if is_gone and first.defect.dimension in self._case.told_later:
                success = None
            self._open = [] if is_whole else [each.moved(edits) for each in self._open[1:]]
            self._output = made or {}
        else:
            note = note or f"{option.name}: the defect is still there"
            first.tried, first.attempts = first.tried | {option.key}, first.attempts + 1
            if made is not None:
                written = {"written": [each.replacement for each in edits]}
                self._break_loop(impression_of(written, (first.defect,)))
                if self._is_stuck:
                    self._set_aside(LOOPED)
        entry = RepairEntry(
            defect=first.now,
            strategy=option.strategy,
            root_cause=first.cause,
            success=success,
            means=option.means,
            tokens=self._tokens - before,
            note=note,
        )
        self._log.append(entry)

    def _loss(self, first: _Open, option: Option, made: JsonObject) -> str:
        """Return why a repair is undone: what it took away. What the schema does not know may go."""
        is_form, place = first.cause is RootCauseClass.SCHEMA_VIOLATION, first.place
        stated = [
            each
            for each in self._materials.stated
            # A secret may go, unless the decision lists it as a value of the outputs: then a person decides.
            if (first.cause is not RootCauseClass.SAFETY_VIOLATION or each.slot)
            and (not is_form or place is None or each.pointer != place.pointer)
        ]
        lost = find_loss(
            self._output,
            made,
            sections=self._materials.required_sections,
            stated=stated,
            may_drop=is_form,
            by_rule=option.means == "rule",
        )
        return f"taken back: it lost {lost}" if lost else ""

    # ---- models ----

    def _draws(self, option: Option) -> int:
        return self._case.draws if option.region == WHOLE else 1

    def _question(self, first: _Open, option: Option) -> Question | str:
        """Return the question for a repair; or why it is not asked."""
        if not is_shown_whole(self._output, option):
            return TOO_LONG
        is_whole = option.region == WHOLE
        errand = Errand(
            task=self._case.task,
            output=self._output,
            option=option,
            defects=tuple(each.defect for each in self._open) if is_whole else (first.now,),
            cause=first.cause,
            hints=first.hints,
            is_perturbed=self._is_at(LoopBreak.PERTURB),
        )
        question = write_question(
            errand, self._materials, self._case.known, max_tokens=self._rules.answer_tokens
        )
        if question.reserved_tokens * self._draws(option) > self._rules.max_tokens - self._tokens:
            return NO_TOKENS
        is_last = rung_of(self._memory) is LoopBreak.OTHER_MODEL_OR_HUMAN
        if is_last and self._resources.has_other_model:
            return question.model_copy(update={"purpose": OTHER_MODEL})
        return question

    def _ask(self, question: Question, draws: int) -> Inquiry[tuple[str, Consensus | None]]:
        """Return the answer of a model; raises `ModelFault` if none answered.

        Of several draws it is the one that most agree on, by a model that is free to vary.
        """
        if self._vote is None or draws == 1:
            return (yield from self._ask_once(question)), None
        answers: list[str | ModelFault] = []
        for seed in range(draws):
            try:
                varied = question.model_copy(update={"seed": seed, "temperature": WARM})
                answers.append((yield from self._ask_once(varied)))
            except ModelFault as fault:
                answers.append(fault)
        agreed = self._vote([_document(answer) for answer in answers])
        taken = answers[agreed.index]
        if isinstance(taken, ModelFault):
            raise taken
        return taken, agreed

    def _ask_once(self, question: Question) -> Inquiry[str]:
        reply = yield question
        self._tokens += reply.tokens_in + reply.tokens_out
        self._elapsed += reply.latency_ms
        return reply.text

    def _read(self, first: _Open, option: Option, text: str) -> tuple[tuple[Edit, ...], JsonObject]:
        """Return the edit that an answer holds, and what it makes of the output; raises if it cannot be used."""
        is_whole = option.region == WHOLE
        new = read_answer(text, part_of(self._output, option), is_whole=is_whole)
        if is_whole:
            demand_same_outputs(self._output, new, self._materials.schema)
        edits = (Edit(region=option.region, replacement=new),)
        made = splice_all(self._output, edits)
        if loss := self._loss(first, option, made):
            raise NoReplacement(loss)
        return edits, made

    # ---- loops and the end ----

    def _break_loop(self, seen: Impression) -> None:
        """Remember an impression, and break the loop if it is one.

        Of a whole phase the output is compared, and all that is wrong with it; of one repair what it wrote, and its
        defect: two edits of a long text leave two texts that are nearly the same, whatever they wrote.
        """
        self._memory, rung = notice(self._memory, seen, self._rules)
        if rung is None:
            return
        self._breaks.append(rung)
        for each in self._open if rung is not LoopBreak.SWITCH_STRATEGY else ():
            # Asked in another way, on other evidence or of another model, what was tried may help after all.
            each.tried = frozenset(key for key in each.tried if not key.startswith("model:"))

    def _result(self, spent: str) -> RepairResult:
        left = (*self._left, *(each.left(spent) for each in self._open))
        reason = spent or "; ".join(sorted({each.reason for each in left}))
        verdict = escalate(left, self._rules, self._resources, reason=reason) if left else None
        return RepairResult(
            outcome="escalated" if left else "repaired",
            output=self._output,
            log=RepairLog(entries=tuple(self._log)),
            escalation=verdict,
            attempts=self._attempts,
            tokens=self._tokens,
            elapsed_ms=self._elapsed,
            memory=self._memory,
            breaks=tuple(self._breaks),
            consensus=self._consensus,
        )


def _document(answer: str | ModelFault) -> JsonObject | None:
    """Return the document in an answer; None if there is none."""
    try:
        return None if isinstance(answer, ModelFault) else read_answer(answer, {}, is_whole=True)
    except NoReplacement:
        return None


def with_feedback(diagnosis: CritiqueDiagnosis, feedback: str) -> CritiqueDiagnosis:
    """Return a diagnosis with what a person asked to be changed, as the first of its defects."""
    defect = Defect(dimension=FEEDBACK, severity=DefectSeverity.HIGH, description=feedback, scope="GLOBAL")
    hints = tuple(hint.model_copy(update={"defect": hint.defect + 1}) for hint in diagnosis.repair_hints)
    return diagnosis.model_copy(
        update={
            "defects": (defect, *diagnosis.defects),
            "severity": max(diagnosis.severity, defect.severity),
            "repair_hints": hints,
        }
    )
