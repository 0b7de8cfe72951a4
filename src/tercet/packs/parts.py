"""What a pack declares, as the checks see it: whole, or as far as a broken folder could be read.

A place such as `gate GATE_FINANCE` or `gate GATE_FINANCE, quorum` names a declaration or one of its fields. Places are
the keys of `spots`, so a check that knows the place of a problem need not know about files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from tercet.contracts.buckets import ContextRules
from tercet.contracts.budget import RunBudget
from tercet.contracts.control import ControlSpec
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Notify
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor
from tercet.contracts.session import RoleLimit, RoleName, SessionRules
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.tool import ToolSpec
from tercet.contracts.tuning import TuningRules
from tercet.packs.header import ModelChoice

Kind = Literal[
    "tool", "decision", "gate", "policy", "actor", "evidence", "fact", "task", "method", "goal", "server"
]
Severity = Literal["error", "warning", "note"]

PACK = "pack"
"""The place of what belongs to the pack as a whole."""
TUNING = "tuning"
"""The place of what is said about tuning it."""


class Spot(NamedTuple):
    """A file of the pack, by its path in the folder, and the line in it where that is known."""

    file: str
    row: int | None = None


def printable(text: str) -> str:
    """A text that can be shown and stored: what is no character, such as a byte of a file name, is spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The declarations of a pack, and what is known about those that could not be read."""

    safety_mode: ApprovalMode = ApprovalMode.LOCAL_WRITE
    budget: RunBudget = field(default_factory=RunBudget)
    session: SessionRules = field(default_factory=SessionRules)
    limits: Mapping[RoleName, RoleLimit] = field(default_factory=dict[RoleName, RoleLimit])
    models: ModelChoice = field(default_factory=ModelChoice)
    context: ContextRules = field(default_factory=ContextRules)
    control: Mapping[str, ControlSpec] = field(default_factory=dict[str, ControlSpec])
    notify: Notify | None = None
    tools: tuple[ToolSpec, ...] = ()
    decisions: tuple[DecisionSpec, ...] = ()
    gates: tuple[Gate, ...] = ()
    policies: tuple[Policy, ...] = ()
    actors: tuple[Actor, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    templates: tuple[Plan, ...] = ()
    library: TaskLibrary = field(default_factory=TaskLibrary)
    tuning: TuningRules = field(default_factory=TuningRules)
    spots: Mapping[str, Spot] = field(default_factory=dict[str, Spot])
    broken: frozenset[str] = frozenset()
    """The places of declarations that exist but did not parse."""
    unread: frozenset[Kind] = frozenset()
    """The kinds of which some declarations may be missing here, since a file could not be read."""

    @cached_property
    def tool(self) -> Mapping[str, ToolSpec]:
        """The tools by name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def gate(self) -> Mapping[str, Gate]:
        """The gates by name."""
        return {gate.name: gate for gate in self.gates}

    def is_partial(self, kind: Kind) -> bool:
        """Whether declarations of this kind may be missing here that the author has written."""
        return kind in self.unread or any(place.startswith(f"{kind} ") for place in self.broken)

    def lacks_tool(self, name: str) -> bool:
        """Whether the pack certainly has no such tool."""
        return name not in self.tool and self._is_absent("tool", name)

    def lacks_gate(self, name: str) -> bool:
        """Whether the pack certainly has no such gate."""
        return name not in self.gate and self._is_absent("gate", name)

    def problem(
        self, code: str, place: str, message: str, remedy: str, *, severity: Severity = "error"
    ) -> Problem:
        """A problem at a place, with the file and row where that was written."""
        spot = self.spots.get(place) or self.spots.get(place.rpartition(", ")[0])
        return Problem(
            code=code,
            place=printable(place),
            message=printable(message),
            remedy=printable(remedy),
            file=printable(spot.file) if spot else None,
            row=spot.row if spot else None,
            severity=severity,
        )

    def _is_absent(self, kind: Kind, name: str) -> bool:
        return kind not in self.unread and f"{kind} {name}" not in self.broken
