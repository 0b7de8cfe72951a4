"""The connection to Temporal, and the names that sessions have there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from tercet.cluster.workflow import SEARCH_ATTRIBUTES
from tercet.contracts.errors import UsageError
from tercet.journal.protocol import SessionRow

_HASH_DIGITS = 12
_ADDRESS = re.compile(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_CONNECT_S = 10
_REGISTER_TRIES = 50


@dataclass(frozen=True, kw_only=True)
class TemporalSettings:
    """Where Temporal is, and how to authenticate there. What is left out comes from the variables and the file of profiles
    of Temporal's own tools, such as TEMPORAL_NAMESPACE and TEMPORAL_API_KEY: an argument with a key could be seen by others."""

    address: str
    namespace: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_server_name: str = ""

    def __post_init__(self) -> None:
        """Raise `UsageError` for an address that is not HOST:PORT, and for a certificate without its key."""
        if not _ADDRESS.fullmatch(self.address):
            raise UsageError(
                f"{self.address!r} is not the address of a Temporal server",
                code="wrong_temporal_address",
                remedy="write its host and its port, such as --temporal temporal.example:7233",
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise UsageError(
                "a TLS certificate and its key belong together",
                code="tls_incomplete",
                remedy="name both --temporal-tls-cert and --temporal-tls-key",
            )


def queue_of(pack: str, pack_hash: str) -> str:
    """Return the task queue of a pack version: `name@version+hash`."""
    return f"{pack}+{pack_hash.removeprefix('sha256:')[:_HASH_DIGITS]}"


def workflow_id(row: SessionRow) -> str:
    """Return the id of a session's workflow."""
    return f"{row.tenant}/{row.session_id}"


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", code="file_unreadable", remedy="name a PEM file"
        ) from error


def _client_options(settings: TemporalSettings) -> dict[str, Any]:
    """Return how to connect: as Temporal's own tools do, by its variables and its file of profiles; options go before."""
    try:
        options: dict[str, Any] = {**ClientConfigProfile.load().to_client_connect_config()}
    except (RuntimeError, OSError, ValueError) as error:
        raise UsageError(
            f"the Temporal settings of the environment cannot be used: {error}",
            code="temporal_settings",
            remedy="check the variables TEMPORAL_… and the file that TEMPORAL_CONFIG_FILE names",
        ) from error
    options |= {"target_host": settings.address}
    options["namespace"] = settings.namespace or options.get("namespace") or "default"
    given = {
        "server_root_ca_cert": _read(settings.tls_ca),
        "client_cert": _read(settings.tls_cert),
        "client_private_key": _read(settings.tls_key),
        "domain": settings.tls_server_name or None,
    }
    if any(given.values()):
        before = options.get("tls")
        kept = before if isinstance(before, TLSConfig) else TLSConfig()
        options["tls"] = replace(kept, **{name: value for name, value in given.items() if value is not None})
    return options


async def connect(settings: TemporalSettings) -> Client:
    """Return a client whose namespace has the search attributes of sessions; raises `UsageError` if there is none."""
    options = _client_options(settings)
    try:
        async with asyncio.timeout(_CONNECT_S):
            client = await Client.connect(**options)
    except (RuntimeError, TimeoutError, RPCError, ValueError) as error:
        raise UsageError(
            f"cannot reach Temporal at {settings.address}: {error or 'no answer'}",
            code="temporal_unreachable",
            remedy="check the address, the TLS options and TEMPORAL_API_KEY; "
            "temporal server start-dev starts a server for development",
        ) from error
    await register(client)
    return client


async def register(client: Client) -> None:
    """Register the search attributes that are missing in the namespace; raises `UsageError` where that is not allowed."""
    try:
        if missing := await _missing(client):
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(
                    namespace=client.namespace,
                    search_attributes=dict.fromkeys(missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
                ),
                timeout=timedelta(seconds=_CONNECT_S),
            )
        for _ in range(_REGISTER_TRIES):  # a server takes a moment until it knows them
            if not await _missing(client):
                return
            await asyncio.sleep(0.1)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise UsageError(
                f"Temporal has no namespace {client.namespace}",
                code="unknown_namespace",
                remedy="name another by --temporal-namespace or TEMPORAL_NAMESPACE, or create it: "
                f"temporal operator namespace create --namespace {client.namespace}",
            ) from error
        raise _unregistered(client.namespace, str(error)) from error
    raise _unregistered(client.namespace, "they did not appear")


def _unregistered(namespace: str, why: str) -> UsageError:
    names = " ".join(f"--name {key.name} --type Keyword" for key in SEARCH_ATTRIBUTES)
    return UsageError(
        f"the search attributes of sessions cannot be registered in namespace {namespace}: {why}",
        code="search_attributes_missing",
        remedy=f"register them as an administrator: temporal operator search-attribute create {names}",
    )


async def _missing(client: Client) -> Sequence[str]:
    known = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), timeout=timedelta(seconds=_CONNECT_S)
    )
    return [key.name for key in SEARCH_ATTRIBUTES if key.name not in known.custom_attributes]
