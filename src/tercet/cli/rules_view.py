"""Which rules applied to a plan and which did not, on the screen and as JSON, with warnings about its order."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from tercet.cli.run.review import Case
from tercet.cli.screen import Screen
from tercet.cli.text import count, printable
from tercet.critic.rule_report import RuleAtStep, RuleReport, RuleUse, report_rules

MOST = 30
"""How many rules are shown; JSON has them all."""

_PHRASES = {
    "holds": "holds for {}",
    "refuses": "refuses {}",
    "waits": "{} waits",
    "grants": "approves {}",
    "later": "decided when {} runs",
    "applies": "checked for {}",
}


def report_on(case: Case) -> RuleReport:
    """Return which rules apply to a reviewed plan."""
    return report_rules(case.context, case.compiled, case.spec, case.reviewed)


def rules_json(report: RuleReport) -> dict[str, Any]:
    """Return the rules and the warnings as JSON."""
    return {
        "rules": [use.model_dump(mode="json") for use in report.rules],
        "warnings": [
            {"code": "irreversible_before_gate", "step": e.step, "message": e.message, "remedy": e.remedy}
            for e in report.early_effects
        ],
    }


def show_rules(screen: Screen, report: RuleReport) -> None:
    """Print each rule with the steps that it applied to, or why it applied to none; rules that applied come first."""
    if not report.rules:
        return
    screen.say()
    screen.say(Text("rules", style="dim"))
    for use in sorted(report.rules, key=lambda use: not use.applied)[:MOST]:
        line = Text.assemble(_mark(use), f"{use.kind} {printable(use.name, 80)}: {_summary(use)}")
        screen.put(line, first="  ", rest="      ")
    if len(report.rules) > MOST:
        more = f"… {count(len(report.rules) - MOST, 'more rule')}; --json lists them"
        screen.put(Text(more, style="dim"), first="  ")


def show_warnings(screen: Screen, report: RuleReport) -> None:
    """Print what may go wrong although the plan may run."""
    for early in report.early_effects:
        screen.put(Text(f"! {printable(early.message)}", style="yellow"), rest="  ")
        screen.put(Text(f"→ {printable(early.remedy)}", style="dim"), first="  ", rest="    ")


def _mark(use: RuleUse) -> tuple[str, str]:
    if any(each.outcome == "refuses" for each in use.applied):
        return "✗ ", "bold red"
    return ("✓ ", "green") if use.applied else ("· ", "dim")


def _summary(use: RuleUse) -> str:
    if not use.applied:
        return f"did not apply: {printable(use.not_applied)}"
    shown = "; ".join(map(_at_step, use.applied[:3]))
    more = len(use.applied) - 3
    return f"{shown}; and {count(more, 'more step')}" if more > 0 else shown


def _at_step(each: RuleAtStep) -> str:
    who = printable(each.step, 64) if each.step else "the plan"
    detail = f" ({printable(each.detail, 120)})" if each.detail and each.outcome != "holds" else ""
    return f"{_PHRASES[each.outcome].format(who)}{detail}"
