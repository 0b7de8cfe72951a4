"""The pluggable critics, as people import them.

Everything here comes from `tercet.critic.pluggable`, which is pure.
"""

from tercet.critic.pluggable.builtin import (
    REFLECTIONS_KEY,
    PassThroughCritic,
    ReActSelfReflectionCritic,
    SelfReflectionCritic,
    pass_through_critic,
    react_self_reflection_critic,
    self_reflection_critic,
)
from tercet.critic.pluggable.chain import ChainVerdict, CriticChain, Judgement
from tercet.critic.pluggable.critic import Critic, Evaluates, ToolResults
from tercet.critic.pluggable.decorator import FunctionCritic, critic
from tercet.critic.pluggable.errors import CriticError, CriticReturnError, CriticStateError, PatchError
from tercet.critic.pluggable.metadata import copy_metadata
from tercet.critic.pluggable.outcome import Attempt, StepOutcome, as_results, step_outcome
from tercet.critic.pluggable.patches import Patched, apply_patches, copy_state, restore
from tercet.critic.pluggable.result import Action, CriticResult, Escalation
from tercet.critic.pluggable.shorthand import CriticReturn, settle
from tercet.critic.pluggable.stop import (
    FinalResult,
    MaxRuntime,
    MaxSteps,
    MaxTokens,
    Progress,
    Stagnation,
    StopCriterion,
    StopReason,
    critic_stop,
    first_stop,
    step_signature,
)

__all__ = [
    "REFLECTIONS_KEY",
    "Action",
    "Attempt",
    "ChainVerdict",
    "Critic",
    "CriticChain",
    "CriticError",
    "CriticResult",
    "CriticReturn",
    "CriticReturnError",
    "CriticStateError",
    "Escalation",
    "Evaluates",
    "FinalResult",
    "FunctionCritic",
    "Judgement",
    "MaxRuntime",
    "MaxSteps",
    "MaxTokens",
    "PassThroughCritic",
    "PatchError",
    "Patched",
    "Progress",
    "ReActSelfReflectionCritic",
    "SelfReflectionCritic",
    "Stagnation",
    "StepOutcome",
    "StopCriterion",
    "StopReason",
    "ToolResults",
    "apply_patches",
    "as_results",
    "copy_metadata",
    "copy_state",
    "critic",
    "critic_stop",
    "first_stop",
    "pass_through_critic",
    "react_self_reflection_critic",
    "restore",
    "self_reflection_critic",
    "settle",
    "step_outcome",
    "step_signature",
]
