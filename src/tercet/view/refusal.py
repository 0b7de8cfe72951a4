"""A call that the critic refused at dispatch, once its values were known, as the reason why a run did not go on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tercet.contracts.policy import Policy
from tercet.contracts.verdict import Code
from tercet.core.state import State
from tercet.critic.checks.rules import violation_text


@dataclass(frozen=True, kw_only=True)
class CallRefusal:
    """The refusal of one call: its step, the code and reason of the critic, and the remedy of the policy."""

    step: str
    code: str
    reason: str
    remedy: str
    """Empty if no policy refused it, or the policy has none."""

    @property
    def text(self) -> str:
        """The refusal in one sentence, without its remedy."""
        return f"{self.step} was refused before its call ({self.code}): {self.reason}"


def find_refusal(state: State, policies: Iterable[Policy] = ()) -> CallRefusal | None:
    """Return the refused call that a run failed or was escalated for; `policies` are those of its pack."""
    why = state.reason if state.escalation is None else state.escalation
    if state.escalation is None and state.status != "failed":
        return None
    for name, step in state.steps.items():
        if step.outcome == "refused" and step.code in _CODES and step.error in why:
            violated = next((each for each in policies if violation_text(each) in step.error), None)
            remedy = "" if violated is None else violated.remedy
            return CallRefusal(step=name, code=step.code, reason=step.error, remedy=remedy)
    return None


_CODES = frozenset(map(str, Code))
"""The codes of the critic: a call can also be refused for an open circuit or a lost role."""
