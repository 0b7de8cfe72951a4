"""The address of a store: `memory:`, `sqlite:///runs.db`, `postgresql://…`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from tercet.contracts.errors import extra_missing
from tercet.database.schema import StoreKind

SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
LOCK_S = 5.0
"""How long to wait for a lock that another process holds."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a store is."""

    backend: Literal["memory", "sqlite", "postgres"]
    path: Path = Path()
    """The file, on SQLite."""


def parse_address(url: str, kind: StoreKind) -> Address:
    """Return where a store is; raises `UsageError` for an address that names none."""
    if url == "memory:":
        return Address(backend="memory")
    if url.startswith(_POSTGRES):
        return Address(backend="postgres")
    remedy = f'use "memory:", "{kind.example}" or "postgresql://host/database"'
    scheme, colon, rest = url.partition(":")
    if url.startswith(SQLITE):
        name = url.removeprefix(SQLITE)
        if not name or name == ":memory:" or "\0" in name:
            raise kind.unknown_address(f"{url!r} does not name a file", remedy)
        return Address(backend="sqlite", path=Path(name))
    if scheme == "sqlite" and (path := rest.removeprefix("//")):
        raise kind.unknown_address(
            f"{url!r} has too few slashes to be the address of a file",
            f'say "{SQLITE}{path}"; an absolute path makes four slashes, "{SQLITE}/var/lib/{kind.name}.db"',
        )
    if not colon and url:
        remedy = f'for a file, say "{SQLITE}{url}"; else {remedy}'
    raise kind.unknown_address(f"unknown kind of store {scheme!r} for {kind.noun}", remedy)


@contextmanager
def demand_driver(kind: StoreKind) -> Generator[None]:
    """Name the extra to install where importing the PostgreSQL backend fails for want of its driver."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise extra_missing(f"{kind.noun} on PostgreSQL", "asyncpg", "postgres") from error


class Closable(Protocol):
    """Something that is closed at the end."""

    async def close(self) -> None:
        """Let go of what is held."""
        ...


T = TypeVar("T", bound=Closable)


class Opening(Generic[T]):
    """A store about to be opened: await it, or enter it to have it closed at the end."""

    def __init__(self, open_store: Callable[[], Awaitable[T]]) -> None:
        self._open = open_store
        self._store: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._store = await self
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()
