"""What a pack says about itself, in `pack.toml` or in Python."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tercet.contracts.budget import RunBudget
from tercet.contracts.context import Check
from tercet.contracts.decision import RiskTier
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.shape import Authored

OnFailure = Literal["compensate", "ask", "keep"]

NAME = "[a-z0-9][a-z0-9_-]{0,99}"
_NUMBER = "(0|[1-9][0-9]{0,8})"


class Header(Authored):
    """The name, the version and the frame of a pack."""

    name: str = Field(pattern=f"^{NAME}$")
    version: str = Field(pattern=rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}$")
    description: str = ""
    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    """How far a run of this pack may go unless it is told otherwise."""
    on_failure: OnFailure = "ask"
    """What becomes of effects when a run ends without success."""
    budget: RunBudget = RunBudget()
    risk_tiers: dict[RiskTier, tuple[Check, ...]] = {}
    """The checks of each risk tier; a tier that is not named keeps the usual ones."""

    @property
    def ref(self) -> str:
        """The name and the version: `name@x.y.z`."""
        return f"{self.name}@{self.version}"


class PackFile(Header):
    """`pack.toml`."""

    tools: tuple[str, ...] | None = None
    """The Python files that hold the tools; None means `tools.py`, if it is there."""
