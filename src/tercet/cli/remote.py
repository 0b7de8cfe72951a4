"""`--server URL`: using the sessions of a service. Readers read its journal; what changes something is a call to it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tercet.cli.server_option import is_service
from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.shape import as_object
from tercet.core.messages import Cancel, Extend, Message, Pause, Reply
from tercet.journal.protocol import Journal

if TYPE_CHECKING:
    from tercet.service.remote_journal import RemoteJournal

THE_SERVICE = "the service"
"""What runs the sessions of a service, in sentences for people."""


@asynccontextmanager
async def open_remote(url: str, *, act_as: str = "") -> AsyncGenerator[RemoteJournal]:
    """Open the journal of a service, which can only be read, with the client for its methods."""
    try:
        from tercet.service.client import AsyncClient  # noqa: PLC0415 - an optional dependency
        from tercet.service.remote_journal import RemoteJournal  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("--server", error.name or "httpx2", "service") from error
    async with AsyncClient(url, act_as=act_as) as client:
        yield await RemoteJournal.open(client)


def as_remote(journal: Journal) -> RemoteJournal | None:
    """Return the journal of a service; None if a journal is one of this machine."""
    return cast("RemoteJournal", journal) if hasattr(journal, "client") else None


def unserved_pack(view: Mapping[str, Any]) -> str:
    """Return the pack version of a session, as a service returned it, if the service does not serve it; else an empty text."""
    return str((as_object(view.get("not_served")) or {}).get("pack", ""))


def refuse_options(url: str, given: Mapping[str, object], why: str) -> None:
    """Raise `UsageError` for an option that has no meaning with a service."""
    named = [name for name, value in given.items() if value]
    if is_service(url) and named:
        raise UsageError(
            f"{named[0]} cannot be used with --server: {why}",
            code="not_remote",
            remedy=f"leave {named[0]} out",
        )


def acting_as(url: str, name: str, *, is_dev: bool) -> str:
    """Return the actor to act as; raises `UsageError` without `--dev`, since the credential identifies the caller."""
    if is_service(url) and name and not is_dev:
        raise UsageError(
            "--as cannot be used with --server: the API key says who you are",
            code="not_remote",
            remedy="use that actor's own key in TERCET_API_KEY; with a service that runs with --dev, add --dev",
        )
    return name


def pack_name(folder: Path) -> str:
    """Return the name of the pack in a folder; a path without a `pack.toml` is taken as the name itself."""
    import tomllib  # noqa: PLC0415 - only for this

    file = folder / "pack.toml"
    if not file.is_file():
        return os.fspath(folder)
    try:
        with file.open("rb") as stream:
            name = (as_object(tomllib.load(stream)) or {}).get("name")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}", code="pack_invalid", remedy=f"tercet check {folder}"
        ) from error
    return str(name or folder)


def demand_intent(intent: str | None) -> str:
    """Return the intent of a request to a service; raises `UsageError` without one, since the pack is not here."""
    if not intent:
        raise UsageError("a request to a service names its intent", remedy="add --intent INTENT")
    return intent


_ANSWERS = {
    "approve": "approveGate",
    "deny": "denyGate",
    "modify": "modifyGate",
    "withdraw": "withdrawApproval",
    "happened": "settleOutcome",
    "did_not_happen": "settleOutcome",
}
"""The method for each answer; the others decide an escalation."""


def method_for(message: Message) -> tuple[str, dict[str, Any]]:
    """Return the method that gives a message to its session, and its parameters; who sends it is the credential's matter."""
    session = {"session_id": message.session, "note": message.note}
    match message:
        case Pause():
            return "pauseSession", session
        case Cancel():
            return "cancelSession", session
        case Extend():
            return "extendBudget", {**session, "more": message.more}
        case Reply():
            return _ANSWERS.get(message.answer, "decideEscalation"), _answer(message)


def _answer(reply: Reply) -> dict[str, Any]:
    params: dict[str, Any] = {"gate_id": reply.gate, "note": reply.note}
    match _ANSWERS.get(reply.answer):
        case "approveGate":
            more: dict[str, Any] = {"digest": reply.digest or None}
        case "modifyGate":
            more = {"changes": reply.changes or None}
        case "settleOutcome":
            more = {"happened": reply.answer == "happened", "value": reply.value}
        case None:
            more = {"decision": reply.answer, "value": reply.value}
        case _:
            more = {}
    return {**params, **{name: value for name, value in more.items() if value is not None}}
