"""`tercet calibrate`: fitting the weights of confidence to recorded outcomes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from tercet.cli import ExitCode
from tercet.cli.files import DRAWING, require_writable, write_file
from tercet.cli.inputs import load_pack
from tercet.cli.journals import TENANT, use_journal
from tercet.cli.options import AsJson, Force, argument, flag, option
from tercet.cli.quality.records import (
    OUTCOMES,
    MaybeJournal,
    find_journal,
    load_lessons,
    read_rows,
    task_classes,
)
from tercet.cli.quality.reliability_view import Calibration, draw_reliability, show_calibration
from tercet.cli.screen import Screen, respond
from tercet.cli.sessions.people import ActorsPath, local_user_from
from tercet.contracts.errors import UsageError
from tercet.engine.streams.experience import Experience, activate_weights
from tercet.executor.clock import SystemClock
from tercet.quality.exit.calibration import cross_rate, fit, rate
from tercet.quality.exit.confidence import DEFAULT_WEIGHTS
from tercet.view.terminal.text import json_text, printable

EXAMPLES = """\
tercet calibrate my-pack
tercet calibrate --task-class letter --journal sqlite:///tercet.db --apply
tercet calibrate --outcomes outcomes.jsonl --svg reliability.svg
tercet calibrate --outcomes outcomes.jsonl --save weights.json --json
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
    svg: Annotated[
        Path | None,
        option(
            "FILE",
            "Also draw the reliability into this file, as SVG; an existing drawing by Tercet is replaced.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        option("FILE", "Write the weights into this file, as JSON."),
    ] = None,
    force: Force = False,
    actors: ActorsPath = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Fit the weights of confidence to recorded outcomes.

    An outcome is the measurements of an output, and whether the output was right. The journal has them as answers at
    gates for outputs. Confidence is well calibrated if nine in ten of the outputs with confidence 0.9 are right. The
    figures are measured on outcomes that the weights were not fitted to. Nothing is run and no pack is changed; with
    --apply the weights are written into the journal, with your name.
    """
    if svg is not None:
        require_writable(svg, is_forced=force, mark=DRAWING)
    if save is not None:
        require_writable(save, is_forced=force)
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
    if svg is not None:
        write_file(svg, DRAWING + draw_reliability(found.before, found.after).encode())
        if not as_json:
            Screen(stderr=True).print(f"· drawn into {printable(str(svg))}", style="dim")
    if save is not None:
        write_file(save, f"{json_text(found.weights.model_dump(mode='json'))}\n".encode())
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
            code="usage",
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
