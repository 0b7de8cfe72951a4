"""Candidates: typed values applied to a pack, and the check that nothing else has changed.

The proof does not ask what a candidate meant to do. It makes the pack that the typed values come to, and whatever else is
offered as the candidate must be that pack, to the last declaration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.packs.tuning import Candidate, LaneSurface, Surface, SurfaceName, Value, domain_of
from tercet.contracts.shape import JsonObject, Published, as_list, as_object
from tercet.packs.checking import check
from tercet.packs.pack import Pack
from tercet.packs.surfaces import TUNING_CHECKS, read_value, write_value
from tercet.replay.tuning.measuring import Outcome
from tercet.replay.tuning.scoring import Comparison, accepted, trips

_NAMES = ("name", "id", "intent", "step_id")
"""The fields by which a declaration in a list is known."""


class CandidateRefused(UsageError):  # noqa: N818 - what happened is named, not that it is an error
    """A candidate is more than typed values of the pack's surfaces."""

    default_code = "candidate_refused"


def tunable(pack: Pack) -> tuple[Surface, ...]:
    """Return the searchable surfaces; raises `UsageError` if there are none, or one is unsuitable."""
    problems = [found for look in TUNING_CHECKS for found in look(pack.parts) if found.severity == "error"]
    if problems:
        raise UsageError(problems[0].message, code=problems[0].code, remedy=problems[0].remedy)
    found = tuple(each for each in pack.tuning.surfaces if pack.lanes or not isinstance(each, LaneSurface))
    if not found:
        raise UsageError(
            f"{pack.ref} has no rules for tuning",
            code="nothing_to_tune",
            remedy="name surfaces and their bounds in tuning.toml: see docs/tuning.md",
        )
    return found


def choices_of(pack: Pack, surface: Surface) -> tuple[Value, ...]:
    """Return the values that a surface may be set to, including its current one."""
    now, domain = read_value(pack, surface), domain_of(surface)
    if now in domain:
        return domain
    if isinstance(now, str):
        return (now, *domain)
    return tuple(sorted((now, *domain), key=float))


def apply(pack: Pack, candidate: Candidate, *, version: str | None = None) -> Pack:
    """Return the pack with the values of a candidate; raises `CandidateRefused` for a value that is none of a surface's."""
    surfaces = {each.id: each for each in pack.tuning.surfaces}
    unknown = [name for name in candidate.values if name not in surfaces]
    if unknown:
        raise CandidateRefused(
            f"{unknown[0]} is not a surface of {pack.ref}",
            remedy="only what tuning.toml names can be changed",
        )
    changed = pack if version is None else pack.model_copy(update={"version": version})
    for surface in surfaces.values():
        if surface.id in candidate.values:
            changed = _with(changed, pack, surface, candidate.values[surface.id])
    _demand_sound(pack, changed)
    return changed


def _with(changed: Pack, original: Pack, surface: Surface, value: Value) -> Pack:
    # By type as well: True is not 1, and a budget is not a fraction.
    fits = any(type(value) is type(each) and value == each for each in choices_of(original, surface))
    if not fits:
        raise CandidateRefused(
            f"{surface.id} cannot be {value!r}", remedy="stay within the bounds of tuning.toml"
        )
    try:
        return write_value(changed, surface, value)
    except (ValidationError, TercetError) as error:
        raise CandidateRefused(
            f"{surface.id} cannot be {value!r}: {str(error)[:200]}", remedy="choose other bounds"
        ) from error


def _demand_sound(original: Pack, changed: Pack) -> None:
    """Raise `CandidateRefused` for a candidate with an error that the pack does not have."""
    known = {(found.code, found.place) for found in check(original)}
    for found in check(changed):
        if found.severity == "error" and (found.code, found.place) not in known:
            raise CandidateRefused(f"the pack would not be sound: {found.message}", remedy=found.remedy)


def demand_same(original: Pack, candidate: Candidate, offered: Pack, *, version: str | None = None) -> None:
    """Raise `CandidateRefused` if a pack differs from the original in more than the values of a candidate."""
    wanted = apply(original, candidate, version=version)
    different = list(differences(wanted.declarations, offered.declarations))
    if different:
        place, was, would_be = different[0]
        raise CandidateRefused(
            f"{place} is not a surface, and would become {_short(would_be)} from {_short(was)}",
            remedy="tuning changes the values of surfaces and nothing else; a person may change the pack",
        )
    if offered != wanted or offered.tuning != wanted.tuning:
        raise CandidateRefused(
            "people, evidence or the bounds of tuning would be others",
            remedy="tuning changes the values of surfaces and nothing else",
        )


def differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield every place at which two declarations differ, by its path of names."""
    old, new = _members(before), _members(after)
    if old is None or new is None:
        if type(before) is not type(after) or before != after:
            yield place, before, after
        return
    for name in dict.fromkeys((*old, *new)):
        here = f"{place}.{name}".lstrip(".")
        yield from differences(old.get(name, "(nothing)"), new.get(name, "(nothing)"), here)


def _members(value: Any) -> JsonObject | None:
    if (fields := as_object(value)) is not None:
        return fields
    items = as_list(value)
    return None if items is None else {_name(item, number): item for number, item in enumerate(items)}


def _name(item: Any, number: int) -> str:
    fields = as_object(item) or {}
    return str(next((fields[key] for key in _NAMES if key in fields), number))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


# --- guardrails ---


_SLIGHT = 1e-9


class Guardrail(Published):
    """A rule that a candidate was held to."""

    name: str
    surface: SurfaceName | str
    """The surface that it guards; `floor` for what always holds."""
    passed: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The input of guardrails."""

    compared: Comparison
    recorded: Sequence[Outcome]
    """How the runs ended as they were recorded."""
    unreproduced: tuple[str, ...] = ()
    """Runs of this very pack that are not judged now as they were then."""
    min_runs: int = 1


