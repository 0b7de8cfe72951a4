"""Confidence against what happened, on the screen: a bar for each bin, and a mark where it would end by its word."""

from __future__ import annotations

from rich.text import Text

from tercet.cli.screen import Screen
from tercet.cli.text import count
from tercet.contracts.exit import FEATURES, Weights
from tercet.repair.calibration import Bin, Reliability
from tercet.repair.confidence import DEFAULT_WEIGHTS

BAR = 40
_HEAD = f"{'confidence':<12}{'outputs':>8}{'said':>7}{'right':>7}  "


def show_calibration(screen: Screen, weights: Weights, before: Reliability, after: Reliability) -> None:
    """Prints what was learned, and how good it is."""
    screen.say(
        Text.assemble(
            ("outcomes  ", "bold"), f"{count(after.count, 'output')}, {after.base_rate:.1%} of them right"
        )
    )
    screen.say()
    _show_weights(screen, weights)
    screen.say()
    _show_bins(screen, after)
    screen.say()
    for name, found in (("before", before), ("fitted", after)):
        screen.put(f"Brier score {found.brier:.4f}, calibration error {found.ece:.4f}", first=f"{name:<10}")
    screen.put(_verdict(before, after), first=f"{'':<10}")
    screen.say()
    screen.say(Text("Nothing was run, and no pack was changed.", style="dim"))


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
