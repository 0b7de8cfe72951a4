"""What policies compare: names and words that there are, and the order in which steps run."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from tercet.contracts.decision import RiskTier
from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import StepKind
from tercet.packs.checks import Check, Problems
from tercet.packs.checks.names import did_you_mean
from tercet.packs.parts import Parts
from tercet.policy.comparisons import Comparison, compared_texts, reads_list_order


def policies_compare_known_words(parts: Parts) -> Problems:
    """The tools, gates, modes and other words that a policy compares with are ones that it can meet."""
    for policy in parts.policies:
        for comparison in dict.fromkeys(compared_texts(policy.expression)):
            known = _known_words(parts, comparison)
            if known is not None and comparison.text and comparison.text not in known:
                field = ".".join(comparison.path)
                yield parts.problem(
                    "rule_value_unknown",
                    f"policy {policy.name}, expression",
                    f"{field} is never {comparison.text!r}, so the comparison never holds",
                    did_you_mean(comparison.text, known)
                    or f"it may be {', '.join(sorted(known)) or 'nothing'}",
                    severity="warning",
                )


def _known_words(parts: Parts, comparison: Comparison) -> Collection[str] | None:
    """The texts that a field may have or hold; None if it may have any."""
    match comparison.step_field:
        case "tool" | "before_tools" | "after_tools":
            return None if parts.is_partial("tool") else parts.tool
        case "gates":
            return None if parts.is_partial("gate") else parts.gate
        case "mode":
            return tuple(ApprovalMode)
        case "reversibility":
            return tuple(Reversibility)
        case "kind":
            return get_args(StepKind)
        case _:
            return _known_in_frame(parts, comparison.path)


def _known_in_frame(parts: Parts, path: tuple[str, ...]) -> Collection[str] | None:
    match path:
        case ("context", "safety_mode"):
            return tuple(ApprovalMode)
        case ("decision", "risk_tier"):
            return tuple(RiskTier)
        case ("decision", "id") if not parts.is_partial("decision"):
            return tuple(decision.id for decision in parts.decisions)
        case ("plan", "intent") if not parts.is_partial("decision"):
            return {intent for each in parts.decisions for intent in (each.id, *each.intents)}
        case _:
            return None


def policies_read_no_list_order(parts: Parts) -> Problems:
    """No policy takes the order of the list for the order in which steps run."""
    for policy in parts.policies:
        if reads_list_order(policy.expression):
            yield parts.problem(
                "policy_compares_index",
                f"policy {policy.name}, expression",
                "it reads where the plan lists its steps, which says nothing about the order in which they run",
                'read the order instead, as in "x.look" in step.before_tools, or look.id in pay.before',
                severity="warning",
            )


WORD_CHECKS: tuple[Check, ...] = (policies_compare_known_words, policies_read_no_list_order)
