"""The service as a process: what it is made of, where it may listen, and how it stops without losing anything."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

import uvicorn
from starlette.routing import BaseRoute, Route

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import SCOPES, ApiKeys, NewKey, make_key
from tercet.engine.watchdog import WATCHDOG_MS
from tercet.evidence.store import EvidenceStore
from tercet.executor.clock import Clock
from tercet.journal.protocol import Journal
from tercet.packs import Pack
from tercet.runtime import RuntimeOptions
from tercet.service.a2a import a2a_routes
from tercet.service.app import Http, accept, build_app
from tercet.service.boundary import App, Limits, Places, Rate
from tercet.service.connection import Connection
from tercet.service.hub import Hub
from tercet.service.identity import Authenticator, KeyAuthenticator
from tercet.service.mcp import open_mcp
from tercet.service.methods import Service
from tercet.service.notifier import Notifier
from tercet.service.oidc import OidcSettings, open_oidc
from tercet.service.targets import NotificationSettings, load_settings
from tercet.service.worker import AT_ONCE, Carrier, Worker

__all__ = (
    "Hub",
    "OidcSettings",
    "Running",
    "ServeSettings",
    "Site",
    "Worker",
    "listen",
    "load_settings",
    "open_service",
    "running_notifier",
    "running_worker",
    "serve_until_stopped",
)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOP_S = 10
"""How long requests under way have to end once the service stops."""


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """How a service is started."""

    host: str = "127.0.0.1"
    port: int = 8700
    is_dev: bool = False
    at_once: int = AT_ONCE
    allow_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    local: Actor | None = None
    """Who starts it: a service on loopback prints a key for them."""
    tenant: str = "default"
    notifications: NotificationSettings | None = None
    """Where notifications go; None if this process sends none."""
    public_url: str = ""
    """The address under which the service is reached, for links and the card of the agent."""
    oidc: OidcSettings | None = None
    """The issuer whose bearer tokens are accepted beside API keys."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A service that answers, and what it is made of."""

    app: App
    http: Http
    worker: Carrier
    keys: ApiKeys
    local_key: str
    """A key for the person who started it, valid as long as this process; empty where none is made."""


class Site(Protocol):
    """Pages for browsers beside the API."""

    home: str
    """The path of the first page."""

    def routes(self, http: Http) -> Sequence[BaseRoute]:
        """Return the paths of all pages, which take what they need of the service from `http`."""
        ...


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    return host == "localhost"


def require_authentication(settings: ServeSettings, *, has_credentials: bool) -> None:
    """Raise `UsageError` for an address that other machines can reach, unless callers can authenticate."""
    if is_loopback(settings.host):
        return
    if settings.is_dev:
        raise UsageError(
            f"development mode is only for this machine, and {settings.host} is reachable from other machines",
            code="simulation_refused",
            remedy="leave --dev out, or listen on 127.0.0.1",
        )
    if not has_credentials:
        raise UsageError(
            f"{settings.host} is reachable from other machines, and there is no API key yet",
            code="authentication_missing",
            remedy="make one first: tercet api-keys create ACTOR; or listen on 127.0.0.1",
        )


@asynccontextmanager
async def open_service(
    packs: Sequence[Pack],
    journal: Journal,
    settings: ServeSettings,
    *,
    options: RuntimeOptions | None = None,
    folders: dict[str, str] | None = None,
    evidence: EvidenceStore | None = None,
    site: Site | None = None,
    carrier: Carrier | None = None,
) -> AsyncGenerator[Running]:
    """Open everything but the socket: the runtimes, the worker, the application, and the pages for browsers if there are any.
    With a `carrier`, sessions are carried on elsewhere, and no tool is called here."""
    watchdog_ms = WATCHDOG_MS if carrier is None else None
    hub = Hub(packs, journal, options=options, folders=folders, evidence=evidence, watchdog_ms=watchdog_ms)
    keys = ApiKeys(journal)
    now = hub.clock.now
    valid = [key for key in await keys.list() if keys.is_valid(key, now())]
    require_authentication(settings, has_credentials=bool(valid or settings.oidc))
    local_id = local_key = ""
    if settings.local is not None and is_loopback(settings.host):
        name = settings.local.id
        key, local_key = make_key(NewKey(tenant=settings.tenant, actor=name, by=name, scopes=SCOPES), now())
        keys.add(key)
        local_id = key.id
    worker = Worker(hub, at_once=settings.at_once) if carrier is None else carrier
    own = KeyAuthenticator(keys, now, local=settings.local, local_id=local_id, is_dev=settings.is_dev)
    tenants = {settings.tenant, *(key.tenant for key in valid)}
    service = Service(hub=hub, worker=worker, is_dev=settings.is_dev)
    async with (
        open_authenticators(settings, now) as others,
        open_mcp(service, accept) as mcp,
        running_worker(hub, worker, tenants),
        running_notifier(journal, settings.notifications, settings.public_url, hub.clock) as notifier,
    ):
        http = Http(
            service=service,
            authenticators=(own, *others),
            rate=Rate(settings.limits),
            places=Places(settings.limits),
            limits=settings.limits,
            hosts=_hosts(settings),
            public_url=settings.public_url,
            tenant=settings.tenant,
            notifier=notifier,
            routes=(
                Route("/mcp", mcp, methods=["POST"]),
                *a2a_routes(service, accept, settings.public_url),
            ),
        )
        if site is not None:
            http = replace(http, routes=(*http.routes, *site.routes(http)), home=site.home)
        yield Running(app=build_app(http), http=http, worker=worker, keys=keys, local_key=local_key)
        http.is_closing.set()


