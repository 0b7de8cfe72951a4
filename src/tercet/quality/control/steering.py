"""One step of a controlled loop: what to remember of a measurement, as plain data.

At the first measurement the number and cost of repairs are predicted. If they are too high, the loop continues as the pack
configures: with a lower target, more gently, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tercet.contracts.control import (
    ESCALATIONS,
    ControlPrediction,
    ControlSpec,
    ControlState,
    Escalation,
    Quality,
    StopCommand,
    StopReason,
)
from tercet.contracts.shape import JsonObject
from tercet.quality.control.controller import escalation_after, quality_of, step
from tercet.quality.control.prediction import apply, predict


def steer_on(
    spec: ControlSpec,
    measured: Quality,
    before: Mapping[str, Any],
    *,
    can_repair: bool,
    helpers: Collection[Escalation] = (),
) -> JsonObject:
    """Return what is remembered after a measurement: the quality, what was foreseen, and the command, where there can be one.

    `before` is what was remembered of the one before it; nothing at the first one. Where repairing again does not help,
    the next of the `helpers` that there are is named, and remembered as tried.
    """
    foreseen = ControlPrediction.model_validate(before["prediction"]) if before else predict(spec, measured)
    state = ControlState.model_validate(before.get("state") or {})
    said: JsonObject = {
        "quality": quality_of(spec, measured),
        "prediction": foreseen.model_dump(mode="json"),
        "state": state.model_dump(mode="json"),
    }
    if not can_repair:
        return said
    choice = foreseen.choice
    if choice is not None and choice.kind == "fail":
        refused = StopCommand(reason=StopReason.COST, error=foreseen.start_error)
        return {**said, "command": refused.model_dump(mode="json")}
    state, command = step(spec if choice is None else apply(spec, choice), state, measured)
    said |= {"state": state.model_dump(mode="json"), "command": command.model_dump(mode="json")}
    if isinstance(command, StopCommand) and command.outcome == "escalate":
        tried: list[Escalation] = before.get("tried", [])
        beyond: set[Escalation] = {each for each in ESCALATIONS if each in tried or each not in helpers}
        helper = escalation_after(beyond)
        return {**said, "helper": helper, "tried": [*tried, *([helper] if helper else [])]}
    return {**said, "tried": before["tried"]} if "tried" in before else said
