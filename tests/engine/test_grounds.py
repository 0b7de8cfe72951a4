"""What outputs stand on: the evidence that their plan has pinned, and never what they were before they were mended."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.core import events as e

from .workshop import ADA, ASK, Workshop, events, plan, step

ORDERS = tuple(
    Evidence(
        id=f"kg:order:{key}#snapshot_s1",
        classification="order",
        content={"order_id": key, "total": total, "currency": "EUR", "delivered_on": day},
        trust=Trust.TRUSTED,
    )
    for key, total, day in (("o1", 74, "2026-05-07"), ("o2", 129, "2026-05-08"))
)
FIRST = ORDERS[0].id


def judged(letter: str, *pinned: str) -> list[e.OutputsVerified]:
    """What VERIFY said each time of a letter that a tool wrote, with so much evidence pinned."""
    workshop = Workshop()

    async def write(_: Any, __: dict[str, Any]) -> dict[str, Any]:
        return {"letter": letter}

    workshop.tool("do.it", write, mode="read_only")
    pack = workshop.pack(
        decision={"required_outputs": ("letter",), "description": "Write a letter.", "quality": {}},
        evidence=ORDERS,
    )

    async def main() -> list[e.OutputsVerified]:
        async with workshop.runtime(pack) as runtime:
            one = step("a", evidence_refs=pinned)
            result = await runtime.run(ASK, plan=plan(one, declared_outputs=("letter",)), actor=ADA)
            found = await events(runtime.journal, result.session_id)
            return [event for event in found if isinstance(event, e.OutputsVerified)]

    return workshop.run(main())


@pytest.mark.parametrize(("pinned", "label"), [((FIRST,), "CONTRADICT"), ((), "ENTAIL")])
def test_another_order_bears_nothing_out_about_the_pinned_one(pinned: tuple[str, ...], label: str) -> None:
    """The day of the other order is wrong for this one; where nothing is pinned, all that is known counts."""
    said = judged("Your order came. It was delivered on 8 May 2026.", *pinned)[0]
    (claim,) = (one for one in said.verdict["claims"] if "8 May" in one["claim"]["text"])
    assert claim["label"] == label


def test_a_draft_is_no_witness_for_or_against_what_became_of_it() -> None:
    """When a claim was taken out, what the tool wrote is still there: nothing is held against it."""
    letter = "Your order was delivered on 7 May 2026. We won the Aurora Award in 2025. The total is 74 EUR."
    first, second = judged(letter, FIRST)
    assert "Aurora" in str(first.verdict["claims"])
    assert "Aurora" not in str(second.verdict["claims"])
    cited = {one["evidence"] for claim in second.verdict["claims"] for one in claim["support"]}
    assert cited == {FIRST}
