"""Logging in with an OpenID Connect issuer: the authorization code flow with PKCE.

The state, the nonce and the code verifier of a login are in a cookie of the browser that began it, so any process of the
service can finish it, and no other browser can.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from starlette.responses import RedirectResponse, Response

from tercet.console.login import LOGIN, begin
from tercet.console.visit import HEADERS, HOME, Page, Visit, next_path
from tercet.service.errors import ServiceError
from tercet.service.oidc import OidcSettings, TokenVerifier, caller_of

START = f"{LOGIN}/oidc"
CALLBACK = f"{START}/callback"
_COOKIE = "tercet_oidc"
_LASTS_S = 600


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A login that has begun."""

    state: str
    nonce: str
    verifier: str
    then: str


def _settings(visit: Visit) -> OidcSettings:
    if visit.console.oidc is None:
        raise ServiceError(
            "this console has no issuer to log in with",
            code="no_issuer",
            remedy="log in with an API key; --oidc-client-id of tercet serve adds an issuer",
            status=404,
        )
    return visit.console.oidc


@asynccontextmanager
async def _open_verifier(visit: Visit, settings: OidcSettings) -> AsyncGenerator[TokenVerifier]:
    """What asks the issuer, and verifies id tokens: they are made for the console, and not for the API."""
    verifier = TokenVerifier(replace(settings, audience=settings.client_id), now_ms=lambda: visit.now)
    try:
        yield verifier
    finally:
        await verifier.aclose()


async def start(visit: Visit) -> Response:
    """Send the browser to the issuer."""
    settings = _settings(visit)
    flow = Flow(
        state=secrets.token_urlsafe(24),
        nonce=secrets.token_urlsafe(24),
        verifier=secrets.token_urlsafe(48),
        then=next_path(visit.query.get("next", HOME)),
    )
    async with _open_verifier(visit, settings) as issuer:
        endpoints = await issuer.endpoints()
    challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": f"{visit.origin}{CALLBACK}",
        "scope": "openid",
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    mark = "&" if urlsplit(endpoints.authorize).query else "?"
    response = RedirectResponse(f"{endpoints.authorize}{mark}{urlencode(asked)}", 303, HEADERS)
    visit.set_cookie(response, _COOKIE, quote(msgspec.json.encode(flow)), max_age=_LASTS_S)
    return response


async def finish(visit: Visit) -> Response:
    """Take the code that the issuer sent with the browser, and log in with the identity that it stands for."""
    settings, query = _settings(visit), visit.query
    try:
        flow = msgspec.json.decode(unquote(visit.cookie(_COOKIE)), type=Flow)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _refused("this login was not begun in this browser, or took too long") from None
    if not hmac.compare_digest(query.get("state", "").encode(), flow.state.encode()):
        raise _refused("the answer of the issuer belongs to another login")
    if query.get("iss", settings.issuer) != settings.issuer:
        raise _refused("another issuer has answered")
    if not query.get("code"):
        raise _refused(f"the issuer refused the login: {query.get('error', 'no code was sent')[:80]}")
    form = {
        "grant_type": "authorization_code",
        "code": query["code"],
        "redirect_uri": f"{visit.origin}{CALLBACK}",
        "client_id": settings.client_id,
        "code_verifier": flow.verifier,
    }
    visit.console.http.rate.take(f"login:{visit.request.client.host if visit.request.client else ''}")
    async with _open_verifier(visit, settings) as issuer:
        token = await issuer.exchange((await issuer.endpoints()).token, form)
        found = await issuer.verify(token, nonce=flow.nonce)
    response = await begin(visit, caller_of(found, settings.operator_role), next_path(flow.then))
    visit.set_cookie(response, _COOKIE, "")
    return response


def _refused(message: str) -> ServiceError:
    return ServiceError(message, code="login_refused", remedy="log in again", status=401)


PAGES = (Page(START, start, is_public=True), Page(CALLBACK, finish, is_public=True))
