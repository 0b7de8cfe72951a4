"""The words for statuses, answers, outcomes, settlements, dispositions and verdicts, each with its tone.

Terminal, report, log, notifications and console take their words from here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, assert_never

from tercet.contracts.mode import Trust
from tercet.contracts.outputs.exit import Disposition, ExitDecision, FeatureName
from tercet.contracts.outputs.repair import Escalation
from tercet.contracts.plan import compensated_step
from tercet.contracts.runs.session import SessionStatus
from tercet.core import events as e
from tercet.core.events.gate import GateKind
from tercet.core.events.plan import TurnAction
from tercet.core.state import Answer, State
from tercet.quality.exit import TRIGGERS
from tercet.view.text import count, duration_text, join_parts

__all__ = (
    "ADVICE", "ANSWERS", "CALL_OUTCOMES", "DISPOSITIONS", "ESCALATIONS", "FEATURES", "JUDGED", "MARKS", "OUTPUT_ANSWERS", "QUESTIONS",
    "REPAIRS", "REVIEWS", "RUN_VERDICTS", "SCORES", "SIGN_INS", "STANDINGS", "STEPS", "TOKENS", "TRIGGERS", "TRUST", "TURNS", "UNJUDGED",
    "Standing", "Status", "Tone", "answer_tone", "answer_word", "exit_status", "login_words", "meaning", "need_text",
    "settlement", "skip_text", "standing", "standing_of", "status_word", "step_text",
)  # fmt: skip

Tone: TypeAlias = Literal["good", "bad", "wait", "busy", "quiet"]
"""good: it went well; bad: it went wrong; wait: it waits or is unknown; busy: it is running; quiet: it needs no attention."""
MARKS: dict[Tone, str] = {"good": "✓", "bad": "✗", "wait": "…", "busy": "▸", "quiet": "·"}


class Status(NamedTuple):
    """A state of something: its mark, its tone and its word."""

    mark: str
    tone: Tone
    word: str


STEPS: dict[str, Status] = {
    "pending": Status("·", "quiet", "not started"),
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
    "proposed": "the lane proposed it to the run that started it",
}


def skip_text(reason: str, when: str | None = None) -> str:
    """Return why a step was skipped; `when` is its condition."""
    return f"`{when}` is false" if when and reason == "condition_false" else SKIPPED.get(reason, reason)


ANSWERS: dict[str, tuple[str, Tone]] = {
    "approve": ("approved", "good"),
    "deny": ("denied", "bad"),
    "modify": ("sent back", "wait"),
    "withdraw": ("withdrawn", "bad"),
    "grant": ("granted", "good"),
    "happened": ("reported as done", "good"),
    "did_not_happen": ("reported as not done", "good"),
    "extend": ("extended", "good"),
    "replan": ("sent back for another plan", "wait"),
    "accept_partial": ("accepted as partial", "good"),
    "abandon": ("abandoned", "bad"),
    "compensate": ("answered with compensate", "wait"),
    "keep": ("answered with keep", "good"),
}
"""The state of a gate after an answer."""
OUTPUT_ANSWERS: dict[str, tuple[str, Tone]] = {
    "approve": ("accepted the outputs", "good"),
    "deny": ("denied them", "bad"),
    "modify": ("asked for a change", "wait"),
    "withdraw": ("withdrew the approval", "bad"),
}
"""The answers at a gate for outputs."""
SIGN_INS = {
    "local": "on this machine",
    "api_key": "with an API key",
    "oidc": "with the identity provider",
}
"""How a person was authenticated."""
QUESTIONS: dict[GateKind, str] = {
    "approval": "may this call be made?",
    "reconcile": "did this call happen?",
    "escalation": "how should this run continue?",
    "compensation": "should the effects of this run be compensated?",
    "output": "should the outputs of this run be accepted?",
}
CALL_OUTCOMES: dict[str, Status] = {
    "done": Status("✓", "good", "done"),
    "unusable": Status("✗", "bad", "done, but unusable"),
    "not_done": Status("✗", "bad", "not done"),
    "unknown": Status("?", "wait", "outcome unknown"),
    "compensated": Status("↶", "quiet", "compensated"),
    "cut off": Status("?", "wait", "cut off"),
    "running": Status("▸", "busy", "no end is recorded"),
}
"""How a call ended."""
REVIEWS: dict[str, tuple[str, Tone]] = {
    "ok": ("verified", "good"),
    "replan": ("refused, to be planned again", "bad"),
    "reject": ("refused", "bad"),
}
"""The critic's verdicts on a plan."""
JUDGED: dict[str, Status] = {
    "accept": Status("✓", "good", "accepted by the critic"),
    "retry": Status("↻", "wait", "the critic asks for a retry"),
    "replan": Status("✗", "bad", "the critic asks for another plan"),
    "escalate": Status("✗", "bad", "the critic escalates to a person"),
}
"""The critic's verdicts on a step."""
RUN_VERDICTS: dict[str, Tone] = {
    "accept": "good", "retry": "wait", "ask": "wait", "replan": "bad", "escalate": "bad", "fail": "bad",
}  # fmt: skip
"""Whether the critic's word on a run is good news."""
TURNS: dict[TurnAction, Status] = {
    "continue": Status("·", "quiet", "goes on"),
    "retry": Status("↻", "wait", "is undone and decided again"),
    "replan": Status("↻", "wait", "is kept, and the agent decides again"),
    "stop": Status("✗", "bad", "is the last"),
    "escalate": Status("✗", "bad", "goes to a person"),
    "limit": Status("✗", "bad", "is the last"),
    "end": Status("✗", "bad", "is the last"),
    "final": Status("✓", "good", "completes the run"),
}
"""The verdicts on a turn of an agent."""
SCORES: dict[str, Tone] = {"pass": "good", "warn": "wait", "fail": "bad"}
"""The statuses of an evaluator's score."""
TRUST: dict[Trust | None, tuple[str, Tone]] = {
    Trust.TRUSTED: ("trusted", "good"),
    Trust.UNTRUSTED: ("other people's words", "wait"),
    None: ("not known to the run", "bad"),
}


