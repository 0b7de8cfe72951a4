"""`tercet report` and `tercet provenance`: an HTML page about a run, and where its results came from."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from tercet.cli.journals import DEFAULT, JournalUrl
from tercet.cli.options import AsJson, Force, option
from tercet.cli.replay.bundles import show_whole
from tercet.cli.replay.runs import RunName, require_writable, run_at, write_file
from tercet.cli.screen import Screen, let_go_of_stdout, print_json
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Citation
from tercet.contracts.runs.record import AuditRecord, PhaseCost, Provenance
from tercet.contracts.values.canonical import digest
from tercet.core.state import State
from tercet.engine.checks.provenance import Trail, audit_of, provenance_of, read_trail
from tercet.view.terminal.text import count, duration_text, printable, utc_time
from tercet.view.text import amount_text
from tercet.view.vocabulary import login_words, standing, step_text

if TYPE_CHECKING:
    from tercet.view.session import SessionView


REPORT_EXAMPLES = """\
tercet report ses_0123456789abcdef
tercet report ses_0123456789abcdef -o refund.html
tercet report ses_0123456789abcdef -o - > refund.html
tercet report run.tercet
"""

STDOUT = "-"


def report(
    run: RunName,
    *,
    out: Annotated[
        str | None,
        option(
            "FILE",
            "The file to write, or - for standard output; by default ID.html in this folder.",
            "-o",
            "--out",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Write a report of a run as one HTML page.

    The page shows the plan, verdicts, timeline, approvals, budgets, evidence and hashes. It opens from a file, loads
    nothing from the network and runs no script; text from agents and tools is escaped, and secrets are left out. The
    journal or bundle is only read, and its integrity is checked. The same run gives the same bytes. An existing
    report is replaced; any other file is kept unless --force is given.
    """
    target = None if out == STDOUT else Path(out or f"{Path(run).stem}.html")
    if target is not None:
        _require_writable(target, is_forced=force)
    if as_json and target is None:
        raise UsageError(
            "standard output cannot take both the page and the JSON",
            code="two_outputs",
            remedy="name a file with -o FILE, or leave --json out",
        )
    told, page = asyncio.run(_page(journal, run))
    if target is None:
        _print(page)
        return
    write_file(target, page)
    if as_json:
        print_json(
            {
                "file": str(target),
                "session_id": told.session,
                "standing": told.standing,
                "bytes": len(page),
                "sha256": sha256(page).hexdigest(),
            }
        )
    else:
        screen = Screen()
        screen.say(
            Text.assemble(
                ("✓ ", "green"), f"{printable(str(target), 400)}: {told.standing}, {len(page):,} bytes"
            )
        )
        screen.say(Text("  Open it in a browser; it needs no network.", style="dim"))


async def _page(url: str, run: str) -> tuple[SessionView, bytes]:
    """Return the session of a run, and its report."""
    # Imported late: no other command needs these, and they take long to import.
    from tercet.replay.run_data import read_run  # noqa: PLC0415
    from tercet.view.html.page import render  # noqa: PLC0415
    from tercet.view.html.safe_text import SafeText, secrets_of  # noqa: PLC0415
    from tercet.view.run import run_view  # noqa: PLC0415

    safe = SafeText(secrets_of(os.environ))
    async with run_at(run, url) as source:
        view = run_view(await read_run(source.journal, source.tenant, source.session), safe.lines)
        return view.session, render(view, safe).encode()


def _require_writable(target: Path, *, is_forced: bool) -> None:
    from tercet.view.html.page import MARKER  # noqa: PLC0415 - as above

    require_writable(target, is_forced=is_forced, mark=MARKER.encode())


def _print(page: bytes) -> None:
    try:
        sys.stdout.buffer.write(page)
        sys.stdout.flush()
    except BrokenPipeError:
        let_go_of_stdout()


# --- provenance ---


PROVENANCE_EXAMPLES = """\
tercet provenance ses_0123456789abcdef
tercet provenance run.tercet --json
"""


