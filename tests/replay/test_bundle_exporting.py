"""The same run gives the same bytes, wherever it is kept; and making a bundle leaves nothing half-done behind."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from critics.bench import Scripted, act, counted, run
from engine.workshop import ADA, Workshop, plan, step
from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.request import Request
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import events as e
from tercet.critics import CriticResult, Decision, critic
from tercet.engine.checks.provenance import audit_of, provenance_of, read_trail
from tercet.journal.errors import JournalCorrupt
from tercet.journal.memory import MemoryJournal
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Append, Journal, Stored
from tercet.packs.declared import read_files
from tercet.packs.pack import Pack
from tercet.replay.bundle.exporting import PackContent, export_run, new_file
from tercet.replay.bundle.reading import open_bundle, verify_bundle

from .archive import TENANT, copy, make, put_in, run_to_the_end, run_to_the_gate, shop

ROOT = Path(__file__).parents[2]
REFUNDS = ROOT / "examples" / "refunds"


def entries(folder: Path) -> list[str]:
    """What lies in a folder."""
    return [path.name for path in folder.iterdir()]


def test_every_store_gives_the_same_bytes(workshop: Workshop, tmp_path: Path, postgres_url: str) -> None:
    """A run whose events lie in memory, in SQLite and in PostgreSQL has one bundle; exporting it twice changes nothing."""
    pack, tenant = shop(workshop), f"tenant-{uuid4().hex}"

    async def export(journal: Journal, session: str, name: str) -> bytes:
        path = tmp_path / name
        await export_run(journal, tenant, session, path, packs=(PackContent(pack=pack),))
        return path.read_bytes()

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_end(workshop, pack, journal, tenant=tenant)
            first = await export(journal, session, "first")
            assert await export(journal, session, "again") == first
            with open_bundle(tmp_path / "first") as bundle:
                streams = bundle.streams
            for name, url in (("sqlite", f"sqlite:///{tmp_path / 'runs.db'}"), ("postgres", postgres_url)):
                with workshop.clock.hold():
                    async with open_journal(url) as other:
                        await other.append(
                            Append(tenant=tenant, stream="x", expected=0, blobs=(b"of another",))
                        )
                        await copy(journal, other, tenant, streams)
                        assert await export(other, session, name) == first

    workshop.run(main())


@pytest.mark.slow
def test_another_process_elsewhere_gives_the_same_bytes(workshop: Workshop, tmp_path: Path) -> None:
    """Neither the hash seed, nor the time zone, nor the folder or the name of the file reaches it."""
    pack = shop(workshop)

    async def main() -> str:
        async with workshop.journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
            return await run_to_the_end(workshop, pack, journal)

    session = workshop.run(main())
    made: list[bytes] = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        command = [sys.executable, "-m", "tercet", "export", session, "-o", f"{seed}.tercet"]
        url = f"sqlite:///{tmp_path / 'runs.db'}"
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC-{seed}", "TERCET_JOURNAL": url}
        subprocess.run(command, check=True, cwd=folder, env=environment, capture_output=True)
        made.append((folder / f"{seed}.tercet").read_bytes())
    assert made[0] == made[1]


class Forgetful(MemoryJournal):
    """A journal from before the uses of blobs were recorded."""

    async def blob_digests(
        self, tenant: str, stream: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Nobody knows."""
        del tenant, stream, after, limit
        return []


def test_blobs_that_nobody_is_known_to_have_brought_go_along(workshop: Workshop, tmp_path: Path) -> None:
    """What events name is found, as in a journal that knows more."""
    pack = shop(workshop)

    async def main() -> None:
        journal, old = MemoryJournal(), Forgetful()
        session = await run_to_the_end(workshop, pack, journal)
        await export_run(journal, TENANT, session, tmp_path / "new")
        with open_bundle(tmp_path / "new") as bundle:
            assert len(bundle.blobs) == 4
            await copy(journal, old, TENANT, bundle.streams)
        await export_run(old, TENANT, session, tmp_path / "old")

    workshop.run(main())
    assert (tmp_path / "old").read_bytes() == (tmp_path / "new").read_bytes()


def test_a_run_of_an_agent_is_exported_as_any_other(tmp_path: Path) -> None:
    """Turns, a prompt that a critic changed, and a retry: all of it is in the bundle, and its provenance is told."""
    journal = MemoryJournal()

    @critic
    def judge(state: Any, decision: Any, results: Any) -> Any:
        state.metadata["n"] = state.metadata.get("n", 0) + 1
        return (
            CriticResult("retry", "again", modified_prompt="Other.")
            if state.metadata["n"] == 1
            else "continue"
        )

    agent = Scripted(
        [lambda s: act(str(s.metadata.get("n"))), Decision.final("done")], [counted("desk.say")[0]]
    )
    session = run(agent, [judge], journal=journal).session_id

    async def main() -> None:
        exported = await export_run(journal, TENANT, session, tmp_path / "it")
        assert exported.manifest.status == "completed"
        with open_bundle(tmp_path / "it") as bundle:
            trail = await read_trail(bundle.journal(), TENANT, session)
        turns = [event for event in trail.events if isinstance(event, e.TurnJudged)]
        assert turns[0].prompt == "Other."
        assert audit_of(trail).checkpoint_chain[-1].status == "completed"
        assert len(provenance_of(trail).tool_invocations) == 2

    asyncio.run(main())


