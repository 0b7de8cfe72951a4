"""Reading recorded runs, from the journal or from bundles, and writing the files that commands make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tercet.cli.journals import complete_run, is_bundle, journal_at, tenant_of
from tercet.cli.options import argument, flag, option, recorded_status
from tercet.contracts.errors import ReplayError, TercetError, UsageError
from tercet.core.codec import CodecError
from tercet.core.fold.base import IllegalEvent
from tercet.engine.session_reader import list_rows
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal
from tercet.replay.bundle.exporting import demand_free, new_file
from tercet.replay.bundle.layout import SUFFIX
from tercet.replay.bundle.reading import open_bundle
from tercet.replay.bundle.signing import BundleDamaged
from tercet.replay.recording import Recording, load, load_bundle, load_run

RunName: TypeAlias = Annotated[
    str,
    argument("RUN", "A session id, or the file of a bundle.", callback=complete_run),
]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A recorded run and where it was read from."""

    journal: Journal
    tenant: str
    session: str


@asynccontextmanager
async def run_at(name: str, url: str) -> AsyncGenerator[Source]:
    """Open the run with this name: a bundle if it is a file name, else a session of the journal at `url`.

    Unexpected errors while it is read are raised as `BundleDamaged` or `JournalCorrupt`: forged events can make
    reading fail in any way.
    """
    if is_bundle(name):
        with open_bundle(name) as bundle, _as_bundle_damage(), _unexpected_as(_bundle_fault):
            manifest = bundle.manifest
            yield Source(journal=bundle.journal(), tenant=manifest.tenant, session=manifest.session)
        return
    async with journal_at(url) as journal:
        with _unexpected_as(lambda reason: JournalCorrupt(f"stream {name}", reason)):
            yield Source(journal=journal, tenant=tenant_of(journal), session=name)


def _bundle_fault(reason: str) -> BundleDamaged:
    """Return the error for a bundle whose bytes are intact and whose events contradict each other."""
    return BundleDamaged(record=0, name="the events", damage="inconsistent", reason=reason)


@contextmanager
def _as_bundle_damage() -> Generator[None]:
    """Raise errors about the run in a bundle as errors of the bundle."""
    try:
        yield
    except BundleDamaged:
        raise
    except (JournalCorrupt, ReplayError, IllegalEvent, CodecError, BlobMissing) as error:
        raise _bundle_fault(error.message) from error


@contextmanager
def _unexpected_as(fault: Callable[[str], TercetError]) -> Generator[None]:
    """Raise unexpected errors as the typed error that `fault` makes of a reason."""
    try:
        yield
    except (TercetError, OSError):
        raise
    except Exception as error:
        raise fault(f"its events contradict each other ({type(error).__name__}: {error})") from error


def complete_runs(ctx: typer.Context, value: list[str] | None) -> list[str] | None:
    """Return the full ids of sessions and the files of bundles, for a folder those in it."""
    return None if value is None else [run for each in value for run in _runs_named(ctx, each)]


def _runs_named(ctx: typer.Context, name: str) -> list[str]:
    if not Path(name).is_dir():
        return [complete_run(ctx, name) or name]
    if found := sorted(map(str, Path(name).glob(f"*{SUFFIX}"))):
        return found
    raise UsageError(
        f"there are no bundles in the folder {name}",
        code="no_runs",
        remedy=f"tercet export ID -o {Path(name, f'ID{SUFFIX}')} writes one",
    )


_RUNS = argument(
    "RUN", "Session ids, bundles that tercet export wrote, or folders of bundles.", callback=complete_runs
)
Runs: TypeAlias = Annotated[list[str] | None, _RUNS]
NamedRuns: TypeAlias = Annotated[list[str], _RUNS]
"""At least one run."""
Intent: TypeAlias = Annotated[str | None, option("INTENT", "With --all: only runs with this intent.")]
Status: TypeAlias = Annotated[
    str | None, option("STATUS", "With --all: only runs with this status, such as completed.")
]
Everything: TypeAlias = Annotated[bool, flag("Every run of the journal.", "--all")]


