"""Where a session stands, in one word; what that means for the shell; and which command comes next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from tercet.cli.exit_code import ExitCode
from tercet.cli.journals import journal_words
from tercet.runtime.state import OpenGate, State

Standing: TypeAlias = Literal[
    "completed", "refused", "failed", "waiting", "paused", "escalated", "in progress"
]

EXIT_CODES: dict[Standing, ExitCode] = {
    "completed": ExitCode.ACCEPTED,
    "refused": ExitCode.REFUSED,
    "failed": ExitCode.FAILED,
    "waiting": ExitCode.WAITING,
    "paused": ExitCode.WAITING,
    "escalated": ExitCode.FAILED,
    "in progress": ExitCode.WAITING,
}


def standing(state: State) -> Standing:
    """Where a session stands. Refused means that the critic let no plan through."""
    match state.status:
        case "completed":
            return "completed"
        case "failed":
            return "refused" if state.verdict.get("outcome", "ok") != "ok" else "failed"
        case "awaiting_gate":
            return "waiting"
        case "paused":
            return "escalated" if state.reason.startswith("escalated: ") else "paused"
        case "in_progress":
            return "in progress"
        case _:
            assert_never(state.status)


@dataclass(frozen=True, kw_only=True)
class Commands:
    """The commands that may come next, with the words that lead them to the same journal and pack."""

    journal: str
    pack: str = "PACK"

    def show(self, session: str) -> str:
        """Look at a session."""
        return self._line("sessions", "show", session)

    def watch(self, session: str) -> str:
        """Follow a session."""
        return self._line("sessions", "watch", session)

    def resume(self, session: str) -> str:
        """Go on with a session."""
        return self._line("sessions", "resume", session, "--pack", self.pack)

    def answers(self, gate: OpenGate) -> list[str]:
        """The answers that a gate may get."""
        if gate.kind == "approval":
            return [self._line("gates", word, gate.id) for word in ("approve", "deny")]
        return [self._line("gates", "settle", gate.id, word) for word in ("--happened", "--did-not-happen")]

    def after(self, state: State) -> list[str]:
        """What may be done about a session as it stands; nothing, if its journal is gone with this process."""
        if self.journal == "memory:":
            return []
        session = state.start["session"]
        if state.is_over:
            return [self.show(session)]
        answers = [line for gate in state.gates.values() for line in self.answers(gate)]
        return [*answers, self.resume(session)]

    def _line(self, *words: str) -> str:
        return shlex.join(["tercet", *words, *journal_words(self.journal)])
