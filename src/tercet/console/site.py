"""The console as a part of the service: its paths, its files, and how an error becomes a page."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tercet.console import (
    compare,
    gate,
    inbox,
    login,
    metrics,
    oidc_login,
    packs,
    session,
    sessions,
    stops,
)
from tercet.console.logins import Logins
from tercet.console.visit import (
    HEADERS,
    HOME,
    STATIC,
    Console,
    NotLoggedIn,
    Page,
    Visit,
    next_path,
    read_static,
)
from tercet.contracts.errors import InternalError
from tercet.service.app import Http
from tercet.service.errors import NAMED_BY_LISTS, SCHEMAS, understand
from tercet.service.identity import KeyAuthenticator, authenticate
from tercet.service.oidc import OidcSettings

PAGES: tuple[Page, ...] = (
    *login.PAGES,
    *oidc_login.PAGES,
    *inbox.PAGES,
    *gate.PAGES,
    *sessions.PAGES,
    *session.PAGES,
    *compare.PAGES,
    *metrics.PAGES,
    *packs.PAGES,
    *stops.PAGES,
)


class ConsoleSite:
    """The console of one service."""

    home = HOME

    def __init__(self, oidc: OidcSettings | None = None) -> None:
        """With `oidc`, people log in with this issuer too, if it knows the console by a client id."""
        self._oidc = oidc if oidc is not None and oidc.client_id else None
        self._console: Console | None = None

    def routes(self, http: Http) -> Sequence[BaseRoute]:
        """Return the paths of all pages."""
        keys = next(each for each in http.authenticators if isinstance(each, KeyAuthenticator))
        service = http.service
        console = Console(http=http, logins=Logins(service.hub.journal, keys, service.now), oidc=self._oidc)
        self._console = console
        return (
            Route(f"{HOME}/static/{{name}}", _static, methods=["GET"]),
            *(Route(page.path, _endpoint(console, page), methods=[page.method]) for page in PAGES),
            Route(f"{HOME}/{{rest:path}}", _endpoint(console, Page("", _nothing_here))),
        )

    async def login_path(self, key: str, then: str = HOME) -> str:
        """Return the path of a login link for the holder of an API key: it works once, for a few minutes."""
        if self._console is None:
            raise InternalError("the console has no service yet")
        caller = await authenticate(f"Bearer {key}", self._console.http.authenticators)
        secret = self._console.logins.make_link(caller)
        return f"{HOME}/login/link?token={secret}{f'&next={then}' if then != HOME else ''}"


def _endpoint(console: Console, page: Page):
    async def answer(request: Request) -> Response:
        visit = Visit(console, request)
        try:
            return await _answer(visit, page)
        except NotLoggedIn as error:
            if request.method in ("GET", "HEAD"):
                here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                then = f"?next={quote(next_path(here), safe='/')}" if here != HOME else ""
                return visit.redirect(f"{login.LOGIN}{then}")
            return _refusal(visit, error)
        except Exception as error:  # noqa: BLE001 - every error becomes a page, and unexpected ones are logged
            return _refusal(visit, error)

    return answer


async def _answer(visit: Visit, page: Page) -> Response:
    if not page.is_public:
        await visit.identify()
    if page.method == "POST":
        await visit.read_form()
        if not page.is_public:
            visit.check_token(visit.csrf)
    return await page.handler(visit)


_REMEDIES = {
    NAMED_BY_LISTS: "look in the inbox or among the sessions for what there is",
    SCHEMAS: "go back, and choose one of the values that the form offers",
}
"""What to do in the console, in the place of what programs do."""


def _refusal(visit: Visit, error: Exception) -> Response:
    refused = understand(error)
    refused.remedy = _REMEDIES.get(refused.remedy or "", refused.remedy)
    title = "Not found" if refused.code == "not_found" else "Refused"
    return visit.render("refusal.html.j2", status=refused.status, title=title, error=refused)


async def _nothing_here(visit: Visit) -> Response:
    if (path := visit.request.url.path) == f"{HOME}/":
        return visit.redirect(path.rstrip("/"))
    return visit.render("missing.html.j2", status=404, title="Not found")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        return Response(status_code=404)
    headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
    return Response(read_static(name), media_type=STATIC[name], headers=headers)
