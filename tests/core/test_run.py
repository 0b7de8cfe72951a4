"""What a run keeps between events: the plan and the configuration that follow from its state."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from pathlib import Path

from tercet.core import codec
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.run import OF_EVERY_STEP
from tercet.core.state import State
from tercet.replay.recording import load_bundle

FILES = sorted((Path(__file__).parents[1] / "histories").rglob("*.tercet"))
PARTS = attrgetter("plan", "undo", "extended", "learned", "facts", "entered", "changed", "earlier")
"""What plan and configuration are made from."""


def test_events_of_every_step_leave_plan_and_configuration_as_they_are() -> None:
    """After them a run does not look whether it has to make the two again."""
    seen: set[type[e.Event]] = set()
    for file in FILES:
        state = State()
        for data in asyncio.run(load_bundle(file)).events:
            event = codec.decode(data)
            before, state = state, fold_event(state, event)
            if type(event) in OF_EVERY_STEP:
                seen.add(type(event))
                assert all(one is other for one, other in zip(PARTS(before), PARTS(state), strict=True)), (
                    event
                )
    assert seen == OF_EVERY_STEP
