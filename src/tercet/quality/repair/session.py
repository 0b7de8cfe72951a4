"""One REPAIR phase: the worst defect first, the cheapest repair that fits, and each looked at again by itself.

    state = begin(case)
    while not isinstance(command := decide(state), End):
        state = fold_event(state, <what came of the command>)

`decide` says what to do next: ask a model, look whether a defect is gone, fetch evidence, or end. `fold_event` takes in what
came of it. Both are pure, and the same facts lead to the same commands; `repair_output` in `phase` drives them.

A repair that did not repair its defect is abandoned: the output stays as it was. Only when everything is made again the new
output counts in any case, and nothing is left to repair: VERIFY looks at it. Every attempt counts against `max_attempts`;
a question is asked only if its reservation fits into what is left of `max_tokens`; nothing begins at or after `max_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.quality import Consensus, Defect, RepairEntry, RepairLog, RootCauseClass
from tercet.contracts.outputs.repair import (
    Impression,
    LeftDefect,
    LoopBreak,
    LoopMemory,
    RepairResult,
    RepairRules,
)
from tercet.contracts.shape import JsonObject
from tercet.quality.repair.case import (
    Answered,
    Ask,
    Check,
    Checked,
    Command,
    End,
    Fact,
    Faulted,
    Fetch,
    Fetched,
    RepairCase,
)
from tercet.quality.repair.causes import TYPICAL, classify
from tercet.quality.repair.escalation import (
    EXHAUSTED,
    LADDER,
    LOOPED,
    escalate,
    impression_of,
    notice,
    rung_of,
)
from tercet.quality.repair.losses import find_loss
from tercet.quality.repair.materials import Materials
from tercet.quality.repair.prompts import (
    Errand,
    NoReplacement,
    demand_same_outputs,
    is_shown_whole,
    part_of,
    read_answer,
    write_question,
)
from tercet.quality.repair.rates import chance
from tercet.quality.repair.regions import WHOLE, Edit, Region, follow_edit, locate, splice_all
from tercet.quality.repair.rules import propose
from tercet.quality.repair.strategies import Option, choose, model_options

NO_ATTEMPTS = "no attempts are left"
NO_TIME = "no time is left"
NO_TOKENS = "no tokens are left for it"
TOO_LONG = "it is too long to be shown to a model whole"
OVERDRAWN = "a model took more tokens than there were"


# ---- the state ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Open:
    """A defect that is not repaired yet."""

    defect: Defect
    cause: RootCauseClass
    place: Region | None
    hints: tuple[str, ...] = ()
    tried: frozenset[str] = frozenset()
    attempts: int = 0
    is_touched: bool = False
    """Whether another repair changed its place, so that it may be gone."""
    seen: JsonObject | None = None
    """The output in which it was looked for once more, since nothing fits it."""
    is_deferred: bool = False
    """Whether it waits for the repairs of others, since nothing fits it."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A repair in progress."""

    option: Option
    output: JsonObject | None = None
    """What it made of the output; None while a model is asked."""
    edits: tuple[Edit, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class RepairState:
    """How far a REPAIR phase is."""

    case: RepairCase
    output: JsonObject
    open: tuple[Open, ...]
    command: Command | None = None
    attempt: Attempt | None = None
    left: tuple[LeftDefect, ...] = ()
    log: tuple[RepairEntry, ...] = ()
    materials: Materials
    memory: LoopMemory
    breaks: tuple[LoopBreak, ...] = ()
    attempts: int = 0
    tokens: int = 0
    elapsed_ms: int = 0
    has_fetched: bool = False
    consensus: Consensus | None = None
    has_news: bool = False
    """Whether something came that was not there when the defects were found."""

    @property
    def rules(self) -> RepairRules:
        """The bounds of the phase."""
        return self.case.rules

    @property
    def tokens_left(self) -> int:
        """What models may still take."""
        return self.rules.max_tokens - self.tokens

    @property
    def is_perturbed(self) -> bool:
        """Whether models are asked in another way than usual."""
        return self.memory.loops > LADDER.index(LoopBreak.PERTURB)

    @property
    def wants_other(self) -> bool:
        """Whether another model is asked."""
        is_last = rung_of(self.memory) is LoopBreak.OTHER_MODEL_OR_HUMAN
        return is_last and self.case.resources.has_other_model


def begin(case: RepairCase) -> RepairState:
    """The state of a phase that has not done anything."""
    state = RepairState(
        case=case,
        output=case.output,
        open=_order_defects(case),
        materials=replace(case.materials, sections=(*case.materials.sections, *case.rules.sections)),
        memory=case.memory,
    )
    state = _break_loop(state, impression_of(case.output, case.diagnosis.defects))
    if rung_of(state.memory) is LoopBreak.SWITCH_STRATEGY:
        state = replace(state, open=tuple(_with_history(each, case.history) for each in state.open))
    return replace(state, command=_end(state, LOOPED)) if _is_stuck(state) else _advance(state)


def _is_stuck(state: RepairState) -> bool:
    """Return whether only another model could break a loop, and there is none."""
    return LoopBreak.OTHER_MODEL_OR_HUMAN in state.breaks and not state.case.resources.has_other_model


def _order_defects(case: RepairCase) -> tuple[Open, ...]:
    """Return the defects, the worst first; of those that are equally bad, in their order."""
    found = [
        Open(
            defect=defect,
            cause=classify(defect, case.known).root_cause,
            place=locate(case.output, defect.location),
            hints=tuple(hint.hint for hint in case.diagnosis.repair_hints if hint.defect == index),
        )
        for index, defect in enumerate(case.diagnosis.defects)
    ]
    return tuple(sorted(found, key=lambda each: -each.defect.severity))


def _with_history(each: Open, history: RepairLog) -> Open:
    """A defect that was repaired in vain before is not repaired in the same way again."""
    tried = {
        f"{entry.note.partition(':')[0] if entry.means == 'rule' else 'model'}:{entry.strategy}"
        for entry in history.entries
        if (entry.defect.dimension, entry.defect.description)
        == (each.defect.dimension, each.defect.description)
    }
    return replace(each, tried=each.tried | tried)


def decide(state: RepairState) -> Command:
    """Return what is to be done now."""
    return state.command or _end(state, "")


def fold_event(state: RepairState, fact: Fact) -> RepairState:
    """Return the state after what came of the last command; raises `UsageError` for a fact that answers another one."""
    command = state.command
    state = replace(state, elapsed_ms=max(state.elapsed_ms, fact.elapsed_ms), command=None)
    match command, fact:
        case Ask(), Answered():
            return _fold_answer(state, fact)
        case Ask(), Faulted():
            return _advance(_fold_failure(_charge(state, fact.tokens), fact.reason))
        case Check(), Checked():
            return _advance(_fold_check(state, is_gone=fact.is_gone))
        case Fetch(), Fetched():
            return _advance(_fold_fetch(state, fact))
        case _:
            raise UsageError(
                f"{type(fact).__name__} does not answer {type(command).__name__}",
                code="unexpected_fact",
                remedy="pass the outcome of the command that decide returned last",
            )


# ---- what comes next ----------------------------------------------------------------------------------------------


def _advance(state: RepairState) -> RepairState:
    """Return the state with its next command."""
    while state.open and state.command is None:
        if (spent := _stop_reason(state)) is not None:
            return replace(state, command=_end(state, spent))
        state = _next(state)
    return state if state.command is not None else replace(state, command=_end(state, ""))


def _stop_reason(state: RepairState) -> str | None:
    """Return why nothing more may be tried; None if something may."""
    if state.attempts >= state.rules.max_attempts:
        return NO_ATTEMPTS
    if state.elapsed_ms >= state.rules.max_ms:
        return NO_TIME
    return OVERDRAWN if state.tokens_left < 0 else None


def _next(state: RepairState) -> RepairState:
    first = state.open[0]
    if first.is_touched:
        return replace(state, command=Check(output=state.output, defect=_describe(first)))
    if _wants_evidence(state, first):
        is_fresh = _wants_fresh(state)
        memory = state.memory.model_copy(update={"has_fetched": state.memory.has_fetched or is_fresh})
        return replace(state, has_fetched=True, memory=memory, command=Fetch(defect=first.defect))
    options = [option for option in _options(state, first) if option.key not in first.tried]
    option = choose(options, state.rules.least_chance)
    if option is None and not first.is_deferred and any(not each.is_deferred for each in state.open[1:]):
        return replace(state, open=(*state.open[1:], replace(first, is_deferred=True)))
    may_be_gone = first.defect.dimension not in state.case.unseen and state.output is not state.case.output
    if option is None and may_be_gone and first.seen is not state.output:
        # Repairs of others may have repaired it too: a value that was missing stands where a wrong one was.
        first = replace(first, is_touched=True, seen=state.output)
        return replace(state, open=(first, *state.open[1:]))
    if option is None:
        return _set_aside(state, EXHAUSTED if first.attempts else "nothing fits it")
    if option.means == "rule":
        return _try_rule(state, option)
    return _try_model(state, option)


def _wants_evidence(state: RepairState, first: Open) -> bool:
    if not state.case.resources.can_fetch:
        return False
    return _wants_fresh(state) or (TYPICAL[first.cause].needs_evidence and not state.has_fetched)


def _wants_fresh(state: RepairState) -> bool:
    is_due = state.memory.loops > LADDER.index(LoopBreak.FRESH_EVIDENCE)
    return is_due and not state.memory.has_fetched


def _options(state: RepairState, first: Open) -> list[Option]:
    found = [
        Option(
            means="rule",
            strategy=each.strategy,
            region=each.edits[0].region,
            cost=0,
            chance=chance(state.case.rates, "rule", each.strategy, first.cause),
            name=each.name,
            edits=each.edits,
        )
        for each in propose(state.output, first.defect, first.cause, first.place, state.materials)
    ]
    # What a tool did not bring no model can write: without new results there is nothing to ask one for.
    is_hopeless = first.cause is RootCauseClass.TOOL_FAILURE and not state.has_news
    if state.case.resources.has_model and not is_hopeless:
        found += model_options(
            state.output, first.defect, first.place, first.cause, rules=state.rules, rates=state.case.rates
        )
    return found


def _try_rule(state: RepairState, option: Option) -> RepairState:
    made = splice_all(state.output, option.edits)
    state = replace(_count_attempt(state), attempt=Attempt(option=option, output=made, edits=option.edits))
    loss = _loss(state, made)
    return _fold_failure(state, loss) if loss else _checking(state)


def _loss(state: RepairState, made: JsonObject) -> str:
    """Return why a repair is undone: what it took away. What the schema does not know may go."""
    cause, place = state.open[0].cause, state.open[0].place
    stated = [
        each
        for each in state.materials.stated
        # A secret may go, unless the decision lists it as a value of the outputs: then a person decides.
        if (cause is not RootCauseClass.SAFETY_VIOLATION or each.slot)
        and (cause is not RootCauseClass.SCHEMA_VIOLATION or place is None or each.pointer != place.pointer)
    ]
    lost = find_loss(
        state.output,
        made,
        sections=state.materials.required_sections,
        stated=stated,
        may_drop=cause is RootCauseClass.SCHEMA_VIOLATION,
        by_rule=state.attempt is not None and state.attempt.option.means == "rule",
    )
    return f"taken back: it lost {lost}" if lost else ""


def _try_model(state: RepairState, option: Option) -> RepairState:
    first = state.open[0]
    if not is_shown_whole(state.output, option):
        return _unaffordable(state, option, TOO_LONG)
    is_whole = option.region == WHOLE
    about = tuple(each.defect for each in state.open) if is_whole else (_describe(first),)
    errand = Errand(
        task=state.case.task,
        output=state.output,
        option=option,
        defects=about,
        cause=first.cause,
        hints=first.hints,
        is_perturbed=state.is_perturbed,
    )
    question = write_question(errand, state.materials, state.case.known, max_tokens=state.rules.answer_tokens)
    draws = state.case.draws if is_whole else 1
    if question.reserved_tokens * draws > state.tokens_left:
        return _unaffordable(state, option, NO_TOKENS)
    command = Ask(question=question, wants_other=state.wants_other, draws=draws)
    return replace(_count_attempt(state), attempt=Attempt(option=option), command=command)


def _unaffordable(state: RepairState, option: Option, why: str) -> RepairState:
    """A repair that asks for too much counts as tried; a defect without one that does not waits for nothing more."""
    first = replace(state.open[0], tried=state.open[0].tried | {option.key})
    state = replace(state, open=(first, *state.open[1:]))
    is_left = any(each.key not in first.tried for each in _options(state, first))
    return state if is_left else _set_aside(state, why)


def _count_attempt(state: RepairState) -> RepairState:
    return replace(state, attempts=state.attempts + 1)


def _set_aside(state: RepairState, reason: str) -> RepairState:
    first = state.open[0]
    return replace(state, open=state.open[1:], left=(*state.left, _left_defects(first, reason)))


def _left_defects(each: Open, reason: str) -> LeftDefect:
    return LeftDefect(
        defect=_describe(each),
        root_cause=each.cause,
        tried=each.attempts,
        reason=reason,
        strategies=tuple(sorted(each.tried)),
    )


def _describe(each: Open) -> Defect:
    """A defect with the place where it is now."""
    location = each.defect.location if each.place is None else str(each.place)
    return each.defect.model_copy(update={"location": location})


# ---- what came of it ----------------------------------------------------------------------------------------------


def _charge(state: RepairState, tokens: int) -> RepairState:
    attempt = state.attempt and replace(state.attempt, tokens=state.attempt.tokens + tokens)
    return replace(state, tokens=state.tokens + tokens, attempt=attempt)


def _fold_answer(state: RepairState, fact: Answered) -> RepairState:
    state = _charge(state, fact.tokens)
    attempt = _current_attempt(state)
    option = attempt.option
    try:
        new = read_answer(fact.text, part_of(state.output, option), is_whole=option.region == WHOLE)
        if option.region == WHOLE:
            demand_same_outputs(state.output, new, state.materials.schema)
        edits = (Edit(region=option.region, replacement=new),)
        made = splice_all(state.output, edits)
    except (NoReplacement, UsageError) as error:
        return _advance(_fold_failure(state, str(error)))
    if loss := _loss(state, made):
        return _advance(_fold_failure(state, loss))
    attempt = replace(attempt, output=made, edits=edits)
    return _checking(replace(state, attempt=attempt, consensus=fact.consensus or state.consensus))


def _checking(state: RepairState) -> RepairState:
    """The state in which is looked whether the first defect is gone from what the repair made."""
    attempt = _current_attempt(state)
    moved = _move_defect(state.open[0], attempt.edits)
    return replace(state, command=Check(output=attempt.output or {}, defect=_describe(moved)))


def _current_attempt(state: RepairState) -> Attempt:
    if state.attempt is None:
        raise UsageError("no repair is under way", code="unexpected_fact")
    return state.attempt


def _fold_check(state: RepairState, *, is_gone: bool) -> RepairState:
    if state.attempt is None:
        return _recheck(state, is_gone=is_gone)
    attempt = state.attempt
    is_whole = attempt.option.strategy == "FULL_REGENERATION"
    if not is_gone and not is_whole:
        return _fold_failure(state, f"{attempt.option.name}: the defect is still there")
    is_open = is_gone and state.open[0].defect.dimension in state.case.told_later
    success = None if is_open else is_gone
    state = _log_attempt(state, attempt, success=success, note=f"{attempt.option.name}: {_complete(attempt)}")
    remaining = () if is_whole else tuple(_move_defect(each, attempt.edits) for each in state.open[1:])
    return replace(state, output=attempt.output or {}, open=remaining, attempt=None)


def _recheck(state: RepairState, *, is_gone: bool) -> RepairState:
    rest = state.open[1:]
    return replace(state, open=rest if is_gone else (replace(state.open[0], is_touched=False), *rest))


def _complete(attempt: Attempt) -> str:
    places = ", ".join(str(edit.region) or "everything" for edit in attempt.edits[:4])
    return f"changed {places}"


def _move_defect(each: Open, edits: tuple[Edit, ...]) -> Open:
    """Return a defect after other places, or its own, were changed."""
    for edit in edits:
        place, is_touched = follow_edit(each.place, edit)
        each = replace(each, place=place, is_touched=each.is_touched or is_touched)
    return each


def _fold_failure(state: RepairState, reason: str) -> RepairState:
    """Return a repair that came to nothing: it is remembered, and the output stays as it was."""
    attempt = _current_attempt(state)
    state = _log_attempt(state, attempt, success=False, note=reason)
    first = state.open[0]
    first = replace(first, tried=first.tried | {attempt.option.key}, attempts=first.attempts + 1)
    state = replace(state, open=(first, *state.open[1:]), attempt=None)
    if attempt.output is None:
        return state
    written = {"written": [edit.replacement for edit in attempt.edits]}
    state = _break_loop(state, impression_of(written, (first.defect,)))
    return _set_aside(state, LOOPED) if _is_stuck(state) else state


def _log_attempt(state: RepairState, attempt: Attempt, *, success: bool | None, note: str) -> RepairState:
    first = state.open[0]
    entry = RepairEntry(
        defect=_describe(first),
        strategy=attempt.option.strategy,
        root_cause=first.cause,
        success=success,
        means=attempt.option.means,
        tokens=attempt.tokens,
        note=note,
    )
    return replace(state, log=(*state.log, entry))


def _break_loop(state: RepairState, seen: Impression) -> RepairState:
    """The state with what breaks the loop, if there is one.

    Of a whole phase the output is compared, and all that is wrong with it; of one repair what it wrote, and its defect:
    two edits of a long text leave two texts that are nearly the same, whatever they wrote.
    """
    memory, rung = notice(state.memory, seen, state.rules)
    state = replace(state, memory=memory)
    if rung is None:
        return state
    state = replace(state, breaks=(*state.breaks, rung))
    if rung is LoopBreak.SWITCH_STRATEGY:
        return state
    # Asked in another way, on other evidence or of another model, what was tried may help after all.
    fresh = tuple(replace(each, tried=_by_rule(each.tried)) for each in state.open)
    return replace(state, open=fresh)


def _by_rule(tried: frozenset[str]) -> frozenset[str]:
    return frozenset(key for key in tried if not key.startswith("model:"))


def _fold_fetch(state: RepairState, fact: Fetched) -> RepairState:
    known = {each.id for each in state.materials.evidence}
    new = tuple(each for each in fact.evidence if each.id not in known)
    materials = replace(state.materials, evidence=(*state.materials.evidence, *new))
    return replace(state, materials=materials, has_news=state.has_news or bool(fact.evidence))


# ---- the end ------------------------------------------------------------------------------------------------------


def _end(state: RepairState, spent: str) -> End:
    left = (*state.left, *(_left_defects(each, spent) for each in state.open))
    reason = spent or "; ".join(sorted({each.reason for each in left}))
    verdict = escalate(left, state.rules, state.case.resources, reason=reason) if left else None
    return End(
        result=RepairResult(
            outcome="escalated" if left else "repaired",
            output=state.output,
            log=RepairLog(entries=state.log),
            escalation=verdict,
            attempts=state.attempts,
            tokens=state.tokens,
            elapsed_ms=state.elapsed_ms,
            memory=state.memory,
            breaks=state.breaks,
            consensus=state.consensus,
        )
    )
