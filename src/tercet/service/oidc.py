"""OpenID Connect: verify bearer tokens against the key set of an issuer that the operator has configured.

Only signatures with asymmetric keys count, so a public key can never be used as a shared secret. Keys are fetched from the
issuer's discovery document, kept for a while, and fetched again when a token names a key that is not known yet.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx2
from joserfc import errors as jose
from joserfc import jws, jwt
from joserfc.jwk import KeySet

from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor
from tercet.engine.streams.credentials import Scope, is_name, is_tenant
from tercet.service.errors import UNAVAILABLE, ServiceError
from tercet.service.identity import Caller

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
KEYS_FOR_MS = 600_000
"""How long a key set is used before it is fetched again."""
REFETCH_MS = 10_000
"""The shortest time between two fetches, so that tokens with invented key ids do not become requests to the issuer."""
MAX_TOKEN = 16_384
MAX_DOCUMENT = 1_000_000
TIMEOUT_S = 5.0
_WRONG_DOCUMENT = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a document of another shape than expected raises."""


class TokenError(ServiceError):
    """A bearer token that does not prove an identity."""

    def __init__(self, message: str, *, remedy: str = "sign in again, and send the new token") -> None:
        super().__init__(message, code="token_refused", remedy=remedy, status=401)


class IssuerError(ServiceError):
    """The issuer's keys could not be fetched, so no token of it can be verified now."""

    def __init__(self, issuer: str, reason: str) -> None:
        super().__init__(
            f"the keys of {issuer} could not be fetched{f': {reason}' if reason else ''}",
            code="issuer_unavailable",
            remedy="check the issuer's address, and that it answers",
            status=503,
            rpc=UNAVAILABLE,
        )


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """An issuer whose tokens are accepted, and which claims name the tenant and the roles."""

    issuer: str
    audience: str
    roles_claim: str = "roles"
    tenant_claim: str = ""
    """Empty: every token belongs to `tenant`."""
    operator_role: str = ""
    """The role that gives a token the scope `operate`; empty for none."""
    tenant: str = "default"
    """The tenant of tokens where no claim names it."""
    leeway_s: int = 60
    client_id: str = ""
    """The name under which the issuer knows the console; empty if people do not log in there with the issuer."""
    client_secret: str = field(default="", repr=False)
    """The console's secret at the issuer; empty for a public client, which PKCE alone protects."""

    def __post_init__(self) -> None:
        demand_secure(self.issuer)
        if not self.audience:
            raise UsageError(
                "an OIDC issuer needs an audience: tokens for other services must not be accepted here",
                code="audience_missing",
                remedy="name the audience that your issuer puts into tokens for this service: --oidc-audience",
            )


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """The addresses of an issuer that a login in a browser uses."""

    authorize: str
    token: str


@dataclass(frozen=True, kw_only=True)
class TokenIdentity:
    """Who a verified token speaks for."""

    subject: str
    roles: tuple[str, ...]
    tenant: str


