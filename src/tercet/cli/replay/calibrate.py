"""`tercet calibrate`: fitting the weights of confidence to recorded outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import TENANT, use_journal
from tercet.cli.options import AsJson, argument, flag, option
from tercet.cli.replay.records import (
    OUTCOMES,
    MaybeJournal,
    find_journal,
    load_lessons,
    read_rows,
    task_classes,
)
from tercet.cli.screen import Screen, respond
from tercet.cli.sessions.people import ActorsPath, local_user_from
from tercet.contracts.errors import UsageError
from tercet.contracts.outputs.exit import FEATURES, Weights
from tercet.engine.streams.experience import Experience, activate_weights
from tercet.executor.clock import SystemClock
from tercet.quality.exit import DEFAULT_WEIGHTS, Bin, Reliability, cross_rate, fit, rate
from tercet.view.terminal.text import count, printable


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Fitted weights, and their reliability."""

    weights: Weights
    before: Reliability
    """With the default weights."""
    after: Reliability
    """With fitted weights, each on outcomes that it was not fitted to."""
    task_class: str | None = None
    in_force: Weights | None = None
    """The weights in force for the task class until now, if they are not the default ones."""
    applied: str = ""
    """The id under which the fitted weights were applied; empty if they were not."""

    def as_json(self) -> dict[str, Any]:
        """Return the whole result as one JSON object."""
        return {
            "task_class": self.task_class,
            "weights": self.weights.model_dump(mode="json"),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "in_force": self.in_force.model_dump(mode="json") if self.in_force else None,
            "applied": self.applied or None,
        }


_HEAD = f"{'confidence':<12}{'outputs':>8}{'said':>7}{'right':>7}"


def show_calibration(screen: Screen, found: Calibration) -> None:
    """Print the fitted weights and their reliability."""
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
        yield "used", f"weights fitted to {count(sample, 'outcome')}" if sample else "the default weights"
    yield "outcomes", f"{count(found.after.count, 'output')}, {found.after.base_rate:.1%} of them right"


def _show_end(screen: Screen, found: Calibration) -> None:
    if not found.applied:
        screen.say(Text("Nothing was run, and no pack was changed.", style="dim"))
        return
    done = f"the fitted weights now apply to {printable(found.task_class or '', 120)}, as {found.applied}"
    screen.say(Text.assemble(("✓ ", "bold green"), done))
    screen.say(
        Text("  Runs that judge their outputs from now on use them; no pack was changed.", style="dim")
    )


def _show_weights(screen: Screen, weights: Weights) -> None:
    rows = [("bias", weights.bias, DEFAULT_WEIGHTS.bias)]
    rows += [(name, weights.weights.get(name, 0.0), DEFAULT_WEIGHTS.weights[name]) for name in FEATURES]
    screen.say(Text(f"{'weight':<14}{'fitted':>8}{'before':>8}", style="bold"))
    for name, now, then in rows:
        screen.say(f"{name:<14}{now:>8.3f}{then:>8.3f}")


def _show_bins(screen: Screen, found: Reliability) -> None:
    screen.say(Text(_HEAD, style="bold"))
    for each in found.bins:
        screen.say(_row(each))


def _row(each: Bin) -> str:
    bounds = f"{each.low:.1f} to {each.high:.1f}"
    return f"{bounds:<12}{each.count:>8,}{each.confidence:>7.2f}{each.accuracy:>7.2f}"


def _verdict(before: Reliability, after: Reliability) -> Text:
    if after.brier < before.brier:
        return Text.assemble(
            ("✓ ", "green"), "the fitted weights do better on outcomes that they have not seen"
        )
    return Text.assemble(
        ("✗ ", "red"), "the fitted weights do no better: record more outcomes before you use them"
    )


# --- calibrate ---


CALIBRATE_EXAMPLES = """\
tercet calibrate examples/letters
tercet calibrate --task-class letter --journal sqlite:///tercet.db --apply
tercet calibrate --outcomes outcomes.jsonl --json
"""


def calibrate(
    pack: Annotated[
        Path | None,
        argument("PACK", "The folder of a pack, whose only task class is used.", show_default=False),
    ] = None,
    *,
    task_class: Annotated[
        str | None,
        option("CLASS", "The task class whose recorded outcomes are used."),
    ] = None,
    outcomes: Annotated[
        str | None,
        option(
            "FILE",
            "Recorded outcomes, one JSON object per line: a file, or - for stdin. The journal is then read only if --journal names it.",
        ),
    ] = None,
    journal: MaybeJournal = None,
    apply: Annotated[
        bool,
        flag("Use the fitted weights in later runs of the task class.", "--apply"),
    ] = False,
    actors: ActorsPath = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Fit the weights of confidence to recorded outcomes.

    An outcome is the measurements of an output, and whether the output was right. The journal has them as answers at
    gates for outputs. Confidence is well calibrated if nine in ten of the outputs with confidence 0.9 are right. The
    figures are measured on outcomes that the weights were not fitted to. Nothing is run and no pack is changed; with
    --apply the weights are written into the journal, with your name.
    """
    chosen = _chosen(pack, task_class, is_needed=apply or outcomes is None)
    url = _journal(journal, is_needed=apply or outcomes is None) if chosen else None
    known = load_lessons(url, [chosen])[chosen] if url and chosen else Experience(())
    rows = list(read_rows(OUTCOMES, outcomes)) if outcomes is not None else []
    if outcomes is None or journal is not None:
        rows += known.outcomes
    found = Calibration(
        weights=fit(rows),
        before=rate(rows, DEFAULT_WEIGHTS),
        after=cross_rate(rows),
        task_class=chosen,
        in_force=known.weights,
    )
    if apply and url and chosen:
        by, now = local_user_from(actors).actor.id, SystemClock().now()
        lesson = use_journal(
            url,
            lambda opened: activate_weights(opened, TENANT, chosen, found.weights, by=by, now=now),
            is_written=True,
        )
        found = replace(found, applied=lesson.session)
    return respond(found.as_json, lambda screen: show_calibration(screen, found), as_json=as_json)


def _chosen(pack: Path | None, task_class: str | None, *, is_needed: bool) -> str | None:
    """Return the chosen task class; raise `UsageError` if one is needed and the choice is not clear."""
    known = [] if pack is None else list(task_classes(load_pack(pack)))
    if task_class is not None or len(known) == 1:
        return task_class or known[0]
    if pack is not None:
        raise UsageError(
            f"the decisions of this pack have {len(known) or 'no'} task classes",
            code="task_class_unclear",
            remedy=f"choose one with --task-class: {', '.join(known)}"
            if known
            else "add [decision.quality] to a decision",
        )
    if is_needed:
        raise UsageError(
            "no task class is given",
            remedy="name a pack, or a task class with --task-class CLASS; without --apply a file of outcomes is enough",
        )
    return None


def _journal(given: str | None, *, is_needed: bool) -> str | None:
    """Return the journal to read or write; raise `UsageError` if one is needed and there is none."""
    url = find_journal(given)
    if url is None and is_needed:
        raise UsageError(
            "there is no journal to read outcomes from",
            code="journal_not_found",
            remedy="name one with --journal URL, or give --outcomes FILE",
        )
    return url
