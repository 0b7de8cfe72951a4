"""`tercet serve` and `tercet worker`: processes that run sessions which were approved, resumed or orphaned."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tercet.cli import ExitCode
from tercet.cli.evidence.stores import StoreUrl, find_library
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, journal_at
from tercet.cli.options import AsJson, argument, flag, option
from tercet.cli.run.runner import run_until_complete
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions.people import local_actor, require_local_journal
from tercet.contracts.errors import extra_missing
from tercet.packs import Pack

SERVE_EXAMPLES = """\
tercet serve examples/refunds
tercet serve examples/refunds examples/runbook --journal postgresql://db/tercet --host 0.0.0.0 --port 8700
tercet serve examples/refunds --dev
"""
WORKER_EXAMPLES = "tercet worker examples/refunds --journal postgresql://db/tercet\n"

Packs: TypeAlias = Annotated[
    list[Path],
    argument("PACK...", "The folders of the packs to serve; of two versions, name the newer one last."),
]
AtOnce: TypeAlias = Annotated[
    int,
    option("N", "The number of runs that this process runs at the same time.", "--runs", min=1, max=10_000),
]


OidcIssuer: TypeAlias = Annotated[
    str, option("URL", "Accept bearer tokens of this OpenID Connect issuer.", "--oidc-issuer")
]
OidcAudience: TypeAlias = Annotated[
    str, option("NAME", "The audience that its tokens for this service name.", "--oidc-audience")
]
OidcRoles: TypeAlias = Annotated[
    str, option("CLAIM", "The claim that lists the caller's roles.", "--oidc-roles-claim")
]
OidcTenant: TypeAlias = Annotated[
    str,
    option(
        "CLAIM", "The claim that names the caller's tenant; without it, one tenant.", "--oidc-tenant-claim"
    ),
]
OidcOperator: TypeAlias = Annotated[
    str, option("ROLE", "The role whose holders may also operate the service.", "--oidc-operator-role")
]


def serve(
    packs: Packs,
    *,
    host: Annotated[str, option("HOST", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, option("PORT", "The port to listen on; 0 for any free one.", min=0, max=65535)
    ] = 8700,
    allow_host: Annotated[
        list[str] | None,
        option(
            "NAME",
            "Another name under which the service may be called, such as that of a proxy; may be given several times.",
            "--allow-host",
        ),
    ] = None,
    oidc_issuer: OidcIssuer = "",
    oidc_audience: OidcAudience = "",
    oidc_roles_claim: OidcRoles = "roles",
    oidc_tenant_claim: OidcTenant = "",
    oidc_operator_role: OidcOperator = "",
    runs: AtOnce = 16,
    dev: Annotated[
        bool,
        flag(
            "Development mode, on this machine only: the printed key may act as any actor of the packs, recorded as simulated.",
            "--dev",
        ),
    ] = False,
    store: StoreUrl = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Serve packs over HTTP, and run their sessions.

    Callers start runs, answer gates and read records by JSON-RPC at /rpc; docs/service.md describes it. Sessions that
    were answered, resumed or orphaned are continued automatically. On loopback a key for you is printed, which is
    valid until the process ends. Other callers need an API key or a token of --oidc-issuer; an address that other
    machines can reach is refused without either. On SIGTERM and Ctrl-C, calls in flight finish, and every session is
    left to the next worker.
    """
    require_local_journal(journal, is_dev=dev)
    server = _service_module()
    loaded = [load_pack(folder) for folder in packs]
    settings = server.ServeSettings(
        host=host,
        port=port,
        is_dev=dev,
        at_once=runs,
        allow_hosts=tuple(allow_host or ()),
        local=local_actor(loaded[0]),
        tenant=TENANT,
        oidc=server.OidcSettings(
            issuer=oidc_issuer,
            audience=oidc_audience,
            roles_claim=oidc_roles_claim,
            tenant_claim=oidc_tenant_claim,
            operator_role=oidc_operator_role,
            tenant=TENANT,
        )
        if oidc_issuer or oidc_audience
        else None,
    )

    async def main() -> None:
        async with (
            journal_at(journal, is_new=True, is_written=True) as opened,
            find_library(store, journal) as evidence,
            server.open_service(
                loaded, opened, settings, folders=_folders(loaded, packs), evidence=evidence
            ) as running,
        ):
            bound = server.listen(host, port)
            url = f"http://{host}:{bound.getsockname()[1]}"
            await server.serve_until_stopped(
                running, bound, lambda: _announce(url, running.local_key, loaded, as_json=as_json)
            )

    _run(main())
    return ExitCode.ACCEPTED


def worker(
    packs: Packs,
    *,
    tenant: Annotated[
        list[str] | None,
        option("TENANT", "A tenant whose sessions are run; may be given several times.", "--tenant"),
    ] = None,
    runs: AtOnce = 16,
    store: StoreUrl = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Run sessions without serving an API.

    The same worker as in `tercet serve`: several processes may share one journal, and leases decide which of them runs
    a session. On SIGTERM and Ctrl-C, calls in flight finish, and every session is left to the next worker.
    """
    server = _service_module()
    loaded = [load_pack(folder) for folder in packs]

    async def main() -> None:
        async with (
            journal_at(journal, is_new=True, is_written=True) as opened,
            find_library(store, journal) as evidence,
        ):
            hub = server.Hub(loaded, opened, folders=_folders(loaded, packs), evidence=evidence)
            working = server.Worker(hub, at_once=runs)
            async with server.running_worker(hub, working, {TENANT, *(tenant or ())}):
                _announce("", "", loaded, as_json=as_json)
                await _signalled()

    _run(main())
    return ExitCode.ACCEPTED


def _service_module() -> Any:
    try:
        from tercet.service import server  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("the service", error.name or "fastapi", "service") from error
    return server


def _folders(loaded: list[Pack], packs: list[Path]) -> dict[str, str]:
    return {pack.name: str(folder) for pack, folder in zip(loaded, packs, strict=True)}


def _run(main: Coroutine[Any, Any, None]) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    run_until_complete(asyncio.new_event_loop(), main)


async def _signalled() -> None:
    """Return at SIGINT or SIGTERM."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()


def _announce(url: str, key: str, packs: list[Pack], *, as_json: bool) -> None:
    refs = [pack.ref for pack in packs]
    if as_json:
        print_json({"url": url, "api_key": key, "packs": refs}, is_line=True)
        return
    screen = Screen()
    say: Callable[[str], None] = screen.say
    say(f"✓ serving {', '.join(refs)} at {url}" if url else f"✓ running sessions of {', '.join(refs)}")
    if key:
        say(f"  your API key, valid until this process ends: {key}")
    say("  Ctrl-C stops it; unfinished sessions go on at the next start")
