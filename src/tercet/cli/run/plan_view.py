"""A proposed plan as a table in an order in which it could run, and as a graph in the DOT language."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from rich.text import Text

from tercet.cli.run.case_view import show_frame, show_refusals, show_verdict
from tercet.cli.run.proposal import LARGEST, ModelCost, Proposal
from tercet.cli.screen import Screen
from tercet.cli.sessions.revision_view import slack_text, time_text, untimed_text
from tercet.planner.flexibility import Flexibility
from tercet.planner.partial_order import Link, Ordering, Threat
from tercet.view.terminal.text import count, duration_text, listed, printable
from tercet.view.text import amount_text

MOST = 30
"""Plans with more steps are shortened."""
HEAD = ("", "#", "step", "calls", "waits for", "takes", "slack")


def show_proposal(screen: Screen, proposal: Proposal) -> None:
    """Print a proposed plan, its schedule, and the verdict."""
    show_frame(screen, proposal.case, f"by {proposal.planner}")
    screen.say()
    _show_table(screen, proposal)
    screen.say()
    for label, text in _rows(proposal).items():
        if text:
            screen.put(text, first=f"{label:<10}")
    screen.say()
    show_refusals(screen, proposal.case.verdict)
    show_verdict(screen, proposal.case)


def _show_table(screen: Screen, proposal: Proposal) -> None:
    steps = proposal.plan.steps
    graph = proposal.plan.graph
    order = graph.order if graph.is_acyclic else range(len(steps))
    critical = set(proposal.schedule.critical_path)
    rows = [tuple(_cells(proposal, index, is_critical=steps[index].id in critical)) for index in order[:MOST]]
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    for number, row in enumerate([HEAD, *rows]):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        style = "dim" if not number else "bold" if row[0] else ""
        screen.print(screen.escape_undecodable(Text(line, style=style)), soft_wrap=True)
    if len(steps) > MOST:
        more = f"… {count(len(steps) - MOST, 'more step')}; --json lists them"
        screen.put(Text(more, style="dim"))


def _cells(proposal: Proposal, index: int, *, is_critical: bool) -> Iterator[str]:
    """Return the cells of a step's row."""
    step = proposal.plan.steps[index]
    window = proposal.schedule.windows.get(step.id)
    yield "▸" if is_critical else ""
    yield str(index)
    yield printable(step.id, 64)
    yield printable(step.tool or step.kind, 40)
    yield listed(
        [proposal.plan.steps[before].id for before in proposal.plan.graph.predecessors[index]], most=3
    )
    yield "" if window is None or window.source == "unknown" else duration_text(window.duration_ms)
    yield "" if window is None or not window.slack_ms else duration_text(window.slack_ms)


def _rows(proposal: Proposal) -> dict[str, str]:
    """Return the rows below the table by label; empty where there is nothing to show."""
    timed = proposal.schedule
    return {
        "asked": _cost_text(proposal.cost) if proposal.cost else "",
        "time": f"at least {time_text(timed)}" if timed.sequential_ms else "",
        "slack": slack_text(timed),
        "": untimed_text(timed),
        "orders": orders_text(proposal.flexibility),
        "links": "\n".join(map(_link_text, proposal.links[:6])) + _more(len(proposal.links)),
        "added": "\n".join(map(_ordering_text, proposal.added[:6])) + _more(len(proposal.added)),
        "threats": "\n".join(map(_threat_text, proposal.threats[:6])) + _more(len(proposal.threats)),
    }


def _cost_text(cost: ModelCost) -> str:
    """Return the cost of asking language models."""
    calls = count(cost.calls, "call")
    names = printable(", ".join(cost.models), 200)
    return f"{names}: {calls}, {cost.tokens:,} tokens, {amount_text('cost_microcents', cost.cost_microcents)}"


def _more(number: int) -> str:
    return f"\n… {number - 6} more" if number > 6 else ""


def _link_text(link: Link) -> str:
    source = "the start" if link.producer is None else printable(link.producer, 64)
    return f"{source} → {printable(link.condition, 64)} → {printable(link.consumer, 64)}"


def _ordering_text(added: Ordering) -> str:
    return f"{printable(added.before, 64)} before {printable(added.after, 64)}: {printable(added.why, 120)}"


def _threat_text(threat: Threat) -> str:
    return f"{printable(threat.step, 64)} could come in between: {_link_text(threat.link)}"


def orders_text(found: Flexibility) -> str:
    """Return the number of orders in which the steps could run one by one."""
    if not found.high:
        return "none: steps wait for each other"
    if found.is_exact:
        return "one" if found.low == 1 else _size(found.low)
    return f"between {_size(found.low)} and {_size(found.high)}"


def _size(number: int) -> str:
    return f"{number:,}" if number <= LARGEST else f"10^{math.floor(math.log10(number)):,}"


def dot(proposal: Proposal) -> str:
    """Return the plan as a DOT graph: arrows point to the waiting steps, the critical path is bold, causal links are dashed."""
    plan, path = proposal.plan, proposal.schedule.critical_path
    critical = {*path, *pairwise(path)}
    lines = ["digraph plan {", "  rankdir=LR;", "  node [shape=box];"]
    for step in plan.steps:
        bold = ", style=bold" if step.id in critical else ""
        lines.append(f'  "{step.id}" [label="{step.id}\\n{step.tool or step.kind}"{bold}];')
    for index, before in enumerate(plan.graph.predecessors):
        for earlier in before:
            pair = (plan.steps[earlier].id, plan.steps[index].id)
            bold = " [style=bold]" if pair in critical else ""
            lines.append(f'  "{pair[0]}" -> "{pair[1]}"{bold};')
    for link in proposal.links:
        if link.producer is not None:
            label = printable(link.condition, 64).replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'  "{link.producer}" -> "{link.consumer}" [style=dashed, label="{label}"];')
    return "\n".join([*lines, "}"])
