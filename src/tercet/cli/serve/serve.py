"""`tercet serve` and `tercet worker`: processes that run sessions which were approved, resumed or orphaned."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, StoreUrl, find_library, journal_at
from tercet.cli.options import AsJson, argument, flag, option, takes
from tercet.cli.run.runner import run_until_complete
from tercet.cli.screen import Screen, print_json
from tercet.cli.serve.temporal import TemporalOptions, cluster_module, open_dispatcher
from tercet.cli.sessions.next_commands import Commands
from tercet.cli.sessions.people import local_actor, require_local_journal
from tercet.contracts.errors import UsageError, extra_missing
from tercet.packs import Pack
from tercet.view.terminal.text import count, printable

SERVE_EXAMPLES = """\
tercet serve examples/refunds
tercet serve examples/refunds examples/runbook --journal postgresql://db/tercet --host 0.0.0.0 --port 8700
tercet serve examples/refunds --notifications notifications.toml --public-url https://tercet.example.com
tercet serve examples/refunds --dev
"""
CONSOLE_EXAMPLES = """\
tercet console examples/refunds
tercet console examples/refunds --dev --no-open
"""
WORKER_EXAMPLES = """\
tercet worker examples/refunds --journal postgresql://db/tercet
tercet worker examples/refunds --journal postgresql://db/tercet --temporal temporal.example:7233
"""

Packs: TypeAlias = Annotated[
    list[Path],
    argument("PACK...", "The folders of the packs to serve; of two versions, name the newer one last."),
]


class Unserved(NamedTuple):
    """How many unfinished sessions are pinned to a pack version that is not served, and the command that moves one."""

    pack: str
    sessions: int
    command: str


Ready: TypeAlias = Callable[[str, str, str, Sequence[Unserved]], None]
"""Called once a service answers, with its address, the local key, a login link, and the pack versions that are not served."""
AtOnce: TypeAlias = Annotated[
    int,
    option("N", "The number of runs that this process runs at the same time.", "--runs", min=1, max=10_000),
]


Notifications: TypeAlias = Annotated[
    Path | None,
    option(
        "FILE",
        "The targets of notifications (the page Notifications describes the file); without it, this process sends none.",
        "--notifications",
    ),
]
PublicUrl: TypeAlias = Annotated[
    str, option("URL", "The address under which people reach the service, for links.", "--public-url")
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
OidcClient: TypeAlias = Annotated[
    str,
    option(
        "ID",
        "The console's client id at the issuer: people log in there. Its secret, if it has one, is in TERCET_OIDC_CLIENT_SECRET.",
        "--oidc-client-id",
    ),
]


class ProcessOptions(TemporalOptions, frozen=True, kw_only=True):
    """The options of a process that runs sessions: who schedules them, and where their facts and events are."""

    store: StoreUrl = ""
    journal: JournalUrl = DEFAULT
    as_json: AsJson = False

    @property
    def scheduler(self) -> Any:
        """Where Temporal is; None if this process schedules its sessions itself."""
        return self.settings_at(self.temporal, self.journal)


@takes(ProcessOptions)
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
    notifications: Notifications = None,
    public_url: PublicUrl = "",
    oidc_client_id: OidcClient = "",
    runs: AtOnce = 16,
    dev: Annotated[
        bool,
        flag(
            "Development mode, on this machine only: the printed key may act as any actor of the packs, recorded as simulated.",
            "--dev",
        ),
    ] = False,
    options: ProcessOptions,
) -> ExitCode:
    """Serve packs over HTTP, and run their sessions.

    Callers start runs, answer gates and read records by JSON-RPC at /rpc, as the page HTTP API describes. Sessions that
    were answered, resumed or orphaned are continued automatically. On loopback a key for you is printed, which is
    valid until the process ends. Other callers need an API key or a token of --oidc-issuer; an address that other
    machines can reach is refused without either. On SIGTERM and Ctrl-C, calls in flight finish, and every session is
    left to the next worker. With --temporal nothing runs here: sessions go on in processes of `tercet worker --temporal`.
    """
    journal, scheduler = options.journal, options.scheduler
    require_local_journal(journal, is_dev=dev)
    server = _service_module("the console")
    loaded = [load_pack(folder) for folder in packs]
    settings = server.ServeSettings(
        host=host,
        port=port,
        is_dev=dev,
        at_once=runs,
        allow_hosts=tuple(allow_host or ()),
        local=local_actor(loaded[0]),
        tenant=TENANT,
        notifications=_targets(server, notifications),
        public_url=demand_link(public_url),
        oidc=server.OidcSettings(
            issuer=oidc_issuer,
            audience=oidc_audience,
            roles_claim=oidc_roles_claim,
            tenant_claim=oidc_tenant_claim,
            operator_role=oidc_operator_role,
            client_id=oidc_client_id,
            client_secret=os.environ.get("TERCET_OIDC_CLIENT_SECRET", ""),
            tenant=TENANT,
        )
        if oidc_issuer or oidc_audience
        else None,
    )

    serving = _Serving(
        packs=packs,
        loaded=loaded,
        settings=settings,
        journal=journal,
        store=options.store,
        scheduler=scheduler,
    )
    _run(serving.run(partial(_announce, packs=loaded, as_json=options.as_json)))
    return ExitCode.ACCEPTED


def console(
    packs: Packs,
    *,
    port: Annotated[int, option("PORT", "The port to listen on; 0 for any free one.", min=0, max=65535)] = 0,
    dev: Annotated[
        bool,
        flag("Development mode: you may act as any actor of the packs, recorded as simulated.", "--dev"),
    ] = False,
    open_browser: Annotated[
        bool, flag("Open the console in a browser, if this machine has a screen.", "--open/--no-open")
    ] = True,
    store: StoreUrl = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Open the console of a journal in a browser, on this machine only.

    Shows what waits for you and lets you answer it as yourself. It prints a link that
    logs you in once, and opens it. Sessions that were answered go on by themselves, as with `tercet serve`. Ctrl-C stops it.
    """
    require_local_journal(journal, is_dev=dev)
    server = _service_module()
    loaded = [load_pack(folder) for folder in packs]
    settings = server.ServeSettings(port=port, is_dev=dev, local=local_actor(loaded[0]), tenant=TENANT)
    serving = _Serving(packs=packs, loaded=loaded, settings=settings, journal=journal, store=store)

    def ready(url: str, key: str, link: str, unserved: Sequence[Unserved]) -> None:
        _announce(url, key, link, unserved, packs=loaded, as_json=as_json)
        if open_browser and not as_json:
            show_in_browser(link)

    _run(serving.run(ready))
    return ExitCode.ACCEPTED


