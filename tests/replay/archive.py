"""Runs to look back at: a workshop's, with a gate, evidence and a large result, and what is done to bundles of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.journal.protocol import Append, Journal, NewCheckpoint
from tercet.packs.pack import Pack
from tercet.replay.bundle.exporting import Exported, PackContent, export_run
from tercet.replay.bundle.layout import FIRST_LINE
from tercet.replay.bundle.writing import Signer
from tercet.tools import ToolContext

TENANT = "default"
FACT = Evidence.model_validate(
    {"id": "kg:order:o1#snapshot_s1", "content": {"total": 3}, "source": "test", "trust": "trusted"}
)


async def large(_: ToolContext, params: dict[str, Any]) -> Any:
    """A result that does not fit into an event."""
    return {"text": "x" * 70_000, **params}


def shop(workshop: Workshop) -> Pack:
    """A pack with a tool that answers at length, one that is quick, and one that waits for a person."""
    workshop.tool("do.it", cost_microcents=40, no_compensation="none")
    workshop.tool("tell.all", large, no_compensation="none")
    workshop.tool("wipe.it", mode="destructive", gates=("BOSS",), authority=(), no_compensation="gone")
    return workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),), evidence=(FACT,))


async def run_to_the_gate(workshop: Workshop, pack: Pack, journal: Journal, *, is_large: bool = True) -> str:
    """A run that waits for its approval; its session."""
    course = plan(
        step("a", "tell.all" if is_large else "do.it", evidence_refs=(FACT.id,)),
        step("b", depends_on=("a",)),
        step("w", "wipe.it", depends_on=("b",)),
        outputs={"x": {"$from": "w#/n"}},
    )
    async with workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(ASK, plan=course, actor=ADA)
        assert result.status == "awaiting_gate"
        return result.session_id


async def run_to_the_end(workshop: Workshop, pack: Pack, journal: Journal, *, is_large: bool = True) -> str:
    """The same run, approved and completed."""
    session = await run_to_the_gate(workshop, pack, journal, is_large=is_large)
    async with workshop.runtime(pack, journal) as runtime:
        await runtime.approve(f"{session}.g1", actor=BOB)
        result = await runtime.resume(session)
        assert result.status == "completed"
    return session


def make(
    workshop: Workshop,
    path: Path,
    *,
    is_large: bool = False,
    signer: Signer | None = None,
    has_pack: bool = True,
) -> Exported:
    """A bundle of a completed run."""
    pack = shop(workshop)

    async def main() -> Exported:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_end(workshop, pack, journal, is_large=is_large)
            content = PackContent(
                pack=pack, files={"pack.toml": b"name = 'workshop'\n", "tools.py": b"pass\n"}
            )
            packs = (content,) if has_pack else ()
            return await export_run(journal, TENANT, session, path, packs=packs, signer=signer)

    return workshop.run(main())


async def copy(source: Journal, target: Journal, session: str, streams: Sequence[str]) -> None:
    """Put what one journal holds of a session into another, as the same bytes."""
    for stream in streams:
        events = tuple(each.data for each in await source.read(TENANT, stream))
        points = [
            NewCheckpoint(kind=each.kind, seq=each.seq, data=each.data)
            for each in await source.checkpoints(TENANT, stream)
        ]
        blobs = [await source.blob(TENANT, each) for each in await source.blob_digests(TENANT, stream)]
        await target.append(
            Append(
                tenant=TENANT, stream=stream, expected=0, events=events,
                checkpoints=tuple(points), blobs=tuple(blobs),
            )
        )  # fmt: skip


def split(data: bytes) -> list[bytes]:
    """The first line, every record with its payload, the end, and the signature of a bundle, as they stand in the file."""

    parts, rest = [FIRST_LINE], data[len(FIRST_LINE) :]
    while rest:
        line = rest[: rest.index(b"\n") + 1]
        header = json.loads(line[line.index(b" ") :])
        size = len(line) + (header["size"] + 1 if header["kind"] not in ("end", "signature") else 0)
        parts.append(rest[:size])
        rest = rest[size:]
    return parts
