"""The commands that are due in each phase of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tercet.contracts.loop import Phase
from tercet.contracts.outputs.quality_rules import QualityRules, TestCommand
from tercet.core import commands as c
from tercet.core import lanes
from tercet.core.approval import ask_for_outputs
from tercet.core.config import RunConfig
from tercet.core.decide.dispatch import Acting
from tercet.core.fold.quality import awaits_delivery
from tercet.core.retrieval import failed_look_ups, missing_evidence
from tercet.core.run import Run
from tercet.core.state import Quality, State
from tercet.quality.verification.junit import BEFORE_COMMIT

_COUNTED = frozenset(Phase) - {Phase.COMMIT, Phase.FAIL, Phase.HALT}


def decide(run: Run) -> Iterator[c.Command]:
    """Yield the commands that are due; none if the run waits or is over. Only the first one is certain: the others may
    depend on its events."""
    state = run.state
    if is_worn_out(state, run.config):
        return iter(() if state.in_flight else (c.StopExhausted(reason="iteration_budget_exceeded"),))
    return _DUE_IN[state.phase](run)


def is_worn_out(state: State, config: RunConfig) -> bool:
    """Return whether a run has gone through as many phases as it may."""
    return state.iterations >= config.max_iterations and state.phase in _COUNTED


def is_escalated(state: State) -> bool:
    """Return whether a run was escalated to a person."""
    return state.phase is Phase.HALT and state.escalation is not None


def _is_handed_over(state: State) -> bool:
    return any(gate.kind == "escalation" for gate in state.gates.values())


def _planning(run: Run) -> Iterator[c.Command]:
    yield c.Reflect() if run.state.is_turn_open else c.Propose()


def _decomposing(_: Run) -> Iterator[c.Command]:
    yield c.Decompose()


def _retrieving(_: Run) -> Iterator[c.Command]:
    yield c.Retrieve()


def _reviewing(_: Run) -> Iterator[c.Command]:
    yield c.Review()


def _acting(run: Run) -> Iterator[c.Command]:
    return iter(()) if run.plan is None else Acting(run).commands()


def _verifying(run: Run) -> Iterator[c.Command]:
    """Render, test and verify outputs that a rubric judges, and score them when no repair is left."""
    state, config = run.state, run.config
    rules, quality = config.spec.quality, state.quality
    if state.gates:
        return
    if quality.stage == "asking":
        yield c.StopExhausted(reason=lanes.NEEDS_PERSON) if config.is_lane else ask_for_outputs(state, config)
    elif rules is None or quality.stage == "judged":
        yield c.Score()
    elif not quality.drawn:
        yield c.DrawExperience()
    elif rules.consistency is not None and rules.consistency.draws and not quality.vote:
        yield c.DrawSamples()
    elif quality.read is None:
        yield c.ReadOutputs()
    elif len(quality.tests) < len(due_tests(rules, quality)):
        yield c.RunTests(number=len(quality.tests))
    else:
        yield c.VerifyOutputs()


def due_tests(rules: QualityRules, quality: Quality) -> tuple[TestCommand, ...]:
    """Return the test commands that the outputs must pass now: those that run before a commit only if all others
    passed."""
    early = [each for each in rules.tests if each.level not in BEFORE_COMMIT]
    if any(said["error"] or said["result"]["failed"] for said in quality.tests[: len(early)]):
        return tuple(early)
    return rules.tests


def _criticising(run: Run) -> Iterator[c.Command]:
    """Attack the outputs before they are criticised, if they passed their tests."""
    state, rules = run.state, run.config.spec.quality
    made = len(state.quality.attacks)
    has_failed = any(said["error"] or said["result"]["failed"] for said in state.quality.tests)
    is_broken = rules is None or has_failed or made >= len(rules.attacks)
    yield c.Critique() if is_broken else c.Attack(number=made)


def _repairing(run: Run) -> Iterator[c.Command]:
    if run.state.quality.has_fetched:
        yield c.Repair()
        return
    queries, retries = missing_evidence(run.state, run.config), failed_look_ups(run)
    yield c.FetchEvidence(queries=queries, retries=retries) if queries or retries else c.Repair()


def _ending(run: Run) -> Iterator[c.Command]:
    """End a run once the outcome of every call is known and its effects have been compensated or kept. No tool is
    called to find out."""
    state = run.state
    if state.is_over:
        return
    if awaits_delivery(state):
        yield c.AcceptOutputs()
        return
    acting = Acting(run) if run.plan is not None else None
    is_undoing = state.saga == "undoing"
    is_open = [name for name in state.frontier if state.steps[name].status in ("in_flight", "unknown")]
    if acting is not None and is_undoing:
        yield from acting.commands()
    elif acting is not None and is_open:
        asked = (name for name in is_open if state.steps[name].status == "unknown")
        yield from (acting.find_out(n, state.steps[n]) for n in asked if not state.steps[n].gate)
    elif _has_effects(state) and not state.gates and state.saga in ("", "agreed"):
        yield c.Compensate(how="compensate" if state.saga else state.start.on_failure)
    elif not state.gates:
        yield c.End(status="completed" if state.phase is Phase.COMMIT else state.ending or "failed")


def _has_effects(state: State) -> bool:
    """Return whether there may be effects to compensate. A denial of a paused run is carried out first, like any other."""
    is_denied = state.ending == "rejected" and state.status == "in_progress"
    # By their keys and not by the steps that are done: a call whose result was unusable happened all the same.
    return state.phase is Phase.FAIL and (bool(state.keys) or is_denied)


def _escalating(run: Run) -> Iterator[c.Command]:
    if is_escalated(run.state) and not _is_handed_over(run.state):
        is_lane = run.config.is_lane
        yield c.StopExhausted(reason=run.state.escalation or lanes.NEEDS_PERSON) if is_lane else c.Escalate()


_DUE_IN: dict[Phase, Callable[[Run], Iterator[c.Command]]] = {
    Phase.PLAN: _planning,
    Phase.DECOMPOSE: _decomposing,
    Phase.RETRIEVE: _retrieving,
    Phase.REVIEW: _reviewing,
    Phase.ACT: _acting,
    Phase.VERIFY: _verifying,
    Phase.CRITIQUE: _criticising,
    Phase.REPAIR: _repairing,
    Phase.COMMIT: _ending,
    Phase.FAIL: _ending,
    Phase.HALT: _escalating,
}
"""The function that yields the due commands of each phase."""
