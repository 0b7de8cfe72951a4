"""`tercet gates`: the gates that sessions wait at, and answering them.

An answer is bound to the call that was shown, and recorded with the user's name, roles and login, and `auth: local`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import read_json
from tercet.cli.journals import DEFAULT, TENANT, GateId, JournalUrl, read_session, tenant_of, use_journal
from tercet.cli.options import AsJson, argument, flag, option, takes
from tercet.cli.remote import as_remote
from tercet.cli.screen import Screen, print_json, respond
from tercet.cli.sessions.messages import Delivery, MessageOptions, demand_opened
from tercet.cli.sessions.next_commands import Commands, commands_for, unserved_text
from tercet.cli.sessions.people import ActorsPath, local_user_from, refuse_actors
from tercet.cli.sessions.session_json import gate_json
from tercet.cli.sessions.sessions import damage_exit, damage_json, show_damage
from tercet.contracts.errors import UsageError
from tercet.contracts.gate import HandOff
from tercet.contracts.request import SIMULATED, Actor
from tercet.contracts.values import pointer
from tercet.core import events as e
from tercet.core import messages
from tercet.core.events.gate import Answered
from tercet.core.messages import session_of
from tercet.core.modifications import faults_at, place_of
from tercet.core.state import OpenGate, State
from tercet.engine.checks.journal import DamagedSession
from tercet.engine.lists import open_gates
from tercet.engine.personal.reveal import Revealer
from tercet.engine.session_reader import read_declared_pack
from tercet.engine.streams.recent_calls import recent_calls
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.view.gate import opened_gate, question_text
from tercet.view.questions import asked_names
from tercet.view.terminal.gate import GatePage, show_page
from tercet.view.terminal.text import ago, ahead, count, listed, printable
from tercet.view.vocabulary import ANSWERS, answer_word

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

    The page begins with why people are asked. An approval shows the call with every parameter, which of them carry
    authority and where each value came from, the evidence with its hash, the compensation, who may approve and who has, the deadline, the remaining budget, the
    rest of the plan, recent similar calls, and the digest that an answer is bound to. Outputs are shown in full with
    every threshold, score and limit, the confidence, the reasons for asking a person, the advice, and what repairs
    left open. An escalated run shows its state and the ways to continue; a run that failed after effects shows how
    they would be compensated. The end of the page says what each answer leads to. Nothing is written.
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
    return GatePage(
        gate=found,
        state=state,
        is_open=gate in state.gates,
        packet=packet,
        recent=recent,
        asked=asked_names(found, state, pack),
    )


def _page_json(page: GatePage, answers: list[str]) -> dict[str, Any]:
    return {
        **gate_json(page.gate),
        "asked": [asdict(each) for each in page.asked],
        "leads_to": [asdict(each) for each in page.view.leads_to],
        "is_open": page.is_open,
        "session_id": page.state.start.session,
        "status": page.state.status,
        "owner": page.state.start.actor["id"],
        "packet": page.packet.model_dump(mode="json") if page.packet else None,
        "recent": msgspec.to_builtins(page.recent),
        "answers": msgspec.to_builtins(page.answers),
        "next": answers,
    }


# --- answers ---


APPROVE_EXAMPLES = """\
tercet gates approve ses_0123456789abcdef.g1 --note "the lamp is broken, I saw it"
tercet gates approve ses_0123456789abcdef.g1 --actors examples/refunds --digest sha256:4be1…
"""
DENY_EXAMPLES = 'tercet gates deny ses_0123456789abcdef.g1 --note "the customer kept the lamp"\n'
MODIFY_EXAMPLES = """\
tercet gates modify ses_0123456789abcdef.g1 --note "refund the lamp, but not the postage"
tercet gates modify ses_0123456789abcdef.g2 --note "say in the letter when the lamp arrives"
tercet gates modify ses_0123456789abcdef.g1 --set amount_inr=12000 --reason "half of it was used"
tercet gates modify ses_0123456789abcdef.g1 --set /lines/0/cents=500 --reason "the price was wrong"
"""
WITHDRAW_EXAMPLES = 'tercet gates withdraw ses_0123456789abcdef.g1 --note "I looked at the wrong order"\n'
SETTLE_EXAMPLES = """\
tercet gates settle ses_0123456789abcdef.g2 --did-not-happen
tercet gates settle ses_0123456789abcdef.g2 --happened --value '{"refund_id": "rf_17"}'
"""
DECIDE_EXAMPLES = """\
tercet gates decide ses_0123456789abcdef.g1 extend --tool-calls 10
tercet gates decide ses_0123456789abcdef.g1 replan --note "leave the letter out"
tercet gates decide ses_0123456789abcdef.g1 accept-partial
tercet gates decide ses_0123456789abcdef.g2 compensate
"""

CHOICES: dict[str, Answered] = {
    "extend": "extend",
    "replan": "replan",
    "accept-partial": "accept_partial",
    "abandon": "abandon",
    "compensate": "compensate",
    "keep": "keep",
}
Amount: TypeAlias = int | None


@takes(MessageOptions)
def approve(
    gate: GateId,
    *,
    digest: Annotated[
        str,
        option(
            "DIGEST",
            "The digest of the call that you looked at: the approval counts for no other call.",
            show_default=False,
        ),
    ] = "",
    options: MessageOptions,
) -> ExitCode:
    """Approve the call or the outputs that a gate shows.

    The answer is appended to the journal. The process that runs the session then makes the call or commits the
    outputs; if there is none, that happens when the session is resumed.

    The owner of a run cannot approve it; the gate asks for certain roles and a number of different people. An
    approval is checked again just before the call: if anything has changed, the call is not made.
    """
    return _answer(gate, "approve", options, digest=digest)


@takes(MessageOptions)
def deny(
    gate: GateId,
    *,
    options: MessageOptions,
) -> ExitCode:
    """Deny the call or the outputs that a gate shows.

    The call is never made, the outputs are never committed, and the session ends as rejected when it is resumed.
    Everyone who may approve may deny, and so may the owner of the run. One denial is enough.
    """
    return _answer(gate, "deny", options)


@takes(MessageOptions)
def modify(
    gate: GateId,
    *,
    set_values: Annotated[
        list[str] | None,
        option(
            "PARAM=VALUE",
            "Set a parameter that the gate shows, or a part of one by its JSON Pointer (/lines/0/cents=5); may be given several times.",
            "--set",
        ),
    ] = None,
    options: MessageOptions,
) -> ExitCode:
    """Send a call or outputs back for changes, or set values of a call.

    Without --set, a call goes back to the planner and outputs go into repair, with your --note. A plan that the
    caller supplied is not changed: deny the call instead.

    With --set, your values replace those that the gate shows, and no planner is asked. The critic reviews the plan
    with them; then the changed call waits at a gate with a digest of its own, which another person approves. If the
    critic refuses the values, the call waits again as it was. Only holders of a role of the gate can set values,
    never the owner of the run. Earlier approvals of the gate are void.
    """
    return _answer(gate, "modify", options, set_values=set_values or ())


@takes(MessageOptions)
def withdraw(
    gate: GateId,
    *,
    options: MessageOptions,
) -> ExitCode:
    """Withdraw your own approval before the call has started.

    The gate is open again.
    """
    return _answer(gate, "withdraw", options)


@takes(MessageOptions)
def settle(
    gate: GateId,
    *,
    happened: Annotated[bool, flag("The call took effect: it is not made again.", "--happened")] = False,
    did_not_happen: Annotated[
        bool,
        flag(
            "The call did not take effect: it is made when the session is resumed.",
            "--did-not-happen",
        ),
    ] = False,
    value: Annotated[
        str | None, option("JSON", "The result of the call, if it happened: later steps may refer to it.")
    ] = None,
    options: MessageOptions,
) -> ExitCode:
    """Record whether a call of unknown outcome happened.

    Check first in the system that it would have changed. `tercet gates show` prints the call, its key, and a value in
    the shape that --value needs.
    """
    if happened == did_not_happen:
        raise UsageError(
            "--happened and --did-not-happen exclude each other"
            if happened
            else "neither --happened nor --did-not-happen is given",
            remedy="check in the system that the call would have changed, then give either --happened or --did-not-happen, not both",
        )
    if value is not None and not happened:
        raise UsageError("a call that did not happen has no result", remedy="leave --value out")
    return _answer(gate, "happened" if happened else "did_not_happen", options, value=_value(value))


def _value(text: str | None) -> Any:
    if text is None:
        return None
    return read_json(
        text,
        "value",
        code="value_invalid",
        remedy="""write --value '{"refund_id": "rf_17"}', or --value '"text"'""",
    )


@takes(MessageOptions)
def decide(
    gate: GateId,
    choice: Annotated[
        str,
        argument(
            "CHOICE",
            f"For an escalated run: {', '.join(list(CHOICES)[:4])}. For the effects of a failed run: compensate, keep.",
        ),
    ],
    *,
    tokens: Annotated[Amount, option("N", "With extend: the number of tokens to add.")] = None,
    tool_calls: Annotated[Amount, option("N", "With extend: the number of tool calls to add.")] = None,
    cost_microcents: Annotated[
        Amount, option("N", "With extend: the cost to add, in millionths of a cent.")
    ] = None,
    wall_clock_ms: Annotated[Amount, option("N", "With extend: the milliseconds to add.")] = None,
    options: MessageOptions,
) -> ExitCode:
    """Decide how an escalated or failed run continues.

    For an escalated run: extend adds to its budget and continues where it stopped; replan asks the planner for
    another plan, with your --note; accept-partial accepts what is done, which the owner of the run cannot; abandon
    ends it as failed. For the effects of a failed run: compensate undoes them, the last one first; keep leaves them
    as they are.
    """
    if choice not in CHOICES:
        raise UsageError(
            f"unknown choice '{choice}'",
            code="unknown_choice",
            remedy=f"choose one of {', '.join(CHOICES)}",
        )
    given = {
        "tokens": tokens,
        "tool_calls": tool_calls,
        "cost_microcents": cost_microcents,
        "wall_clock_ms": wall_clock_ms,
    }
    more = {name: amount for name, amount in given.items() if amount is not None}
    if more and choice != "extend":
        raise UsageError(f"{choice} takes no amounts", remedy="leave them out, or decide to extend")
    if choice == "extend" and not more:
        raise UsageError(
            "extend needs an amount",
            code="wrong_extension",
            remedy=f"give one or more of {', '.join(map(_option, given))}",
        )
    value = messages.demand_extension(more) if choice == "extend" else None
    return _answer(gate, CHOICES[choice], options, value=value)


def _option(amount: str) -> str:
    return f"--{amount.replace('_', '-')} N"


def _answer(
    gate: str,
    answer: Answered,
    options: MessageOptions,
    *,
    value: Any = None,
    digest: str = "",
    set_values: Sequence[str] = (),
) -> ExitCode:
    """Send an answer, wait until the session has read it, and show the next commands."""

    def build(state: State, actor: Actor) -> messages.Message:
        demand_opened(gate, state)
        # On the command line, roles come only from a list of actors.
        is_listed = bool(actor.roles)
        changes = _read_set_values(set_values, state.gates.get(gate)) if set_values else None
        return messages.reply(
            gate,
            answer,
            actor,
            note=options.note,
            value=value,
            digest=digest,
            listed=is_listed,
            changes=changes,
        )

    delivery, commands = options.send(messages.session_of(gate), build)
    report = _AnswerReport(gate=gate, answer=answer, delivery=delivery, commands=commands)
    return respond(report.as_json, report.show, as_json=options.as_json)


class _AnswerReport:
    """The result of an answer, on the screen and as JSON."""

    def __init__(self, *, gate: str, answer: Answered, delivery: Delivery, commands: Commands) -> None:
        self._gate = gate
        self._answer: Answered = answer
        self._delivery = delivery
        self._state = delivery.state
        mine = [a for a in delivery.state.answers if (a.gate, a.actor) == (gate, delivery.actor.id)]
        self._roles = mine[-1].roles if mine else delivery.actor.roles
        self._word = answer_word(mine[-1]) if mine else ANSWERS[answer][0]
        found = delivery.state.gates.get(gate)
        self._missing = {} if found is None else {name: _still(found, name) for name in found.unmet}
        session = delivery.state.start.session
        is_done = bool(self._missing) or delivery.state.is_over
        look = [commands.show_gate(gate)] if self._missing else []
        look = [commands.show(session)] if delivery.state.is_over else look
        self._next = look or commands.resume(delivery.state)
        self._lines = look or commands.resume_or_hint(delivery.state)
        self._is_remote = commands.is_remote
        usual = "Follow it with:" if commands.is_remote else "Continue with:"
        self._invitation = "Show it with:" if is_done else usual
        if delivery.unserved and not delivery.state.is_over:
            self._next = self._lines = commands.resume(delivery.state)
            self._invitation = unserved_text(delivery.unserved)

    def as_json(self) -> dict[str, Any]:
        delivery = self._delivery
        return {
            "gate": self._gate,
            "answer": self._answer,
            "actor": delivery.actor.id,
            "roles": list(self._roles),
            "auth": delivery.actor.auth,
            "login": delivery.actor.os_user,
            "session_id": self._state.start.session,
            "status": self._state.status,
            "missing": self._missing,
            "next": self._next,
        }

    def show(self, screen: Screen) -> None:
        actor = self._delivery.actor
        roles = f" ({listed(self._roles)})" if self._roles else ""
        acting = ", simulated" if actor.auth == SIMULATED else ""
        done = f"{self._gate} is {self._word} by {printable(actor.id, 80)}{roles}{acting}"
        screen.conclude(done)
        for name, missing in self._missing.items():
            screen.say(Text(f"  {printable(f'{name} ' if name else '')}still waits for {printable(missing)}"))
        if self._delivery.holder and not self._missing:
            screen.say(Text(f"  {self._delivery.holder} continues it.", style="dim"))
            if not self._is_remote:
                return
        screen.offer(f"  {self._invitation}", *self._lines)


def _still(gate: OpenGate, name: str) -> str:
    """Return the approvals that a gate still needs."""
    need = gate.needs[name]
    more = need.quorum - len(gate.approvers(name))
    return f"{count(more, 'more approval')}{f' by {listed(need.roles)}' if need.roles else ''}"


# --- --set PARAM=VALUE ---


def _read_set_values(given: Sequence[str], gate: OpenGate | None) -> dict[str, Any]:
    """Return the set values by JSON Pointer; raise `UsageError` for text that is not PARAM=VALUE.

    A value is parsed as JSON, unless only the plain text fits the schema of the gate's call.
    """
    changes: dict[str, Any] = {}
    for each in given:
        name, is_given, text = each.partition("=")
        if not is_given or not name:
            raise UsageError(
                f"'{each}' does not set a parameter",
                remedy="write --set PARAM=VALUE, such as --set cents=500",
            )
        place = place_of(name)
        if place in changes:
            raise UsageError(f"{name} is set twice", remedy="give each parameter one value")
        values = list(_readings(text))
        changes[place] = next((value for value in values if _fits(gate, place, value)), values[0])
    return changes


def _readings(text: str) -> Iterator[Any]:
    """Yield the possible values of a text: the JSON value that it holds, then the text itself."""
    with suppress(UsageError):
        yield read_json(text, "value", code="usage", remedy="write JSON")
    yield text


def _fits(gate: OpenGate | None, place: str, value: Any) -> bool:
    """Return whether the schema of a gate's call allows a value; what cannot be checked here is checked later."""
    try:
        return gate is None or not faults_at(gate, place, value)
    except (pointer.PointerError, LookupError, ValueError):
        return True
