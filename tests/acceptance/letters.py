"""A scene whose run goes through the quality loop: a letter with a key in it, which a rule redacts, a test command, and a
person who accepts the letter."""

from __future__ import annotations

from typing import Any

from tercet import DecisionSpec, Evidence, Pack, Plan, Request, ToolContext, tool

from . import effects
from .acting import TIMEOUT_MS, Scene, act

FACT = Evidence.model_validate(
    {
        "id": "kg:order:881#snapshot_s1",
        "trust": "trusted",
        "source": "orders",
        "content": {"order_id": "ord_881", "total": 245, "currency": "EUR"},
    }
)
LETTER = "Order ord_881 comes to 245 EUR. Sign in with sk_live_4f9a8b7c6d5e4f3a2b1c if needed."
VALUES = (
    {"name": "order_id", "from": "order#/order_id", "type": "identifier", "labels": {"en": ["order"]}},
    {
        "name": "total",
        "from": "order#/total",
        "type": "money",
        "currency_from": "order#/currency",
        "labels": {"en": ["comes to"]},
    },
)
REPORT = '<testsuite><testcase classname="letter" name="test_it_is_short"/></testsuite>'


@tool("desk.draft", mode="local_write", idempotent=True, no_compensation="a draft", timeout_ms=TIMEOUT_MS)
async def draft(ctx: ToolContext) -> dict[str, str]:
    """Write the letter, once for each key."""
    await act(ctx, "letter.draft", effects.do_once)
    return {"letter": LETTER}


@tool("desk.proofread", mode="read_only", timeout_ms=TIMEOUT_MS)
async def proofread(ctx: ToolContext, letter: str) -> dict[str, str]:
    """Test the letter."""
    return {"junit": REPORT}


def letter() -> Scene:
    """The scene."""
    quality: dict[str, Any] = {
        "values": VALUES,
        "tests": [
            {"tool": "desk.proofread", "params": {"letter": {"$output": "/letter"}}, "output": "/letter"}
        ],
    }
    spec = DecisionSpec.model_validate(
        {"id": "letter", "required_outputs": ("letter",), "risk_tier": "low", "quality": quality}
    )
    pack = Pack(name="letter", version="1.0.0", tools=[draft, proofread], decisions=[spec], evidence=[FACT])
    plan: dict[str, Any] = {
        "intent": "letter",
        "steps": [{"id": "draft", "tool": "desk.draft", "params": {}}],
        "outputs": {"letter": {"$from": "draft#/letter"}},
    }
    return Scene(pack=pack, request=Request(intent="letter"), plan=Plan.model_validate(plan))