def show_in_browser(link: str) -> None:
    """Open a link in a browser, if this machine has a screen and a person is at the terminal."""
    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if has_screen and sys.stdout.isatty():
        webbrowser.open(link)


@dataclass(frozen=True, kw_only=True)
class _Serving:
    """A service with its console, about to be started."""

    packs: list[Path]
    loaded: list[Pack]
    settings: Any
    journal: str
    store: str
    scheduler: Any = None

    async def run(self, ready: Ready) -> None:
        """Serve until a signal."""
        server, settings = _service_module(), self.settings
        site = _console_module().ConsoleSite(settings.oidc)
        folders = _folders(self.loaded, self.packs)
        # An address that is taken is refused before a journal is made.
        with server.listen(settings.host, settings.port) as bound:
            await self._serve(bound, site, folders, ready)

    async def _serve(self, bound: socket.socket, site: Any, folders: dict[str, str], ready: Ready) -> None:
        server, settings = _service_module(), self.settings
        async with (
            journal_at(self.journal, is_new=True, is_written=True) as opened,
            find_library(self.store, self.journal) as evidence,
            open_dispatcher(self.scheduler) as carrier,
            server.open_service(
                self.loaded,
                opened,
                settings,
                folders=folders,
                evidence=evidence,
                site=site,
                carrier=carrier,
            ) as running,
        ):
            url = f"http://{server.url_host(settings.host)}:{bound.getsockname()[1]}"
            link = f"{url}{await site.login_path(running.local_key)}" if running.local_key else ""
            # With Temporal, workers of any version may be running elsewhere.
            hub = running.http.service.hub
            unserved = [] if self.scheduler else await _find_unserved(hub, url, folders)
            await server.serve_until_stopped(
                running, bound, lambda: ready(url, running.local_key, link, unserved)
            )


