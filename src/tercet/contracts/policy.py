"""A rule of the house, written in CEL."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tercet.contracts.shape import Authored


class Policy(Authored):
    """A condition over a plan or over each of its steps.

    `deny`: the condition must hold, or the plan is refused. `gate`: where the condition does not hold, the step waits
    for a gate. `grant`: where the condition holds, the policy itself gives the approval that a network or delegated
    step would otherwise wait for; never for a destructive or irreversible step, and never that of a named gate.
    An expression that fails is a condition that does not hold.
    """

    name: str = Field(min_length=1, max_length=200)
    expression: str
    scope: Literal["plan", "step"] = "plan"
    effect: Literal["deny", "gate", "grant"] = "deny"
    """A grant looks at each step: its scope is `step`, and it names no gate."""
    gate: str | None = None
    message: str = ""
    remedy: str = ""
