"""Critics of your own, and the Engine that runs a step-by-step agent with them.

The critics come from `tercet.critic.pluggable`, which is pure; the Engine uses the runtime. Nothing below imports this
package.
"""

from tercet.critic.pluggable.builtin import (
    PassThroughCritic,
    ReActSelfReflectionCritic,
    SelfReflectionCritic,
    pass_through_critic,
    react_self_reflection_critic,
    self_reflection_critic,
)
from tercet.critic.pluggable.chain import ChainVerdict, CriticChain
from tercet.critic.pluggable.critic import Critic, critic
from tercet.critic.pluggable.errors import CriticError, CriticReturnError, CriticStateError, PatchError
from tercet.critic.pluggable.patches import apply_patches, copy_metadata, copy_state, restore
from tercet.critic.pluggable.result import (
    CriticResult,
    as_results,
    step_outcome,
)
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
)
from tercet.critics.agent import Agent, ModelAgent, ModelState, Observation
from tercet.critics.decision import Action, Decision, DecisionError
from tercet.critics.engine import Engine
from tercet.critics.hooks import Hook, HookError, Moment, Recovery, Stage, ToolCall
from tercet.critics.result import CriticTrace, EngineResult, StepRecord
from tercet.executor.breaker import CircuitBreaker

__all__ = [
    "Action",
    "Agent",
    "ChainVerdict",
    "CircuitBreaker",
    "Critic",
    "CriticChain",
    "CriticError",
    "CriticResult",
    "CriticReturnError",
    "CriticStateError",
    "CriticTrace",
    "Decision",
    "DecisionError",
    "Engine",
    "EngineResult",
    "FinalResult",
    "Hook",
    "HookError",
    "MaxRuntime",
    "MaxSteps",
    "MaxTokens",
    "ModelAgent",
    "ModelState",
    "Moment",
    "Observation",
    "PassThroughCritic",
    "PatchError",
    "Progress",
    "ReActSelfReflectionCritic",
    "Recovery",
    "SelfReflectionCritic",
    "Stage",
    "Stagnation",
    "StepRecord",
    "StopCriterion",
    "StopReason",
    "ToolCall",
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
    "step_outcome",
]
