"""The journal and the evidence store that a command uses: their URLs, how they are opened, and the ids of sessions."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from tercet.cli.options import argument, option
from tercet.cli.remote import open_remote
from tercet.cli.server_option import VARIABLE as SERVER
from tercet.cli.server_option import choose_journal, is_service
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Request
from tercet.contracts.runs.saga import RollbackResult
from tercet.core import events as e
from tercet.core.state import State
from tercet.database.schema import SQLITE
from tercet.engine.evidence.library import NO_LIBRARY_EVIDENCE, Library, LibraryEvidence
from tercet.engine.personal.reveal import Revealer
from tercet.engine.session_reader import load_history, load_state, read_declared_pack, read_policies
from tercet.engine.streams.artifacts import rollback_result
from tercet.evidence.errors import StoreCorrupt, StoreUnavailable
from tercet.evidence.opening import open_evidence
from tercet.evidence.store import EvidenceStore
from tercet.executor.clock import SystemClock
from tercet.journal.errors import JournalCorrupt, JournalUnavailable
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, StoredCheckpoint
from tercet.view.questions import AskedName, asked_names
from tercet.view.session import CallRefusal, find_refusal

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
        callback=choose_journal,
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
    """For a run that ended without success: the compensation of its effects, and those that people have settled."""
    refusal: CallRefusal | None = None
    """The call that was refused at dispatch, if it did not go on for that."""
    asked: Mapping[str, tuple[AskedName, ...]] = field(default_factory=dict[str, tuple[AskedName, ...]])
    """Why people are asked, by open gate."""

    @property
    def latencies(self) -> dict[str, int]:
        """Return the duration of the last call of each step, in milliseconds."""
        return {each.step: each.latency for each in self.events if isinstance(each, e.Complete | e.Abort)}


@asynccontextmanager
async def journal_at(url: str, *, is_new: bool = False, is_written: bool = False) -> AsyncGenerator[Journal]:
    """Open the journal at a URL. A missing journal is created only with `is_new`, since readers change nothing.

    Without `is_written`, read permission is enough. The journal of a service can only be read.
    """
    if is_service(url):
        async with open_remote(url) as remote:
            yield remote
        return
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


def is_missing(url: str) -> bool:
    """Return whether a URL names a file that does not exist."""
    return url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists()


def require_journal_file(url: str) -> None:
    """Raise `UsageError` if a URL names a file that does not exist."""
    if is_missing(url):
        raise UsageError(
            f"there is no journal {url.removeprefix(SQLITE)}",
            code="journal_not_found",
            remedy=f"tercet run creates one; to use another journal, pass --journal URL or set {VARIABLE}",
        )


def tenant_of(journal: Journal) -> str:
    """Return the tenant whose sessions a command uses: that of the credential with a service, else the usual one."""
    return str(getattr(journal, "tenant", TENANT))


async def read_session(journal: Journal, session: str) -> RecordedSession:
    """Return a session with its events; raise `UsageError` if it does not exist."""
    tenant = tenant_of(journal)
    state = await load_state(journal, tenant, session)
    history = await load_history(journal, tenant, session, has_checkpoints=True)
    events = history.events[: state.position]
    revealer = Revealer(journal, tenant, session)
    shown = await revealer.reveal_struct(state)
    pack = await read_declared_pack(journal, tenant, state) if shown.gates else None
    return RecordedSession(
        state=shown,
        events=tuple([await revealer.reveal_struct(event) for event in events]),
        checkpoints=tuple(each for each in history.checkpoints if each.seq <= state.position),
        rollback=await rollback_result(journal, tenant, state),
        refusal=find_refusal(shown, await read_policies(journal, tenant, state)),
        asked={name: asked_names(gate, shown, pack) for name, gate in shown.gates.items()},
    )


def journal_words(url: str) -> tuple[str, ...]:
    """Return the option that makes another command use the same journal or service; nothing if it is the default."""
    if is_service(url):
        return () if url == os.environ.get(SERVER) else ("--server", _without_password(url))
    if url == (os.environ.get(VARIABLE) or DEFAULT) and not os.environ.get(SERVER):
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


# --- ids ---


MOST_NAMED = 10
"""The number of sessions that are listed for an ambiguous id."""
FEWEST_LETTERS = 4
"""The number of characters of an id, without `ses_`, that name a session: fewer are easily a slip."""
_PREFIX = "ses_"
_WHOLE = re.compile(r"ses_[0-9a-f]{16}", re.ASCII)
_LETTERS = re.compile(r"[0-9a-f]*", re.ASCII)
_GATE_NUMBER = re.compile(r"g[0-9]+", re.ASCII)


def complete_session(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of the session that an argument names."""
    return None if value is None else find_session(value, ctx.params["journal"])