def test_a_hash_in_a_request_brings_nothing(workshop: Workshop, tmp_path: Path) -> None:
    """Whoever can write the hash of another run's blob into their own does not get it exported."""
    pack = shop(workshop)
    secret = b"of another run"
    asking = Request(intent="work", input={"evidence": hash_bytes(secret), "blob": hash_bytes(secret)})

    async def main() -> None:
        journal = MemoryJournal()
        await journal.append(Append(tenant=TENANT, stream="other", expected=0, blobs=(secret,)))
        async with workshop.runtime(pack, journal) as runtime:
            result = await runtime.run(asking, plan=plan(step("a")), actor=ADA)
        await export_run(journal, TENANT, result.session_id, tmp_path / "it")

    workshop.run(main())
    data = (tmp_path / "it").read_bytes()
    assert hash_bytes(secret).encode() in data
    assert secret not in data


def test_a_file_that_is_there_is_left_alone_unless_forced(workshop: Workshop, tmp_path: Path) -> None:
    """Neither its bytes nor a half of the new one are touched; forced, it is replaced whole."""
    path = tmp_path / "run.tercet"
    path.write_bytes(b"mine")
    with pytest.raises(UsageError) as caught:
        make(workshop, path)
    assert (caught.value.code, path.read_bytes()) == ("file_exists", b"mine")
    with new_file(path, is_forced=True) as file:
        file.write(b"new")
        assert path.read_bytes() == b"mine"
    assert (path.read_bytes(), entries(tmp_path)) == (b"new", ["run.tercet"])


def test_a_file_that_appears_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """Somebody else was quicker: theirs stays, and ours is gone."""
    path = tmp_path / "run.tercet"

    def write() -> None:
        with new_file(path, is_forced=False) as file:
            file.write(b"ours")
            path.write_bytes(b"theirs")

    with pytest.raises(UsageError, match="already exists"):
        write()
    assert (path.read_bytes(), entries(tmp_path)) == (b"theirs", ["run.tercet"])


@pytest.mark.parametrize(("name", "code"), [(".", "not_a_file"), ("nowhere/run.tercet", "missing_folder")])
def test_where_no_file_can_be_made_is_told(workshop: Workshop, tmp_path: Path, name: str, code: str) -> None:
    """A folder, and a folder that is not there."""
    with pytest.raises(UsageError) as caught:
        make(workshop, tmp_path / name)
    assert caught.value.code == code


class Bitten(MemoryJournal):
    """A journal whose third event was changed where it lies."""

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        """The events, with a byte of the third one turned over."""
        found = await super().read(tenant, stream, after=after, limit=limit)
        return [
            Stored(each.seq, each.data.replace(b"workshop", b"workshap"), each.chain)
            if each.seq == 1 and self.is_bitten
            else each
            for each in found
        ]

    is_bitten = False


def test_a_damaged_journal_is_not_handed_on(workshop: Workshop, tmp_path: Path) -> None:
    """The error names the event, and no file is left."""
    pack = shop(workshop)

    async def main() -> None:
        journal = Bitten()
        session = await run_to_the_gate(workshop, pack, journal)
        journal.is_bitten = True
        with pytest.raises(JournalCorrupt, match="event 1 of stream"):
            await export_run(journal, TENANT, session, tmp_path / "run.tercet")

    workshop.run(main())
    assert entries(tmp_path) == []


def test_a_session_that_is_not_there_and_a_pack_that_it_never_had_are_told(
    workshop: Workshop, tmp_path: Path
) -> None:
    """Both before a file is made."""
    pack = shop(workshop)
    other = pack.model_copy(update={"version": "2.0.0"})

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            with pytest.raises(UsageError, match="no session"):
                await export_run(journal, TENANT, "ses_none", tmp_path / "run.tercet")
            session = await run_to_the_gate(workshop, pack, journal)
            with pytest.raises(UsageError) as caught:
                await export_run(
                    journal, TENANT, session, tmp_path / "run.tercet", packs=(PackContent(pack=other),)
                )
            assert caught.value.code == "pack_version_mismatch"
            assert f"was pinned to {pack.ref} with hash {pack.hash[:20]}…" in caught.value.message
            assert f"the folder given has {other.ref} with hash {other.hash[:20]}…" in caught.value.message

    workshop.run(main())
    assert entries(tmp_path) == []


def test_of_a_folder_only_what_makes_the_pack_goes_along(tmp_path: Path) -> None:
    """Neither databases, nor secrets, nor people, nor evidence that lie beside it; and no link is followed."""
    folder = shutil.copytree(REFUNDS, tmp_path / "pack", ignore=shutil.ignore_patterns("*.db", "__pycache__"))
    (folder / ".env").write_text("TOKEN=tk_5f0e9c1b7a3d2846")
    (folder / "notes.txt").write_text("mine")
    pack = Pack.load(folder)
    files = read_files(folder, pack)
    assert {"pack.toml", "tools.py", "decisions.toml"} <= files.keys()
    assert not {".env", "notes.txt", "actors.toml"} & files.keys()
    assert not any(name.startswith("evidence") for name in files)
    for name in pack.code.keys() & files.keys():
        assert f"sha256:{hashlib.sha256(files[name]).hexdigest()}" == pack.code[name]
    (folder / "tools.py").unlink()
    (folder / "tools.py").symlink_to(REFUNDS / "tools.py")
    with pytest.raises(PackError):
        read_files(folder, pack)


def test_memory_does_not_grow_with_the_file(workshop: Workshop, tmp_path: Path) -> None:
    """Looking at every byte of 32 MB takes less than one of them."""
    path = tmp_path / "run.tercet"
    make(workshop, path)
    put_in(path, bytes(2**25))
    tracemalloc.start()
    finding = verify_bundle(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (finding.answer, path.stat().st_size > 2**25) == ("intact", True)
    assert most < 2**20
