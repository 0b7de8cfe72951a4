"""The scenes of the demo on the screen, with pauses for reading."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from tercet.cli.demo.folder import APPROVER, Answer, Facts, Folder, Scene
from tercet.cli.screen import Screen
from tercet.view.terminal.text import count, listed, printable
from tercet.view.text import reasons_text
from tercet.view.vocabulary import status_word

Hint = tuple[str, str]
"""A description, and the command."""


def hints(folder: Folder, gate: Facts, status: str) -> tuple[Hint, ...]:
    """Return commands to try next, for a session that ended or waits."""
    journal = ("--journal", folder.journal_url)
    show = ("the whole run, from the journal", _line("sessions", "show", gate["session_id"], *journal))
    if status == "awaiting_gate":
        return (
            ("the gate as its approver sees it", _line("gates", "show", gate["gate"], *journal)),
            show,
            ("end the run without paying", _line("sessions", "cancel", gate["session_id"], *journal)),
        )
    resume = _line("sessions", "resume", gate["session_id"], "--pack", str(folder.pack), *journal)
    page = str(folder.root / "report.html")
    report = _line("report", gate["session_id"], *journal, "-o", page)
    return (
        show,
        ("the same as a page for a browser", report),
        ("resume it once more, and see that nothing is paid", resume),
        (
            "a plan that an attacker wrote",
            _line("verify", str(folder.pack), str(folder.plan("plan_hijacked"))),
        ),
    )


def _line(*words: str) -> str:
    return shlex.join([*_tercet(), *words])


def _tercet() -> tuple[str, ...]:
    """Return the command that starts this Tercet from the current folder."""
    script = Path(sys.executable).with_name("tercet")
    found = shutil.which("tercet")
    if found is not None and Path(found).resolve() == script.resolve():
        return ("tercet",)
    if not script.exists():
        return (sys.executable, "-m", "tercet")
    here = Path.cwd()  # a shell looks for a bare name in PATH only
    is_below = script.is_relative_to(here) and script.parent != here
    return (str(script.relative_to(here) if is_below else script),)


_PAUSE_S = 1.2
_LABEL = 10
_ANSWERS: dict[str, Answer] = {
    "": "approve",
    "y": "approve",
    "yes": "approve",
    "n": "deny",
    "no": "deny",
    "q": "quit",
    "quit": "quit",
}


class DemoScreen:
    """Shows the scenes on a screen."""

    def __init__(self, screen: Screen, *, is_paced: bool) -> None:
        self._screen = screen
        self._is_paced = is_paced

    def begin(self, folder: Folder) -> None:
        """Show the introduction, and where the files are."""
        self._screen.say(Text("A refund at Marigold Outfitters, an invented shop.", style="bold"))
        self._screen.say("Real processes and a real kill -9. The results are read back from two databases:")
        self._row("journal", str(folder.journal))
        self._row("payments", str(folder.payments))

    def show(self, scene: Scene) -> None:
        """Show one scene."""
        tellers: dict[str, Callable[[Facts], None]] = {
            "heading": self._heading,
            "aside": lambda facts: self._row("", Text(facts["text"], style="dim")),
            "refused": self._refused,
            "waiting": self._waiting,
            "own_attempt": self._own_attempt,
            "answered": self._answered,
            "crashed": self._crashed,
            "recovered": self._recovered,
            "recorded": self._recorded,
            "ended": self._ended,
        }
        tellers[scene.name](scene.facts)

    def end(self, hints: tuple[Hint, ...], folder: Folder) -> None:
        """Show the commands to try next."""
        self._screen.say()
        self._screen.say(Text.assemble(("Try next", "bold"), (f"  all files stay in {folder.root}", "dim")))
        for what, command in hints:
            self._screen.offer(f"  {what}:", command)

    def show_link(self, link: str) -> None:
        """Show the address of the console."""
        self._screen.say()
        self._screen.offer("  The console, with a link that logs you in once within 5 minutes:", link)

    def read_line(self, prompt: str) -> str | None:
        """Return the line that the user types, without space around it; None at the end of the input."""
        self._screen.print(self._screen.escape_undecodable(f"  {prompt}: "), end="", soft_wrap=True)
        line = sys.stdin.readline()
        if not line:
            self._screen.say()
            return None
        return line.strip().lower()

    def say(self, text: str) -> None:
        """Show a sentence."""
        self._screen.say(Text(f"  {text}", style="bold"))

    def ask(self, gate: Facts) -> Answer:
        """Ask the user for the approver's answer."""
        self.pose(gate)
        while (line := self.read_line("Enter approves · n denies · q quits")) is not None:
            if (answer := _ANSWERS.get(line)) is not None:
                return answer
        return "quit"

    def pose(self, gate: Facts) -> None:
        """Show the question that the approver is asked."""
        self._screen.say()
        part = f"{APPROVER.id} ({listed(APPROVER.roles)})"
        self.say(f"You are now {part}. May {_money(gate)} be paid?")

    # --- scenes ---

    def _heading(self, facts: Facts) -> None:
        self._rest()
        self._screen.say()
        number, text = f"{facts['number']}  ", printable(facts["text"])
        self._screen.say(Text.assemble((number, "bold cyan"), (text, "bold")))

    def _refused(self, facts: Facts) -> None:
        self._mark("✗", "red", f"refused by the critic: {facts['kind']}")
        self._row("why", facts["reason"])
        self._row("remedy", facts["remedy"])
        self._row(
            "journal",
            f"{count(facts['calls'], 'call')}; session {facts['session_id']} {status_word(facts['status'])}",
        )
        self._row(
            "payments",
            "there is a database" if facts["has_payment_database"] else "the file does not exist",
        )

    def _waiting(self, facts: Facts) -> None:
        self._mark("✓", "green", f"verified: {reasons_text([facts['verdict']])}")
        self._mark("?", "yellow", f"worker {facts['worker']} has stopped at {facts['gate_name']}")
        self._row("call", f"{facts['tool']}, {facts['mode']}, {facts['reversibility']}")
        self._row("money", Text(_money(facts), style="bold"))
        for row, value in enumerate(facts["values"]):
            authority = " (authority)" if value["carries_authority"] else ""
            same = (
                f", equals {value['same_in']} of the evidence"
                if value["same_in"] and "equals" not in value["source"]
                else ""
            )
            self._row("" if row else "values", f"{value['name']}{authority} from {value['source']}{same}")
        for fact in facts["evidence"]:
            self._row("evidence", f"{fact['id']} · {fact['source']}")
        self._row(
            "undo",
            f"{facts['undo']}, covered by the same approval" if facts["undo"] else "cannot be undone",
        )
        who = (
            f"{count(facts['quorum'], 'person')} with the role {listed(facts['roles'])}, not {facts['owner']}"
        )
        self._row("who", who)
        self._row("digest", f"{_short(facts['digest'])} is what an approval is bound to")
        self._row("payments", _refunds(facts["refunds"]))

    def _own_attempt(self, facts: Facts) -> None:
        self._mark("✗", "red", f"refused: {facts['reason']}")
        self._row("remedy", facts["remedy"])
        self._row("journal", f"the gate is open, with {count(facts['approvals'], 'approval')}")

    def _answered(self, facts: Facts) -> None:
        mark, style, word = (
            ("✓", "green", "approved") if facts["answer"] == "approve" else ("✗", "red", "denied")
        )
        by = f"{word} by {facts['actor']} ({listed(facts['roles'])}), for {_short(facts['digest'])}"
        self._mark(mark, style, by)

    def _crashed(self, facts: Facts) -> None:
        self._mark("✗", "red", f"worker {facts['worker']} is dead: signal {facts['signal']}")
        self._row(
            "payments", Text.assemble(f"{_refunds(facts['refunds'])}: ", ("the money has moved", "bold"))
        )
        known = Text.assemble(f"{_wal(facts['intents'], facts['completes'])}: ", ("it does not know", "bold"))
        self._row("journal", known)

    def _recovered(self, facts: Facts) -> None:
        self._mark(
            "✓",
            "green",
            f"worker {facts['worker']} made the same call under the same key: {status_word(facts['status'])}",
        )
        self._row("key", listed([_short(key) for key in facts["keys"]]))
        paid = Text.assemble(f"{_refunds(facts['refunds'])}: ", ("paid once", "bold green"))
        self._row("payments", paid)
        self._row("journal", _wal(len(facts["keys"]), facts["completes"]))

    def _recorded(self, facts: Facts) -> None:
        self._mark("✓", "green", facts["hash"])
        for row, (name, value) in enumerate(facts["outputs"].items()):
            self._row("" if row else "outputs", f"{name} = {value}")
        roles = listed(facts["approver_roles"])
        self._row("approved", f"by {facts['approver']} ({roles}), for {_short(facts['digest'])}")
        self._row("evidence", listed(facts["evidence"]))

    def _ended(self, facts: Facts) -> None:
        is_over = facts["status"] == "rejected"
        self._mark(
            "✗" if is_over else "·",
            "red" if is_over else "yellow",
            f"the session is {status_word(facts['status'])}: nothing was paid",
        )
        if facts["reason"]:
            self._row("why", facts["reason"])
        self._row("journal", f"{facts['calls_of_payment']} INTENT of the payment")
        self._row("payments", _refunds(facts["refunds"]))

    # --- lines ---

    def _mark(self, mark: str, style: str, text: str) -> None:
        self._screen.put(Text.assemble((f"{mark} ", f"bold {style}"), printable(text)), rest="  ")

    def _row(self, label: str, text: Text | str) -> None:
        shown = printable(text) if isinstance(text, str) else text
        self._screen.put(shown, first=f"  {label:<{_LABEL}}")

    def _rest(self) -> None:
        if self._is_paced:
            time.sleep(_PAUSE_S)


def _money(gate: Facts) -> str:
    values = {value["name"]: value["value"] for value in gate["values"]}
    return f"INR {values['amount_inr']:,} to {values['payment_id']}"


def _refunds(refunds: Sequence[Facts]) -> str:
    if not refunds:
        return "0 refunds"
    rows = "; ".join(f"INR {row['amount_inr']:,} to {row['payment_id']}, {row['status']}" for row in refunds)
    return f"{count(len(refunds), 'refund')}, {rows}"


def _wal(intents: int, completes: int) -> str:
    return f"{intents} INTENT, {completes} COMPLETE"


def _short(hashed: str) -> str:
    return f"{hashed[:19]}…"
