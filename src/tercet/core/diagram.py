"""The phases of a run as a picture: every move from one phase to another, and the event that makes it.

A test drives `fold_event` through every event in every phase and compares: a move that is missing here, or made up, fails.
"""

from __future__ import annotations

from tercet.contracts.loop import Phase

P = Phase

_RUNNING = (P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY, P.CRITIQUE, P.REPAIR)
_PLANNED = (P.DECOMPOSE, P.RETRIEVE, P.ACT, P.VERIFY, P.CRITIQUE, P.REPAIR)

MOVES: tuple[tuple[Phase, str, Phase], ...] = (
    (P.PLAN, "plan_proposed", P.DECOMPOSE),
    (P.PLAN, "planning_failed: fail", P.FAIL),
    (P.PLAN, "planning_failed: escalate", P.HALT),
    (P.PLAN, "turn_judged: stop", P.HALT),
    (P.PLAN, "turn_judged: escalate", P.HALT),
    (P.PLAN, "turn_judged: limit", P.FAIL),
    (P.DECOMPOSE, "decomposed", P.RETRIEVE),
    (P.RETRIEVE, "evidence_retrieved", P.REVIEW),
    (P.REVIEW, "plan_reviewed: ok", P.ACT),
    (P.REVIEW, "plan_reviewed: ok", P.COMMIT),  # a rehearsal, which ends here
    (P.REVIEW, "plan_reviewed: replan", P.PLAN),
    (P.REVIEW, "plan_reviewed: reject", P.FAIL),
    (P.REVIEW, "plan_reviewed: reject", P.HALT),  # a planner that may fail has no try left
    (P.ACT, "step_judged: replan", P.PLAN),
    (P.ACT, "step_judged: escalate", P.HALT),
    (P.ACT, "gate_answered: deny", P.FAIL),
    (P.ACT, "outputs_produced", P.VERIFY),
    (P.ACT, "turn_judged: continue", P.PLAN),
    (P.ACT, "turn_judged: retry", P.PLAN),
    (P.ACT, "turn_judged: replan", P.PLAN),
    (P.ACT, "turn_judged: stop", P.HALT),
    (P.ACT, "turn_judged: escalate", P.HALT),
    (P.ACT, "turn_judged: limit", P.FAIL),
    (P.VERIFY, "outputs_verified: critique", P.CRITIQUE),
    (P.VERIFY, "outputs_verified: repair", P.REPAIR),  # a broken schema needs no critique
    (P.CRITIQUE, "outputs_critiqued: repair", P.REPAIR),
    (P.CRITIQUE, "outputs_critiqued: exit", P.VERIFY),
    (P.REPAIR, "outputs_repaired", P.VERIFY),
    (P.VERIFY, "run_reported: accept", P.COMMIT),
    (P.VERIFY, "run_reported: fail", P.FAIL),
    (P.VERIFY, "run_reported: replan", P.PLAN),
    (P.VERIFY, "run_reported: escalate", P.HALT),
    (P.VERIFY, "gate_answered: approve", P.COMMIT),
    (P.COMMIT, "acceptance_lapsed", P.VERIFY),
    (P.VERIFY, "gate_answered: modify", P.REPAIR),
    (P.VERIFY, "gate_answered: deny", P.FAIL),
    (P.HALT, "gate_answered: deny", P.FAIL),
    (P.HALT, "gate_answered: extend", P.PLAN),
    (P.HALT, "gate_answered: extend", P.ACT),
    (P.HALT, "gate_answered: extend", P.VERIFY),
    (P.HALT, "gate_answered: replan", P.PLAN),
    (P.HALT, "gate_answered: accept_partial", P.COMMIT),
    (P.HALT, "gate_answered: abandon", P.FAIL),
    *((phase, "session_paused", P.HALT) for phase in _RUNNING),
    *((P.HALT, "session_resumed", phase) for phase in _RUNNING),
    *((phase, "given_up", P.FAIL) for phase in _RUNNING),
    *((phase, "session_cancelled", P.FAIL) for phase in (*_RUNNING, P.HALT)),
    *((phase, "session_expired", P.FAIL) for phase in (*_RUNNING, P.HALT)),
    *((phase, "session_migrated", P.REVIEW) for phase in (*_PLANNED, P.HALT)),
    (P.HALT, "session_migrated", P.PLAN),
)


ANYWHERE = (
    "session_paused",
    "session_resumed",
    "given_up",
    "session_cancelled",
    "session_expired",
    "session_migrated",
)
"""Moves that are possible in every phase, and drawn once."""


def draw() -> str:
    """The moves as a Mermaid state diagram; those that are possible anywhere are drawn once."""
    lines = ["stateDiagram-v2", f"    [*] --> {P.PLAN}"]
    lines += [
        f"    {before} --> {after}: {event}"
        for before, event, after in MOVES
        if event not in ANYWHERE or P.ACT in (before, after)
    ]
    lines += [f"    {phase} --> [*]: session_ended" for phase in (P.COMMIT, P.FAIL)]
    return "\n".join(lines)
