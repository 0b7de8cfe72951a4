"""The effective step: what the plan says, completed by what its tool declares. This is what the critic judges."""

from __future__ import annotations

from typing import Any, NamedTuple

from tercet.contracts.mode import MODE_RANK, REVERSIBILITY_RANK, ApprovalMode, Reversibility, stronger
from tercet.contracts.plan import Compensation, Step
from tercet.contracts.tool import ToolSpec

# Looking a member up in its enumeration takes longer than comparing with it.
_PURE, _IRREVERSIBLE = Reversibility.PURE, Reversibility.IRREVERSIBLE
_READ_ONLY = ApprovalMode.READ_ONLY
_LOCAL_WRITE_RANK = MODE_RANK[ApprovalMode.LOCAL_WRITE]


class EffectiveStep(NamedTuple):
    """A step of a plan together with its tool; silence inherits, and nothing ever weakens."""

    position: int
    step: Step
    tool: ToolSpec
    mode: ApprovalMode
    reversibility: Reversibility
    gates: tuple[str, ...]
    compensate: Compensation | None
    params: dict[str, Any]
    """The parameters under their own names."""
    doubled: tuple[str, ...]
    """Parameters that the plan gives twice, by name and by alias."""

    @property
    def leaves_nothing(self) -> bool:
        """Whether a call changes nothing: it may be made again, and there is nothing to take back."""
        return self.reversibility is _PURE or self.mode is _READ_ONLY

    @property
    def needs_person(self) -> bool:
        """Whether a person approves a call even if no gate names one, unless a policy may grant it."""
        return MODE_RANK[self.mode] > _LOCAL_WRITE_RANK or self.reversibility is _IRREVERSIBLE

    @property
    def runs_in_lane(self) -> bool:
        """Whether a lane makes this call itself: it leaves nothing behind, and no person has to approve it."""
        return self.leaves_nothing and not self.needs_person

    @property
    def estimated_ms(self) -> int:
        """How long this step is expected to take."""
        return self.tool.estimated_ms if self.step.estimated_ms is None else self.step.estimated_ms


def effective(position: int, step: Step, tool: ToolSpec) -> EffectiveStep:
    """The effective step of a step and the tool that it names."""
    params, aliases = step.params, tool.aliases
    params, doubled = unaliased(params, aliases) if aliases else (params, ())
    mode, declared, gates = step.approval_mode, tool.effective_reversibility, step.gates
    return EffectiveStep(
        position,
        step,
        tool,
        tool.mode if mode is None else stronger(tool.mode, mode),
        declared if step.reversibility is None else _harder(declared, step.reversibility),
        tool.gates if gates is None else tuple(dict.fromkeys((*tool.gates, *gates))),
        step.compensate or tool.compensate,
        params,
        doubled,
    )


def unaliased(params: dict[str, Any], aliases: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Parameters under their own names, and those that are given twice."""
    if not aliases or not any(name in aliases for name in params):
        return params, ()
    found: dict[str, Any] = {}
    doubled: list[str] = []
    for name, value in params.items():
        proper = aliases.get(name, name)
        if proper in found:
            doubled.append(proper)
        found[proper] = value
    return found, tuple(doubled)


def _harder(first: Reversibility, second: Reversibility) -> Reversibility:
    return first if REVERSIBILITY_RANK[first] >= REVERSIBILITY_RANK[second] else second
