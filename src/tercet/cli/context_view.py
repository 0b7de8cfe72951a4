"""A compiled context on the screen: what it is for, what is in it and what is not, and how full it is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import count, listed, printable
from tercet.contracts.buckets import BucketUse, TruncationEntry
from tercet.contracts.context import CompiledContext, LedgerEntry, LedgerKind, RunContext
from tercet.contracts.decision import DecisionSpec

MOST = 20
"""How many things of one kind are shown."""
BAR = 20
_TITLES: dict[LedgerKind, str] = {
    "decision": "decisions",
    "tool": "tools",
    "evidence": "evidence",
    "policy": "policies",
    "gate": "gates",
}
_Mark = tuple[str, str]


def show_context(
    screen: Screen,
    frame: RunContext,
    decision: DecisionSpec,
    compiled: CompiledContext,
    uses: Sequence[BucketUse],
    *,
    is_recorded: bool,
) -> None:
    """Prints a context; `is_recorded` says that a session has recorded this very one."""
    _show_frame(screen, frame, decision, compiled, is_recorded=is_recorded)
    for kind, title in _TITLES.items():
        found = [entry for entry in compiled.ledger if entry.kind == kind]
        if found:
            screen.say()
            _show_entries(screen, title, found, compiled)
    screen.say()
    _show_uses(screen, uses)
    for entry in compiled.truncation:
        _show_truncation(screen, entry)
    screen.say()
    screen.say(Text("Nothing was run.", style="dim"))


def _show_frame(
    screen: Screen, frame: RunContext, decision: DecisionSpec, compiled: CompiledContext, *, is_recorded: bool
) -> None:
    snapshot = f", snapshot {printable(compiled.snapshot, 80)}" if compiled.snapshot else ", no evidence"
    roles = f", {listed(frame.actor.roles)}" if frame.actor.roles else ", no role"
    rows = {
        "pack": f"{printable(compiled.pack, 120)}{snapshot}",
        "decision": f"{printable(decision.id, 120)}, risk {decision.risk_tier}, safety mode {frame.safety_mode}",
        "for": f"{printable(frame.actor.id, 80)}{roles}, tenant {printable(frame.tenant, 80)}",
        "context": f"{compiled.hash}{' as the session has recorded it' if is_recorded else ''}",
    }
    for label, text in rows.items():
        screen.put(text, first=f"{label:<9}")  # leaves 71 of 80 columns: a hash stays on one line


def _show_entries(
    screen: Screen, title: str, entries: Sequence[LedgerEntry], compiled: CompiledContext
) -> None:
    admitted = sum(entry.admitted for entry in entries)
    screen.say(Text.assemble((title, "bold"), f" {admitted:,} of {len(entries):,}"))
    shown = [(entry, printable(entry.name, 120), printable(entry.reason)) for entry in entries[:MOST]]
    width = max(len(name) for _, name, _ in shown)
    is_narrow = any(width + len(reason) + 6 > screen.width for _, _, reason in shown)
    for entry, name, reason in shown:
        if is_narrow:
            screen.put(Text.assemble(_mark(entry, compiled), name), first="  ", rest="    ")
            screen.put(Text(reason, style="dim"), first="    ")
        else:
            line = Text.assemble(_mark(entry, compiled), f"{name:<{width}}  ", (reason, "dim"))
            screen.put(line, first="  ", rest="    ")
    if len(entries) > MOST:
        screen.put(
            Text(f"… {count(len(entries) - MOST, 'more')}; --json lists them", style="dim"), first="  "
        )


def _mark(entry: LedgerEntry, compiled: CompiledContext) -> _Mark:
    """Admitted, not admitted, or a tool that is known to the critic and offered to no planner."""
    if not entry.admitted:
        return "✗ ", "red"
    if entry.kind == "tool" and entry.name not in compiled.offered:
        return "○ ", "yellow"
    return "✓ ", "green"


def _show_uses(screen: Screen, uses: Sequence[BucketUse]) -> None:
    screen.say(Text.assemble(("tokens", "bold"), " about four bytes each"))
    width = max(len(f"{use.used:,}") for use in uses)
    for use in uses:
        limit = "no limit" if use.limit is None else f"of {use.limit:,}"
        line = Text.assemble(f"{use.bucket:<14}", (_bar(use), "cyan"), f"  {use.used:>{width},} {limit}")
        screen.put(line, first="  ")


def _bar(use: BucketUse) -> str:
    if use.limit is None:
        return " " * BAR
    full = min(BAR, -(-use.used * BAR // use.limit))
    return "■" * full + "·" * (BAR - full)


def _show_truncation(screen: Screen, entry: TruncationEntry) -> None:
    more = entry.left_out_count - len(entry.left_out)
    names = f"{listed(entry.left_out, 6)}{f' and {more:,} more' if more else ''}"
    told = f"{entry.bucket}: {entry.left_out_count:,} of {entry.left_out_count + entry.admitted:,} left out, all would need {entry.needed:,}: {names}"
    screen.put(Text.assemble(("✗ ", "red"), told), first="  ", rest="    ")
