"""Who calls: an identity comes from the credential alone, never from what is sent with it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tercet.contracts.request import SIMULATED, Actor
from tercet.engine.streams.credentials import PREFIX, SCOPES, ApiKey, ApiKeys, Scope
from tercet.service.errors import ServiceError

DEFAULT_TENANT = "default"
"""The tenant of keys for which `tercet api-keys create` names none."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A caller whose credential was verified."""

    tenant: str
    actor: Actor
    scopes: frozenset[Scope]
    credential: str
    """What identifies the credential in the audit log; not a secret."""
    is_dev: bool = False
    """Whether the service runs in development mode, in which they may act as others."""
    call_key: str = ""
    """What names the call that they make among its repeats; empty without a request key."""
    operator_role: str = ""
    """The role of an issuer whose tokens have the scope `operate`; empty if there is none, or if it is not known."""

    def demand(self, scope: Scope) -> None:
        """Raise `ServiceError` if the credential does not have a scope."""
        if scope not in self.scopes:
            raise ServiceError(
                f"this credential does not have the scope {scope}",
                code="scope_missing",
                remedy=self._remedy(scope),
                status=403,
            )

    def _remedy(self, scope: Scope) -> str:
        """Return how to get a credential that has a scope in addition to all that this one has."""
        if self.actor.auth == "oidc":
            named = (
                f"{self.operator_role!r}"
                if self.operator_role
                else "that --oidc-operator-role of tercet serve names"
            )
            return f"ask an administrator for the role {named}, and sign in again"
        scopes = [word for each in SCOPES if each in {*self.scopes, scope} for word in ("--scope", each)]
        roles = [word for each in self.actor.roles for word in ("--role", each)]
        tenant = [] if self.tenant == DEFAULT_TENANT else ["--tenant", self.tenant]
        line = shlex.join(["tercet", "api-keys", "create", self.actor.id, *roles, *scopes, *tenant])
        return f"an administrator makes a key with it, on the machine that has the journal: {line}"

    def acting_as(self, name: str) -> Caller:
        """Return the simulated actor that they act as; raises `ServiceError` outside of development mode."""
        if not self.is_dev:
            raise ServiceError(
                "acting as another actor is possible only in development mode",
                code="simulation_refused",
                remedy="use that actor's own credential, or start the service with --dev",
                status=403,
            )
        by = self.actor.os_user or self.actor.id
        return replace(self, actor=Actor(id=name, auth=SIMULATED, os_user=by))


class Authenticator(Protocol):
    """Verifies one kind of credential."""

    async def authenticate(self, token: str) -> Caller | None:
        """Return who a bearer token speaks for; None if it is not a credential of this kind, or does not count."""
        ...

    async def find_former(self, token: str) -> Caller | None:
        """Return who a token spoke for that was revoked or has expired; None if that is not known."""
        ...


class KeyAuthenticator:
    """Verifies API keys."""

    def __init__(
        self,
        keys: ApiKeys,
        now_ms: Callable[[], int],
        *,
        local: Actor | None = None,
        local_id: str = "",
        is_dev: bool = False,
    ) -> None:
        """`local` is the person who started the process, as the operating system knows them, and `local_id` their key."""
        self._keys = keys
        self._now_ms = now_ms
        self._local = local
        self._local_id = local_id
        self._is_dev = is_dev

    async def authenticate(self, token: str) -> Caller | None:
        """Return who an API key speaks for."""
        if not token.startswith(PREFIX):
            return None
        key = await self._keys.find(token, self._now_ms())
        return None if key is None else self._caller(key)

    async def find_former(self, token: str) -> Caller | None:
        """Return who an API key spoke for before it was revoked or expired."""
        key = await self._keys.find(token, None) if token.startswith(PREFIX) else None
        return None if key is None else self._caller(key)

    async def find_caller(self, key_id: str) -> Caller | None:
        """Return who a key speaks for that was verified before; None once it was revoked or has expired."""
        key = next((each for each in await self._keys.list() if each.id == key_id), None)
        return self._caller(key) if key is not None and self._keys.is_valid(key, self._now_ms()) else None

    def _caller(self, key: ApiKey) -> Caller:
        actor = Actor(id=key.actor, roles=key.roles, auth="api_key")
        is_local = key.id == self._local_id
        return Caller(
            tenant=key.tenant,
            actor=self._local if self._local is not None and is_local else actor,
            scopes=frozenset(key.scopes),
            credential=f"api_key:{key.id}",
            is_dev=self._is_dev and is_local,
        )


async def authenticate(header: str, authenticators: Sequence[Authenticator]) -> Caller:
    """Return who an Authorization header speaks for; raises `ServiceError` with status 401."""
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "bearer" and (token := token.strip()):
        for authenticator in authenticators:
            if (caller := await authenticator.authenticate(token)) is not None:
                return caller
    raise ServiceError(
        "no valid credential was sent" if token else "a credential is needed",
        code="unauthenticated",
        remedy="send the header Authorization: Bearer KEY, with a key that was not revoked and has not expired",
        status=401,
    )
