"""A run that a command looks back at: a session of the journal, or a bundle in a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from tercet.cli.journals import TENANT, journal_at
from tercet.cli.options import argument
from tercet.contracts.errors import ReplayError, TercetError
from tercet.core.codec import CodecError
from tercet.core.fold.base import IllegalEvent
from tercet.journal.errors import BlobMissing, JournalCorrupt
from tercet.journal.protocol import Journal
from tercet.replay.bundle.errors import BundleDamaged
from tercet.replay.bundle.reading import Bundle, open_bundle

RunName: TypeAlias = Annotated[
    str, argument("RUN", "A session (ses_…) of the journal, or the file of a bundle.")
]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a run is read from."""

    journal: Journal
    tenant: str
    session: str
    bundle: Bundle | None = None
    """The bundle, where it is one."""


def is_file(name: str) -> bool:
    """Whether a name means a bundle: no session has a dot or a slash in its name."""
    path = Path(name)
    return bool(path.suffix) or len(path.parts) > 1 or path.is_file()


@asynccontextmanager
async def run_at(name: str, url: str) -> AsyncGenerator[Source]:
    """The run of this name: a file is a bundle, everything else a session of the journal at `url`.

    Unexpected errors while it is read are raised as `BundleDamaged` or `JournalCorrupt`: forged events can make
    reading fail in any way.
    """
    if is_file(name):
        with open_bundle(name) as bundle, _as_bundle_damage(), _unexpected_as(_bundle_fault):
            manifest = bundle.manifest
            yield Source(
                journal=bundle.journal(), tenant=manifest.tenant, session=manifest.session, bundle=bundle
            )
        return
    async with journal_at(url) as journal:
        with _unexpected_as(lambda reason: JournalCorrupt(f"stream {name}", reason)):
            yield Source(journal=journal, tenant=TENANT, session=name)


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
