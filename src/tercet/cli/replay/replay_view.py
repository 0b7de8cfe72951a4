"""The results of replay and what-if on the screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.contracts.behaviour import CURRENT
from tercet.replay.what_if import JudgedAs, Rejudged, VerdictChange, WhatIfReport
from tercet.view.replay import Count, Difference, ReplayReport
from tercet.view.terminal.text import count, json_text, printable

MOST = 50
"""If there are more runs, only those that differ are shown."""


@dataclass
class Tally:
    """The results of replays, counted; those that will be shown are kept."""

    is_whole: bool
    """Whether all runs will be shown, not only those that differ."""
    runs: int = 0
    different: int = 0
    rederived: int = 0
    facts: int = 0
    kept: list[ReplayReport] = field(default_factory=list[ReplayReport])

    def take(self, report: ReplayReport) -> None:
        """Count a run, and keep it if it will be shown."""
        self.runs += 1
        self.different += not report.is_equal
        self.rederived += report.verdicts_rederived
        self.facts += report.verdicts_as_facts
        if self.is_whole or not report.is_equal:
            self.kept.append(report)


def show_replayed(screen: Screen, tally: Tally) -> None:
    """Show the result of each run, and the totals if there are several."""
    for report in tally.kept:
        _show_report(screen, report, is_alone=tally.runs == 1)
    if tally.runs != 1:
        screen.say(
            f"{count(tally.runs, 'run')}: {tally.runs - tally.different:,} equal, {tally.different:,} different; "
            f"{count(tally.rederived, 'verdict')} re-derived, {tally.facts:,} taken as facts"
        )


def _show_report(screen: Screen, report: ReplayReport, *, is_alone: bool) -> None:
    text = (
        f"{report.outcome}  {printable(report.session_id, 80)}  {printable(report.pack, 80)}, {report.status}"
    )
    screen.conclude(text, is_good=report.is_equal)
    if report.difference is not None:
        show_difference(screen, report.difference)
    if is_alone:
        events = f"{count(report.events, 'event')}, {count(report.checkpoints, 'checkpoint')}"
        screen.put(f"{events}, all as recorded", first="  · ")
        screen.put(_verdicts(report), first="  · ")
        if set(CURRENT) - set(report.behaviour):
            rules = ", ".join(map(str, sorted(report.behaviour))) or "none"
            screen.put(f"judged by the numbered rules that it was recorded under: {rules}", first="  · ")
        for fact in report.facts:
            screen.put(_fact(fact), first="    fact  ")


def _verdicts(report: ReplayReport) -> str:
    rederived = count(report.verdicts_rederived, "verdict")
    return f"{rederived} re-derived, {report.verdicts_as_facts:,} taken as facts"


def _fact(fact: Count) -> str:
    return f"{fact.count:,} {fact.event}: {fact.reason}"


def show_difference(screen: Screen, found: Difference) -> None:
    """Show the first difference between a run and its replay."""
    where = f"event {found.position}, {printable(found.event, 60)}"
    step = f", step {printable(found.step, 80)}" if found.step else ""
    screen.put(f"{where}{step}, field {printable(found.field, 200)}", first="  · ")
    screen.put(_value(found.recorded), first="    recorded  ")
    screen.put(_value(found.expected), first="    expected  ")
    screen.put(printable(found.check), first="  → ")


def _value(value: Any) -> str:
    return printable(value if isinstance(value, str) else json_text(value, indent=None), 400)


# --- what if ---


def show_what_if(screen: Screen, report: WhatIfReport) -> None:
    """Show each changed verdict with its reasons, and how many there are."""
    for run in report.runs:
        if run.outcome != "unchanged":
            _show_rejudged(screen, run)
    text = f"{count(len(report.runs), 'run')} under {printable(report.pack, 80)}: {report.changed:,} changed, {report.unchanged:,} unchanged"
    unreadable = f", {report.unreadable:,} unreadable" if report.unreadable else ""
    screen.conclude(f"{text}{unreadable}", is_good=report.is_unchanged)


def _show_rejudged(screen: Screen, run: Rejudged) -> None:
    screen.say(
        Text.assemble(
            (f"{printable(run.session_id, 80)}", "bold"),
            f"  {printable(run.intent, 60)}  {run.old_status} → {run.new_status}",
        )
    )
    if run.change is not None:
        show_change(screen, run.change)
    if run.error is not None:
        screen.put(printable(run.error), first="  · ")


def show_change(screen: Screen, change: VerdictChange) -> None:
    """Show a verdict that would change, and why."""
    step = f" {printable(change.step, 80)}" if change.step else ""
    where = f"event {change.position}, {change.event}{step}"
    screen.put(f"{where}: {_verdict_text(change.old)} → {_verdict_text(change.new)}", first="  · ")
    for reason in change.new.reasons[:3]:
        screen.put(printable(reason), first="    ")


def _verdict_text(said: JudgedAs) -> str:
    """Return a verdict in short, with its code or the gates that it demands."""
    gates = [f"{name or 'anyone'} ×{quorum}" for name, (_, quorum) in said.details.get("needs", {}).items()]
    more = said.details.get("code") or ", ".join(gates)
    return printable(f"{said.verdict} ({more})" if more else said.verdict, 200)
