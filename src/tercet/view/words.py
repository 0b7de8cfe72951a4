"""The words for what a state holds: statuses of steps, answers at gates, settlements, and how a run stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

from tercet.contracts.plan import compensated_step
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.shape import as_object
from tercet.core import events as e
from tercet.core.events.gate import GateKind
from tercet.core.state import Answer, State
from tercet.view.text import count, joined, took

Tone: TypeAlias = Literal["good", "bad", "wait", "busy", "quiet"]
"""What a colour means: it went well, badly, it waits or is not known, it goes on, nothing came of it."""


class Status(NamedTuple):
    """How far a step is."""

    mark: str
    tone: Tone
    word: str


STEPS: dict[str, Status] = {
    "pending": Status("·", "quiet", "not begun"),
    "gated": Status("?", "wait", "waits for people"),
    "in_flight": Status("▸", "busy", "under way"),
    "unknown": Status("?", "wait", "outcome unknown"),
    "done": Status("✓", "good", "done"),
    "failed": Status("✗", "bad", "failed"),
    "skipped": Status("○", "quiet", "skipped"),
}
SKIPPED = {
    "condition_false": "its condition is false",
    "optional_failed": "it failed, and it is optional",
}
ANSWERS: dict[str, tuple[str, Tone]] = {
    "approve": ("approved", "good"),
    "deny": ("denied", "bad"),
    "modify": ("sent back", "wait"),
    "withdraw": ("withdrawn", "bad"),
    "grant": ("granted", "good"),
    "happened": ("said to have happened", "good"),
    "did_not_happen": ("said not to have happened", "good"),
    "extend": ("extended", "good"),
    "replan": ("sent back for another plan", "wait"),
    "accept_partial": ("accepted as partial", "good"),
    "abandon": ("abandoned", "bad"),
    "compensate": ("answered with compensate", "wait"),
    "keep": ("answered with keep", "good"),
}
"""What an answer makes of its gate."""
QUESTIONS: dict[GateKind, str] = {
    "approval": "may this call be made?",
    "reconcile": "did this call happen?",
    "escalation": "how shall this run go on?",
    "compensation": "shall what this run did be taken back?",
    "output": "shall what this run produced be accepted?",
}


def answer_word(answer: e.GateAnswered | Answer) -> str:
    """Return what an answer makes of its gate."""
    return "changed" if answer.changes else ANSWERS[answer.answer][0]


def answer_tone(answer: e.GateAnswered) -> Tone:
    """Return whether an answer is good news for the run."""
    return "wait" if answer.changes else ANSWERS[answer.answer][1]


def login_words(login: str | None, simulated_by: str = "") -> str:
    """Return the login that a person answered from, or that acted as them, to stand behind their name; may be empty."""
    if simulated_by:
        return f" (simulated by login {simulated_by})"
    return f" from login {login}" if login else ""


def need_text(name: str, quorum: int, roles: tuple[str, ...]) -> str:
    """Return whom a gate asks for: `GATE_FINANCE: 2 of finance_lead or cfo`."""
    return f"{f'{name}: ' if name else ''}{quorum} of {' or '.join(roles) or 'anybody'}"


def way_back(shown: Mapping[str, Any], given: str = "") -> str:
    """Return how a call that a gate shows is taken back, and what approving the call means for that; empty where nothing is
    said of it. `given` stands behind the name of the tool."""
    if shown.get("no_compensation"):
        return f"there is no way back: {shown['no_compensation']}"
    way = as_object(shown.get("compensation"))
    if not way:
        return "it cannot be taken back" if shown.get("reversibility") == "irreversible" else ""
    approval = "approved together with the call"
    if way.get("error"):
        approval = f"it cannot be made: {way['error']}"
    elif way.get("proposed"):
        approval = "proposed by the plan: approved here only if it is complete and needs no other gate"
    return f"{way.get('tool')}{given}; {approval}"


def step_text(step: str) -> str:
    """Return a step's name; one that takes another back says so."""
    host = compensated_step(step)
    return f"↶ {host}" if host else step


def settlement(event: e.Settled) -> str:
    """Return what follows from a look at a call whose outcome was unknown."""
    match event.how:
        case "absent":
            return "it did not happen: called again"
        case "run_again" if event.by == "idempotent":
            return "called again under the same key"
        case "run_again":
            return "read again"
        case "ask_again":
            why = f": {event.reason}" if event.reason else ""
            return f"not settled{why}: asked again in {took(max(0, event.not_before - event.at))}"


# --- how a run stands ---


Standing: TypeAlias = Literal[
    "completed",
    "refused",
    "failed",
    "rejected",
    "expired",
    "cancelled",
    "waiting",
    "paused",
    "escalated",
    "ending",
    "in progress",
]
STANDINGS: dict[Standing, tuple[Tone, str]] = {
    "completed": (
        "good",
        "The critic let the plan through, its steps were carried out, and the result was accepted.",
    ),
    "refused": ("bad", "The critic refused the plan before it could run."),
    "failed": ("bad", "The run ended without the result that it was asked for."),
    "rejected": ("bad", "A person was asked, and said no."),
    "expired": ("bad", "The time that the run had was over before it could end."),
    "cancelled": ("bad", "The run was cancelled by a person."),
    "waiting": ("wait", "The run has stopped before a call, and waits for people."),
    "paused": ("wait", "The run was let go of, and can be carried on where it stood."),
    "escalated": ("bad", "The run could not go on by itself, and was handed to a person."),
    "ending": ("wait", "The run will end once what it did is settled."),
    "in progress": ("busy", "The run is not over: this is how it stood at its last event."),
}
"""What each word means, and whether it is good news."""


def standing(state: State) -> Standing:
    """Return how a session stands. Refused means that the critic let no plan through."""
    if state.status == "failed" and state.verdict.get("outcome", "ok") != "ok":
        return "refused"
    is_escalated = state.escalation is not None
    return standing_of(state.status, state.ending, is_escalated=is_escalated, has_gates=bool(state.gates))


def standing_of(status: SessionStatus, ending: str, *, is_escalated: bool, has_gates: bool) -> Standing:
    """Return how a session stands, as far as a list knows."""
    match status:
        case "completed" | "failed" | "rejected" | "expired" | "cancelled":
            return status
        case _ if ending and not has_gates:
            return "ending"
        case "awaiting_gate":
            return "waiting"
        case "paused":
            return "escalated" if is_escalated else "paused"
        case "in_progress":
            return "in progress"
        case _:
            assert_never(status)


def meaning(state: State) -> str:
    """Return what it means that a session stands so, in one or two sentences."""
    where, calls = standing(state), state.used.tool_calls
    if where == "completed" and state.start.shadow:
        return "A rehearsal: the plan was reviewed, and nothing was called."
    if where == "completed" and state.partial:
        return "A person accepted what there is, although the critic did not."
    if where == "waiting" and any(gate.kind == "output" for gate in state.gates.values()):
        return "What the run has produced waits for a person to accept it."
    if where == "ending":
        return f"It will end as {state.ending}, once what it did is settled."
    made = f"{count(calls, 'call')} had been made under an earlier plan." if calls else "Nothing was called."
    return joined((STANDINGS[where][1], made if where == "refused" else ""), " ")
