"""The evidence of a session: frozen when it starts, whatever becomes of the pack's files."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from tercet.contracts.errors import ReplayError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.contracts.request import Actor
from tercet.engine import checkpoint
from tercet.engine.session_reader import restore
from tercet.journal.protocol import CheckpointKind, Journal, StoredCheckpoint
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.tools import ToolContext

from .workshop import ASK, Workshop, plan, step

FACT = "kg:window:w1#snapshot_monday"
BOSS = Gate(name="BOSS", roles=("boss",))
ADA, BOB = Actor(id="ada"), Actor(id="bob", roles=("boss",))


def pack_of(workshop: Workshop, content: int | None, resume: str) -> Pack:
    """A pack whose one fact says this, or that has none."""
    facts = () if content is None else (Evidence(id=FACT, content={"days": content}, trust="trusted"),)  # pyright: ignore[reportArgumentType] - parsed as every border parses it
    return workshop.pack(gates=(BOSS,), evidence=facts, session={"resume": resume})


@pytest.mark.req("R136", "R252", "R253")
@pytest.mark.parametrize("later", [31, None], ids=["changed", "gone"])
@pytest.mark.parametrize("resume", ["same", "pinned"])
async def test_a_session_keeps_its_evidence(
    workshop: Workshop, url: str, later: int | None, resume: str
) -> None:
    """Where the pack says `pinned` it goes on with the facts that it was started with; else it is refused, and says so."""
    workshop.tool(
        "wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone is gone"
    )
    wiping = plan(step("w", "wipe.it", params={"n": {"$evidence": f"{FACT}#/days"}}))

    async def main() -> None:
        async with workshop.journal(url) as journal:
            async with workshop.runtime(pack_of(workshop, 30, resume), journal) as runtime:
                result = await runtime.run(ASK, plan=wiping, actor=ADA)
                assert result.gate is not None
                await runtime.approve(result.gate.id, actor=BOB)
            async with workshop.runtime(pack_of(workshop, later, resume), journal) as runtime:
                if resume == "same":
                    with pytest.raises(UsageError) as caught:
                        await runtime.resume(result.session_id)
                    assert caught.value.code == "snapshot_version_mismatch"
                    return
                assert (await runtime.resume(result.session_id)).status == "completed"
                state = await runtime.state(result.session_id)
                kept = msgspec.json.decode(await journal.blob("default", state.start.evidence))
                assert [fact["content"] for fact in kept] == [{"days": 30}]

    await main()
    assert len(workshop.calls) == (1 if resume == "pinned" else 0)


class Spoilt:
    """A journal whose folds were written by another version."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def newest(self, tenant: str, stream: str, kind: CheckpointKind) -> StoredCheckpoint | None:
        """The newest checkpoint, with bytes that say nothing to this version if it is a fold."""
        found = await self._journal.newest(tenant, stream, kind)
        if found is None or kind != "fold":
            return found
        return msgspec.structs.replace(found, data=b"from another version")


@pytest.mark.req("R152", "R155")
async def test_a_fold_that_cannot_be_read_is_done_without(workshop: Workshop) -> None:
    """A fold only saves time: the events alone come to the same state."""
    workshop.is_forged = True
    runtimes: list[Runtime] = []

    async def stop(context: ToolContext, params: dict[str, Any]) -> Any:
        runtimes[0].stop()
        return {}

    workshop.tool("stop.it", stop, idempotent=True)
    workshop.tool("do.it", idempotent=True)

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
    ):
        runtimes.append(runtime)
        both = plan(step("a", "stop.it"), step("b", depends_on=["a"]))
        result = await runtime.run(ASK, plan=both)
        assert result.status == "paused"
        wanted = await runtime.state(result.session_id)
        spoilt = Spoilt(journal)
        stored = await spoilt.newest("default", result.session_id, "fold")
        assert stored is not None
        with pytest.raises(ReplayError, match="another version"):
            checkpoint.read_fold(stored)
        found = await restore(cast("Journal", spoilt), "default", result.session_id)
        assert found.state == wanted
        assert (await runtime.resume(result.session_id)).status == "completed"
