"""The exit code for the state of a session, and the next commands that are suggested."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tercet.cli import ExitCode
from tercet.cli.journals import journal_words
from tercet.cli.server_option import is_service
from tercet.cli.sessions.people import LocalUser, actors_words
from tercet.contracts.loop import Phase
from tercet.contracts.runs.saga import RollbackResult
from tercet.contracts.verdict import Code, RefusalKind
from tercet.core.budget import BY_NAME, Amounts, budget_of, limits_of
from tercet.core.fold.gate import has_set_values
from tercet.core.plans import read_plan
from tercet.core.state import OpenGate, State
from tercet.view.questions import can_set_values
from tercet.view.terminal.text import json_text, printable, sample
from tercet.view.vocabulary import Standing

EXIT_CODES: dict[Standing, ExitCode] = {
    "completed": ExitCode.ACCEPTED,
    "refused": ExitCode.REFUSED,
    "failed": ExitCode.FAILED,
    "rejected": ExitCode.FAILED,
    "expired": ExitCode.FAILED,
    "cancelled": ExitCode.FAILED,
    "waiting": ExitCode.WAITING,
    "paused": ExitCode.WAITING,
    "escalated": ExitCode.FAILED,
    "ending": ExitCode.WAITING,
    "in progress": ExitCode.WAITING,
}


def unsettled_steps(rollback: RollbackResult | None) -> tuple[str, ...]:
    """Return the steps whose effects a person still has to deal with."""
    log = rollback.log if rollback is not None else ()
    return tuple(entry.step_id for entry in log if entry.is_open)


def is_ending_after_answer(state: State) -> bool:
    """Return whether the end of a session is decided, but people have to say first whether a call happened."""
    return bool(state.ending) and any(gate.kind == "reconcile" for gate in state.gates.values())


def unserved_text(pack: str) -> str:
    """Return why a session does not go on at its service, before the command that helps."""
    return f"The service does not serve its version of {printable(pack, 120)}, and does not continue it. An operator moves it with:"


@dataclass(frozen=True, kw_only=True)
class Commands:
    """Suggested commands, with the options for the same journal, pack and actors.

    Each can be pasted into a shell unchanged.
    """

    journal: str
    pack: str = ""
    """The folder of the session's pack; empty if it is not known."""
    actors: str = ""
    unserved: str = ""
    """The pack version that the session is pinned to, if the service does not serve it."""

    @property
    def is_remote(self) -> bool:
        """Whether a service has the session, and runs it by itself."""
        return is_service(self.journal)

    def show(self, session: str) -> str:
        """Return the command that shows a session."""
        return self._line("sessions", "show", session)

    def watch(self, session: str) -> str:
        """Return the command that follows a session."""
        return self._line("sessions", "watch", session)

    def resume(self, state: State) -> list[str]:
        """Return the command that resumes a session; empty for an agent's session, or if the pack's folder is unknown.

        A service goes on by itself with a session that is not paused, so that one is followed.
        """
        session = state.start.session
        if self.unserved:
            return [self.migrate(session)]
        if self.is_remote and not state.is_stepwise:
            is_paused = state.status == "paused" and not state.ending
            return [self._line("sessions", "resume", session) if is_paused else self.watch(session)]
        if state.is_stepwise or not self.pack:
            return []
        return [self.resume_session(state.start.session)]

    def migrate(self, session: str) -> str:
        """Return the command that moves a session to the pack, or to the version that the service serves."""
        words = () if self.is_remote else ("--pack", self.pack)
        return self._line("sessions", "migrate", session, *words)

    def resume_session(self, session: str) -> str:
        """Return the command that resumes a session of this pack."""
        return self._line("sessions", "resume", session, "--pack", self.pack)

    def resume_or_hint(self, state: State) -> list[str]:
        """Return the command that resumes a session; if there is none, a shell comment that says how to resume it."""
        session, pack = state.start.session, printable(state.start.pack, 120)
        if state.is_stepwise and not self.unserved:
            agent = printable(state.start.planner, 120)
            return [f"# the agent {agent} resumes it, in Python: await engine.resume({session!r})"]
        bare = self._line("sessions", "resume", session)
        hint = f"# the folder of {pack} is not recorded: add --pack and that folder to {bare}"
        return self.resume(state) or [hint]

    def settle(self, state: State, step: str) -> str:
        """Return the command that records that a person has undone a step by hand."""
        line = ("sessions", "settle", state.start.session, step, "--note", "what you did")
        if state.start.dev:
            name = settling_actor(state, step)
            return self._line(*line, "--dev", *(("--as", name) if name else ()))
        return self._with_sender(*line)

    def show_gate(self, gate: str) -> str:
        """Return the command that shows a gate."""
        return self._line("gates", "show", gate)

    def check_journal(self) -> str:
        """Return the command that verifies the journal."""
        return self._line("journal", "check")

    def lift(self, kind: str, name: str) -> str:
        """Return the command that lifts an emergency stop."""
        return self._with_sender("stop", "lift", *((kind,) if kind == "tenant" else (kind, name)))

    def paused(self) -> str:
        """Return the command that lists paused sessions."""
        return self._line("sessions", "list", "--status", "paused")

    def answers(self, gate: OpenGate, state: State) -> list[str]:
        """Return the commands that answer a gate."""
        answer = partial(self._answer, gate, state)
        match gate.kind:
            case "approval":
                return [answer(word) for word in ("approve", "deny")]
            case "reconcile":
                value = json_text(sample(gate.shown.get("result_schema")), indent=None)
                return [
                    answer("settle", "--happened", "--value", value),
                    answer("settle", "--did-not-happen"),
                ]
            case "escalation":
                # Extending helps only if a budget was short.
                more = advised_extension(state, gate)
                ways = {**_OPTIONS, **({"extend": ("extend", *more)} if more else {})}
                if state.start.dev and not _stand_in(gate, state):
                    ways.pop("accept_partial")  # the owner may not accept, and there is no other actor
                options = [word for word in gate.shown.get("options", ()) if word in ways]
                # A failed step may succeed if repeated; outputs would be judged the same again.
                again = self.resume(state) if gate.step and not more else []
                return [*(answer("decide", *ways[word]) for word in options), *again]
            case "compensation":
                return [answer("decide", word) for word in ("compensate", "keep")]
            case "output":
                yes_or_no = [answer(word) for word in ("approve", "deny")]
                return [*yes_or_no, answer("modify", "--note", "what to change")]

    def change(self, gate: OpenGate, state: State) -> str:
        """Return a template of the command that sets a value of a gate's call; empty if none can be set, or no one else could approve it."""
        names = [*gate.shown.get("authority", ()), *gate.shown.get("params", {})]
        if not names or not can_set_values(gate, state):
            return ""
        return self._answer(gate, state, "modify", "--set", f"{names[0]}=VALUE", "--reason", "WHY")

    def _answer(self, gate: OpenGate, state: State, word: str, *words: str) -> str:
        """Return the command for an answer; with --actors if the session has no list of actors and roles are required."""
        line = ("gates", word, gate.id, *words)
        if state.start.dev:
            name = _stand_in(gate, state)
            return self._line(*line, "--dev", *(("--as", name) if name else ()))
        if state.start.people:
            return self._line(*line)
        is_asked = any(need.roles for need in gate.needs.values())
        is_listed = bool(self.pack) and (Path(self.pack) / "actors.toml").is_file()
        listed = ("--actors", self.pack) if is_asked and is_listed and not self.actors else ()
        return self._with_sender(*line, *listed)

    def after(self, state: State, rollback: RollbackResult | None = None) -> list[str]:
        """Return the next commands for a person, with a hint if the session cannot be resumed by a command."""
        if self.journal == "memory:" or state.is_over:
            return self.commands(state, rollback)
        return list(dict.fromkeys((*self.commands(state, rollback), *self.resume_or_hint(state))))

    def commands(self, state: State, rollback: RollbackResult | None = None) -> list[str]:
        """Return the next commands, without hints; nothing for a journal in memory."""
        if self.journal == "memory:":
            return []
        session = state.start.session
        if state.is_over:
            return [*(self.settle(state, step) for step in unsettled_steps(rollback)), self.show(session)]
        if self.unserved:
            return [self.migrate(session)]  # which voids the answers to its gates
        asked = [
            line
            for gate in state.gates.values()
            for line in (self.show_gate(gate.id), *self.answers(gate, state))
        ]
        return list(dict.fromkeys((*asked, *self.resume(state))))

    def _with_sender(self, *words: str) -> str:
        """Return a command that records its sender."""
        return self._line(*words, *actors_words(self.actors))

    def _line(self, *words: str) -> str:
        return shlex.join(["tercet", *words, *journal_words(self.journal)])