def complete_gate(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of a gate that an argument names: by its id, or by its session if that has one open gate."""
    name = value or ""
    if "." in name:
        return complete_part(ctx, name)
    if _GATE_NUMBER.fullmatch(name):
        raise UsageError(
            f"'{name}' names no session",
            code="unknown_gate",
            remedy=f"put the session's id in front of it: tercet gates list shows the open gates, such as ses_0123456789abcdef.{name}",
        )
    if not _LETTERS.fullmatch(name.removeprefix(_PREFIX)):
        return value
    url = ctx.params["journal"]
    session = find_session(name, url)
    return use_journal(url, lambda journal: _find_open_gate(journal, session))


async def _find_open_gate(journal: Journal, session: str) -> str:
    """Return the only open gate of a session; raise `UsageError` if it has none or several."""
    state = await load_state(journal, tenant_of(journal), session)
    if len(state.gates) == 1:
        return next(iter(state.gates))
    if state.gates:
        raise UsageError(
            f"session {session} waits at several gates",
            code="ambiguous_gate",
            remedy=f"name one of {', '.join(state.gates)}",
        )
    earlier = ", ".join(f"{session}.g{number}" for number in range(1, state.opened + 1))
    raise UsageError(
        f"session {session} has no open gate",
        code="gate_not_open",
        remedy=f"its closed gates are {earlier}"
        if earlier
        else f"tercet sessions show {session} shows its status",
    )


def complete_part(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of a part of a session, such as a correction, that an argument names."""
    session, dot, rest = (value or "").rpartition(".")
    return f"{find_session(session, ctx.params['journal'])}{dot}{rest}" if session else value


def complete_run(ctx: typer.Context, value: str | None) -> str | None:
    """Return the full id of a session, or a bundle's file name unchanged."""
    return value if value is None or is_bundle(value) else complete_session(ctx, value)


def find_session(name: str, url: str) -> str:
    """Return the one session of the journal at `url` whose id begins with a name, with or without `ses_`.

    An abbreviation has at least `FEWEST_LETTERS` characters. A full id is returned unchanged, without reading the journal. Raises `UsageError` if no session or several match.
    """
    if is_session(name):
        return name
    prefix = name if name.startswith(_PREFIX) else f"{_PREFIX}{name}"
    found = use_journal(
        url, lambda journal: journal.session_ids(tenant_of(journal), prefix, limit=MOST_NAMED + 1)
    )
    if prefix in found:
        return prefix
    if not found:
        raise UsageError(
            f"there is no session {name}",
            code="unknown_session",
            remedy="tercet sessions list shows the sessions of this journal",
        )
    if len(prefix) < len(_PREFIX) + FEWEST_LETTERS:
        raise UsageError(
            f"'{name}' is too short to name a session",
            code="ambiguous_session",
            remedy=f"type at least {FEWEST_LETTERS} characters of its id; tercet sessions list shows the ids",
        )
    if len(found) == 1:
        return found[0]
    more = ", …" if len(found) > MOST_NAMED else ""
    raise UsageError(
        f"several session ids begin with '{name}'",
        code="ambiguous_session",
        remedy=f"type more of it: {', '.join(found[:MOST_NAMED])}{more}",
    )


def is_session(name: str) -> bool:
    """Return whether a name is the full id of a session."""
    return _WHOLE.fullmatch(name) is not None


def is_bundle(name: str) -> bool:
    """Return whether a name is the file of a bundle: session ids contain no dot and no slash."""
    path = Path(name)
    return bool(path.suffix) or len(path.parts) > 1 or path.is_file()


SessionId: TypeAlias = Annotated[
    str,
    argument(
        "ID",
        "The session's id, or its first characters: at least four, and as many as make it unique.",
        callback=complete_session,
    ),
]
GateId: TypeAlias = Annotated[
    str,
    argument(
        "GATE",
        "The gate's id, such as ses_0123456789abcdef.g1, or its session's if no other gate of it is open.",
        callback=complete_gate,
    ),
]


# --- stores ---


STORE_VARIABLE = "TERCET_EVIDENCE"
FILE = "evidence.db"

StoreUrl: TypeAlias = Annotated[
    str,
    option(
        "URL",
        f"The evidence store: sqlite:///FILE or postgresql://HOST/DATABASE; by default {STORE_VARIABLE}, else {FILE} beside the journal.",
        "--store",
        envvar=STORE_VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]


def store_url(given: str) -> str:
    """Return the URL of the store: the given one, or the one beside the journal."""
    if given:
        return given
    return _beside(os.environ.get(VARIABLE) or DEFAULT)


@asynccontextmanager
async def find_library(given: str, journal: str) -> AsyncGenerator[EvidenceStore | None]:
    """Open the store that runs search: the given one, else the one beside the journal if it exists."""
    url = given or _beside(journal)
    if not given and is_missing(url):
        yield None
        return
    async with store_at(url) as store:
        yield store


@asynccontextmanager
async def open_library(given: str) -> AsyncGenerator[Library | None]:
    """Open the store that a run would search as a library; None if there is no store."""
    async with find_library(given, os.environ.get(VARIABLE) or DEFAULT) as store:
        yield None if store is None else Library(store)


async def read_evidence(library: Library | None, spec: DecisionSpec, request: Request) -> LibraryEvidence:
    """Return the evidence that a run for a request would take from its store at the start."""
    if library is None:
        return NO_LIBRARY_EVIDENCE
    return await library.select_evidence(TENANT, spec, request, SystemClock().now())


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


def _require_store_file(url: str) -> None:
    if is_missing(url):
        raise UsageError(
            f"there is no evidence in {url.removeprefix(SQLITE)}",
            code="evidence_not_found",
            remedy=f"tercet evidence add creates it; to use another store, pass --store URL or set {STORE_VARIABLE}",
        )