@asynccontextmanager
async def open_authenticators(
    settings: ServeSettings, now: Callable[[], int]
) -> AsyncGenerator[Sequence[Authenticator]]:
    """What verifies credentials other than API keys."""
    if settings.oidc is None:
        yield ()
    else:
        async with open_oidc(settings.oidc, now) as tokens:
            yield (tokens,)


@asynccontextmanager
async def running_worker(hub: Hub, worker: Carrier, tenants: set[str]) -> AsyncGenerator[None]:
    """Open the runtimes of the tenants that are known, whose watchdogs look after them, and carry sessions on."""
    try:
        for tenant in sorted(tenants):
            for name in hub.packs:
                await hub.runtime(tenant, name)
        if not isinstance(worker, Worker):
            yield
            return
        working = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            await worker.stop()
            await working
    finally:
        await hub.close()


@asynccontextmanager
async def running_notifier(
    journal: Journal,
    settings: NotificationSettings | None,
    public_url: str = "",
    clock: Clock | None = None,
) -> AsyncGenerator[Notifier | None]:
    """Deliver notifications to the targets of a file; without one, leave them to other processes."""
    if settings is None:
        yield None
        return
    notifier = Notifier(journal, settings, public_url=public_url, clock=clock)
    working = asyncio.create_task(notifier.run())
    try:
        yield notifier
    finally:
        await notifier.stop()
        await working


def url_host(host: str) -> str:
    """Return a host as addresses and the header Host write it: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _hosts(settings: ServeSettings) -> frozenset[str] | None:
    """Return the names under which the service may be called; None where it is not known which ones it has."""
    allowed = {url_host(each).lower() for each in (settings.host, *settings.allow_hosts)}
    if is_loopback(settings.host):
        return LOOPBACK_NAMES | allowed
    is_any = settings.host in ("0.0.0.0", "::", "")  # noqa: S104 - compared, and not bound
    if is_any and not settings.allow_hosts:
        return None
    return frozenset(allowed)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises `UsageError` if the address is taken or is not of this machine."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except OSError as error:
        number = error.errno or 0  # negative if a name has no address
        reason = os.strerror(number) if number > 0 else error.strerror or str(error)
        is_port = number in (errno.EADDRINUSE, errno.EACCES)
        raise UsageError(
            f"cannot listen on {url_host(host)}:{port}: {reason}",
            code="cannot_listen",
            remedy="choose another port with --port, or 0 for any free one"
            if is_port
            else "choose an address of this machine with --host",
        ) from error
    # Connections inherit it. asyncio sets it only on sockets that name TCP as their protocol, and without it the body of an
    # answer waits about 40 ms for the acknowledgement of its head.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound


async def serve_until_stopped(running: Running, bound: socket.socket, ready: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; what is under way may end."""
    config = uvicorn.Config(
        running.app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=STOP_S,
        h11_max_incomplete_event_size=64_000,
    )
    await _Server(config, ready, running.http.is_closing.set).serve([bound])


class _Server(uvicorn.Server):
    """A server that says when it listens, and stops at SIGINT and SIGTERM; a second signal ends requests at once."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], closing: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop at signals; unlike the inherited one, do not raise them again afterwards: the worker has yet to stop."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._closing()
