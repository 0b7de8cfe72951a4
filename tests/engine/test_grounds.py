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
VALUES = (
    {
        "name": "total",
        "from": "order#/total",
        "type": "money",
        "currency": "EUR",
        "labels": {"en": ["total"]},
    },
)


def judged(letter: str, *pinned: str) -> list[e.OutputsVerified]:
    """What VERIFY said each time of a letter that a tool wrote, with so much evidence pinned."""
    workshop = Workshop()

    async def write(_: Any, __: dict[str, Any]) -> dict[str, Any]:
        return {"letter": letter}

    workshop.tool("do.it", write, mode="read_only")
    pack = workshop.pack(
        decision={
            "required_outputs": ("letter",),
            "description": "Write a letter.",
            "quality": {"values": VALUES},
        },
        evidence=ORDERS,
    )

    async def main() -> list[e.OutputsVerified]:
        async with workshop.runtime(pack) as runtime:
            one = step("a", evidence_refs=pinned)
            result = await runtime.run(ASK, plan=plan(one, declared_outputs=("letter",)), actor=ADA)
            found = await events(runtime.journal, result.session_id)
            return [event for event in found if isinstance(event, e.OutputsVerified)]

    return workshop.run(main())


@pytest.mark.parametrize(("pinned", "status"), [((FIRST,), "unknown"), ((), "found")])
def test_another_order_bears_nothing_out_about_the_pinned_one(pinned: tuple[str, ...], status: str) -> None:
    """The day of the other order is not known to this one; where nothing is pinned, all that is known counts."""
    said = judged("Your order came. It was delivered on 8 May 2026.", *pinned)[0]
    (token,) = said.verdict["tokens"]
    assert (token["token"]["text"], token["status"]) == ("8 May 2026", status)


def test_a_draft_is_no_witness_for_or_against_what_became_of_it() -> None:
    """What the tool wrote is no source: its own values are not known because it states them."""
    letter = "Your order was delivered on 7 May 2026. We won the Aurora Award in 2025. The total is 74 EUR."
    for said in judged(letter, FIRST):
        found = {each["token"]["text"]: (each["status"], each["sources"]) for each in said.verdict["tokens"]}
        assert found["2025"] == ("unknown", [])
        assert {source.partition("#/")[0] for _, sources in found.values() for source in sources} == {FIRST}
