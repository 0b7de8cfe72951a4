"""Rounds of the quality loop, and which of them has the best outputs: a repair may make them worse.

A round is one judgement of outputs: those of a plan, or those after a REPAIR phase. The best round before the last one is
remembered. If a loop ends without a commit and the last round is worse, the best one is used, with its own judgement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tercet.contracts.outputs.quality import Defect, RepairEntry
from tercet.contracts.outputs.quality_rules import QualityRules
from tercet.contracts.outputs.repair import LeftDefect
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import JsonObject
from tercet.core.config import RunConfig
from tercet.core.fold.base import copy_fields
from tercet.core.state import Quality, Round, State
from tercet.quality.repair.causes import classify
from tercet.quality.repair.escalation import Resources, escalate

TRIED = "no repair of it made the outputs better"
UNTRIED = "the repairs of others made the outputs worse"
_OF_THE_RUN = ("policy", "confidence")
"""Limits that do not compare outputs: the effects of a run stay, and each repair lowers confidence."""


def rank(judged: Round) -> tuple[float, ...]:
    """Return a rank of outputs by their judgements: greater is better, and equal ranks are equally good.

    In this order: that they were criticised at all, which a broken form is not; fewer faults of form; that nothing of
    safety is missed; fewer limits missed; more test commands passed whole, since late ones run only if those before them
    passed; the share of tests that passed; the score of the rubric; fewer defects.
    """
    defects: list[dict[str, Any]] = judged.diagnosis.get("defects", [])
    missed = set(_missed(judged))
    is_safe = "safety" not in missed and all(each["dimension"] != "safety" for each in defects)
    return (
        bool(judged.rubric),
        -len(judged.verdict.get("schema_faults", ())),
        is_safe,
        -len(missed),
        sum(not _is_failed(said) for said in judged.tests),
        _share_passed(judged),
        judged.rubric.get("weighted", 0.0),
        -len(defects),
    )


def _missed(judged: Round) -> Iterator[str]:
    """Yield the limits that outputs do not keep, by their names."""
    yield from judged.rubric.get("below", ())
    if judged.rubric and not judged.rubric["passed"] and not judged.rubric["below"]:
        yield "rubric"
    for limit in judged.exit.get("thresholds", ()):
        if not limit["passed"] and limit["name"] not in _OF_THE_RUN:
            yield limit["name"]
    if any(map(_is_failed, judged.tests)):
        yield "test_pass_rate"
    if any(each["dimension"] == "adversarial" for each in judged.diagnosis.get("defects", ())):
        yield "adversarial"


def _is_failed(said: Mapping[str, Any]) -> bool:
    return bool(said["error"] or said["result"].get("failed"))


def _share_passed(judged: Round) -> float:
    """Return the share of tests that passed; a command that could not be run counts as one that failed."""
    passed = sum(said["result"].get("passed", 0) for said in judged.tests)
    failed = sum(1 if said["error"] else said["result"].get("failed", 0) for said in judged.tests)
    return passed / (passed + failed) if passed + failed else 1.0


# ---- remembering --------------------------------------------------------------------------------------------------


def round_of(state: State) -> Round:
    """Return the current outputs with their judgements."""
    said = {"number": state.used.repairs, "outputs": state.outputs, "missing": state.missing}
    return copy_fields(Round, state.quality, **said)


def remembered(state: State) -> Round | None:
    """Return the best round after a repair: the later one of two that are equally good. A round that a person has sent
    back is not eligible, and neither are those before it."""
    if Behaviour.BEST_HANDED_OVER not in state.start.behaviour or state.quality.feedback:
        return None
    now, best = round_of(state), state.quality.best
    return best if best is not None and rank(best) > rank(now) else now


# ---- restoring ----------------------------------------------------------------------------------------------------


def better_round(state: State, config: RunConfig) -> JsonObject:
    """Return the round that is better than the last one, with its remaining defects; empty if there is none, and if
    the last one only needs an approval."""
    best, last = state.quality.best, state.quality.exit
    is_sound = last.get("outcome") == "COMMIT" or last.get("needs_approval", False)
    if best is None or is_sound or state.accepted is not None or rank(best) <= rank(round_of(state)):
        return {}
    budget, rules = config.ctx.run_budget, config.spec.quality or QualityRules()
    resources = Resources(
        is_plain=config.ctx.goes_by(Behaviour.CAUSES_NAMED),
        has_human=True,
        may_replan=state.plan_origin == "planner" and state.used.replans < budget.max_replans,
        is_partial_useful=rules.is_partial_useful,
    )
    left = tuple(_remaining_defects(best, state.quality.log))
    verdict = escalate(left, rules.repair, resources, reason="what came later was judged worse")
    return {"round": best.number, "of": state.used.repairs, "escalation": verdict.model_dump(mode="json")}


def _remaining_defects(best: Round, log: tuple[dict[str, Any], ...]) -> Iterator[LeftDefect]:
    """Yield every defect of a round with its number of failed repairs."""
    entries = [RepairEntry.model_validate(each) for each in log]
    for defect in map(Defect.model_validate, best.diagnosis.get("defects", ())):
        tried = [each for each in entries if each.defect.key == defect.key]
        yield LeftDefect(
            defect=defect,
            root_cause=tried[-1].root_cause if tried else classify(defect),
            tried=len(tried),
            reason=TRIED if tried else UNTRIED,
        )


_JUDGEMENTS = tuple(name for name in Round.__struct_fields__ if name in Quality.__struct_fields__)
"""What a round has of the judgements of its outputs."""


def restored(state: State, found: Mapping[str, Any]) -> State:
    """Return the state with the outputs and judgements of the best round; unchanged if there is none."""
    best = state.quality.best
    if not found or best is None:
        return state
    quality = msgspec.structs.replace(
        state.quality,
        **{name: getattr(best, name) for name in _JUDGEMENTS},
        escalation=found["escalation"],
        restored={"round": found["round"], "of": found["of"]},
        best=None,
    )
    return msgspec.structs.replace(state, outputs=best.outputs, missing=best.missing, quality=quality)


def told_round(found: Mapping[str, Any]) -> str:
    """Return which outputs are passed on, in words; empty if they are the last."""
    if not found:
        return ""
    number, most = found["round"], found["of"]
    which = (
        f"after repair {number} of {most}"
        if number
        else f"before the first of {most} repair{'s'[: most > 1]}"
    )
    return f"these are the outputs {which}: what came later was judged worse"