# --- judging and repairing outputs ---


UNJUDGED = {
    "free": "nothing vouches for these words",
    "language": "its language is not the configured one, or not known",
    "empty": "the text is empty",
}
"""Why a text is unjudged."""
TOKENS: dict[str, Tone] = {"bound": "good", "found": "good", "elsewhere": "bad", "unknown": "bad"}
"""Whether a value that outputs state is known from a source."""
REPAIRS: dict[bool | None, Status] = {
    True: Status("✓", "good", "repaired"),
    False: Status("✗", "bad", "not repaired"),
    None: Status("·", "wait", "changed, and still wrong"),
}
"""Whether a repair helped; None if the next round found the same defect again."""
FEATURES: dict[FeatureName, str] = {
    "verify": "verification",
    "consistency": "self-consistency",
    "evidence": "values bound or found",
    "repairs": "repairs so far",
    "logprob": "log-probability",
    "critic": "rubric",
    "tests": "tests passed",
}
"""The features of confidence."""
DISPOSITIONS: dict[Disposition, tuple[str, Tone]] = {
    Disposition.AUTO_COMMIT: ("enough to commit without asking", "good"),
    Disposition.HUMAN_REVIEW: ("a person is asked", "wait"),
    Disposition.REJECT: ("too little to ask a person", "bad"),
}
"""The consequences of confidence."""
ESCALATIONS: dict[Escalation, str] = {
    Escalation.HUMAN_REVIEW: "to a person",
    Escalation.MODEL_UPGRADE: "to a stronger model",
    Escalation.TASK_REDECOMPOSE: "back to the planner",
    Escalation.PARTIAL_COMMIT: "into a partial result",
    Escalation.FAIL_WITH_DIAGNOSIS: "no further, with a diagnosis",
}
"""Where the remaining defects go."""
ADVICE = {
    "approve": "accept them: every limit holds",
    "modify": "send them back: a limit is missed",
    "compare": "compare them with the draft: a rule has replaced values",
    "reject": "deny them: they are unsafe, or too unsure",
}
"""The advice to an approver of outputs."""


def exit_status(decided: ExitDecision) -> Status:
    """Return the mark, tone and words of an exit decision."""
    match decided.outcome:
        case "COMMIT":
            return Status("✓", "good", "commit")
        case "CONTINUE_REPAIR":
            return Status("↻", "wait", "repair continues")
        case "ESCALATE":
            is_asked = decided.needs_approval
            return Status(
                "?",
                "wait" if is_asked else "bad",
                "a person is asked" if is_asked else "escalated to a person",
            )
        case "FAIL":
            return Status("✗", "bad", "fail")


