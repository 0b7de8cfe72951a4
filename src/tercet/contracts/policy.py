"""A pack's policy, written in CEL."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tercet.contracts.shape import Authored


class Policy(Authored):
    """A condition over a plan or over each of its steps.

    `deny`: the plan is refused unless the condition holds. `gate`: the step waits for a gate unless the condition
    holds. `grant`: where the condition holds, the policy itself approves a network or delegated step that would
    otherwise wait for a person; never a destructive or irreversible step, and never a named gate. An expression that
    fails counts as a condition that does not hold.
    """

    name: str = Field(min_length=1, max_length=200)
    expression: str
    scope: Literal["plan", "step"] = "plan"
    effect: Literal["deny", "gate", "grant"] = "deny"
    """A grant applies to single steps: its scope is `step`, and it names no gate."""
    gate: str | None = None
    message: str = ""
    remedy: str = ""
