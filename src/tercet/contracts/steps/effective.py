"""The effective step that the critic judges: a step of the plan completed by the declaration of its tool."""

from __future__ import annotations

from typing import Any, NamedTuple

from tercet.contracts.mode import MODE_RANK, REVERSIBILITY_RANK, ApprovalMode, Reversibility, stronger
from tercet.contracts.plan import Compensation, Step
from tercet.contracts.tool import ToolSpec

# Looking up an enum member takes longer than comparing with it.
_PURE, _IRREVERSIBLE = Reversibility.PURE, Reversibility.IRREVERSIBLE
_READ_ONLY = ApprovalMode.READ_ONLY
_LOCAL_WRITE_RANK = MODE_RANK[ApprovalMode.LOCAL_WRITE]


class EffectiveStep(NamedTuple):
    """A step together with its tool: absent fields are inherited from the tool, and no field weakens the tool's."""

    position: int
    step: Step
    tool: ToolSpec
    mode: ApprovalMode
    reversibility: Reversibility
    gates: tuple[str, ...]
    compensate: Compensation | None
    params: dict[str, Any]
    """The parameters by their declared names."""
    doubled: tuple[str, ...]
    """Parameters that the plan sets twice, by name and by alias."""

    @property
    def leaves_nothing(self) -> bool:
        """Whether the call has no effect: it may be repeated, and needs no compensation."""
        return self.reversibility is _PURE or self.mode is _READ_ONLY

    @property
    def needs_person(self) -> bool:
        """Whether a person must approve the call even without a gate, unless a policy may grant it."""
        return MODE_RANK[self.mode] > _LOCAL_WRITE_RANK or self.reversibility is _IRREVERSIBLE

    @property
    def runs_in_lane(self) -> bool:
        """Whether a lane makes this call itself: it leaves nothing behind, and no person has to approve it."""
        return self.leaves_nothing and not self.needs_person

    @property
    def estimated_ms(self) -> int:
        """The expected duration of this step in milliseconds."""
        return self.tool.estimated_ms if self.step.estimated_ms is None else self.step.estimated_ms


def effective(position: int, step: Step, tool: ToolSpec) -> EffectiveStep:
    """Return the effective step for a step and its tool."""
    # Out of their dicts: reading a field of a contract by its name takes several times as long.
    said, given = vars(step), vars(tool)
    params, aliases = said["params"], given["aliases"]
    params, doubled = unaliased(params, aliases) if aliases else (params, ())
    mode, gates, reversibility = said["approval_mode"], said["gates"], said["reversibility"]
    declared = tool.effective_reversibility
    return EffectiveStep(
        position,
        step,
        tool,
        given["mode"] if mode is None else stronger(given["mode"], mode),
        declared if reversibility is None else _harder(declared, reversibility),
        given["gates"] if gates is None else tuple(dict.fromkeys((*given["gates"], *gates))),
        said["compensate"] or given["compensate"],
        params,
        doubled,
    )


class Inherited:
    """What a step inherits from its tool, read once for all steps that call it."""

    __slots__ = ("cost_microcents", "declared", "duration_ms", "is_renamed", "tokens", "tool")

    def __init__(self, tool: ToolSpec) -> None:
        self.tool = tool
        self.declared = tool.mode, tool.effective_reversibility, tool.gates, tool.compensate
        self.is_renamed = bool(tool.aliases)
        self.tokens, self.duration_ms = tool.estimated_tokens, tool.estimated_ms
        self.cost_microcents = tool.cost_microcents

    def effective(self, position: int, step: Step, said: dict[str, Any]) -> EffectiveStep:
        """Return the effective step for a step of this tool; a step that is silent has what its tool declares."""
        is_silent = (
            said["approval_mode"] is None
            and said["gates"] is None
            and said["reversibility"] is None
            and said["compensate"] is None
        )
        if not is_silent or self.is_renamed:
            return effective(position, step, self.tool)
        return EffectiveStep(position, step, self.tool, *self.declared, said["params"], ())


def unaliased(params: dict[str, Any], aliases: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the parameters by their declared names, and the names that are set twice."""
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
