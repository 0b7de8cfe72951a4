"""`tercet gates list` and `show`: the gates that sessions wait at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.journals import DEFAULT, TENANT, GateId, JournalUrl, read_session, tenant_of, use_journal
from tercet.cli.options import AsJson
from tercet.cli.remote import as_remote
from tercet.cli.screen import Screen, print_json
from tercet.cli.sessions.messages import demand_opened
from tercet.cli.sessions.next_commands import Commands, commands_for
from tercet.cli.sessions.people import ActorsPath, local_user_from, refuse_actors
from tercet.cli.sessions.session_json import gate_json
from tercet.cli.sessions.sessions import damage_exit, damage_json, show_damage
from tercet.contracts.gate import HandOff
from tercet.core import events as e
from tercet.core.messages import session_of
from tercet.core.state import OpenGate
from tercet.engine.checks.journal import DamagedSession
from tercet.engine.lists import open_gates
from tercet.engine.personal.reveal import Revealer
from tercet.engine.session_reader import read_declared_pack
from tercet.engine.streams.recent_calls import recent_calls
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.view.gate import asked_names, opened_gate, question_text
from tercet.view.terminal.gate import GatePage, show_page
from tercet.view.terminal.text import ago, ahead, listed, printable

MOST = 200

LIST_GATES_EXAMPLES = """\
tercet gates list
tercet gates list --json
"""
SHOW_EXAMPLES = """\
tercet gates show ses_0123456789abcdef.g1
tercet gates show ses_0123456789abcdef.g1 --actors examples/refunds
"""


def list_gates(*, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> ExitCode:
    """List up to 200 open gates, those that have waited longest first.

    Each is shown with its question, the roles that may answer, and its deadline. Damaged sessions are listed last,
    and the exit code is then 5.
    """
    found, unreadable = use_journal(journal, _open_gates)
    if as_json:
        gates = [{**gate_json(each.gate), "session_id": each.session} for each in found]
        print_json({"gates": gates, "damaged": damage_json(unreadable)})
        return damage_exit(unreadable)
    screen, now = Screen(), SystemClock().now()
    for each in found:
        _show_line(screen, each, now)
    if len(found) == MOST:
        screen.say(f"Only the {MOST} gates that have waited longest are listed.")
    if found:
        first = Commands(journal=journal).show_gate(found[0].gate.id)
        screen.offer("Show a gate before you answer it:", first)
    elif not unreadable:
        screen.say("There are no open gates.")
    show_damage(screen, unreadable, journal)
    return damage_exit(unreadable)


class _ListedGate(NamedTuple):
    session: str
    owner: str
    gate: OpenGate


async def _open_gates(journal: Journal) -> tuple[list[_ListedGate], list[DamagedSession]]:
    """Return the open gates, and the sessions that could not be read; from a service in one call."""
    if (remote := as_remote(journal)) is not None:
        there = await remote.open_gates(MOST)
        return [_ListedGate(g.session_id, g.owner, g.gate) for g in there.gates], list(there.damaged)
    unreadable: list[DamagedSession] = []
    found = [
        _ListedGate(s.start.session, s.start.actor["id"], await _revealed(journal, s.start.session, gate))
        for s, gate in await open_gates(journal, TENANT, MOST, unreadable=unreadable)
    ]
    return found, unreadable


async def _revealed(journal: Journal, session: str, gate: OpenGate) -> OpenGate:
    return await Revealer(journal, TENANT, session).reveal_struct(gate)


def _show_line(screen: Screen, listing: _ListedGate, now: int) -> None:
    gate = listing.gate
    headline = Text.assemble(("? ", "yellow"), (gate.id, "bold"), f"  {printable(question_text(gate))}")
    screen.put(headline, rest="  ")
    roles = sorted({role for need in gate.needs.values() for role in need.roles})
    parts = [
        printable(str(gate.shown["tool"]), 80) if "tool" in gate.shown else "",
        f"for {listed(roles)}" if roles else "",
        f"opened {ago(now - gate.at)}",
        _deadline(gate, now),
        f"run of {printable(listing.owner, 80)}",
    ]
    screen.put(Text(", ".join(filter(None, parts)), style="dim"), first="    ")


def _deadline(gate: OpenGate, now: int) -> str:
    if not gate.expires:
        return ""
    return f"expires {ahead(gate.expires - now)}" if gate.expires > now else "expired"


def show(
    gate: GateId, *, actors: ActorsPath = None, journal: JournalUrl = DEFAULT, as_json: AsJson = False
) -> None:
    """Show everything about a gate before you answer it.

    The page begins with why people are asked. An approval shows the call with every parameter, which of them carry authority and where each value came from, the
    evidence with its hash, the compensation, who may approve and who has, the deadline, the remaining budget, the
    rest of the plan, recent similar calls, and the digest that an answer is bound to. Outputs are shown in full with
    every threshold, score and limit, the confidence, the reasons for asking a person, the advice, and what repairs
    left open. An escalated run shows its state and the ways to continue; a run that failed after effects shows how
    they would be compensated. Nothing is written.
    """
    refuse_actors(journal, actors)
    page = use_journal(journal, lambda opened: _page(opened, gate))
    commands = commands_for(journal, local_user_from(actors), page.state)
    answers = commands.answers(page.gate, page.state) if page.is_open else []
    if as_json:
        print_json(_page_json(page, answers))
        return
    screen = Screen()
    show_page(screen, page, now=SystemClock().now())
    if answers:
        screen.say()
        screen.offer("  Answer with one of:", *answers)
        if change := commands.change(page.gate, page.state):
            screen.say(Text("  Or set another value, which another person then approves:", style="dim"))
            screen.put(Text(change), first="    ", rest="      ")


async def _page(journal: Journal, gate: str) -> GatePage:
    session, tenant = session_of(gate), tenant_of(journal)
    recorded = await read_session(journal, session)
    state = recorded.state
    demand_opened(gate, state)
    opened = [event for event in recorded.events if isinstance(event, e.GateOpened) and event.gate == gate]
    found = state.gates.get(gate) or state.approved.get(gate) or opened_gate(opened[-1])
    digest = found.shown.get("packet")
    packet = None
    if digest:
        packed = msgspec.json.decode(await journal.blob(tenant, digest))
        shown = await Revealer(journal, tenant, session).reveal(packed)
        packet = HandOff.model_validate(shown)
    recent = await recent_calls(journal, tenant, session, found, SystemClock().now())
    pack = await read_declared_pack(journal, tenant, state)
    gates, policies = (pack.gates, pack.policies) if pack is not None else ((), ())
    return GatePage(
        gate=found,
        state=state,
        is_open=gate in state.gates,
        packet=packet,
        recent=recent,
        asked=asked_names(found, state, gates=gates, policies=policies),
    )


def _page_json(page: GatePage, answers: list[str]) -> dict[str, Any]:
    return {
        **gate_json(page.gate),
        "asked": [asdict(each) for each in page.asked],
        "is_open": page.is_open,
        "session_id": page.state.start.session,
        "status": page.state.status,
        "owner": page.state.start.actor["id"],
        "packet": page.packet.model_dump(mode="json") if page.packet else None,
        "recent": msgspec.to_builtins(page.recent),
        "answers": msgspec.to_builtins(page.answers),
        "next": answers,
    }
