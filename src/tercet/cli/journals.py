"""The journal that a command uses: its URL, how it is opened, and reading a session from it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from tercet.cli.options import option
from tercet.contracts.errors import UsageError
from tercet.contracts.runs.saga import RollbackResult
from tercet.core import events as e
from tercet.core.state import State
from tercet.engine.session_reader import load_history, load_state
from tercet.engine.streams.artifacts import rollback_result
from tercet.journal.errors import JournalCorrupt, JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, StoredCheckpoint

T = TypeVar("T")

DEFAULT = "sqlite:///tercet.db"
VARIABLE = "TERCET_JOURNAL"
TENANT = "default"
_SECRETS = ("password", "passfile", "sslpassword")

JournalUrl: TypeAlias = Annotated[
    str,
    option(
        "URL",
        f"The journal: sqlite:///FILE or postgresql://HOST/DATABASE; by default {VARIABLE}, else tercet.db in this folder.",
        "--journal",
        envvar=VARIABLE,
        is_eager=True,  # needed to look up an abbreviated id
        show_default=False,
        show_envvar=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class RecordedSession:
    """A session as the journal records it: its state, its events and its checkpoints."""

    state: State
    events: tuple[e.Event, ...]
    checkpoints: tuple[StoredCheckpoint, ...] = ()
    rollback: RollbackResult | None = None
    """If it ended without success: the compensation of its effects, and what people have settled by hand."""

    @property
    def latencies(self) -> dict[str, int]:
        """Return the duration of the last call of each step, in milliseconds."""
        return {each.step: each.latency for each in self.events if isinstance(each, e.Complete | e.Abort)}


@asynccontextmanager
async def journal_at(url: str, *, is_new: bool = False, is_written: bool = False) -> AsyncGenerator[Journal]:
    """Open the journal at a URL. A missing journal is created only with `is_new`, since readers change nothing.

    Without `is_written`, read permission is enough.
    """
    if not is_new:
        require_journal_file(url)
    try:
        journal = await open_journal(url, may_be_read_only=not (is_new or is_written))
    except JournalUnavailable as error:
        raise UsageError(error.message, code=error.code, remedy=error.remedy) from error
    except JournalCorrupt as error:
        remedy = f"name another with --journal; if this one was a journal once, {error.remedy}"
        raise UsageError(error.message, code=error.code, remedy=remedy) from error
    try:
        yield journal
    finally:
        await journal.close()


def use_journal(url: str, act: Callable[[Journal], Awaitable[T]], *, is_written: bool = False) -> T:
    """Call `act` with the journal at a URL, and close the journal; see `journal_at`."""

    async def use() -> T:
        async with journal_at(url, is_written=is_written) as journal:
            return await act(journal)

    return asyncio.run(use())


def require_journal_file(url: str) -> None:
    """Raise `UsageError` if a URL names a file that does not exist."""
    prefix = "sqlite:///"
    if url.startswith(prefix) and not Path(url.removeprefix(prefix)).exists():
        raise UsageError(
            f"there is no journal {url.removeprefix(prefix)}",
            code="journal_not_found",
            remedy=f"tercet run creates one; to use another journal, pass --journal URL or set {VARIABLE}",
        )


async def read_session(journal: Journal, session: str) -> RecordedSession:
    """Return a session with its events; raise `UsageError` if it does not exist."""
    state = await load_state(journal, TENANT, session)
    history = await load_history(journal, TENANT, session, has_checkpoints=True)
    return RecordedSession(
        state=state,
        events=history.events[: state.position],
        checkpoints=tuple(each for each in history.checkpoints if each.seq <= state.position),
        rollback=await rollback_result(journal, TENANT, state),
    )


def journal_words(url: str) -> tuple[str, ...]:
    """Return the option that makes another command use the same journal; nothing if it is the default."""
    if url == (os.environ.get(VARIABLE) or DEFAULT):
        return ()
    return ("--journal", _without_password(url))


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    query = "&".join(map(_masked, parts.query.split("&")))
    if not parts.password and query == parts.query:
        return url
    netloc = parts.netloc.replace(f":{parts.password}@", ":…@", 1) if parts.password else parts.netloc
    return urlunsplit(parts._replace(netloc=netloc, query=query))


def _masked(parameter: str) -> str:
    """Return a parameter of a URL, without its value if that is a secret or the path of one."""
    name, is_given, _ = parameter.partition("=")
    return f"{name}=…" if is_given and unquote(name).lower() in _SECRETS else parameter
