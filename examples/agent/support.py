"""A support agent that decides one step at a time, a critic that sends an empty promise back, and a person who approves.

    python examples/agent/support.py

No model is asked: the agent follows three rules. Tern & Tallow is an invented shop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tercet import Actor, tool
from tercet.critics import Decision, Engine, EngineResult, Moment, SelfReflectionCritic, Stage, critic

ORDERS: dict[str, dict[str, Any]] = {
    "o-17": {"order": "o-17", "item": "a storm lantern", "payment": "pay-93", "paid_eur": 48, "broken": True},
}


@tool("shop.order", mode="read_only")
def find_order(order: str) -> dict[str, Any]:
    """What is known of an order."""
    return ORDERS[order]


@tool(
    "shop.refund",
    mode="destructive",
    authority=["payment", "amount_eur"],
    idempotent=True,
)
def refund(payment: str, amount_eur: int) -> dict[str, Any]:
    """Give the money back."""
    return {"refund": f"rf-{payment}", "amount_eur": amount_eur}


@dataclass
class Case:
    """What the agent knows of the case."""

    order: str
    found: dict[str, Any] = field(default_factory=dict[str, Any])
    refund: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class Support:
    """Looks the order up and answers; asked to promise nothing, it does what it promised first."""

    tools = (find_order, refund)
    system_prompt = "Help the customer of Tern & Tallow, and be quick."

    def init_state(self, task: dict[str, Any]) -> Case:
        """A case about one order."""
        return Case(order=task["order"])

    def decide(self, case: Case) -> Decision:
        """The next step; it reads and changes nothing."""
        if not case.found:
            return Decision.act("shop.order", order=case.order)
        if case.refund:
            return Decision.final(f"We gave back {case.refund['amount_eur']} EUR: {case.refund['refund']}.")
        if "Promise nothing" in self.system_prompt:
            found = case.found
            return Decision.act("shop.refund", payment=found["payment"], amount_eur=found["paid_eur"])
        return Decision.final("You will have your money back soon!")

    def reduce(self, case: Case, decision: Decision, results: list[dict[str, Any]]) -> None:
        """Take in what a step brought."""
        for action, result in zip(decision.actions, results, strict=False):
            if "error" not in result:
                setattr(case, "found" if action.tool == "shop.order" else "refund", result)


@critic(name="no_empty_promises")
def no_empty_promises(case: Case, decision: Any, results: Any) -> Any:  # noqa: ARG001 - a critic's signature
    """An answer may speak of money only if money was given back."""
    if decision.mode == "final" and "money" in decision.final_answer and not case.refund:
        return "retry", "it promises what was not done", "Promise nothing: do it first, then say so."
    return "continue"


def say(line: str) -> None:
    """Print progress."""
    print(line)  # noqa: T201 - an example shows what happens


def narrate(stage: Stage, moment: Moment) -> None:
    """A hook: what the agent decided, and what its critics said."""
    decision, verdict = moment.decision, moment.verdict
    if stage == "decide" and decision is not None:
        calls = ", ".join(f"{action.tool} {action.args}" for action in decision.actions)
        say(f"step {moment.step}: {calls or repr(decision.final_answer)}")
    if stage == "critic" and verdict is not None and verdict.action != "continue":
        say(f"        {verdict.critic} says {verdict.action}: {verdict.result.reason}")


async def main() -> EngineResult:
    """One case, from the question to the answer."""
    engine = Engine(
        Support(),
        critics=[no_empty_promises, SelfReflectionCritic(max_retries=2)],
        hooks=[narrate],
        actor=Actor(id="support-desk"),
    )
    result = await engine.run({"order": "o-17"})
    while result.gate is not None and result.gate.kind == "approval":
        shown = result.gate.shown
        say(f"        a person is asked: {shown['tool']} {shown['params']}")
        for name, source in sorted(shown["sources"].items()):
            say(f"            {name} comes from {source}")
        async with engine.runtime() as runtime:
            await runtime.approve(result.gate.id, actor=Actor(id="mara"), note="the lantern is broken")
        say("        mara approves")
        result = await engine.resume(result.session_id)
    say(f"answer: {result.final_answer}")
    say(f"        ended by {result.stop_reason} after {len(result.steps)} steps, session {result.status}")
    return result


if __name__ == "__main__":
    asyncio.run(main())