# --- answers ---


def answer_word(answer: e.GateAnswered | Answer) -> str:
    """Return the state of a gate after an answer."""
    return "changed" if answer.changes else ANSWERS[answer.answer][0]


def answer_tone(answer: e.GateAnswered | Answer) -> Tone:
    """Return whether an answer is good news for the run."""
    return "wait" if answer.changes else ANSWERS[answer.answer][1]


def login_words(login: str | None, simulated_by: str = "") -> str:
    """Return the login that a person answered from, or that acted as them, as text to follow their name."""
    if simulated_by:
        return f" (simulated by login {simulated_by})"
    return f" from login {login}" if login else ""


def need_text(name: str, quorum: int, roles: tuple[str, ...]) -> str:
    """Return the approvals that a gate needs: `GATE_FINANCE: 2 people with the role finance_lead or cfo`."""
    role = f"the role {' or '.join(roles)}" if roles else "any role"
    return f"{f'{name}: ' if name else ''}{'1 person' if quorum == 1 else f'{quorum} people'} with {role}"


def step_text(step: str) -> str:
    """Return a step's name; a compensating step is named after the step that it compensates."""
    host = compensated_step(step)
    return f"↶ {host}" if host else step


def settlement(event: e.Settled) -> str:
    """Return the result of reconciling a call whose outcome was unknown."""
    match event.how:
        case "absent":
            return "it did not happen: called again"
        case "run_again" if event.by == "idempotent":
            return "called again under the same key"
        case "run_again":
            return "read again"
        case "ask_again":
            why = f": {event.reason}" if event.reason else ""
            return f"not settled{why}: asked again in {duration_text(max(0, event.not_before - event.at))}"


# --- the status of a run for display ---


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
        "The critic approved the plan, its steps were executed, and the result was accepted.",
    ),
    "refused": ("bad", "The critic refused the plan before it could run."),
    "failed": ("bad", "The run ended without the requested result."),
    "rejected": ("bad", "A person denied it."),
    "expired": ("bad", "The run expired before it could finish."),
    "cancelled": ("bad", "The run was cancelled by a person."),
    "waiting": ("wait", "The run has stopped before a call, and waits for people."),
    "paused": ("wait", "The run is paused, and can be resumed."),
    "escalated": ("bad", "The run could not continue by itself, and was escalated to a person."),
    "ending": ("wait", "The run ends once its effects are compensated or kept."),
    "in progress": ("busy", "The run is not over: this is its state at its last event."),
}
"""Each status for display with its tone and its meaning."""


def standing(state: State) -> Standing:
    """Return the status of a session for display; refused means that the critic approved no plan."""
    if state.status == "failed" and state.verdict.get("outcome", "ok") != "ok":
        return "refused"
    is_escalated = state.escalation is not None
    return standing_of(state.status, state.ending, is_escalated=is_escalated, has_gates=bool(state.gates))


def standing_of(status: SessionStatus, ending: str, *, is_escalated: bool, has_gates: bool) -> Standing:
    """Return the status of a session for display, from the fields of a row."""
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


def status_word(status: str) -> str:
    """Return the word for a recorded status, where its run is not at hand to tell more."""
    return {"awaiting_gate": "waiting", "in_progress": "in progress"}.get(status, status)


def meaning(state: State) -> str:
    """Return the meaning of a session's status in one or two sentences."""
    where, calls = standing(state), state.used.tool_calls
    if where == "completed" and state.start.shadow:
        return "A rehearsal: the plan was reviewed, and no tool was called."
    if where == "completed" and state.partial:
        return "A person accepted the partial result, although the critic did not."
    if where == "waiting" and any(gate.kind == "output" for gate in state.gates.values()):
        return "The outputs of the run wait for a person to accept them."
    if where == "ending":
        return f"It ends as {state.ending} once its effects are compensated or kept."
    made = f"{count(calls, 'call')} had been made under an earlier plan." if calls else "No tool was called."
    return join_parts((STANDINGS[where][1], made if where == "refused" else ""), " ")