@takes(ProcessOptions)
def worker(
    packs: Packs,
    *,
    tenant: Annotated[
        list[str] | None,
        option("TENANT", "A tenant whose sessions are run; may be given several times.", "--tenant"),
    ] = None,
    notifications: Notifications = None,
    public_url: PublicUrl = "",
    runs: AtOnce = 16,
    options: ProcessOptions,
) -> ExitCode:
    """Run sessions without serving an API.

    The same worker as in `tercet serve`: several processes may share one journal, and leases decide which of them runs
    a session. With --temporal the sessions of each pack version come from a queue of its own, on as many machines as
    there are workers. On SIGTERM and Ctrl-C, calls in flight finish, and every session is left to the next worker.
    """
    journal, scheduler = options.journal, options.scheduler
    server = _service_module()
    targets, link = _targets(server, notifications), demand_link(public_url)
    loaded = [load_pack(folder) for folder in packs]

    async def main() -> None:
        async with (
            journal_at(journal, is_new=True, is_written=True) as opened,
            find_library(options.store, journal) as evidence,
            server.running_notifier(opened, targets, link),
        ):
            if scheduler is not None:

                def open_hub(pack: Pack) -> Any:
                    folders = _folders(loaded, packs)
                    return server.Hub((pack,), opened, folders=folders, evidence=evidence, watchdog_ms=None)

                settings = cluster_module().WorkerSettings(at_once=runs)
                async with cluster_module().open_worker(scheduler, opened, open_hub, loaded, settings):
                    stopped = _stop_at_signals()  # before a reader of the announcement can send one
                    _announce("", "", "", (), packs=loaded, as_json=options.as_json)
                    await stopped.wait()
                return
            hub = server.Hub(loaded, opened, folders=_folders(loaded, packs), evidence=evidence)
            working = server.Worker(hub, at_once=runs)
            async with server.running_worker(hub, working, {TENANT, *(tenant or ())}):
                stopped = _stop_at_signals()
                unserved = await _find_unserved(hub, journal, _folders(loaded, packs))
                _announce("", "", "", unserved, packs=loaded, as_json=options.as_json)
                await stopped.wait()

    _run(main())
    return ExitCode.ACCEPTED


def _targets(server: Any, file: Path | None) -> Any:
    return None if file is None else server.load_settings(file)


def demand_link(url: str) -> str:
    """Return the address that links begin with; raises `UsageError` for one that is not http or https."""
    parts = urlsplit(url)
    if url and (
        parts.scheme not in ("http", "https") or not parts.netloc or not url.isprintable() or " " in url
    ):
        raise UsageError(
            f"{url!r} is not a web address",
            code="wrong_public_url",
            remedy="write it whole: --public-url https://tercet.example.com",
        )
    return url.rstrip("/")


def _service_module(what: str = "the service") -> Any:
    try:
        from tercet.service import server  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing(what, error.name or "fastapi", "service") from error
    return server


def _console_module() -> Any:
    from tercet.console import site  # noqa: PLC0415 - an optional dependency, as above

    return site


def _folders(loaded: list[Pack], packs: list[Path]) -> dict[str, str]:
    return {pack.name: str(folder) for pack, folder in zip(loaded, packs, strict=True)}


def _run(main: Coroutine[Any, Any, None]) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("a2a").setLevel(
        logging.CRITICAL
    )  # it logs what callers send, whole and with a traceback
    run_until_complete(asyncio.new_event_loop(), main)


def _stop_at_signals() -> asyncio.Event:
    """Return what SIGINT and SIGTERM set."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped


async def _find_unserved(hub: Any, journal: str, folders: Mapping[str, str]) -> list[Unserved]:
    """Return the versions of the packs in these folders that unfinished sessions are pinned to, and that are not served."""
    by_pack: dict[str, list[str]] = {}
    for row in await hub.list_unserved():
        by_pack.setdefault(row.pack, []).append(row.session_id)
    found: list[Unserved] = []
    for pack, sessions in by_pack.items():
        commands = Commands(journal=journal, pack=folders[pack.partition("@")[0]])
        found.append(Unserved(pack, len(sessions), commands.migrate(sessions[0])))
    return found


def _announce(
    url: str, key: str, link: str, unserved: Sequence[Unserved], *, packs: list[Pack], as_json: bool
) -> None:
    refs = [pack.ref for pack in packs]
    if as_json:
        console = {"console": f"{url}/console", "login_link": link} if url else {}
        pinned = [{"pack": each.pack, "sessions": each.sessions} for each in unserved]
        print_json({"url": url, "api_key": key, "packs": refs, "unserved": pinned, **console}, is_line=True)
        return
    screen = Screen()
    say: Callable[[str], None] = screen.say
    if link:
        say("→ open the console with this link, which logs you in once within 5 minutes:")
        say(f"  {link}")
    say(f"✓ serving {', '.join(refs)} at {url}" if url else f"✓ running sessions of {', '.join(refs)}")
    if key:
        say(f"  your API key, valid until this process ends: {key}")
    if url and not link:
        say(f"  the console: {url}/console")
    for pack, sessions, command in unserved:
        are = f"{count(sessions, 'session')} {'is' if sessions == 1 else 'are'}"
        version = f"other content of {pack} than is" if pack in refs else f"{pack}, which is not"
        say(f"! {are} pinned to {printable(version, 200)} served here")
        say('  Move each with this command, or, if the pack says resume = "pinned", serve that version too:')
        say(f"  {command}")
    say("  Ctrl-C stops it; unfinished sessions go on at the next start")