def hold(evidence: Evidence, surfaces: Iterable[SurfaceName]) -> tuple[Guardrail, ...]:
    """Return every guardrail that a candidate with values of these surfaces is held to."""
    found = list(_floors(evidence))
    for surface in dict.fromkeys(surfaces):
        found += GUARDRAILS[surface](evidence)
    return tuple(found)


def _rule(name: str, surface: SurfaceName | str, offenders: Sequence[str], what: str) -> Guardrail:
    detail = f"{what}: {', '.join(offenders[:3])}{' …' * (len(offenders) > 3)}" if offenders else ""
    return Guardrail(name=name, surface=surface, passed=not offenders, detail=detail)


# --- floors ---


def _floors(evidence: Evidence) -> Iterator[Guardrail]:
    """Yield the floors: policy, safety, schema and approvals decide as before, and enough runs are known."""
    refused = {each.session for each in evidence.recorded if each.is_below_floor}
    refused |= {old.session for old, _ in evidence.compared.pairs if old.is_below_floor}
    let_through = [
        each.session for each in evidence.compared.after if each.is_accepted and each.session in refused
    ]
    yield _rule(
        "policy_and_safety", "floor", let_through, "refused for policy or safety, and would be accepted"
    )
    runs = evidence.compared.runs
    short = [] if runs >= evidence.min_runs else [f"{runs:,} of {evidence.min_runs:,}"]
    yield _rule("enough_runs", "floor", short, "too few runs predict its effect")


# --- surfaces ---


def _templates(evidence: Evidence) -> Iterator[Guardrail]:
    """Pass rate and utility improve, and no risky call is added."""
    compared = evidence.compared
    gains = {
        "pass rate": _mean(compared.gain(accepted)),
        "utility": _mean(compared.gain(compared.utility)),
    }
    worse = [f"{name} {gain:+.3f}" for name, gain in gains.items() if gain < -_SLIGHT]
    if not worse and max(gains.values()) <= _SLIGHT:
        worse = ["neither pass rate nor utility"]
    yield _rule("pass_rate_and_utility", "planner_templates", worse, "it does not improve")
    yield _rule("no_added_risk", "planner_templates", _added_risk(compared), "more calls above local_write")


def _added_risk(compared: Comparison) -> list[str]:
    """Return the tools above local_write that are called more often in some case, each with the case."""
    found: list[str] = []
    tools = sorted({tool for each in (*compared.before, *compared.after) for tool in each.risky})
    for tool in tools:
        gains = compared.gain(lambda outcome, tool=tool: float(Counter(outcome.risky)[tool]))
        found += [
            f"{tool} in {case}" for case, gain in zip(compared.cases, gains, strict=True) if gain > _SLIGHT
        ]
    return found


def _replans(evidence: Evidence) -> Iterator[Guardrail]:
    """Check that the loop guard trips no more often, and that people are asked exactly when they are needed."""
    compared = evidence.compared
    more = [f"{gain:+.3f}" for gain in [_mean(compared.gain(trips))] if gain > _SLIGHT]
    yield _rule("loop_guard_trips", "replan_budgets", more, "it trips more often")
    needless = [
        new.session
        for old, new in compared.pairs
        if old.is_accepted and not old.is_escalated and new.is_escalated
    ]
    missed = [
        new.session
        for old, new in compared.pairs
        if old.is_escalated and not (new.is_escalated or new.is_accepted)
    ]
    yield _rule("no_needless_escalation", "replan_budgets", needless, "would be escalated without need")
    yield _rule("no_missed_escalation", "replan_budgets", missed, "would fail without anybody being asked")


def _rubrics(evidence: Evidence) -> Iterator[Guardrail]:
    """Check that replay reproduces the recorded verdicts; otherwise it could not compare them with those of a
    candidate."""
    yield _rule(
        "verdicts_reproduced", "critic_rubrics", list(evidence.unreproduced), "not judged now as it was then"
    )


def _lanes(evidence: Evidence) -> Iterator[Guardrail]:
    """In every run with lanes, the effects of the parent wait until its critic accepts."""
    outcomes = (*evidence.recorded, *evidence.compared.before, *evidence.compared.after)
    with_lanes = [each for each in outcomes if each.lanes]
    if not with_lanes:
        yield Guardrail(
            name="parent_effects_immutable",
            surface="subagent_lanes",
            passed=False,
            detail="no recorded run has lanes, so none shows that the parent's effects wait for its critic",
        )
        return
    offenders = [f"{step} of {each.session}" for each in with_lanes for step in each.unaccepted]
    yield _rule(
        "parent_effects_immutable",
        "subagent_lanes",
        offenders,
        "called although the parent's critic did not accept it",
    )
    yield _rule(
        "no_added_risk", "subagent_lanes", _added_risk(evidence.compared), "more calls above local_write"
    )


def _sessions(evidence: Evidence) -> Iterator[Guardrail]:
    """Check that no completed run would have been cut off; sessions that have begun keep their pins."""
    cut = [new.session for old, new in evidence.compared.pairs if old.is_accepted and new.status == "expired"]
    yield _rule("nothing_cut_off", "background_sessions", cut, "would have expired")


GUARDRAILS: dict[SurfaceName, Callable[[Evidence], Iterator[Guardrail]]] = {
    "planner_templates": _templates,
    "replan_budgets": _replans,
    "critic_rubrics": _rubrics,
    "subagent_lanes": _lanes,
    "background_sessions": _sessions,
}


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