def _stand_in(gate: OpenGate, state: State) -> str:
    """Return an actor of the session's list who may still approve a gate; empty if there is none."""
    owner = state.start.actor["id"]
    people: dict[str, Any] = state.start.people or {}
    for name, person in people.items():
        roles = tuple(map(str, person["roles"]))
        has_answered = any(each.actor == name for each in gate.approvals)
        is_asked = any(gate.counts(need, roles) for need in gate.unmet) or not gate.needs
        if name != owner and is_asked and not has_answered and not has_set_values(state, gate, name, ""):
            return name
    return ""


def settling_actor(state: State, step: str) -> str:
    """Return an actor of the session's list who may settle what a step left; empty if there is none."""
    gates = [gate for gate in state.approved.values() if step in gate.calls and gate.needs]
    people: dict[str, Any] = state.start.people or {}
    for name, person in people.items():
        roles = tuple(map(str, person["roles"]))
        is_asked = not gates or any(gate.counts(need, roles) for gate in gates for need in gate.needs)
        if name != state.start.actor["id"] and is_asked:
            return name
    return ""


def recorded_folder(state: State) -> str:
    """Return the folder of a session's pack, if it was recorded and is still there; else an empty text."""
    recorded = str(state.start.folder)
    return recorded if recorded and (Path(recorded) / "pack.toml").is_file() else ""


