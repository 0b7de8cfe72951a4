"""The conformance suite that every journal passes: memory, SQLite, PostgreSQL, and yours.

A case is a coroutine function that takes a `Backend` and raises `ConformanceError` if the backend fails it. Cases
use tenants of their own, so they may share one store. With pytest:

    @pytest.mark.parametrize("case", cases(durable=True), ids=lambda case: case.__name__)
    def test_conformance(case: Case) -> None:
        asyncio.run(case(Backend(open=open_mine)))
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tercet.testing import (
    journal_appends,
    journal_clearing,
    journal_leases,
    journal_storage,
    journal_tasks,
)
from tercet.testing.expectation import ConformanceError
from tercet.testing.journal_backend import Backend

__all__ = ["Backend", "Case", "ConformanceError", "cases"]

Case: TypeAlias = Callable[[Backend], Coroutine[Any, Any, None]]
"""One test of the suite; it raises `ConformanceError` where a journal falls short."""


def cases(*, durable: bool) -> tuple[Case, ...]:
    """Return the cases for a backend; a durable one has a few more."""
    rooms = (
        journal_appends,
        journal_leases,
        journal_storage,
        journal_clearing,
        journal_tasks,
    )
    common = tuple(case for room in rooms for case in room.CASES)
    more = (*journal_appends.DURABLE_CASES, *journal_clearing.DURABLE_CASES, *journal_tasks.DURABLE_CASES)
    return (*common, *more) if durable else common
