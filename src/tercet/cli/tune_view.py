"""Proposals, on the screen."""

from __future__ import annotations

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import count, printable
from tercet.replay.tuning.expectation import Expectation
from tercet.replay.tuning.proposal import Proposal
from tercet.replay.tuning.scoring import Interval, Score
from tercet.replay.tuning.search import Found

MOST = 5
"""How many runs are shown."""
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_ROWS = {
    "pass rate": ("pass_rate", 1.0, ".1%"),
    "utility": ("utility", 1.0, ".3f"),
    "escalations": ("escalations", 1.0, ".1%"),
    "loop-guard trips": ("trips", 1.0, ".3f"),
    "cost, cents": ("cost_microcents", 1e-6, ",.6g"),
    "open, seconds": ("held_ms", 1e-3, ",.1f"),
    "risky calls": ("risky_calls", 1.0, ".2f"),
}


def show_nothing(screen: Screen, found: Found) -> None:
    """Say that the pack stays as it is."""
    tried = f"{count(found.tried, 'candidate')} tried of {found.space:,}, {found.refused:,} of them refused"
    screen.say(Text.assemble(("✗ ", "bold red"), "nothing better was found that keeps every rule"))
    screen.put(tried, first="  · ")


def show_proposal(screen: Screen, proposal: Proposal, where: str, pack: str = "PACK") -> None:
    """Show what is proposed, what it rests on, and how to accept it."""
    headline = f"{proposal.id} for {proposal.pack} → {proposal.new_version}"
    screen.say(Text.assemble(("✓ ", "bold green"), printable(headline, 200)))
    for change in proposal.changes:
        told = f"{change.id}: {change.old} → {change.new}"
        screen.put(printable(f"{told}  ({change.surface})"), first="  · ")
    screen.say()
    _show_diff(screen, proposal.diff)
    _show_scores(screen, proposal)
    _show_basis(screen, proposal)
    _show_guardrails(screen, proposal)
    _show_runs(screen, proposal)
    screen.say()
    screen.say(Text("A person applies it, or nobody does:", style="dim"))
    screen.show_command(f"tercet tune accept {where} --pack {pack}")


def _show_diff(screen: Screen, diff: str) -> None:
    for line in diff.splitlines():
        colour = "bold" if line.startswith(("---", "+++")) else _COLOURS.get(line[:1], "")
        screen.print(screen.legible(Text(f"    {printable(line, 400)}", style=colour)), soft_wrap=True)
    screen.say()


def _show_scores(screen: Screen, proposal: Proposal) -> None:
    screen.say(Text(f"  {'':18}{'now':>24}  {'proposed':>24}", style="dim"))
    for name, (field, factor, form) in _ROWS.items():
        cells = [_cell(_interval(side, field), factor, form) for side in (proposal.before, proposal.after)]
        style = "bold" if cells[0] != cells[1] else ""
        screen.say(Text(f"  {name:18}{cells[0]:>24}  {cells[1]:>24}", style=style))
    gain = _cell(proposal.gain, 1.0, "+.4f")
    sure = "" if proposal.is_sure else ", which may be chance"
    screen.say(f"  better by {gain}{sure}; in brackets, 95 of 100 sets of such runs")


def _interval(score: Score, field: str) -> Interval:
    return Interval.model_validate(getattr(score, field))


def _cell(interval: Interval, factor: float, form: str) -> str:
    value, low, high = (format(each * factor, form) for each in (interval.value, interval.low, interval.high))
    return value if low == high else f"{value} [{low}, {high}]"


def _show_basis(screen: Screen, proposal: Proposal) -> None:
    basis = proposal.basis
    told = f"it rests on {basis.told:,} of {count(basis.given, 'run')}, {count(proposal.after.cases, 'case')}"
    corrected = f"; people have corrected {basis.corrected:,} of them" if basis.corrected else ""
    screen.put(f"{told}{corrected}", first="  · ")
    for why, number in basis.untold.items():
        screen.put(printable(f"{number:,} not told: {why}"), first="    ")
    tried = f"{count(proposal.tried, 'candidate')} tried, {proposal.refused:,} refused, seed {proposal.seed}"
    screen.put(tried, first="  · ")


def _show_guardrails(screen: Screen, proposal: Proposal) -> None:
    kept = [each.name for each in proposal.guardrails if each.passed]
    screen.put(f"keeps {', '.join(kept)}", first="  · ")


def _show_runs(screen: Screen, proposal: Proposal) -> None:
    for each in proposal.expectations[:MOST]:
        _show_run(screen, each)
    more = proposal.changed_runs - min(MOST, len(proposal.expectations))
    if more > 0:
        screen.put(f"and {count(more, 'run')} more: --json shows them", first="  · ")


def _show_run(screen: Screen, run: Expectation) -> None:
    cost = f", {run.old_cost_microcents:,} → {run.new_cost_microcents:,} micro-cents"
    is_cheaper = run.old_cost_microcents != run.new_cost_microcents
    told = f"{run.session_id}: {run.old_status} → {run.new_status}{cost if is_cheaper else ''}"
    screen.put(printable(told), first="  · ")
    if run.why:
        screen.put(printable(run.why), first="    ")