def commands_for(url: str, user: LocalUser, state: State) -> Commands:
    """Return the suggested commands for a user who has loaded no pack; the session knows the folder of its pack."""
    if is_service(url):
        return Commands(journal=url)
    known = recorded_folder(state)
    return Commands(journal=url, pack=user.pack or known, actors=user.path)


# --- more of a budget ---


_LEAST = {"tool_calls": 10, "tokens": 1_000, "cost_microcents": 1_000_000, "wall_clock_ms": 60_000}
"""The budget dimensions that an operator may extend, and the least amount that is suggested for each."""
_DIMENSION_OF = {
    Code.TOOL_CALLS_EXCEEDED: "tool_calls",
    Code.TOKENS_EXCEEDED: "tokens",
    Code.COST_EXCEEDED: "cost_microcents",
    Code.LATENCY_EXCEEDED: "wall_clock_ms",
}
"""The dimension that a plan was refused for, by the code of the refusal."""


def advised_extension(state: State, gate: OpenGate) -> tuple[str, ...]:
    """Return the options that extend the budget that an escalated run is short of; empty if none is short.

    The state holds what is left of each dimension, but what is needed only as far as the plan estimates it. So the amount
    is an estimate, and at least the usual one.
    """
    limits = {name: n for name, n in limits_of(budget_of(state)).items() if name in _LEAST}
    left = {name: limit - BY_NAME[name].spent(state.used) for name, limit in limits.items()}
    name = _short_dimension(state, gate, limits, left)
    if not name:
        return ()
    missing = _planned(state).get(name, 0) - left[name]
    return f"--{name.replace('_', '-')}", str(max(_LEAST[name], missing))


def _short_dimension(state: State, gate: OpenGate, limits: Amounts, left: Amounts) -> str:
    """Return the dimension of which too little is left; empty if the run escalated for something else."""
    step = state.steps.get(gate.step)
    if step is not None and step.code == RefusalKind.BUDGET_EXCEEDED:
        return min(left, key=lambda name: left[name] / max(limits[name], 1), default="")
    if state.halted_from is Phase.PLAN:
        codes = {refusal.get("code") for refusal in state.verdict.get("refusals", ())}
        refused = [name for code, name in _DIMENSION_OF.items() if code in codes and name in limits]
        # A model that could not be asked leaves no code. A request reserves several times what the last one used.
        is_model_short = bool(state.start.models) and left.get("tokens", 0) < 4 * state.used.model_tokens
        return next(iter(refused), "tokens" if is_model_short and "tokens" in left else "")
    return next((name for name in left if left[name] < 0), "")


def _planned(state: State) -> dict[str, int]:
    """Return the needs of the open steps, by the estimates of the plan."""
    steps = read_plan(state.plan).steps if state.plan else ()
    open_steps = [each for each in steps if each.id not in state.done]
    needed = {"tokens": sum(each.estimated_tokens for each in open_steps), "tool_calls": len(open_steps)}
    return needed | {"tokens": max(needed["tokens"], state.used.model_tokens)}


_OPTIONS = {
    "replan": ("replan", "--note", "what to do instead"),
    "accept_partial": ("accept-partial",),
    "abandon": ("abandon",),
}
"""The arguments for each way to continue an escalated run."""
