"""Corrections stand beside the record of a run, without a lease, and go when the run does."""

from __future__ import annotations

import pytest

from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.errors import UsageError
from tercet.contracts.verdict import CriticReport
from tercet.engine.checks.retention import DAY_MS
from tercet.engine.streams.experience import LONGEST, add_feedback, feedback_of, find_feedback, read_feedback

TENANT = "default"
WORK = plan(step("a"), outputs={"n": {"$from": "a#/n"}})


async def test_a_correction_is_attached_to_the_record(workshop: Workshop) -> None:
    """It holds the record's hash and report, who said it and when, and the record itself stays as it was."""
    workshop.tool("do.it", no_compensation="none")

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
    ):
        result = await runtime.run(ASK, plan=WORK, actor=ADA)
        session = result.session_id
        before = await runtime.record(session)
        head = await journal.head(TENANT, session)
        for number, author in enumerate(("bob", "cleo"), 1):
            made = await add_feedback(
                journal,
                TENANT,
                session,
                author=author,
                correction=" wrong ",
                expected={"n": "b"},
                now=5_000,
            )
            assert made.id == f"{session}.f{number}"
        found = await read_feedback(journal, TENANT, session)
        assert [each.entry.author for each in found] == ["bob", "cleo"]
        entry = found[0].entry
        assert (entry.record_hash, entry.correction, entry.expected) == (
            result.record,
            "wrong",
            {"n": "b"},
        )
        assert entry.report == CriticReport.model_validate(before["report"])
        assert entry.given_at.timestamp() == 5
        assert await find_feedback(journal, TENANT, f"{session}.f2") == found[1]
        assert await runtime.record(session) == before
        assert await journal.head(TENANT, session) == head


async def test_what_cannot_be_corrected_is_told(workshop: Workshop) -> None:
    """A run that is not there or not over, a correction that says nothing, and an id that there is not."""
    workshop.tool("do.it", no_compensation="none", gates=("BOSS",))
    pack = workshop.pack(gates=({"name": "BOSS", "roles": ("boss",)},))

    async with workshop.journal("memory:") as journal, workshop.runtime(pack, journal) as runtime:
        session = (await runtime.run(ASK, plan=WORK, actor=ADA)).session_id
        wrong = {
            "session_not_over": (session, "no"),
            "unknown_session": ("ses_none", "no"),
            "no_correction": (session, "  "),
        }
        for code, (where, said) in {**wrong, "no_correction": (session, "x" * (LONGEST + 1))}.items():
            with pytest.raises(UsageError) as refused:
                await add_feedback(journal, TENANT, where, author="bob", correction=said, now=0)
            assert refused.value.code == code
        for name in (f"{session}.f1", session, "", "."):
            with pytest.raises(UsageError) as refused:
                await find_feedback(journal, TENANT, name)
            assert refused.value.code == "unknown_feedback"


async def test_corrections_are_forgotten_with_their_run(workshop: Workshop) -> None:
    """Pruning a session leaves nothing of what was said about it."""
    workshop.tool("do.it", no_compensation="none")

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
    ):
        session = (await runtime.run(ASK, plan=WORK, actor=ADA)).session_id
        await add_feedback(journal, TENANT, session, author="bob", correction="no", now=0)
        await workshop.clock.sleep(DAY_MS)
        assert await runtime.prune(older_than_ms=DAY_MS // 2) == 1
        assert (await journal.head(TENANT, feedback_of(session))).seq == 0
