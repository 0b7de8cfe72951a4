"""The options of commands that use Temporal, and `tercet cluster drain`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from tercet.cli import ExitCode
from tercet.cli.journals import DEFAULT, JournalUrl, journal_at
from tercet.cli.options import AsJson, argument, flag, option, takes
from tercet.cli.screen import Screen, print_json
from tercet.contracts.errors import UsageError, extra_missing

DRAIN_EXAMPLES = """\
tercet cluster drain refunds@1.0.0 --journal postgresql://db/tercet --temporal temporal.example:7233
tercet cluster drain refunds@1.0.0 --journal postgresql://db/tercet --temporal temporal.example:7233 --wait
"""

TemporalAddress: TypeAlias = Annotated[
    str, option("HOST:PORT", "Let Temporal at this address schedule the sessions.", "--temporal")
]
TemporalNamespace: TypeAlias = Annotated[
    str,
    option(
        "NAME",
        "The namespace in Temporal; by default TEMPORAL_NAMESPACE, else default.",
        "--temporal-namespace",
    ),
]
TemporalCert: TypeAlias = Annotated[
    Path | None, option("FILE", "The client certificate for Temporal, as PEM.", "--temporal-tls-cert")
]
TemporalKey: TypeAlias = Annotated[
    Path | None, option("FILE", "The private key of that certificate, as PEM.", "--temporal-tls-key")
]
TemporalCa: TypeAlias = Annotated[
    Path | None,
    option("FILE", "The certificate authority of the Temporal server, as PEM.", "--temporal-tls-ca"),
]
TemporalServerName: TypeAlias = Annotated[
    str,
    option(
        "NAME",
        "The name in the certificate of the Temporal server, if it is not its host name.",
        "--temporal-tls-server-name",
    ),
]


def cluster_module() -> Any:
    """Return the module that knows Temporal; raise `UsageError` if the extra is not installed."""
    try:
        from tercet.cluster import process  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("a cluster", error.name or "temporalio", "cluster") from error
    return process


def require_shared_journal(journal: str) -> None:
    """Raise `UsageError` for a journal that only one machine can use."""
    if not journal.startswith(("postgresql://", "postgres://")):
        raise UsageError(
            "workers on several machines need a journal that all of them reach",
            code="journal_not_shared",
            remedy="name one on PostgreSQL: --journal postgresql://…",
        )


class TemporalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a command that reaches Temporal."""

    temporal: TemporalAddress = ""
    temporal_namespace: TemporalNamespace = ""
    temporal_tls_cert: TemporalCert = None
    temporal_tls_key: TemporalKey = None
    temporal_tls_ca: TemporalCa = None
    temporal_tls_server_name: TemporalServerName = ""

    def settings_at(self, address: str, journal: str) -> Any:
        """Return where Temporal is, for the sessions of a journal; None without an address."""
        given = {
            "namespace": self.temporal_namespace,
            "tls_cert": self.temporal_tls_cert,
            "tls_key": self.temporal_tls_key,
            "tls_ca": self.temporal_tls_ca,
            "tls_server_name": self.temporal_tls_server_name,
        }
        if address:
            require_shared_journal(journal)
            return cluster_module().TemporalSettings(address=address, **given)
        if any(given.values()):
            raise UsageError(
                "options for Temporal are given, but no server",
                code="temporal_missing",
                remedy="name it: --temporal HOST:PORT",
            )
        return None


@asynccontextmanager
async def open_dispatcher(settings: Any) -> AsyncGenerator[Any]:
    """Open what wakes sessions through Temporal; None without settings."""
    if settings is None:
        yield None
        return
    async with cluster_module().open_dispatcher(settings) as dispatcher:
        yield dispatcher


class DrainOptions(TemporalOptions, frozen=True, kw_only=True):
    """The options of `tercet cluster drain`."""

    wait: Annotated[bool, flag("Wait until nothing is left.", "--wait")] = False
    journal: JournalUrl = DEFAULT
    as_json: AsJson = False


@takes(DrainOptions)
def drain(
    pack: Annotated[
        str, argument("PACK@VERSION", "The pack version, with or without the hash of its build.")
    ],
    *,
    temporal: TemporalAddress,
    options: DrainOptions,
) -> ExitCode:
    """Count what is left on a pack version.

    These are unfinished sessions in the journal, and open workflows in Temporal.
    Workers of a pack version may stop for good once nothing is left on it in either place: new runs use the newer
    version that `tercet serve` was started with. A session may be without a workflow, such as one that has waited at a
    gate since before Temporal was used. Without --wait the command exits with 4 while anything is left.
    """
    settings = options.settings_at(temporal, options.journal)
    cluster = cluster_module()

    def tell(left: Any) -> None:
        if options.as_json:
            print_json({**asdict(left), "is_drained": left.is_drained}, is_line=True)
            return
        screen = Screen()
        screen.say(f"{left.pack}: {_counted(left.journal, 'unfinished session')} in the journal")
        screen.say(f"{left.pack}: {_counted(left.temporal, 'open workflow')} in Temporal")
        for name in () if options.wait else dict.fromkeys((*left.journal.sessions, *left.temporal.sessions)):
            screen.say(f"  {name}")
        if not left.is_known:
            screen.say(f"Temporal has no workflow of {left.pack}, not even a closed one: is the name right?")
        if left.is_drained:
            screen.say("Nothing is left: the workers of this version can stop.")

    async def main() -> bool:
        client = await cluster.connect(settings)
        async with journal_at(options.journal) as opened:
            if options.wait:
                await cluster.wait_drained(client, opened, pack, tell)
                return True
            left = await cluster.count_remaining(client, opened, pack)
            tell(left)
            return left.is_drained

    return ExitCode.ACCEPTED if asyncio.run(main()) else ExitCode.WAITING


def _counted(left: Any, what: str) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in left.by_status.items())
    return f"{left.total} {what if left.total == 1 else what + 's'}" + (f" ({counts})" if counts else "")
