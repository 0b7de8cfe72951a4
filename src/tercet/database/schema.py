"""A kind of store, its address (`memory:`, `sqlite:///runs.db`, `postgresql://…`), and its SQL: named queries and numbered
migrations in .sql files beside the code that runs them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec

from tercet.contracts.errors import TercetError, UsageError, extra_missing

_NAME = re.compile(r"^-- name: (?P<name>\w+)\n", re.MULTILINE)
_MIGRATION = re.compile(r"(?P<version>\d{3})_\w+\.sql")


class Newer(Protocol):
    """The error for a store that a newer version of Tercet wrote."""

    def __call__(self, place: str, *, version: int, known: int) -> TercetError:
        """Make the error."""
        ...


class StoreFault(TercetError):  # noqa: N818 - the base of refusals that are named by what happened
    """An error that names the place of a store and the reason; each kind has its sentence and its remedy."""

    sentence: ClassVar[str]
    usual_remedy: ClassVar[str]

    def __init__(self, place: str, reason: str, *, remedy: str | None = None) -> None:
        super().__init__(self.sentence.format(place=place, reason=reason), remedy=remedy or self.usual_remedy)
        self.place = place


@dataclass(frozen=True, kw_only=True)
class StoreKind:
    """The journal or the evidence: how it is named in messages, and the errors that its users expect."""

    name: str
    """Its table of schema versions is this name and `_schema`."""
    noun: str
    example: str
    """An address, for remedies."""
    unknown: str
    """The code of the error for an address that names no store."""
    foreign: str
    """The code of the error for a database that holds something else."""
    migration_lock: int
    """The advisory lock on PostgreSQL that keeps two processes from migrating at once."""
    busy: type[StoreFault]
    full: type[StoreFault]
    corrupt: type[StoreFault]
    unavailable: type[StoreFault]
    newer: Newer
    closed: Callable[[], TercetError]

    def unknown_address(self, message: str, remedy: str) -> UsageError:
        """Return the error for an address that names no store of this kind."""
        return UsageError(message, code=self.unknown, remedy=remedy)


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema, which leads to `version`."""

    version: int
    script: str


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The SQL of a store on one database."""

    kind: StoreKind
    queries: Mapping[str, str]
    """By the names in the `-- name:` lines of `queries.sql`."""
    migrations: tuple[Migration, ...]
    """Oldest first; their numbers are the versions that they lead to."""
    pragmas: tuple[str, ...] = ()
    """Settings of every connection to SQLite."""

    @property
    def version(self) -> int:
        """The newest version."""
        return self.migrations[-1].version

    @property
    def table(self) -> str:
        """The table of the versions that a store has gone through."""
        return f"{self.kind.name}_schema"

    def demand_known(self, version: int, place: str) -> int:
        """Return a version, or raise the store's error for one that is newer than this Tercet."""
        if version > self.version:
            raise self.kind.newer(place, version=version, known=self.version)
        return version


class Session(Protocol):
    """A connection as a store uses it, inside of one transaction: queries by name, their parameters by position."""

    async def fetch(self, query: str, *parameters: Any) -> list[Any]:
        """Return all rows of a query."""
        ...

    async def fetch_row(self, query: str, *parameters: Any) -> Any:
        """Return the first row of a query, or None."""
        ...

    async def fetch_value(self, query: str, *parameters: Any) -> Any:
        """Return the first column of the first row, or None."""
        ...

    async def execute(self, query: str, *parameters: Any) -> None:
        """Run a statement."""
        ...

    async def try_execute(self, query: str, *parameters: Any) -> bool:
        """Run a statement; return False if another row has what must be unique, after which only a rollback works."""
        ...


SessionT_co = TypeVar("SessionT_co", bound=Session, covariant=True)
T = TypeVar("T")


class Transactions(Protocol[SessionT_co]):
    """The connections of a store."""

    async def read(self, tenant: str, act: Callable[[SessionT_co], Coroutine[Any, Any, T]]) -> T:
        """Run queries for one tenant; a server lets them see no row of another."""
        ...

    async def write(
        self, act: Callable[[SessionT_co], Coroutine[Any, Any, T]], *, is_repeatable: bool = False
    ) -> T:
        """Run something in one transaction; if it is repeatable, doing it twice is the same as doing it once."""
        ...

    async def close(self) -> None:
        """Wait for what is in progress and close the connections."""
        ...


def read_schema(package: str, kind: StoreKind, *, pragmas: tuple[str, ...] = ()) -> Schema:
    """Read the queries and migrations that lie in a package."""
    folder = files(package)
    parts = _NAME.split(folder.joinpath("queries.sql").read_text(encoding="utf-8"))
    queries = {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    migrations = [
        Migration(int(match["version"]), entry.read_text(encoding="utf-8"))
        for entry in folder.joinpath("migrations").iterdir()
        if (match := _MIGRATION.fullmatch(entry.name))
    ]
    migrations.sort(key=lambda each: each.version)
    return Schema(kind=kind, queries=queries, migrations=tuple(migrations), pragmas=pragmas)


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
        """Release the resources."""
        ...


StoreT = TypeVar("StoreT", bound=Closable)


class Opening(Generic[StoreT]):
    """A store about to be opened: await it, or enter it to have it closed at the end."""

    def __init__(self, open_store: Callable[[], Awaitable[StoreT]]) -> None:
        self._open = open_store
        self._store: StoreT | None = None

    def __await__(self) -> Generator[Any, Any, StoreT]:
        return self._open().__await__()

    async def __aenter__(self) -> StoreT:
        self._store = await self
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()
