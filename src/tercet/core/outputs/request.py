"""The request to a person to accept outputs: the sources of each piece, the risk, and what was changed."""

from __future__ import annotations

from collections.abc import Iterator

from tercet.contracts.documents import ReadText, TokenVerdict
from tercet.contracts.gate import Advice, ApprovalRequest
from tercet.contracts.loop import VerificationVerdict
from tercet.contracts.outputs.exit import ExitDecision
from tercet.contracts.runs.behaviour import Behaviour
from tercet.contracts.shape import JsonObject
from tercet.core.state import State
from tercet.quality.exit.decision import TRIGGERS, recommend
from tercet.quality.repair.losses import show_difference
from tercet.quality.verification.places import parse_location

MOST_TOKENS = 500
"""How many values of all texts together are shown; those that are refused come first."""


def advise(state: State, decided: ExitDecision) -> Advice:
    """Return what a person is advised to say: never a plain yes to a text in which a rule has replaced values."""
    is_replaced = Behaviour.OUTPUTS_PLACED in state.start.behaviour and any(
        entry.get("means") == "rule"
        and entry["note"].startswith("replace_value:")
        and entry["success"] is not False
        for entry in state.quality.log
    )
    advice = recommend(decided)
    return "compare" if advice == "approve" and is_replaced else advice


def request_approval(state: State) -> ApprovalRequest:
    """Return the page for the person who may accept the outputs."""
    quality = state.quality
    decided = ExitDecision.model_validate(quality.exit)
    verdict = VerificationVerdict.model_validate(quality.verdict) if quality.verdict else None
    return ApprovalRequest(
        output=state.outputs,
        provenance={
            "texts": list(_texts(state, verdict)),
            "judgements": [each.model_dump(mode="json") for each in verdict.judgements] if verdict else [],
            "diff": show_difference(quality.drafts, state.outputs) if quality.log else "",
        },
        quality_scores=quality.diagnosis.get("scores", {}),
        confidence=decided.confidence,
        risk_assessment="; ".join(TRIGGERS[each] for each in decided.triggers) or "no risk was found",
        recommended_action=advise(state, decided),
    )


def _texts(state: State, verdict: VerificationVerdict | None) -> Iterator[JsonObject]:
    """Yield each text with the source of each piece, the verdict on each value, and why nothing vouches for it."""
    tokens = sorted(verdict.tokens if verdict else (), key=lambda each: each.status in ("bound", "found"))
    unjudged = {each.location: each.reason for each in verdict.unjudged} if verdict else {}
    for read in map(ReadText.model_validate, state.quality.read or ()):
        own = [each for each in tokens[:MOST_TOKENS] if parse_location(each.location).pointer == read.pointer]
        yield {
            "pointer": read.pointer,
            "pieces": [each.model_dump(mode="json", exclude_defaults=True) for each in read.pieces],
            "tokens": [_shown(each) for each in own],
            "unjudged": unjudged.get(read.pointer, ""),
        }


def _shown(found: TokenVerdict) -> JsonObject:
    shown = {"text": found.token.text, "status": found.status, "location": found.location}
    return {**shown, "sources": list(found.sources)} if found.sources else shown
