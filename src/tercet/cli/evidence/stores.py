"""The evidence store that a command uses: its URL, and how it is opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from tercet.cli import journals
from tercet.cli.options import option
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Request
from tercet.database.schema import SQLITE
from tercet.engine.evidence.library import NO_LIBRARY_EVIDENCE, Library, LibraryEvidence
from tercet.evidence.errors import StoreCorrupt, StoreUnavailable
from tercet.evidence.opening import open_evidence
from tercet.evidence.store import EvidenceStore
from tercet.executor.clock import SystemClock

T = TypeVar("T")

VARIABLE = "TERCET_EVIDENCE"
FILE = "evidence.db"

StoreUrl: TypeAlias = Annotated[
    str,
    option(
        "URL",
        f"The evidence store: sqlite:///FILE or postgresql://HOST/DATABASE; by default {VARIABLE}, else {FILE} beside the journal.",
        "--store",
        envvar=VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]


def store_url(given: str) -> str:
    """Return the URL of the store: the given one, or the one beside the journal."""
    if given:
        return given
    return _beside(os.environ.get(journals.VARIABLE) or journals.DEFAULT)


@asynccontextmanager
async def find_library(given: str, journal: str) -> AsyncGenerator[EvidenceStore | None]:
    """Open the store that runs search: the given one, else the one beside the journal if it exists."""
    url = given or _beside(journal)
    if not given and _is_missing(url):
        yield None
        return
    async with store_at(url) as store:
        yield store


@asynccontextmanager
async def open_library(given: str) -> AsyncGenerator[Library | None]:
    """Open the store that a run would search as a library; None if there is no store."""
    async with find_library(given, os.environ.get(journals.VARIABLE) or journals.DEFAULT) as store:
        yield None if store is None else Library(store)


async def read_evidence(library: Library | None, spec: DecisionSpec, request: Request) -> LibraryEvidence:
    """Return the evidence that a run for a request would take from its store at the start."""
    if library is None:
        return NO_LIBRARY_EVIDENCE
    return await library.select_evidence(journals.TENANT, spec, request, SystemClock().now())


def _beside(journal: str) -> str:
    is_file = journal.startswith(SQLITE)
    return f"{SQLITE}{Path(journal.removeprefix(SQLITE)).with_name(FILE)}" if is_file else journal


@asynccontextmanager
async def store_at(given: str, *, is_new: bool = False) -> AsyncGenerator[EvidenceStore]:
    """Open the store at a URL. A missing store is created only with `is_new`, since readers change nothing."""
    url = store_url(given)
    if not is_new:
        _require_store_file(url)
    try:
        store = await open_evidence(url)
    except (StoreUnavailable, StoreCorrupt) as error:
        raise UsageError(error.message, code=error.code, remedy=error.remedy) from error
    try:
        yield store
    finally:
        await store.close()


def use_store(url: str, act: Callable[[EvidenceStore], Awaitable[T]]) -> T:
    """Call `act` with the store at a URL, and close the store; see `store_at`."""

    async def use() -> T:
        async with store_at(url) as store:
            return await act(store)

    return asyncio.run(use())


def _is_missing(url: str) -> bool:
    return url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists()


def _require_store_file(url: str) -> None:
    if _is_missing(url):
        raise UsageError(
            f"there is no evidence in {url.removeprefix(SQLITE)}",
            code="evidence_not_found",
            remedy=f"tercet evidence add creates it; to use another store, pass --store URL or set {VARIABLE}",
        )
