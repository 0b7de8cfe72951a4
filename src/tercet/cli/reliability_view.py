"""Confidence against what happened, on the screen: a bar for each bin, and a mark where it would end by its word."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tercet.cli.calibration import Calibration
from tercet.cli.screen import Screen
from tercet.cli.text import count, printable
from tercet.contracts.exit import FEATURES, Weights
from tercet.repair.calibration import Bin, Reliability
from tercet.repair.confidence import DEFAULT_WEIGHTS

BAR = 40
_HEAD = f"{'confidence':<12}{'outputs':>8}{'said':>7}{'right':>7}  "


def show_calibration(screen: Screen, found: Calibration) -> None:
    """Prints what was learned, and how good it is."""
    before, after = found.before, found.after
    for label, text in _facts(found):
        screen.put(text, first=f"{label:<12}")
    screen.say()
    _show_weights(screen, found.weights)
    screen.say()
    _show_bins(screen, after)
    screen.say()
    for name, each in (("before", before), ("fitted", after)):
        screen.put(f"Brier score {each.brier:.4f}, calibration error {each.ece:.4f}", first=f"{name:<10}")
    screen.put(_verdict(before, after), first=f"{'':<10}")
    screen.say()
    _show_end(screen, found)


def _facts(found: Calibration) -> Iterator[tuple[str, str]]:
    if found.task_class is not None:
        yield "task class", printable(found.task_class, 120)
        sample = found.in_force.sample if found.in_force else 0
        yield "went by", f"weights fitted to {count(sample, 'outcome')}" if sample else "the usual weights"
    yield "outcomes", f"{count(found.after.count, 'output')}, {found.after.base_rate:.1%} of them right"


def _show_end(screen: Screen, found: Calibration) -> None:
    if not found.applied:
        screen.say(Text("Nothing was run, and no pack was changed.", style="dim"))
        return
    done = f"the fitted weights are in force for {printable(found.task_class or '', 120)}, as {found.applied}"
    screen.say(Text.assemble(("✓ ", "bold green"), done))
    screen.say(
        Text("  Runs that judge their outputs from now on go by them; no pack was changed.", style="dim")
    )


def _show_weights(screen: Screen, weights: Weights) -> None:
    rows = [("bias", weights.bias, DEFAULT_WEIGHTS.bias)]
    rows += [(name, weights.weights.get(name, 0.0), DEFAULT_WEIGHTS.weights[name]) for name in FEATURES]
    screen.say(Text(f"{'weight':<14}{'fitted':>8}{'before':>8}", style="bold"))
    for name, now, then in rows:
        screen.say(f"{name:<14}{now:>8.3f}{then:>8.3f}")


def _show_bins(screen: Screen, found: Reliability) -> None:
    width = max(10, min(BAR, screen.width - len(_HEAD) - 1))
    screen.say(Text(f"{_HEAD}■ right  │ said", style="bold"))
    for each in found.bins:
        screen.print(screen.legible(_row(each, width)), soft_wrap=True)


def _row(each: Bin, width: int) -> Text:
    bounds = f"{each.low:.1f} to {each.high:.1f}"
    facts = f"{bounds:<12}{each.count:>8,}{each.confidence:>7.2f}{each.accuracy:>7.2f}  "
    row = Text.assemble(facts, _bar(each, width))
    row.rstrip()
    return row


def _bar(each: Bin, width: int) -> Text:
    filled, said = round(each.accuracy * width), min(round(each.confidence * width), width - 1)
    cells = ["■" if at < filled else " " for at in range(width)]
    cells[said] = "│"
    bar = Text("".join(cells), style="cyan")
    bar.stylize("bold yellow", said, said + 1)
    return bar


def _verdict(before: Reliability, after: Reliability) -> Text:
    if after.brier < before.brier:
        return Text.assemble(
            ("✓ ", "green"), "the fitted weights do better on outcomes that they have not seen"
        )
    return Text.assemble(("✗ ", "red"), "the fitted weights do no better: record more before you use them")
