"""The public names of the pluggable critics, and the Engine that runs an agent with them.

The critics come from `tercet.critic.pluggable`, which is pure. The Engine builds on the runtime; no lower layer imports
this package.
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
from tercet.critic.pluggable.critic import Critic, Evaluates, FunctionCritic, ToolResults, critic
from tercet.critic.pluggable.errors import CriticError, CriticReturnError, CriticStateError, PatchError
from tercet.critic.pluggable.patches import Patched, apply_patches, copy_metadata, copy_state, restore
from tercet.critic.pluggable.result import Action as CriticAction
from tercet.critic.pluggable.result import (
    Attempt,
    CriticResult,
    Escalation,
    StepOutcome,
    as_results,
    step_outcome,
)
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
from tercet.critics.decision import Action, Decision, DecisionError
from tercet.critics.engine import Engine
from tercet.critics.hooks import Agent, AnyHook, Hook, HookError, Moment, Stage
from tercet.critics.result import CriticTrace, EngineResult, StepRecord

__all__ = [
    "REFLECTIONS_KEY",
    "Action",
    "Agent",
    "AnyHook",
    "Attempt",
    "ChainVerdict",
    "Critic",
    "CriticAction",
    "CriticChain",
    "CriticError",
    "CriticResult",
    "CriticReturn",
    "CriticReturnError",
    "CriticStateError",
    "CriticTrace",
    "Decision",
    "DecisionError",
    "Engine",
    "EngineResult",
    "Escalation",
    "Evaluates",
    "FinalResult",
    "FunctionCritic",
    "Hook",
    "HookError",
    "Judgement",
    "MaxRuntime",
    "MaxSteps",
    "MaxTokens",
    "Moment",
    "PassThroughCritic",
    "PatchError",
    "Patched",
    "Progress",
    "ReActSelfReflectionCritic",
    "SelfReflectionCritic",
    "Stage",
    "Stagnation",
    "StepOutcome",
    "StepRecord",
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
