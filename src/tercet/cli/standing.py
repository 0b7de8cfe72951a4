"""What it means for the shell where a session stands, and which command comes next."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tercet.cli.exit_code import ExitCode
from tercet.cli.journals import journal_words
from tercet.cli.people import Speaker, actors_words
from tercet.cli.text import json_text
from tercet.cli.values import sample
from tercet.contracts.runs.record import RollbackResult
from tercet.core.fold.gate import has_set_values
from tercet.core.messages import session_of
from tercet.core.modifications import SETTABLE
from tercet.core.state import OpenGate, State
from tercet.view.words import Standing

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


def left_over(rollback: RollbackResult | None) -> tuple[str, ...]:
    """The steps whose effects a person still has to deal with."""
    log = rollback.log if rollback is not None else ()
    return tuple(entry.step_id for entry in log if entry.is_open)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands that may come next, with the words that lead them to the same journal, pack and people."""

    journal: str
    pack: str = "PACK"
    actors: str = ""

    def show(self, session: str) -> str:
        """Look at a session."""
        return self._line("sessions", "show", session)

    def watch(self, session: str) -> str:
        """Follow a session."""
        return self._line("sessions", "watch", session)

    def resume(self, session: str) -> str:
        """Go on with a session."""
        return self._line("sessions", "resume", session, "--pack", self.pack)

    def settle(self, session: str, step: str) -> str:
        """Say that somebody has taken a step back by hand."""
        return self._said("sessions", "settle", session, step, "--note", "what you did")

    def show_gate(self, gate: str) -> str:
        """Look at a gate."""
        return self._line("gates", "show", gate)

    def check_journal(self) -> str:
        """Verify the whole journal."""
        return self._line("journal", "check")

    def lift(self, kind: str, name: str) -> str:
        """Lift an emergency stop."""
        return self._said("stop", "lift", *((kind,) if kind == "tenant" else (kind, name)))

    def paused(self) -> str:
        """Look for sessions that can be resumed."""
        return self._line("sessions", "list", "--status", "paused")

    def answers(self, gate: OpenGate, state: State) -> list[str]:
        """The answers that a gate may get."""
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
                # More of a budget helps where one was short, and nowhere else.
                more = _extension(str(gate.shown.get("reason", "")))
                ways = {**_OPTIONS, **({"extend": ("extend", *more)} if more else {})}
                options = [word for word in gate.shown.get("options", ()) if word in ways]
                # A step that failed may succeed as it stands; outputs would only be judged as they were.
                again = [self.resume(session_of(gate.id))] if gate.step and not more else []
                return [*(answer("decide", *ways[word]) for word in options), *again]
            case "compensation":
                return [answer("decide", word) for word in ("compensate", "keep")]
            case "output":
                yes_or_no = [answer(word) for word in ("approve", "deny")]
                return [*yes_or_no, answer("modify", "--note", "what shall be different")]

    def change(self, gate: OpenGate, state: State) -> str:
        """How a value of a gate's call is set, with places for the value and the reason; empty where none can be."""
        names = [*gate.shown.get("authority", ()), *gate.shown.get("params", {})]
        if SETTABLE not in gate.shown or not names:
            return ""
        return self._answer(gate, state, "modify", "--set", f"{names[0]}=VALUE", "--reason", "WHY")

    def _answer(self, gate: OpenGate, state: State, word: str, *words: str) -> str:
        """An answer as it is typed; where nothing says who holds the roles that are asked for, with a place for that."""
        line = ("gates", word, gate.id, *words)
        if state.start.dev:
            name = _stand_in(gate, state)
            return self._line(*line, "--dev", *(("--as", name) if name else ()))
        if state.start.people:
            return self._line(*line)
        is_asked = any(need.roles for need in gate.needs.values())
        unknown = ("--actors", "PACK") if is_asked and not self.actors else ()
        return self._said(*line, *unknown)

    def after(self, state: State, rollback: RollbackResult | None = None) -> list[str]:
        """What may be done about a session as it stands; nothing, if its journal is gone with this process."""
        if self.journal == "memory:":
            return []
        session = state.start.session
        if state.is_over:
            return [*(self.settle(session, step) for step in left_over(rollback)), self.show(session)]
        asked = [
            line
            for gate in state.gates.values()
            for line in (self.show_gate(gate.id), *self.answers(gate, state))
        ]
        return list(dict.fromkeys((*asked, self.resume(session))))

    def _said(self, *words: str) -> str:
        """A command that somebody is recorded with."""
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


def commands_for(url: str, speaker: Speaker, state: State) -> Commands:
    """What may be typed next by a person who has loaded no pack: the session knows where its own was."""
    recorded = str(state.start.folder)
    known = recorded if recorded and (Path(recorded) / "pack.toml").is_file() else ""
    return Commands(journal=url, pack=speaker.pack or known or "PACK", actors=speaker.path)


def _extension(reason: str) -> tuple[str, ...]:
    """What a run would have to be given more of, and how much, by the reason that it was handed over for; nothing where no
    budget was short."""
    for pattern in _SHORT:
        for found in pattern.finditer(reason):
            missing = _number(found["needed"]) - _number(found["left"])
            option, least = _EXTENSIONS[found["unit"]]
            if missing > 0:
                return option, str(max(least, missing))
    return ()


def _number(text: str) -> int:
    return int(text.replace(",", ""))


_SHORT = (
    re.compile(
        r"(?P<needed>\d[\d,]*) (?P<unit>ms of wall clock|tokens|micro-cents|tool calls)(?: of the executor)?"
        r"(?: are needed)?, (?P<left>-?\d[\d,]*) are left"
    ),
    re.compile(r"takes (?P<needed>\d[\d,]*) (?P<unit>ms), (?P<left>-?\d[\d,]*) ms are left"),
    re.compile(
        r"(?:wall clock|tokens|tool calls|cost): (?P<needed>\d[\d,]*) of (?P<left>\d[\d,]*) (?P<unit>ms|tokens|calls|micro-cents)"
    ),
)
"""How it is told that a budget does not last, or did not."""

_EXTENSIONS = {
    "ms of wall clock": ("--wall-clock-ms", 60_000),
    "ms": ("--wall-clock-ms", 60_000),
    "tokens": ("--tokens", 1_000),
    "micro-cents": ("--cost-microcents", 1_000_000),
    "tool calls": ("--tool-calls", 10),
    "calls": ("--tool-calls", 10),
}
"""How more of each dimension of a budget is typed, and how much more at least."""

_OPTIONS = {
    "replan": ("replan", "--note", "what to do otherwise"),
    "accept_partial": ("accept-partial",),
    "abandon": ("abandon",),
}
"""How each way to go on is typed after a run was handed over."""
