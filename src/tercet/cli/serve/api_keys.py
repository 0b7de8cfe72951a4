"""`tercet api-keys`: creating, listing and revoking the API keys of the service."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypeAlias, cast

from tercet.cli import ExitCode
from tercet.cli.amounts import read_duration
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at, use_journal
from tercet.cli.options import AsJson, Note, argument, option
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.sessions.people import login_name
from tercet.contracts.errors import UsageError
from tercet.contracts.shape import TEN_YEARS_MS
from tercet.core.transcript import timestamp
from tercet.engine.streams.api_keys import SCOPES, ApiKey, ApiKeys, NewKey, Scope
from tercet.executor.clock import SystemClock

CREATE_EXAMPLES = """\
tercet api-keys create agt_support
tercet api-keys create user_finance_lead --role finance_lead --expires 30d
tercet api-keys create ops_anna --scope read --scope operate --tenant acme
"""
LIST_EXAMPLES = "tercet api-keys list\n"
REVOKE_EXAMPLES = "tercet api-keys revoke 0123456789ab\n"

Tenant: TypeAlias = Annotated[str, option("TENANT", "The tenant whose sessions the key gives access to.")]


def create(
    actor: Annotated[
        str, argument("ACTOR", "The actor of the key: runs and answers are recorded as theirs.")
    ],
    *,
    role: Annotated[
        list[str] | None,
        option(
            "ROLE",
            "A role of the key; may be given several times. If a pack lists people, only the roles that it gives to the actor count.",
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        option(
            "SCOPE",
            f"What the key may do, one of {', '.join(SCOPES)}; may be given several times. By default read, run and answer.",
        ),
    ] = None,
    expires: Annotated[str, option("DURATION", "How long the key is valid, such as 90d or 12h.")] = "90d",
    tenant: Tenant = TENANT,
    note: Note = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Create an API key, and print it once.

    The journal keeps a hash of it only. Anyone with the key acts as this actor in this tenant, until it expires or is
    revoked.
    """
    clock = SystemClock()
    now = clock.now()
    wanted = NewKey(
        tenant=tenant,
        actor=actor,
        by=login_name(),
        roles=tuple(role or ()),
        scopes=_scopes(scope),
        expires=now + min(read_duration(expires), TEN_YEARS_MS),
        note=note,
    )

    async def write() -> tuple[ApiKey, str]:
        async with journal_at(journal, is_new=True, is_written=True) as opened:
            return await ApiKeys(opened).create(wanted, now)

    key, text = asyncio.run(write())
    if as_json:
        print_json({**_json(key, "valid"), "api_key": text})
        return ExitCode.ACCEPTED
    screen = Screen()
    screen.say(f"✓ key {key.id} for {actor} in tenant {tenant}, valid for {expires}")
    screen.say("  it is shown once, and cannot be read again:")
    screen.say(f"  {text}")
    return ExitCode.ACCEPTED


def _scopes(given: list[str] | None) -> tuple[Scope, ...]:
    for each in given or ():
        if each not in SCOPES:
            raise UsageError(
                f"unknown scope '{each}' (expected: {', '.join(SCOPES)})",
                code="unknown_scope",
                remedy="leave --scope out for read, run and answer",
            )
    return cast("tuple[Scope, ...]", tuple(given or ("read", "run", "answer")))


def list_keys(*, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> ExitCode:
    """List the API keys, also those that were revoked or have expired."""
    now = SystemClock().now()

    async def read(opened: Any) -> list[tuple[ApiKey, str]]:
        keys = ApiKeys(opened)
        return [(key, _status(keys, key, now)) for key in await keys.list()]

    found = use_journal(journal, read)

    def show(screen: Screen) -> None:
        for key, status in found:
            roles = f", roles {', '.join(key.roles)}" if key.roles else ""
            until = f", until {timestamp(key.expires)}" if key.expires is not None else ""
            scopes = ", ".join(key.scopes)
            screen.say(f"{key.id}  {status}  {key.actor} in {key.tenant}{roles}, scopes {scopes}{until}")
        if not found:
            screen.say("There is no API key.")

    return respond(lambda: {"keys": [_json(key, status) for key, status in found]}, show, as_json=as_json)


def _status(keys: ApiKeys, key: ApiKey, now: int) -> str:
    if keys.revoked_at(key) is not None:
        return "revoked"
    return "valid" if keys.is_valid(key, now) else "expired"


def revoke(
    key: Annotated[str, argument("KEY", "The id of the key, as `tercet api-keys list` shows it.")],
    *,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Revoke an API key.

    Every service that uses the journal refuses it from its next call on.
    """
    now = SystemClock().now()
    found = use_journal(
        journal, lambda opened: ApiKeys(opened).revoke(key, by=login_name(), now=now), is_written=True
    )
    return respond(
        lambda: _json(found, "revoked"),
        lambda screen: screen.say(f"✓ key {found.id} of {found.actor} is revoked"),
        as_json=as_json,
    )


def _json(key: ApiKey, status: str) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "actor": key.actor,
        "roles": key.roles,
        "scopes": key.scopes,
        "status": status,
        "created_at": timestamp(key.at),
        "created_by": key.by,
        "expires_at": None if key.expires is None else timestamp(key.expires),
        "note": key.note,
    }
