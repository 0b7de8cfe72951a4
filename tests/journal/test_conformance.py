"""Every backend passes the shipped suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal
from tercet.testing.journal_suite import Backend, Case, cases

CONTENT_ADDRESSED = {"a_checkpoint_is_never_overwritten", "blobs_are_named_by_their_bytes"}


def backend(url: str) -> Backend:
    """The backend behind an address."""

    async def open_it() -> Journal:
        return await open_journal(url)

    return Backend(open=open_it)


def parameters(*, durable: bool) -> list[Any]:
    """The cases, named as their functions are, with the requirements they prove."""
    named = [(getattr(case, "__name__", repr(case)), case) for case in cases(durable=durable)]
    proofs = [[pytest.mark.req("R148")] if name in CONTENT_ADDRESSED else [] for name, _ in named]
    return [
        pytest.param(case, id=name, marks=marks) for (name, case), marks in zip(named, proofs, strict=True)
    ]


@pytest.mark.parametrize("case", parameters(durable=False))
async def test_memory_conforms(case: Case) -> None:
    """The journal in memory keeps every promise but durability."""
    await case(backend("memory:"))


@pytest.mark.parametrize("case", parameters(durable=True))
async def test_sqlite_conforms(case: Case, tmp_path: Path) -> None:
    """The journal in a SQLite file keeps every promise."""
    await case(backend(f"sqlite:///{tmp_path / 'runs.db'}"))


@pytest.mark.parametrize("case", parameters(durable=True))
async def test_postgres_conforms(case: Case, postgres_url: str) -> None:
    """The journal on a PostgreSQL server keeps every promise."""
    await case(backend(postgres_url))


def test_every_case_is_in_the_suite() -> None:
    """A case that somebody writes and forgets to list would never run."""
    names = {getattr(case, "__name__", "") for case in cases(durable=True)}
    written: set[str] = set()
    folder = Path(__file__).parents[2] / "src" / "tercet" / "testing"
    for module in ("appends", "leases", "storage", "clearing", "tasks"):
        source = folder / f"journal_{module}.py"
        for line in source.read_text(encoding="utf-8").splitlines():
            if line.startswith("async def ") and not line.startswith("async def _"):
                written.add(line.removeprefix("async def ").partition("(")[0])
    assert names == written
