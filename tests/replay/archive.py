"""Runs to look back at: a workshop's, with a gate, evidence and a large result, and what is done to bundles of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.workshop import ADA, ASK, BOB, Workshop, plan, step
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate
from tercet.journal.protocol import Append, Journal, NewCheckpoint
from tercet.packs.pack import Pack
from tercet.replay.bundle.exporting import BundleWriter, Exported, PackContent, export_run
from tercet.replay.bundle.layout import FIRST_LINE, ORDER
from tercet.replay.bundle.signing import PrivateKey
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


async def run_to_the_gate(
    workshop: Workshop, pack: Pack, journal: Journal, *, is_large: bool = True, tenant: str = TENANT
) -> str:
    """A run that waits for its approval; its session."""
    course = plan(
        step("a", "tell.all" if is_large else "do.it", evidence_refs=(FACT.id,)),
        step("b", depends_on=("a",)),
        step("w", "wipe.it", depends_on=("b",)),
        outputs={"x": {"$from": "w#/n"}},
    )
    async with workshop.runtime(pack, journal, tenant=tenant) as runtime:
        result = await runtime.run(ASK, plan=course, actor=ADA)
        assert result.status == "awaiting_gate"
        return result.session_id


async def run_to_the_end(
    workshop: Workshop, pack: Pack, journal: Journal, *, is_large: bool = True, tenant: str = TENANT
) -> str:
    """The same run, approved and completed."""
    session = await run_to_the_gate(workshop, pack, journal, is_large=is_large, tenant=tenant)
    async with workshop.runtime(pack, journal, tenant=tenant) as runtime:
        await runtime.approve(f"{session}.g1", actor=BOB)
        result = await runtime.resume(session)
        assert result.status == "completed"
    return session


async def run_shortly(workshop: Workshop, pack: Pack, journal: Journal) -> str:
    """A run of one step that calls nothing."""
    async with workshop.runtime(pack, journal) as runtime:
        result = await runtime.run(ASK, plan=plan(step("a", None)), actor=ADA)
        assert result.status == "completed"
        return result.session_id


def make_small(workshop: Workshop, path: Path, *, signer: PrivateKey | None = None) -> Exported:
    """A bundle of the shortest run."""
    pack = workshop.pack()

    async def main() -> Exported:
        async with workshop.journal("memory:") as journal:
            session = await run_shortly(workshop, pack, journal)
            content = PackContent(pack=pack, files={"pack.toml": b"name = 'workshop'\n"})
            return await export_run(journal, TENANT, session, path, packs=(content,), signer=signer)

    return workshop.run(main())


def make(
    workshop: Workshop,
    path: Path,
    *,
    is_large: bool = False,
    signer: PrivateKey | None = None,
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


async def copy(source: Journal, target: Journal, tenant: str, streams: Sequence[str]) -> None:
    """Put what one journal holds in these streams into another, as the same bytes."""
    for stream in streams:
        events = tuple(each.data for each in await source.read(tenant, stream))
        points = [
            NewCheckpoint(kind=each.kind, seq=each.seq, data=each.data)
            for each in await source.checkpoints(tenant, stream)
        ]
        blobs = [await source.blob(tenant, each) for each in await source.blob_digests(tenant, stream)]
        await target.append(
            Append(
                tenant=tenant, stream=stream, expected=0, events=events,
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


def put_in(path: Path, *blobs: bytes) -> None:
    """More blobs for a bundle, each where it belongs."""
    records: list[tuple[dict[str, Any], bytes]] = []
    for part in split(path.read_bytes())[1:-1]:
        line, _, payload = part.partition(b"\n")
        records.append((json.loads(line[65:]), payload[:-1]))
    records += [({"kind": "blob", "sha256": sha256(blob).hexdigest()}, blob) for blob in blobs]
    # The kinds stand in an order of their own, and so do the blobs; a sort leaves everything else where it was.
    records.sort(
        key=lambda each: (ORDER.index(each[0]["kind"]), each[0]["sha256"] * (each[0]["kind"] == "blob"))
    )
    with path.open("wb") as file:
        writer = BundleWriter(file)
        for header, payload in records:
            more = {
                name: header[name]
                for name in ("stream", "seq", "checkpoint", "pack", "path")
                if name in header
            }
            writer.add(header["kind"], payload, **more)
        writer.finish()
