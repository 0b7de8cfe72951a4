"""One request of a browser: who sends it, what its form holds, and how it is answered."""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tercet.console.logins import Logins, csrf_token
from tercet.console.tallies import TallyCache
from tercet.console.text import FILTERS
from tercet.core.state import State
from tercet.engine.session_reader import load_state
from tercet.engine.streams.stops import EmergencyStops, Stop
from tercet.journal.protocol import Journal
from tercet.runtime import Runtime
from tercet.service.app import Http
from tercet.service.boundary import read_body
from tercet.service.calls import call
from tercet.service.errors import ServiceError
from tercet.service.identity import Caller
from tercet.service.oidc import OidcSettings
from tercet.service.server import LOOPBACK_NAMES
from tercet.view.html.page import make_environment
from tercet.view.html.safe_text import SafeText, secrets_of

HOME = "/console"
NAV = (
    ("inbox", HOME, "Inbox"),
    ("sessions", f"{HOME}/sessions", "Sessions"),
    ("compare", f"{HOME}/compare", "Compare"),
    ("metrics", f"{HOME}/metrics", "Metrics"),
    ("packs", f"{HOME}/packs", "Packs"),
    ("stops", f"{HOME}/stops", "Stops"),
)
"""The links at the head of every page: the section, its path and its text."""
WHOLE = 10_000_000
"""The number of characters of a value up to which a gate shows all of it: who approves a call has to see what it is given."""
_WIDEST = ("tenant", "pack", "tool")
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # With no-referrer, browsers would send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "vary": "Cookie",
}
MOST_FIELDS = 300
STATIC = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "runs.css": "text/css",
    "runs.js": "text/javascript",
}


def read_static(name: str) -> bytes:
    """Return a file of ours that pages load."""
    return files("tercet.console").joinpath("static", name).read_bytes()


VERSIONS = {name: sha256(read_static(name)).hexdigest()[:12] for name in STATIC}
"""The hash of every such file, which is part of its address: a new version is loaded at once."""


def static_url(name: str) -> str:
    """Return the address of a file of ours."""
    return f"{HOME}/static/{name}?v={VERSIONS[name]}"