def provenance(run: RunName, *, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> None:
    """Show where the results of a run came from.

    Shown are its plan, evidence, calls, models, people, costs and checkpoints. Evidence is shown with its document, the
    part of it and the query that found it; costs by phase. Everything is derived from the recorded events, each
    checkpoint is compared with them, and one hash covers it all: the same run always has the same hash.
    """
    asyncio.run(_tell(run, journal, as_json=as_json))


async def _tell(run: str, url: str, *, as_json: bool) -> None:
    async with run_at(run, url) as source:
        trail = await read_trail(source.journal, source.tenant, source.session)
        _print_provenance(trail, as_json=as_json)


def _print_provenance(trail: Trail, *, as_json: bool) -> None:
    state, origin, audit = trail.state, provenance_of(trail), audit_of(trail)
    if as_json:
        print_json(
            {
                "session_id": state.start.session,
                "status": state.status,
                "output": state.outputs,
                "content_hash": digest(state.outputs),
                "record": state.record,
                "hash": origin.hash,
                "provenance": origin.model_dump(mode="json"),
                "audit": audit.model_dump(mode="json"),
            }
        )
    else:
        _show(Screen(), state, origin, audit)


def _show(screen: Screen, state: State, origin: Provenance, audit: AuditRecord) -> None:
    start = state.start
    screen.say(Text.assemble((start.session, "bold"), f"  {standing(state)}"))
    screen.put(printable(start.request["intent"], 80), first="  asked        ")
    screen.put(f"{origin.task_id}, at {utc_time(state.at)}", first="  run          ")
    show_whole(screen, "  provenance   ", origin.hash)
    if origin.plan_hash:
        show_whole(screen, "  plan         ", f"{origin.plan_hash} (revision {state.revision})")
    if state.outputs:
        show_whole(screen, "  output       ", digest(state.outputs))
    if state.record:
        show_whole(screen, "  record       ", state.record)
    _show_evidence(screen, origin)
    _show_people(screen, origin)
    _show_way(screen, audit)


def _show_evidence(screen: Screen, origin: Provenance) -> None:
    sources = {source.evidence: source for source in origin.sources}
    for ref in origin.evidence_refs:
        found = _found(sources[ref]) if ref in sources else ""
        screen.put(f"{printable(ref, 120)}{found}", first="  evidence     ")


def _found(source: Citation) -> str:
    document = f"{printable(source.document, 120)}" if source.document else ""
    chunk = f"chunk {source.chunk}" if source.chunk is not None else ""
    place = f"bytes {source.start:,} to {source.end:,}" if source.start is not None and source.end else ""
    query = f"found by {printable(source.query, 120)!r}" if source.query else ""
    told = ", ".join(filter(None, (document, chunk, place, query)))
    return f": {told}" if told else ""


def _show_people(screen: Screen, origin: Provenance) -> None:
    if origin.models:
        screen.put(printable(", ".join(origin.models)), first="  models       ")
    if origin.approvers:
        logins = origin.logins or {}
        who = ", ".join(f"{name}{printable(login_words(logins.get(name)), 120)}" for name in origin.approvers)
        screen.put(printable(who), first="  approved by  ")
    if origin.verification_scores:
        scores = ", ".join(f"{name} {score:g}" for name, score in origin.verification_scores.items())
        screen.put(scores, first="  scores       ")


def _show_way(screen: Screen, audit: AuditRecord) -> None:
    screen.put(" → ".join(audit.loop_trace), first="  phases       ")
    for entry in audit.all_tool_traces:
        call, result = entry.call, entry.result
        told = f"{printable(step_text(call.step_id), 60)}: {call.tool}, {result.outcome} in {duration_text(result.latency_ms)}"
        screen.put(told, first="  call         ")
    for name, cost in audit.cost_by_phase.items():
        if cost != PhaseCost():
            screen.put(f"{name}: {', '.join(_amounts(cost))}", first="  spent        ")
    last = audit.checkpoint_chain[-1]
    show_whole(screen, "  checkpoints  ", f"{last.k}, the last {last.hash}")


def _amounts(cost: PhaseCost) -> Iterator[str]:
    if cost.cost_microcents:
        yield amount_text("cost_microcents", cost.cost_microcents)
    if cost.tokens:
        yield count(cost.tokens, "token")
    if cost.tool_calls:
        yield count(cost.tool_calls, "tool call")
    yield duration_text(cost.latency_ms)