class TokenVerifier:
    """Verifies the tokens of one issuer; `now_ms` is the wall clock."""

    def __init__(
        self,
        settings: OidcSettings,
        *,
        now_ms: Callable[[], int],
        client: httpx2.AsyncClient | None = None,
    ) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._client = client or httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False)
        self._keys: KeySet | None = None
        self._fetched_at = -KEYS_FOR_MS
        self._tried_at = -REFETCH_MS
        self._lock = asyncio.Lock()

    async def aclose(self) -> None:
        """Close the connections to the issuer."""
        await self._client.aclose()

    async def verify(self, token: str, *, nonce: str | None = None) -> TokenIdentity:
        """Return who a token speaks for; raises `TokenError`, or `IssuerError` where its keys cannot be had.

        With a nonce, only the token that was made for the login with this nonce is accepted.
        """
        if len(token) > MAX_TOKEN:
            raise TokenError(f"the token is longer than {MAX_TOKEN:,} characters")
        key_id = self._key_id(token)
        keys = await self._key_set(key_id)
        try:
            decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
            self._registry().validate(decoded.claims)
        except jose.ExpiredTokenError:
            raise TokenError("the token has expired") from None
        except (jose.JoseError, ValueError, TypeError, RecursionError) as error:
            raise TokenError(f"the token was refused: {_reason(error)}") from None
        if nonce is not None and not hmac.compare_digest(
            str(decoded.claims.get("nonce", "")).encode(), nonce.encode()
        ):
            raise TokenError("the token belongs to another login")
        return self._identity(decoded.claims)

    async def endpoints(self) -> Endpoints:
        """Return where people log in at the issuer, and where the console exchanges its code; raises `IssuerError`."""
        try:
            found = await self._discover()
            made = Endpoints(
                authorize=str(found["authorization_endpoint"]), token=str(found["token_endpoint"])
            )
            demand_secure(made.authorize)
            demand_secure(made.token)
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, UsageError) as error:
            raise IssuerError(self._settings.issuer, type(error).__name__) from None
        return made

    async def exchange(self, endpoint: str, form: Mapping[str, str]) -> str:
        """Return the id token for an authorization code; raises `TokenError` if the issuer refuses it."""
        settings = self._settings
        basic = b64encode(
            f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}".encode()
        ).decode()
        headers = {"authorization": f"Basic {basic}"} if settings.client_secret else {}
        try:
            response = await self._client.post(endpoint, data=dict(form), headers=headers)
        except httpx2.HTTPError as error:
            raise IssuerError(settings.issuer, type(error).__name__) from None
        try:
            answer = json.loads(response.content[:MAX_DOCUMENT])
            return str(answer["id_token"])
        except (ValueError, KeyError, TypeError):
            raise TokenError(
                f"the issuer gave no id token (HTTP status {response.status_code})", remedy="log in again"
            ) from None

    def _key_id(self, token: str) -> str:
        try:
            header = jws.extract_compact(token.encode()).headers()
        except (jose.JoseError, ValueError, TypeError, RecursionError):
            raise TokenError("the bearer token is not a signed JWT") from None
        if header.get("alg") not in ALGORITHMS:
            raise TokenError(
                f"the token is signed with {str(header.get('alg'))[:20]!r} (expected: {', '.join(ALGORITHMS)})"
            )
        return str(header.get("kid") or "")

    def _registry(self) -> jwt.JWTClaimsRegistry:
        settings = self._settings
        return jwt.JWTClaimsRegistry(
            now=lambda: self._now_ms() // 1000,
            leeway=settings.leeway_s,
            iss={"essential": True, "value": settings.issuer},
            aud={"essential": True, "value": settings.audience},
            sub={"essential": True, "allow_blank": False},
            exp={"essential": True},
        )

    def _identity(self, claims: Mapping[str, Any]) -> TokenIdentity:
        claimed: Any = claims.get(self._settings.roles_claim, [])
        roles: list[Any] = claimed.split() if isinstance(claimed, str) else claimed
        if not isinstance(claimed, str | list) or not all(
            isinstance(role, str) and is_name(role) for role in roles
        ):
            raise TokenError(f"the claim {self._settings.roles_claim!r} of the token is not a list of roles")
        tenant: Any = self._settings.tenant
        if self._settings.tenant_claim:
            tenant = claims.get(self._settings.tenant_claim)
            if not isinstance(tenant, str) or not is_tenant(tenant):
                raise TokenError(f"the token names no tenant in its claim {self._settings.tenant_claim!r}")
        if not is_name(str(claims["sub"])):
            raise TokenError("the token's claim 'sub' is not a printable name")
        return TokenIdentity(subject=str(claims["sub"]), roles=tuple(roles), tenant=tenant)

    async def _key_set(self, key_id: str) -> KeySet:
        """Return the issuer's keys, fetched again if they are old or do not contain this key."""
        if self._keys is not None and self._is_known(key_id):
            return self._keys  # also while a token with an invented key id makes us ask a slow issuer
        async with self._lock:
            now = self._now_ms()
            if not self._is_known(key_id) and now - self._tried_at >= REFETCH_MS:
                self._tried_at = now
                try:
                    self._keys = await self._fetch_keys()
                    self._fetched_at = now
                except (httpx2.HTTPError, jose.JoseError, UsageError, *_WRONG_DOCUMENT) as error:
                    if self._keys is None:
                        raise IssuerError(self._settings.issuer, type(error).__name__) from None
            if self._keys is None:
                raise IssuerError(self._settings.issuer, "")
            return self._keys

    def _is_known(self, key_id: str) -> bool:
        """Whether a key is in the key set, and the key set is fresh."""
        is_fresh = self._now_ms() - self._fetched_at < KEYS_FOR_MS
        return (
            is_fresh
            and self._keys is not None
            and (not key_id or any(key.kid == key_id for key in self._keys))
        )

    async def _fetch_keys(self) -> KeySet:
        found = await self._discover()
        address = str(found["jwks_uri"])
        demand_secure(address)
        keys = await self._fetch(address)
        public = [key for key in keys["keys"] if key.get("kty") != "oct" and key.get("use", "sig") == "sig"]
        return KeySet.import_key_set({"keys": public})

    async def _discover(self) -> dict[str, Any]:
        found = await self._fetch(f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found["issuer"] != self._settings.issuer:
            raise ValueError("the discovery document names another issuer")
        return found

    async def _fetch(self, address: str) -> dict[str, Any]:
        response = await self._client.get(address)
        response.raise_for_status()
        if len(response.content) > MAX_DOCUMENT:
            raise ValueError("the document is too large")
        found = json.loads(response.content)
        if not isinstance(found, dict):
            raise TypeError("the document is not a JSON object")
        return found  # pyright: ignore[reportUnknownVariableType] - JSON


class OidcAuthenticator:
    """Verifies bearer tokens of one issuer, which say who calls and in which roles."""

    def __init__(self, verifier: TokenVerifier, operator_role: str = "") -> None:
        self._verifier = verifier
        self._operator_role = operator_role

    async def authenticate(self, token: str) -> Caller | None:
        """Return who a token speaks for; None for what is not a JWT."""
        if token.count(".") != 2:
            return None
        return caller_of(await self._verifier.verify(token), self._operator_role)

    async def find_former(self, token: str) -> Caller | None:
        """Return None: a token that does not count says nothing that is certain."""
        del token


def caller_of(found: TokenIdentity, operator_role: str) -> Caller:
    """Return the caller that a verified token speaks for."""
    scopes: set[Scope] = {"read", "run", "answer"}
    if operator_role and operator_role in found.roles:
        scopes.add("operate")
    return Caller(
        tenant=found.tenant,
        actor=Actor(id=found.subject, roles=found.roles, auth="oidc"),
        scopes=frozenset(scopes),
        credential=f"oidc:{found.subject}",
        operator_role=operator_role,
    )


@asynccontextmanager
async def open_oidc(settings: OidcSettings, now_ms: Callable[[], int]) -> AsyncGenerator[OidcAuthenticator]:
    """An authenticator for tokens of this issuer, with its connections."""
    verifier = TokenVerifier(settings, now_ms=now_ms)
    try:
        yield OidcAuthenticator(verifier, settings.operator_role)
    finally:
        await verifier.aclose()


def demand_secure(address: str) -> None:
    """Refuse an address that is neither https nor on this machine."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"):
        return
    raise UsageError(
        f"{address!r} is not an https address",
        code="issuer_insecure",
        remedy="use the issuer's https address",
    )


def _reason(error: Exception) -> str:
    match error:
        case jose.BadSignatureError():
            return "its signature does not fit"
        case jose.InvalidKeyIdError():
            return "it names a key that the issuer does not publish"
        case jose.MissingClaimError() | jose.InvalidClaimError():
            return f"its claim {getattr(error, 'claim', '')!r} is missing or wrong"
        case _:
            return type(error).__name__
