"""Logging in and out: with an API key, with a login link, or with an OpenID Connect issuer; and acting as others in development."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from tercet.console.logins import csrf_token
from tercet.console.visit import HOME, Page, Visit, next_path
from tercet.service.errors import ServiceError
from tercet.service.identity import Caller, authenticate

LOGIN = f"{HOME}/login"


async def show_login(visit: Visit) -> Response:
    """Show the form that takes an API key."""
    return _form(visit, next_path(visit.query.get("next", HOME)))


def _form(visit: Visit, then: str, *, status: int = 200, problem: str = "") -> Response:
    oidc = visit.console.oidc
    issuer = urlsplit(oidc.issuer).netloc if oidc else ""
    return _render(visit, "login.html.j2", status=status, then=then, problem=problem, issuer=issuer)


def _render(visit: Visit, template: str, **values: Any) -> Response:
    """Return a page whose form carries a token of its own: another site cannot log a browser in under its own credential."""
    nonce = secrets.token_urlsafe(24)
    response = visit.render(template, title="Log in", csrf=csrf_token(nonce), **values)
    visit.set_cookie(response, "tercet_login", nonce, max_age=3600)
    return response


async def log_in(visit: Visit) -> Response:
    """Log in with an API key."""
    then = next_path(visit.form.get("next", HOME))
    nonce = visit.cookie("tercet_login")
    if not nonce:
        return _form(visit, then, status=403, problem="This form had expired. Please send it again.")
    visit.check_token(csrf_token(nonce))
    http = visit.console.http
    address = visit.request.client.host if visit.request.client else ""
    http.rate.take(f"login:{address}")
    try:
        caller = await authenticate(f"Bearer {visit.form.get('key', '').strip()}", http.authenticators)
    except ServiceError as error:
        if error.status != 401:
            raise
        http.counts.unauthenticated += 1
        problem = "This API key is not valid: it is mistyped, was revoked or has expired."
        return _form(visit, then, status=401, problem=problem)
    return await begin(visit, caller, then)


async def begin(visit: Visit, caller: Caller, then: str) -> Response:
    """Log an authenticated caller in, and go on to a page; an earlier login of this browser ends."""
    if before := visit.cookie("tercet_console"):
        await visit.console.logins.close(before)
    cookie, lasts_s = await visit.console.logins.open(caller)
    response = visit.redirect(then)
    visit.set_cookie(response, "tercet_console", cookie, max_age=lasts_s)
    visit.set_cookie(response, "tercet_login", "")
    visit.set_cookie(response, "tercet_act_as", "")
    return response


async def show_link(visit: Visit) -> Response:
    """Ask whether to use a login link: programs that only look at links do not use it up."""
    then = next_path(visit.query.get("next", HOME))
    return _render(visit, "login_link.html.j2", secret=visit.query.get("token", ""), then=then)


async def use_link(visit: Visit) -> Response:
    """Log in with a login link."""
    nonce = visit.cookie("tercet_login")
    if not nonce:
        raise ServiceError(
            "this form had expired", code="forged_form", remedy="open the login link again", status=403
        )
    visit.check_token(csrf_token(nonce))
    caller = visit.console.logins.use_link(visit.form.get("token", ""))
    if caller is None:
        raise ServiceError(
            "this login link was used before, or is too old",
            code="link_used",
            remedy="log in with your API key, or start the console again for a new link",
            status=401,
        )
    return await begin(visit, caller, next_path(visit.form.get("next", HOME)))


async def log_out(visit: Visit) -> Response:
    """Log out."""
    await visit.console.logins.close(visit.cookie("tercet_console"))
    response = visit.redirect(LOGIN)
    visit.set_cookie(response, "tercet_console", "")
    visit.set_cookie(response, "tercet_act_as", "")
    return response


async def act_as(visit: Visit) -> Response:
    """Act as another actor of the packs, in development mode; an empty name ends it."""
    name = visit.form.get("actor", "")
    if name:
        visit.login.acting_as(name)
    response = visit.redirect(next_path(visit.form.get("next", HOME)))
    visit.set_cookie(response, "tercet_act_as", name, max_age=12 * 3600)
    return response


PAGES = (
    Page(LOGIN, show_login, is_public=True),
    Page(LOGIN, log_in, method="POST", is_public=True),
    Page(f"{LOGIN}/link", show_link, is_public=True),
    Page(f"{LOGIN}/link", use_link, method="POST", is_public=True),
    Page(f"{HOME}/logout", log_out, method="POST"),
    Page(f"{HOME}/act-as", act_as, method="POST"),
)
