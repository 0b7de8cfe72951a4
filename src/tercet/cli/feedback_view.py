"""Corrections and insights, on the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import count, json_text, listed, printable
from tercet.engine.streams.feedback import Feedback
from tercet.replay.insights import Insight


def show_feedback(screen: Screen, found: Sequence[Feedback]) -> None:
    """Show each correction with who said it."""
    for each in found:
        entry = each.entry
        who = f"  {printable(entry.author, 60)}, {entry.given_at:%Y-%m-%d %H:%M} UTC"
        screen.say(Text.assemble((printable(each.id, 80), "bold"), who))
        screen.put(printable(entry.correction), first="  · ")
        if entry.expected:
            screen.put(printable(json_text(entry.expected, indent=None)), first="    expected  ")
    if not found:
        screen.say("Nobody has said anything yet: tercet feedback add RUN --note TEXT")


def show_insights(screen: Screen, found: Sequence[Insight]) -> None:
    """Show what corrections come to, the most frequent first."""
    for each in found:
        screen.say(Text.assemble((f"{each.count:,} × ", "bold"), printable(_headline(each), 200)))
        for said in each.examples:
            screen.put(printable(said), first="  · ")
        screen.put(listed(each.sessions), first="    in  ")
    total = sum(each.count for each in found)
    screen.say(f"{count(total, 'correction')}, {count(len(found), 'insight')}")


def _headline(insight: Insight) -> str:
    """What it is about: the decision, and the place that is blamed."""
    if insight.kind:
        refusal = f"refused as {insight.code or insight.kind}"
    elif insight.outputs:
        refusal = f"wrong {listed(insight.outputs)}"
    else:
        refusal = "in general"
    at = f" at {insight.step} ({insight.tool})" if insight.step and insight.tool else ""
    return f"{insight.decision}: {refusal}{at}"