class StateCache:
    """The states of the sessions that lists showed last, so that only those that changed are read again."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._known: dict[tuple[str, str], State] = {}

    async def load(self, journal: Journal, tenant: str, session: str) -> State:
        """Return the newest state of a session."""
        key = (tenant, session)
        state = self._known.pop(key, None)
        if state is None or (await journal.head(tenant, session)).seq != state.position:
            state = await load_state(journal, tenant, session)
        self._known[key] = state
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return state


@dataclass(frozen=True, kw_only=True)
class Console:
    """What all pages share."""

    http: Http
    logins: Logins
    oidc: OidcSettings | None = None
    """The issuer that people log in with; None if they cannot."""
    safe: SafeText = field(default_factory=lambda: SafeText(secrets_of(os.environ)))
    stops: dict[str, EmergencyStops] = field(default_factory=dict[str, EmergencyStops])
    """The emergency stops of each tenant, as far as they were read."""
    tallies: TallyCache = field(default_factory=TallyCache)
    states: StateCache = field(default_factory=StateCache)

    async def active_stops(self, tenant: str) -> tuple[Stop, ...]:
        """Return the emergency stops that every page of a tenant shows, the widest first; they are read again once there are new ones."""
        journal = self.http.service.hub.journal
        known = self.stops.setdefault(tenant, EmergencyStops(journal, tenant, pack=""))
        await known.refresh(await journal.change_count(tenant))
        return tuple(sorted(await known.shown(), key=lambda stop: (_WIDEST.index(stop.kind), stop.name)))

    @cached_property
    def environment(self) -> Environment:
        """The templates."""
        made = make_environment(self.safe, PackageLoader("tercet.console"))
        made.filters.update(FILTERS)
        shared: dict[str, Any] = {"nav": NAV, "home": HOME, "static_url": static_url, "whole": WHOLE}
        made.globals.update(shared)
        return made


class NotLoggedIn(ServiceError):  # noqa: N818 - a refusal is named by what happened
    """A page that needs a login was asked for without one."""

    def __init__(self) -> None:
        super().__init__(
            "you are not logged in, or your login has ended",
            code="unauthenticated",
            remedy="log in, then try it again",
            status=401,
        )


class Visit:
    """A request, its caller, and the ways to answer it."""

    def __init__(self, console: Console, request: Request) -> None:
        self.console = console
        self.request = request
        self.form: Mapping[str, str] = {}
        """The fields of a form that was sent; its token has been checked."""
        self._login: Caller | None = None
        self._caller: Caller | None = None
        self._stops: tuple[Stop, ...] = ()

    # --- the request ---

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters of the path."""
        return self.request.path_params

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the query."""
        return self.request.query_params

    @property
    def now(self) -> int:
        """The wall time."""
        return self.console.http.service.now()

    @property
    def is_secure(self) -> bool:
        """Whether cookies may only be sent over https: everywhere but on this machine."""
        return self._host.partition("]")[0].rpartition("[")[2] != "::1" and self._name not in LOOPBACK_NAMES

    @property
    def origin(self) -> str:
        """The address under which the browser reaches the service."""
        return f"{'https' if self.is_secure else 'http'}://{self._host}"

    @property
    def _host(self) -> str:
        return self.request.headers.get("host", "")

    @property
    def _name(self) -> str:
        name, colon, port = self._host.rpartition(":")
        return name if colon and port.isdecimal() else self._host

    @property
    def _port(self) -> str:
        port = self._host.rpartition(":")[2]
        return port if port.isdecimal() else ""

    # --- cookies ---

    def cookie_name(self, name: str) -> str:
        """Return the full name of a cookie: browsers keep cookies of all ports of a host together."""
        return f"{'__Host-' if self.is_secure else ''}{name}{f'_{self._port}' if self._port else ''}"

    def cookie(self, name: str) -> str:
        """Return a cookie, or an empty text."""
        return self.request.cookies.get(self.cookie_name(name), "")

    def set_cookie(self, response: Response, name: str, value: str, *, max_age: int | None = None) -> None:
        """Set a cookie that scripts cannot read and that other sites' forms do not send; an empty value deletes it."""
        response.set_cookie(
            self.cookie_name(name),
            value,
            max_age=max_age if value else 0,
            path="/",
            secure=self.is_secure,
            httponly=True,
            samesite="lax",
        )

    # --- the caller ---

    async def identify(self) -> None:
        """Find out who sends the request, by the cookie of their login; raises `NotLoggedIn`."""
        cookie = self.cookie("tercet_console")
        found = await self.console.logins.find(cookie) if cookie else None
        if found is None:
            raise NotLoggedIn
        self.console.http.rate.take(found.credential)
        self.console.http.places.take(self.request.scope, found.tenant)
        self._login = found
        name = self.cookie("tercet_act_as")
        self._caller = found.acting_as(name) if name and found.is_dev else found
        self._stops = await self.console.active_stops(found.tenant)

    @property
    def caller(self) -> Caller:
        """Who sends the request; in development mode, whom they act as."""
        if self._caller is None:
            raise NotLoggedIn
        return self._caller

    @property
    def login(self) -> Caller:
        """Who is logged in."""
        if self._login is None:
            raise NotLoggedIn
        return self._login

    @property
    def stops(self) -> tuple[Stop, ...]:
        """The active emergency stops of the tenant, the widest first."""
        return self._stops

    @property
    def csrf(self) -> str:
        """The token that forms of this login carry."""
        return csrf_token(self.cookie("tercet_console"))

    # --- forms ---

    async def read_form(self) -> None:
        """Read a form; raises `ServiceError` unless a page of this console sent it."""
        site = self.request.headers.get("sec-fetch-site", "same-origin")
        kind = self.request.headers.get("content-type", "").partition(";")[0]
        if site not in ("same-origin", "none") or kind != "application/x-www-form-urlencoded":
            raise _forged()
        body = await read_body(self.request, self.console.http.limits)
        try:
            fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            raise ServiceError(
                "the form cannot be read", code="wrong_form", remedy="send it again", status=400
            ) from None
        self.form = dict(fields)

    def check_token(self, expected: str) -> None:
        """Raise `ServiceError` unless the form carries a token."""
        if not hmac.compare_digest(self.form.get("csrf", "").encode(), expected.encode()):
            raise _forged()

    # --- the service ---

    async def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Carry out a method of the API for the caller; raises `ServiceError`."""
        return await call(self.console.http.service, self.caller, method, params)

    async def runtime(self, session: str) -> Runtime:
        """Return the runtime of a session that the caller may read; raises `ServiceError`."""
        self.caller.demand("read")
        return await self.console.http.service.hub.of_session(self.caller.tenant, session)

    # --- answers ---

    def render_unless_known(self, template: str, **values: Any) -> Response:
        """Return a page with a hash of what it shows; without its body if the browser has the same one, but for its times."""
        shown = repr((values, self._stops, self._caller, self.csrf)).encode()
        headers = {**HEADERS, "etag": f'"{sha256(shown).hexdigest()}"'}
        if headers["etag"] in self.request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        page = self.render(template, **values)
        page.headers["etag"] = headers["etag"]
        return page

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page. Every template gets the caller, the time and the token for forms as well."""
        caller, dev = self._caller, self._login is not None and self._login.is_dev
        found = self.console.environment.get_template(template)
        shared = {
            "caller": caller,
            "login": self._login,
            "is_dev": dev,
            "people": self._people() if dev else (),
            "csrf": self.csrf if caller else "",
            "now": self.now,
            "here": self.request.url.path,
            "is_change": self.request.method == "POST",
            "active_stops": self._stops,
            "section": "",
        }
        body = found.render({**shared, **values})
        return HTMLResponse(body, status, HEADERS)

    def _people(self) -> tuple[str, ...]:
        """Return the people of the packs, whom a developer may act as."""
        packs = (versions[0] for versions in self.console.http.service.hub.packs.values())
        return tuple(dict.fromkeys(actor.id for pack in packs for actor in pack.actors))

    def redirect(self, path: str) -> RedirectResponse:
        """Send the browser to another page of the console, after a form was sent."""
        return RedirectResponse(quote(path, safe="/?=&#.:%~+,;@!$'()*-_"), 303, HEADERS)


def _forged() -> ServiceError:
    return ServiceError(
        "this form did not come from a page of your login, so nothing was changed",
        code="forged_form",
        remedy="open the page again, and send its form",
        status=403,
    )


Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True)
class Page:
    """A path of the console: its handler, and whether it is reached without a login."""

    path: str
    handler: Handler
    method: str = "GET"
    is_public: bool = False


def next_path(given: str) -> str:
    """Return the page of the console that a login leads to: never another site."""
    is_ours = given == HOME or given.startswith((f"{HOME}/", f"{HOME}?"))
    return given if is_ours and given.isprintable() and "\\" not in given else HOME
