"""Recorded runs to look back at: many small refunds, made in virtual time on a journal in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.workshop import ADA, Workshop, plan, step
from tercet.contracts.gate import Policy
from tercet.contracts.request import Request
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load

LOOSE = Policy(name="small_refunds", scope="step", effect="deny", expression="int(step.params.sum) <= 1000")
TIGHT = Policy(name="small_refunds", scope="step", effect="deny", expression="int(step.params.sum) <= 100")


def refunds(workshop: Workshop, policy: Policy, **header: Any) -> Pack:
    """A pack that pays sums back under one policy."""
    if not workshop.tools:
        workshop.tool("pay.back")
    return workshop.pack(policies=(policy,), **header)


def record(workshop: Workshop, pack: Pack, sums: Iterable[int]) -> list[Recording]:
    """One recorded run for each sum."""

    async def main() -> list[Recording]:
        journal = MemoryJournal()
        found: list[Recording] = []
        async with workshop.runtime(pack, journal) as runtime:
            for sum_ in sums:
                paid = plan(step("pay", "pay.back", params={"sum": sum_}))
                result = await runtime.run(Request(intent="work", input={"sum": sum_}), plan=paid, actor=ADA)
                found.append(await load(journal, "default", result.session_id))
        return found

    return workshop.run(main())
