"""Every backend passes the suite, whose cases use tenants of their own, so that they may share one store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from journal.suite import appends, clearing, leases, storage, tasks
from journal.suite.backend import Backend
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal

Case: TypeAlias = Callable[[Backend], Coroutine[Any, Any, None]]
"""One test of the suite; it raises `ConformanceError` where a journal falls short."""
CONTENT_ADDRESSED = {"a_checkpoint_is_never_overwritten", "blobs_are_named_by_their_bytes"}


def backend(url: str) -> Backend:
    """The backend behind an address."""

    async def open_it() -> Journal:
        return await open_journal(url)

    return Backend(open=open_it)


def cases(*, durable: bool) -> tuple[Case, ...]:
    """The cases for a backend; a durable one has a few more."""
    common = tuple(case for room in (appends, leases, storage, clearing, tasks) for case in room.CASES)
    more = (*appends.DURABLE_CASES, *clearing.DURABLE_CASES, *tasks.DURABLE_CASES)
    return (*common, *more) if durable else common


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
    for module in ("appends", "leases", "storage", "clearing", "tasks"):
        source = Path(__file__).parent / "suite" / f"{module}.py"
        for line in source.read_text(encoding="utf-8").splitlines():
            if line.startswith("async def ") and not line.startswith("async def _"):
                written.add(line.removeprefix("async def ").partition("(")[0])
    assert names == written
