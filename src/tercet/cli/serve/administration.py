"""`tercet call`, `api-keys` and `notifications`: calling and administering a service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from tercet.cli import ExitCode
from tercet.cli.inputs import read_duration, read_input
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at, use_journal
from tercet.cli.options import AsJson, Note, argument, option
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.serve.serve import PublicUrl, demand_link
from tercet.cli.sessions.next_commands import EXIT_CODES
from tercet.cli.sessions.people import login_name
from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.shape import TEN_YEARS_MS
from tercet.core.transcript import timestamp
from tercet.engine.leases import LeaseClient
from tercet.engine.streams.credentials import SCOPES, ApiKey, ApiKeys, NewKey, Scope
from tercet.engine.streams.notices import NEVER, Notice, list_notices, resend, subject_of
from tercet.executor.clock import SystemClock
from tercet.journal.errors import LeaseHeld
from tercet.journal.protocol import Journal

CREATE_EXAMPLES = """\
tercet api-keys create agt_support
tercet api-keys create user_finance_lead --role finance_lead --expires 30d
tercet api-keys create ops_anna --scope read --scope operate --tenant acme
"""
LIST_KEYS_EXAMPLES = "tercet api-keys list\n"
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


# --- call ---


CALL_EXAMPLES = """\
tercet call invokeAgent '{"request": {"intent": "support.refund", "input": {"order_id": "ord_881", "window_id": "rw_881"}}}'
tercet call approveGate '{"gate_id": "ses_0123456789abcdef.g1"}' --server https://tercet.example.com
"""


def call(
    method: Annotated[
        str, argument("METHOD", "The method, such as getSession (the page HTTP API lists them).")
    ],
    params: Annotated[str, argument("PARAMS", "Its parameters: a JSON object, or @FILE.")] = "{}",
    *,
    server: Annotated[
        str,
        option("URL", "The address of the service.", "--server", envvar="TERCET_SERVER", show_envvar=False),
    ] = "http://127.0.0.1:8700",
    as_json: AsJson = False,
) -> ExitCode:
    """Call a method of a service, and print its result as JSON.

    The API key is the variable TERCET_API_KEY of the environment. Exits as `tercet run` does if the result is a
    session: 0 if it has completed or is in progress, 3 if the critic refused its plan, 4 if it waits or is paused, 5 if it
    failed. Exits with 2 if the service refuses the call.
    """
    try:
        from tercet.service.client import Client  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("calling a service", error.name or "httpx2", "service") from error
    del as_json  # it is always JSON
    with Client(server) as client:
        result = client.call(method, read_input(params))
    print_json(result)
    return _exit_code(result)


def _exit_code(result: dict[str, Any]) -> ExitCode:
    standing = result.get("standing")
    if standing is None or standing == "in progress":
        return ExitCode.ACCEPTED
    return EXIT_CODES.get(standing, ExitCode.FAILED)


# --- notifications ---


LIST_UNDELIVERED_EXAMPLES = "tercet notifications list\ntercet notifications list --tenant acme --json\n"
RETRY_EXAMPLES = "tercet notifications retry msg_0123456789abcdef0123456789abcdef\n"
TRY_TARGET_EXAMPLES = "tercet notifications test finance --notifications notifications.toml\n"

NotifiedTenant: TypeAlias = Annotated[str, option("TENANT", "The tenant whose notifications are meant.")]


def list_undelivered(
    *, tenant: NotifiedTenant = TENANT, journal: JournalUrl = DEFAULT, as_json: AsJson = False
) -> ExitCode:
    """List the notifications that were not delivered.

    Those are the ones that wait to be sent, that are tried again later, and that were given up.
    """
    found = use_journal(journal, lambda opened: list_notices(opened, tenant))

    def show(screen: Screen) -> None:
        for notice in found:
            subject = subject_of(notice.name)
            about = notice.about or (subject.session if subject is not None else "")
            screen.say(f"{notice.id}  {notice.event or _expected(notice)}  {about}")
            for each in notice.deliveries.values():
                again = f", again at {timestamp(each.next_at)}" if each.status == "pending" else ""
                error = f": {each.error}" if each.error else ""
                screen.say(f"  {each.target}  {each.status} after {each.attempts} attempts{error}{again}")
        if not found:
            screen.say("Every notification was delivered.")

    return respond(
        lambda: {"notifications": [_notification_json(each) for each in found]}, show, as_json=as_json
    )


def retry(
    notification: Annotated[str, argument("ID", "The id, as `tercet notifications list` shows it.")],
    *,
    tenant: NotifiedTenant = TENANT,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Send a notification again where it was not taken.

    A running service or worker sends it, with the same id as before. A notification about a gate that was answered
    meanwhile is dropped instead.
    """

    async def write(opened: Journal) -> Notice:
        leases = LeaseClient(journal=opened, tenant=tenant, clock=SystemClock())
        try:
            return await resend(leases, notification, by=login_name())
        except LeaseHeld as error:
            raise UsageError(
                f"a process is sending {notification} now",
                code="notification_busy",
                remedy="look at it again: tercet notifications list",
            ) from error

    found = use_journal(journal, write, is_written=True)
    return respond(
        lambda: _notification_json(found),
        lambda screen: screen.say(f"✓ {found.id} is sent again by the next service or worker that looks"),
        as_json=as_json,
    )


def try_target(
    target: Annotated[str, argument("TARGET", "The name of the target in the file.")],
    *,
    notifications: Annotated[Path, option("FILE", "The file with the targets.", "--notifications")],
    public_url: PublicUrl = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Send a sample to a target, and say if it was taken.

    Exits with 5 if the target did not take it.
    """
    try:
        from tercet.service import notifier  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("sending notifications", error.name or "httpx2", "service") from error
    problem = asyncio.run(
        notifier.send_sample(
            notifications, target, public_url=demand_link(public_url), now=SystemClock().now()
        )
    )

    def show(screen: Screen) -> None:
        screen.say(f"✗ {target}: {problem}" if problem else f"✓ {target} took the sample")

    respond(lambda: {"target": target, "is_delivered": not problem, "error": problem}, show, as_json=as_json)
    return ExitCode.FAILED if problem else ExitCode.ACCEPTED


def _expected(notice: Notice) -> str:
    subject = subject_of(notice.name)
    if subject is None or not subject.is_warning or notice.due_at is None:
        return "not looked at yet"
    return f"gate.expires_soon, due at {timestamp(notice.due_at)}"


def _notification_json(notice: Notice) -> dict[str, Any]:
    subject = subject_of(notice.name)
    return {
        "id": notice.id,
        "event": notice.event or None,
        "about": notice.about or None,
        "session": subject.session if subject is not None else None,
        "due_at": None if notice.due_at in (None, NEVER) else timestamp(notice.due_at),
        "deliveries": [
            {
                "target": each.target,
                "status": each.status,
                "attempts": each.attempts,
                "error": each.error or None,
                "next_attempt_at": timestamp(each.next_at) if each.status == "pending" else None,
            }
            for each in notice.deliveries.values()
        ],
    }
