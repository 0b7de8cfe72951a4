"""The rules for candidates: floors for all of them, and the guardrail of each surface that one changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from tercet.contracts.shape import Published
from tercet.contracts.tuning import SurfaceName
from tercet.replay.tuning.measuring import Outcome
from tercet.replay.tuning.scoring import Comparison, accepted, trips

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
    yield _rule("enough_runs", "floor", short, "too few runs tell what it would do")


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
    """The tools above local_write that are called more often in some case, each with the case."""
    found: list[str] = []
    tools = sorted({tool for each in (*compared.before, *compared.after) for tool in each.risky})
    for tool in tools:
        gains = compared.gain(lambda outcome, tool=tool: float(Counter(outcome.risky)[tool]))
        found += [
            f"{tool} in {case}" for case, gain in zip(compared.cases, gains, strict=True) if gain > _SLIGHT
        ]
    return found


def _replans(evidence: Evidence) -> Iterator[Guardrail]:
    """The loop guard trips no more often, and people are asked when they are needed and only then."""
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
    """Replay reproduces the typed verdicts: what it does not reproduce, it cannot judge otherwise either."""
    yield _rule(
        "verdicts_reproduced", "critic_rubrics", list(evidence.unreproduced), "not judged now as it was then"
    )


def _lanes(evidence: Evidence) -> Iterator[Guardrail]:
    """The parent's effects stay as they are until its critic accepts: runs with lanes must show it, each of them."""
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
    """No run that came to its end would have been cut off; sessions that have begun keep their pins."""
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
