"""`tercet context`: the compiled context of a run. Nothing is run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack, read_input
from tercet.cli.journals import (
    DEFAULT,
    TENANT,
    JournalUrl,
    StoreUrl,
    find_session,
    journal_at,
    open_library,
    read_evidence,
)
from tercet.cli.options import AsJson, Intent, PackFolder, RequestInput, SafetyMode, SnapshotName, option
from tercet.cli.screen import Screen, respond
from tercet.cli.sessions.people import local_actor
from tercet.context import compile as compile_context
from tercet.context import measure
from tercet.contracts.buckets import BucketUse, TruncationEntry
from tercet.contracts.context import CompiledContext, LedgerEntry, LedgerKind, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import UsageError
from tercet.contracts.request import Actor, Request
from tercet.engine import sessions
from tercet.engine.evidence.library import NO_LIBRARY_EVIDENCE, LibraryEvidence
from tercet.engine.session_reader import load_state
from tercet.packs import Pack
from tercet.view.terminal.text import listed, printable

CONTEXT_EXAMPLES = """\
tercet context examples/refunds
tercet context examples/refunds --safety-mode read_only --role support_agent
tercet context examples/refunds --session ses_0123456789abcdef
"""


@dataclass(frozen=True, kw_only=True)
class View:
    """A compiled context and its inputs."""

    frame: RunContext
    decision: DecisionSpec
    compiled: CompiledContext
    uses: tuple[BucketUse, ...]
    recorded: str | None = None
    """The hash of the context that the session of --session has recorded; None without --session."""

    @classmethod
    def of(
        cls,
        pack: Pack,
        frame: RunContext,
        request: Request,
        snapshot: str | None,
        *,
        recorded: str | None = None,
        library_evidence: LibraryEvidence = NO_LIBRARY_EVIDENCE,
    ) -> View:
        """Compile the context of a run from a pack and the evidence of a store."""
        compiled = compile_context(
            pack, request, frame, snapshot, library=library_evidence.facts, left_out=library_evidence.left_out
        )
        decision = pack.decision_for(request.intent)
        uses = measure(compiled, decision, pack.context.tokens)
        return cls(frame=frame, decision=decision, compiled=compiled, uses=uses, recorded=recorded)


def context(
    pack: PackFolder,
    *,
    intent: Intent = None,
    input_: RequestInput = None,
    snapshot: SnapshotName = None,
    safety_mode: SafetyMode = None,
    role: Annotated[
        list[str] | None,
        option(
            "ROLE",
            "A role that the run's owner holds: by default those that the pack gives you; may be given several times.",
        ),
    ] = None,
    tenant: Annotated[
        str | None, option("TENANT", "The tenant of the run: by default the tenant called default.")
    ] = None,
    session: Annotated[
        str | None,
        option(
            "ID",
            "Show the context of this session, as it was recorded.",
        ),
    ] = None,
    store: StoreUrl = "",
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Show what a run may see, what is left out, and why.

    Shown are its decision, policies, tools, evidence and tokens. With --session the context of that session is compiled
    again from its recorded request, owner and evidence, and compared with the hash in the journal. Nothing is run or
    written.
    """
    if str(pack).startswith("ses_") and not pack.exists():
        raise UsageError(
            f"{printable(str(pack), 80)} is a session, and not the folder of a pack",
            remedy=f"name the pack too: tercet context PACK --session {pack.name}",
        )
    loaded = load_pack(pack)
    if session is not None:
        _reject_other_options(intent, input_, snapshot, safety_mode, role, tenant)
        view = asyncio.run(_recorded(loaded, journal, find_session(session, journal)))
    else:
        asked = loaded.decision_for(intent)
        request = Request(intent=intent or (*asked.intents, asked.id)[0], input=read_input(input_))
        owner = local_actor(loaded)
        frame = loaded.run_context(
            actor=owner if role is None else Actor(id=owner.id, roles=tuple(role)),
            tenant=TENANT if tenant is None else tenant,
            safety_mode=safety_mode,
            started_at=datetime.now(UTC),
        )
        library_evidence = asyncio.run(_library_evidence(store, asked, request))
        view = View.of(loaded, frame, request, snapshot, library_evidence=library_evidence)
    return respond(lambda: _as_json(view), lambda screen: _show_context(screen, view), as_json=as_json)


async def _library_evidence(store: str, spec: DecisionSpec, request: Request) -> LibraryEvidence:
    async with open_library(store) as library:
        return await read_evidence(library, spec, request)


def _reject_other_options(*others: object) -> None:
    if any(other is not None for other in others):
        raise UsageError(
            "a session has its own request, owner and snapshot",
            remedy="give --session alone, or leave it out",
        )


async def _recorded(pack: Pack, url: str, session: str) -> View:
    """Return the context of a session, compiled again from the journal."""
    async with journal_at(url) as journal:
        state = await load_state(journal, TENANT, session)
        if pack.hash != state.start.pack_hash:
            raise UsageError(
                f"session {session} was given {state.start.pack} with hash {state.start.pack_hash[:20]}…, and this pack is {pack.ref} with {pack.hash[:20]}…",
                code="pack_version_mismatch",
                remedy="name the folder of the pack that the session is pinned to",
            )
        kept = await sessions.restore_evidence(journal, pack, state)
        library_evidence = await sessions.load_library_evidence(journal, state)
    frame, request = sessions.frame_of(state)
    recorded = str(state.start.context)
    view = View.of(
        kept,
        frame,
        request,
        sessions.snapshot_of(kept, state),
        recorded=recorded,
        library_evidence=library_evidence,
    )
    if view.compiled.hash != recorded:
        raise UsageError(
            f"session {session} has recorded the context {recorded[:20]}…, and compiling it again gives {view.compiled.hash[:20]}…",
            code="context_mismatch",
            remedy="ask the version of Tercet that the session was started with",
        )
    return view


