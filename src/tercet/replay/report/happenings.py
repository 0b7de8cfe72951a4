"""Every event of a run as a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.core import events as e
from tercet.replay.report.case import Case
from tercet.replay.report.page import Happening, Tone
from tercet.replay.report.wording import Wording, elapsed, moment, spoken
from tercet.view.events import describe
from tercet.view.judging import Judged, describe_phase
from tercet.view.words import step_text

MOST = 600

Told = tuple[str, Tone]


def happenings(case: Case, wording: Wording) -> tuple[tuple[Happening, ...], str]:
    """The events of a run, and in words how many were left out in the middle."""
    more = len(case.events) - MOST
    left_out = f"{more:,} events in the middle are left out." if more > 0 else ""
    return tuple(_told(case, wording)), left_out


def _told(case: Case, wording: Wording) -> Iterator[Happening]:
    first = case.events[0].at
    for number, event in enumerate(case.events, start=1):
        if len(case.events) > MOST and MOST // 2 < number <= len(case.events) - MOST // 2:
            continue
        what, tone = sentence(event)
        yield Happening(
            number=number,
            at=moment(event.at),
            after=elapsed(event.at - first),
            what=wording.text(what, 400),
            tone=tone,
        )


def sentence(event: e.Event) -> Told:
    """Return what an event says, and its tone."""
    view = describe_phase(event) if isinstance(event, Judged) else describe(event)
    if view is None:  # an event without a sentence of its own is told by its name
        return spoken(str(type(event).__struct_config__.tag)), "quiet"
    return f"{f'{step_text(view.step)}: ' if view.step else ''}{view.text}", view.tone