def require_runs(runs: Sequence[str], *, is_all: bool, intent: str | None, status: str | None) -> None:
    """Raise `UsageError` if no run is named, or both runs and --all, or an unknown status."""
    recorded_status(status)
    if bool(runs) == is_all or ((intent or status) and not is_all):
        raise UsageError(
            "name runs by their ids, files or folders, or pass --all",
            code="which_runs",
            remedy="tercet sessions list shows the ids; --intent and --status go with --all",
        )


class RunReader:
    """The selected runs, each read when it is needed, so that memory does not grow with their number."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Recording]) -> None:
        self._names = names
        self._read = read

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Recording]:
        return map(self._read, self._names)


@contextmanager
def open_runs(
    url: str, runs: Sequence[str], *, is_all: bool, intent: str | None = None, status: str | None = None
) -> Generator[RunReader]:
    """Open the selected runs; the journal is opened only if needed. Raises `UsageError` if there are none."""
    with asyncio.Runner() as runner:
        if not is_all and all(map(is_bundle, runs)):
            yield RunReader(runs, lambda name: runner.run(load_bundle(Path(name))))
            return
        at = journal_at(url)
        journal = runner.run(at.__aenter__())
        try:
            names = runner.run(_names(journal, intent, status)) if is_all else runs
            yield RunReader(names, lambda name: runner.run(_read(journal, name, is_all=is_all)))
        finally:
            runner.run(at.__aexit__(None, None, None))


async def _names(journal: Journal, intent: str | None, status: str | None) -> list[str]:
    rows = list_rows(journal, tenant_of(journal), intent=intent, status=recorded_status(status))
    if not (found := [row.session_id async for row in rows]):
        raise UsageError(
            "no run of the journal matches",
            code="no_runs",
            remedy="tercet sessions list shows the sessions with intent and status",
        )
    return found


async def _read(journal: Journal, name: str, *, is_all: bool) -> Recording:
    if is_all:
        return await load(journal, tenant_of(journal), name)
    return await (load_bundle(Path(name)) if is_bundle(name) else load_run(journal, tenant_of(journal), name))


def read_runs(
    url: str, runs: Sequence[str], *, is_all: bool, intent: str | None = None, status: str | None = None
) -> list[Recording]:
    """Read all selected runs into memory, for callers that need each several times."""
    with open_runs(url, runs, is_all=is_all, intent=intent, status=status) as found:
        return list(found)


# --- files ---
# A report that Tercet made, which its first bytes show, is replaced, since it can be made again at any
# time. Any other file is kept, also a bundle or a proposal, unless `--force` is given. This is checked
# before any work is done, and an existing file stays until the new one is complete.


def require_writable(path: Path, *, is_forced: bool, mark: bytes = b"", other: str = "file") -> None:
    """Raise `UsageError` if a file would be overwritten that does not begin with `mark`; `other` is what the caller can
    name instead."""
    demand_free(path, is_forced=True)  # refuses pipes and devices, which must not be read
    demand_free(path, is_forced=is_forced or _begins(path, mark), other=other)


def _begins(path: Path, mark: bytes) -> bool:
    if not mark or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(mark)) == mark


def write_file(path: Path, data: bytes) -> None:
    """Write a file that `require_writable` has allowed; a link is followed."""
    with new_file(path.resolve(), is_forced=True) as file:
        file.write(data)


def make_folder(folder: Path) -> None:
    """Create a folder unless it exists; raise `UsageError` if that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(
            f"{folder} is not a folder",
            code="not_a_folder",
            remedy="name a folder that exists, or one that you can create",
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot create the folder {folder}: {error.strerror or error}",
            code="unwritable",
            remedy="name a folder that exists, or one that you can create",
        ) from error
