"""Every store of evidence passes the shipped suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.evidence.opening import open_evidence
from tercet.evidence.store import EvidenceStore
from tercet.testing.evidence_suite import Case, EvidenceBackend, cases

PROOFS = {
    "a_fact_is_read_as_it_was_put": ("R16",),
    "a_chunk_is_cited_with_its_document": ("R210",),
}


def backend(url: str) -> EvidenceBackend:
    """The store behind an address."""

    async def open_it() -> EvidenceStore:
        return await open_evidence(url)

    return EvidenceBackend(open=open_it)


def parameters(*, durable: bool) -> list[Any]:
    """The cases, named as their functions are, with the requirements they prove."""
    named = [(getattr(case, "__name__", repr(case)), case) for case in cases(durable=durable)]
    return [
        pytest.param(case, id=name, marks=[pytest.mark.req(*PROOFS[name])] if name in PROOFS else [])
        for name, case in named
    ]


@pytest.mark.parametrize("case", parameters(durable=False))
async def test_memory_conforms(case: Case) -> None:
    """The store in memory keeps every promise but durability."""
    await case(backend("memory:"))


@pytest.mark.parametrize("case", parameters(durable=True))
async def test_sqlite_conforms(case: Case, tmp_path: Path) -> None:
    """The store in a SQLite file keeps every promise."""
    await case(backend(f"sqlite:///{tmp_path / 'evidence.db'}"))


@pytest.mark.parametrize("case", parameters(durable=True))
async def test_postgres_conforms(case: Case, postgres_url: str) -> None:
    """The store on a PostgreSQL server keeps every promise."""
    await case(backend(postgres_url))


def test_every_case_is_in_the_suite() -> None:
    """A case that somebody writes and forgets to list would never run."""
    names = {getattr(case, "__name__", "") for case in cases(durable=True)}
    written: set[str] = set()
    folder = Path(__file__).parents[2] / "src" / "tercet" / "testing"
    for module in ("snapshots", "suite"):
        for line in (folder / f"evidence_{module}.py").read_text(encoding="utf-8").splitlines():
            if line.startswith("async def ") and not line.startswith("async def _"):
                written.add(line.removeprefix("async def ").partition("(")[0])
    assert names == written