def _as_json(view: View) -> dict[str, Any]:
    compiled, frame = view.compiled, view.frame
    request = compiled.request
    return {
        "pack": compiled.pack,
        "pack_hash": compiled.pack_hash,
        "snapshot": compiled.snapshot,
        "hash": compiled.hash,
        "recorded": view.recorded is not None,
        "intent": None if request is None else request.intent,
        "decision": view.decision.id,
        "actor": {"id": frame.actor.id, "roles": list(frame.actor.roles)},
        "tenant": frame.tenant,
        "safety_mode": str(frame.safety_mode),
        "tools": list(compiled.surface),
        "offered": list(compiled.offered),
        "evidence": list(compiled.evidence),
        "unseen": [name for name, entry in compiled.evidence.items() if not entry.is_shown],
        "left_out": compiled.left_out,
        "policies": [policy.name for policy in compiled.policies],
        "gates": [gate.name for gate in compiled.gates],
        "buckets": [use.model_dump(mode="json") for use in view.uses],
        "truncation": [entry.model_dump(mode="json") for entry in compiled.truncation],
        "ledger": [entry.model_dump(mode="json") for entry in compiled.ledger],
    }


# --- on the screen ---


MOST = 20
"""The number of entries of one kind that are shown."""
BAR = 20
_TITLES: dict[LedgerKind, str] = {
    "decision": "decisions",
    "tool": "tools",
    "evidence": "evidence",
    "policy": "policies",
    "gate": "gates",
}
_Mark = tuple[str, str]


def _show_context(screen: Screen, view: View) -> None:
    compiled = view.compiled
    _show_frame(screen, view)
    for kind, title in _TITLES.items():
        found = [entry for entry in compiled.ledger if entry.kind == kind]
        if found:
            screen.say()
            _show_entries(screen, title, found, compiled)
    screen.say()
    _show_uses(screen, view.uses)
    for entry in compiled.truncation:
        _show_truncation(screen, entry)
    screen.say()
    screen.say(Text("Nothing was run.", style="dim"))


def _show_frame(screen: Screen, view: View) -> None:
    frame, decision, compiled = view.frame, view.decision, view.compiled
    snapshot = f", snapshot {printable(compiled.snapshot, 80)}" if compiled.snapshot else ", no evidence"
    roles = f", {listed(frame.actor.roles)}" if frame.actor.roles else ", no role"
    rows = {
        "pack": f"{printable(compiled.pack, 120)}{snapshot}",
        "decision": f"{printable(decision.id, 120)}, risk {decision.risk_tier}, safety mode {frame.safety_mode}",
        "for": f"{printable(frame.actor.id, 80)}{roles}, tenant {printable(frame.tenant, 80)}",
        "context": f"{compiled.hash}{' as the session has recorded it' if view.recorded is not None else ''}",
    }
    for label, text in rows.items():
        screen.put(text, first=f"{label:<9}")  # leaves 71 of 80 columns: a hash stays on one line


def _show_entries(
    screen: Screen, title: str, entries: Sequence[LedgerEntry], compiled: CompiledContext
) -> None:
    admitted = sum(entry.admitted for entry in entries)
    screen.say(Text.assemble((title, "bold"), f" {admitted:,} of {len(entries):,}"))
    shown = [(entry, printable(entry.name, 120), printable(entry.reason)) for entry in entries[:MOST]]
    width = max(len(name) for _, name, _ in shown)
    is_narrow = any(width + len(reason) + 6 > screen.width for _, _, reason in shown)
    for entry, name, reason in shown:
        if is_narrow:
            screen.put(Text.assemble(_mark(entry, compiled), name), first="  ", rest="    ")
            screen.put(Text(reason, style="dim"), first="    ")
        else:
            line = Text.assemble(_mark(entry, compiled), f"{name:<{width}}  ", (reason, "dim"))
            screen.put(line, first="  ", rest="    ")
    if len(entries) > MOST:
        screen.put(Text(f"… {len(entries) - MOST:,} more; --json lists them", style="dim"), first="  ")


def _mark(entry: LedgerEntry, compiled: CompiledContext) -> _Mark:
    """Return the mark of an entry: admitted, not admitted, or a tool that only the critic sees."""
    if not entry.admitted:
        return "✗ ", "red"
    if entry.kind == "tool" and entry.name not in compiled.offered:
        return "○ ", "yellow"
    return "✓ ", "green"


def _show_uses(screen: Screen, uses: Sequence[BucketUse]) -> None:
    screen.say(Text.assemble(("tokens", "bold"), " about four bytes each"))
    width = max(len(f"{use.used:,}") for use in uses)
    for use in uses:
        limit = "no limit" if use.limit is None else f"of {use.limit:,}"
        line = Text.assemble(f"{use.bucket:<14}", (_bar(use), "cyan"), f"  {use.used:>{width},} {limit}")
        screen.put(line, first="  ")


def _bar(use: BucketUse) -> str:
    if use.limit is None:
        return " " * BAR
    full = min(BAR, -(-use.used * BAR // use.limit))
    return "■" * full + "·" * (BAR - full)


def _show_truncation(screen: Screen, entry: TruncationEntry) -> None:
    more = entry.left_out_count - len(entry.left_out)
    names = f"{listed(entry.left_out, 6)}{f' and {more:,} more' if more else ''}"
    told = f"{entry.bucket}: {entry.left_out_count:,} of {entry.left_out_count + entry.admitted:,} left out, all would need {entry.needed:,}: {names}"
    screen.put(Text.assemble(("✗ ", "red"), told), first="  ", rest="    ")
