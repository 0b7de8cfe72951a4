"""A run in a bundle reads as it does in its journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.workshop import ADA, Workshop
from tercet.contracts.errors import NotSent, UsageError
from tercet.engine.session_reader import load_state, read_record
from tercet.engine.streams import artifacts
from tercet.journal.chain import verify_chain
from tercet.journal.errors import BlobMissing, JournalClosed
from tercet.journal.protocol import Append, Journal
from tercet.packs.declared import read_declarations, write_declarations
from tercet.packs.pack import Pack
from tercet.replay.bundle.exporting import PackContent, export_run
from tercet.replay.bundle.reading import open_bundle

from .archive import TENANT, make, run_to_the_end, run_to_the_gate, shop

ROOT = Path(__file__).parents[2]
PACKS = sorted(path.parent for path in (ROOT / "examples").glob("*/pack.toml"))


def test_a_bundle_tells_what_its_journal_tells(workshop: Workshop, tmp_path: Path) -> None:
    """Events, chain, checkpoints, blobs, state, record and artifact are the same from the file."""
    pack = shop(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_end(workshop, pack, journal)
            path = tmp_path / "run.tercet"
            await export_run(journal, TENANT, session, path, packs=(PackContent(pack=pack),))
            with open_bundle(path) as bundle:
                copy = bundle.journal()
                assert isinstance(copy, Journal)
                assert await copy.read(TENANT, session) == await journal.read(TENANT, session)
                assert await copy.read(TENANT, session, after=3, limit=2) == await journal.read(
                    TENANT, session, after=3, limit=2
                )
                assert await verify_chain(copy, TENANT, session) == await journal.head(TENANT, session)
                assert await copy.checkpoints(TENANT, session) == await journal.checkpoints(TENANT, session)
                point = await copy.newest(TENANT, session, "point")
                assert point == await journal.newest(TENANT, session, "point")
                digests = await journal.blob_digests(TENANT, session)
                assert len(digests) >= 3
                assert await copy.blob_digests(TENANT, session) == digests
                for digest in digests:
                    assert await copy.blob(TENANT, digest) == await journal.blob(TENANT, digest)
                state = await load_state(copy, TENANT, session)
                assert state == await load_state(journal, TENANT, session)
                assert await read_record(copy, TENANT, state) == await read_record(journal, TENANT, state)
                assert await artifacts.artifact(copy, TENANT, session) == await artifacts.artifact(
                    journal, TENANT, session
                )
                row = await copy.session(TENANT, session)
                assert row is not None
                assert (row.status, [row]) == ("completed", await copy.sessions(TENANT))

    workshop.run(main())


def test_nothing_of_others_is_found_in_it_and_nothing_is_written(workshop: Workshop, tmp_path: Path) -> None:
    """Another tenant, stream or digest is not there; an append is refused; a closed one answers nothing."""
    exported = make(workshop, tmp_path / "run.tercet")
    session = exported.manifest.session

    async def main() -> None:
        with open_bundle(tmp_path / "run.tercet") as bundle:
            copy = bundle.journal()
            assert await copy.read("other", session) == []
            assert await copy.read(TENANT, "ses_other") == []
            assert (await copy.head(TENANT, "ses_other")).seq == 0
            assert await copy.sessions("other") == []
            assert await copy.checkpoints("other", session) == []
            assert await copy.newest(TENANT, session, "fold") is None
            with pytest.raises(BlobMissing):
                await copy.blob("other", bundle.blobs[0])
            with pytest.raises(BlobMissing):
                await copy.blob(TENANT, "sha256:00")
            with pytest.raises(UsageError, match="only be read"):
                await copy.append(Append(tenant=TENANT, stream=session, expected=0, events=(b"1{}",)))
            await copy.close()
            with pytest.raises(JournalClosed):
                await copy.read(TENANT, session)

    workshop.run(main())


def test_a_run_that_is_still_going_is_exported_as_far_as_it_is(workshop: Workshop, tmp_path: Path) -> None:
    """At its gate a run has a bundle too, which says that it is not over."""
    pack = shop(workshop)

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_gate(workshop, pack, journal)
            exported = await export_run(journal, TENANT, session, tmp_path / "run.tercet")
            assert (exported.manifest.status, exported.manifest.is_over) == ("awaiting_gate", False)
            with open_bundle(tmp_path / "run.tercet") as bundle:
                state = await load_state(bundle.journal(), TENANT, session)
                assert list(state.gates) == [f"{session}.g1"]
                assert bundle.pack() is None

    workshop.run(main())


def test_the_pack_of_a_bundle_judges_and_cannot_be_called(workshop: Workshop, tmp_path: Path) -> None:
    """It has the hash that the run was pinned to, and its tools raise."""
    exported = make(workshop, tmp_path / "run.tercet")
    with open_bundle(tmp_path / "run.tercet") as bundle:
        pack = bundle.pack()
        assert pack is not None
        assert pack.hash == exported.manifest.packs[0].hash
        assert [tool.name for tool in pack.tools] == ["do.it", "tell.all", "wipe.it"]
        with pytest.raises(NotSent, match="no code"):
            pack.tools[0].call(n=1)
        assert sorted(bundle.files(pack.hash)) == ["pack.toml", "tools.py"]
        assert bundle.read_file(pack.hash, "tools.py") == b"pass\n"
        with pytest.raises(UsageError):
            bundle.read_file(pack.hash, "../secrets")


def test_a_session_that_was_moved_brings_both_packs(workshop: Workshop, tmp_path: Path) -> None:
    """Each by its hash; the one that the session is pinned to now comes without asking."""
    old = shop(workshop)
    new = old.model_copy(update={"version": "1.1.0"})

    async def main() -> None:
        async with workshop.journal("memory:") as journal:
            session = await run_to_the_gate(workshop, old, journal)
            async with workshop.runtime(new, journal) as runtime:
                await runtime.migrate(session, actor=ADA)
            path = tmp_path / "run.tercet"
            contents = [PackContent(pack=each, files={"pack.toml": b"x"}) for each in (new, old)]
            exported = await export_run(journal, TENANT, session, path, packs=contents)
            assert [entry.hash for entry in exported.manifest.packs] == [old.hash, new.hash]
            with open_bundle(path) as bundle:
                last, first = bundle.pack(), bundle.pack(old.hash)
                assert (last and last.ref, first and first.ref) == ("workshop@1.1.0", "workshop@1.0.0")
                assert bundle.files(old.hash) == bundle.files(new.hash) != {}
            half = await export_run(journal, TENANT, session, tmp_path / "half.tercet", packs=contents[1:])
            assert [entry.included for entry in half.manifest.packs] == [True, False]
            with open_bundle(tmp_path / "half.tercet") as bundle:
                assert bundle.pack() is None

    workshop.run(main())


@pytest.mark.parametrize("folder", PACKS, ids=lambda path: path.name)
def test_the_declarations_of_a_pack_are_all_that_its_hash_is_over(folder: Path) -> None:
    """Every example's pack comes back from its declarations with the same hash."""
    pack = Pack.load(folder)
    again = read_declarations(write_declarations(pack))
    assert again.hash == pack.hash
    assert [tool.spec for tool in again.tools] == sorted(
        (tool.spec for tool in pack.tools), key=lambda spec: spec.name
    )


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"nonsense", b'{"calls": {}, "tools": [], "name": 3}'])
def test_what_is_no_declaration_is_refused(data: bytes) -> None:
    """Nonsense makes no pack, and says so."""
    with pytest.raises(UsageError, match="invalid pack declarations"):
        read_declarations(data)
