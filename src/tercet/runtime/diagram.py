"""The phases of a run as a picture: every move from one phase to another, and the event that makes it.

A test drives `evolve` through every event in every phase and compares: a move that is missing here, or made up, fails.
"""

from __future__ import annotations

from tercet.contracts.loop import Phase

P = Phase

MOVES: tuple[tuple[Phase, str, Phase], ...] = (
    (P.PLAN, "plan_proposed", P.DECOMPOSE),
    (P.PLAN, "planning_failed", P.FAIL),
    (P.DECOMPOSE, "decomposed", P.RETRIEVE),
    (P.RETRIEVE, "evidence_retrieved", P.REVIEW),
    (P.REVIEW, "plan_reviewed: ok", P.ACT),
    (P.REVIEW, "plan_reviewed: replan", P.PLAN),
    (P.REVIEW, "plan_reviewed: reject", P.FAIL),
    (P.ACT, "step_judged: replan", P.PLAN),
    (P.ACT, "step_judged: escalate", P.HALT),
    (P.ACT, "gate_answered: deny", P.FAIL),
    (P.ACT, "outputs_produced", P.VERIFY),
    (P.VERIFY, "run_reported: accept", P.COMMIT),
    (P.VERIFY, "run_reported: replan", P.PLAN),
    (P.VERIFY, "run_reported: escalate", P.HALT),
    *(
        (phase, "session_paused", P.HALT)
        for phase in (P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY)
    ),
    *(
        (P.HALT, "session_resumed", phase)
        for phase in (P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY)
    ),
    (P.HALT, "gate_answered: deny", P.FAIL),
    *((phase, "given_up", P.FAIL) for phase in (P.PLAN, P.DECOMPOSE, P.RETRIEVE, P.REVIEW, P.ACT, P.VERIFY)),
)


ANYWHERE = ("session_paused", "session_resumed", "given_up")
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
