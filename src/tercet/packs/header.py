"""What a pack says about itself, in `pack.toml` or in Python."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tercet.contracts.buckets import ContextRules
from tercet.contracts.budget import RunBudget
from tercet.contracts.context import Check
from tercet.contracts.control import ANY_CLASS, ControlSpec
from tercet.contracts.decision import PLANNER_TIMEOUTS, DecisionSpec, OnFailure, RiskTier
from tercet.contracts.gate import Notify
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.prices import TokenPrices
from tercet.contracts.session import PLANNER_TIMEOUT_MS, RoleLimit, RoleName, SessionRules
from tercet.contracts.shape import Authored, Name

ModelName = Annotated[str, Field(pattern=r"^(local|[A-Za-z0-9_.\-]+:\S+)$", max_length=300)]
"""`local`, or a provider and one of its models: `openai:gpt-5`."""


class ModelChoice(Authored):
    """The models that are asked for plans, how much they may read and write, and what they cost."""

    planner: tuple[ModelName, ...] = ()
    """The model that plans, and those that are asked when it does not answer."""
    critic: tuple[ModelName, ...] = ()
    """The models that judge outputs, where a decision asks for that; best others than those that wrote them."""
    repair: tuple[ModelName, ...] = ()
    """The models that mend outputs: the first one, and those that are asked when it does not answer or does no good."""
    max_tokens: int = Field(default=2_048, ge=1)
    """How long an answer may become."""
    max_prompt_tokens: int = Field(default=16_000, ge=256)
    """How much a model is told at most."""
    prices: dict[str, TokenPrices] = {}
    """Prices by model, for those that the installed list does not know, or knows wrongly."""


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
    """What becomes of effects when a run ends without success; a decision may say otherwise."""
    budget: RunBudget = RunBudget()
    risk_tiers: dict[RiskTier, tuple[Check, ...]] = {}
    """The checks of each risk tier; a tier that is not named keeps the usual ones."""
    session: SessionRules = SessionRules()
    limits: dict[RoleName, RoleLimit] = {}
    """How long each role may take at a time, and how many tokens it may use in a run."""
    models: ModelChoice = ModelChoice()
    """The language models that plan for this pack, and what they cost."""
    context: ContextRules = ContextRules()
    """How much of a context a planner is shown."""
    control: dict[Name, ControlSpec] = {}
    """How outputs of each task class are repaired; `default` serves the classes that are not named."""
    notify: Notify | None = None
    """Who is told that a gate has opened."""

    @property
    def ref(self) -> str:
        """The name and the version: `name@x.y.z`."""
        return f"{self.name}@{self.version}"

    def control_for(self, task_class: str) -> ControlSpec | None:
        """The controller of a task class: its own, or the default one; None where the pack has neither."""
        return self.control.get(task_class) or self.control.get(ANY_CLASS)

    def limit_for(self, role: RoleName, decision: DecisionSpec | None = None) -> RoleLimit:
        """The limit that applies to a role: what is declared. A planner's time is the decision's own where it has one,
        and where nothing is said, what the decision's risk tier gives."""
        given = self.limits.get(role, RoleLimit())
        if role != "planner":
            return given
        own = None if decision is None else decision.planner_timeout_ms
        usual = PLANNER_TIMEOUT_MS if decision is None else PLANNER_TIMEOUTS[decision.risk_tier]
        return RoleLimit(timeout_ms=own or given.timeout_ms or usual, tokens=given.tokens)


class PackFile(Header):
    """`pack.toml`."""

    tools: tuple[str, ...] | None = None
    """The Python files that hold the tools; None means `tools.py`, if it is there."""
