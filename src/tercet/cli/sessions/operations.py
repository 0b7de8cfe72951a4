"""`tercet sessions pause`, `cancel`, `extend`, `settle`, `prune` and `sweep`: commands for operators.

The process that runs a session, in this terminal or elsewhere, reads them from the session's inbox.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.inputs import load_pack, read_amounts, read_duration
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, SessionId, use_journal
from tercet.cli.options import AsJson, argument, flag, option, takes
from tercet.cli.remote import acting_as, open_remote
from tercet.cli.screen import Screen, print_json
from tercet.cli.server_option import is_service
from tercet.cli.sessions.messages import WRONG_PERSON, MessageBuilder, MessageOptions
from tercet.cli.sessions.next_commands import (
    Commands,
    is_ending_after_answer,
    settling_actor,
    unserved_text,
    unsettled_steps,
)
from tercet.cli.sessions.people import local_user_as, login_name, refuse_actors
from tercet.contracts.errors import UsageError
from tercet.contracts.request import SIMULATED, Actor
from tercet.contracts.runs.saga import RollbackResult
from tercet.contracts.values.plain import storable
from tercet.core import messages
from tercet.core.messages import Cancel, Extend, Pause
from tercet.core.state import State
from tercet.engine.personal.erasure import Erasure, erase_and_log, plan_erasure
from tercet.engine.subscription import Signal
from tercet.executor.clock import SystemClock
from tercet.journal.protocol import Journal
from tercet.packs import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.view.terminal.text import count, listed, printable
from tercet.view.text import amount_text
from tercet.view.vocabulary import login_words, standing

T = TypeVar("T")

PAUSE_EXAMPLES = 'tercet sessions pause ses_0123456789abcdef --note "the payment service is being moved"\n'
CANCEL_EXAMPLES = """\
tercet sessions cancel ses_0123456789abcdef --note "the customer called: no refund wanted"
"""
EXTEND_EXAMPLES = "tercet sessions extend ses_0123456789abcdef tool_calls=10 tokens=2000\n"
SETTLE_EXAMPLES = """\
tercet sessions settle ses_0123456789abcdef letter --note "called the customer and apologised"
"""
PRUNE_EXAMPLES = """\
tercet sessions prune --older-than 90d
tercet sessions prune --pack examples/refunds
"""
SWEEP_EXAMPLES = "tercet sessions sweep --pack examples/refunds\n"


@takes(MessageOptions)
def pause(
    session: SessionId,
    *,
    options: MessageOptions,
) -> ExitCode:
    """Pause a session, so that it can be resumed later.

    Calls in flight finish first, and no other call starts. The session may run in another terminal or on another
    machine: its process reads the command within a second.
    """

    def build(_: State, actor: Actor) -> Pause:
        return Pause(session=session, note=storable(options.note), **messages.by(actor))

    return _order("pause", "is paused", session, options, build)


@takes(MessageOptions)
def cancel(
    session: SessionId,
    *,
    options: MessageOptions,
) -> ExitCode:
    """Cancel a session. No further step of its plan starts.

    Its effects are compensated, kept or asked about, as the pack says. If no process runs the session, it ends when
    it is resumed.
    """

    def build(_: State, actor: Actor) -> Cancel:
        return Cancel(session=session, note=storable(options.note), **messages.by(actor))

    return _order("cancel", "is cancelled", session, options, build)


@takes(MessageOptions)
def extend(
    session: SessionId,
    amounts: Annotated[
        list[str],
        argument(
            "NAME=N...",
            "The amounts to add: tokens, tool_calls, cost_microcents or wall_clock_ms, each with a whole number.",
        ),
    ],
    *,
    options: MessageOptions,
) -> ExitCode:
    """Add to the budget of a session.

    A session that was escalated because a budget was used up can then be resumed.
    """
    more = read_amounts(amounts)

    def build(state: State, actor: Actor) -> messages.Message:
        for gate in state.gates.values():
            if gate.kind == "escalation":
                return messages.reply(gate.id, "extend", actor, note=options.note, value=more)
        return Extend(session=session, more=more, note=storable(options.note), **messages.by(actor))

    told = ", ".join(amount_text(name, amount) for name, amount in more.items())
    return _order("extend", f"may use {told} more", session, options, build)


def _order(order: str, done: str, session: str, options: MessageOptions, build: MessageBuilder) -> ExitCode:
    """Send an order, wait until the session has read it, and show the next commands."""
    delivery, commands = options.send(session, build)
    state = delivery.state
    is_running = bool(delivery.holder) and state.status != "paused" and not state.is_over
    look = [commands.show(session)] if state.is_over else [commands.watch(session)] if is_running else []
    if not look and is_ending_after_answer(state):
        look = commands.commands(state)
    if options.as_json:
        answer = {
            "session_id": session,
            "order": order,
            "actor": delivery.actor.id,
            "auth": delivery.actor.auth,
            "status": state.status,
            "standing": standing(state),
            "next": look or commands.resume(state),
        }
        print_json(answer)
        return ExitCode.ACCEPTED
    screen = Screen()
    by = f"{printable(delivery.actor.id, 80)}{', simulated' if delivery.actor.auth == SIMULATED else ''}"
    actor = delivery.actor
    is_other = not is_service(options.journal) and actor.auth != SIMULATED and actor.os_user != actor.id
    screen.conclude(f"{printable(session)} {done}, by {by}{login_words(actor.os_user) if is_other else ''}")
    screen.offer(
        f"  {_what_next(state, delivery.holder if is_running else '', delivery.unserved)}",
        *(look or commands.resume_or_hint(state)),
    )
    return ExitCode.ACCEPTED


def _what_next(state: State, holder: str, unserved: str) -> str:
    if state.is_over:
        return "It is over. Show it with:"
    if unserved:
        return unserved_text(unserved)
    if holder:
        return f"{holder} continues it. Follow it with:"
    if is_ending_after_answer(state):
        return f"It ends once {listed(list(state.gates))} is answered; then resume it:"
    if state.ending:
        return "No process runs it; it ends once it is resumed:"
    return "Continue with:"


# --- commands that need a runtime, but no pack ---


@takes(MessageOptions)
def settle(
    session: SessionId,
    step: Annotated[str, argument("STEP", "The step whose effect a person has undone.")],
    *,
    options: MessageOptions,
) -> None:
    """Record that you have dealt with an effect of a failed run.

    Use it for an effect that the run could not compensate; your name is recorded. `tercet sessions show` lists the
    steps with such effects. The owner of the run cannot settle them.
    """
    refuse_actors(options.journal, options.actors)
    actor, result = _settle(session, step, options)
    left = unsettled_steps(result)
    if options.as_json:
        answer = {"session_id": session, "step": step, "actor": actor.id, "auth": actor.auth}
        shown = [Commands(journal=options.journal).show(session)]
        print_json({**answer, "note": options.note, "left": list(left), "next": shown})
        return
    screen = Screen()
    acting = ", simulated" if actor.auth == SIMULATED else ""
    done = f"{printable(step, 80)} of {printable(session)} is settled by {printable(actor.id, 80)}{acting}"
    screen.conclude(done)
    screen.say(Text(f"  {f'Still left: {listed(left)}' if left else 'Nothing is left.'}", style="dim"))


def _settle(session: str, step: str, options: MessageOptions) -> tuple[Actor, RollbackResult]:
    """Record that an effect was settled; return by whom, and the effects that remain."""
    url, note = options.journal, options.note
    if is_service(url):
        act_as = acting_as(url, options.as_, is_dev=options.dev)

        async def call() -> tuple[Actor, RollbackResult]:
            async with open_remote(url, act_as=act_as) as journal:
                asked = {"session_id": session, "step": step, "note": note}
                found = await journal.client.call("settleRollback", asked)
                return journal.actor, RollbackResult.model_validate(found["rollback"])

        return asyncio.run(call())
    user = local_user_as(options.actors, options.as_, url, is_dev=options.dev)

    async def settle(runtime: Runtime) -> tuple[Actor, RollbackResult]:
        state = await runtime.state(session)
        actor = user.actor_in(state)
        try:
            return actor, await runtime.settle_rollback(session, step, actor=actor, note=note)
        except UsageError as error:
            error.remedy = _settle_remedy(error, step, state)
            raise

    return _use_runtime(url, _no_pack(), settle)


def _settle_remedy(error: UsageError, step: str, state: State) -> str | None:
    """Return the remedy of a refusal to settle an effect; in a development session it names an actor who may."""
    other = settling_actor(state, step) if state.start.dev and error.code in WRONG_PERSON else ""
    return f"act as another actor with --dev --as {other}" if other else error.remedy


def _use_runtime(
    url: str,
    pack: Pack,
    act: Callable[[Runtime], Awaitable[T]],
    signal: Signal | None = None,
    tenant: str = TENANT,
) -> T:
    """Call `act` with a runtime on the journal at a URL, and close both."""

    async def use(journal: Journal) -> T:
        options = RuntimeOptions(signal=signal)
        async with Runtime(pack, journal, tenant=tenant, watchdog_ms=None, options=options) as runtime:
            return await act(runtime)

    return use_journal(url, use, is_written=True)


def prune(
    *,
    older_than: Annotated[
        str | None,
        option(
            "DURATION",
            "Delete sessions that ended longer ago than this, such as 90d or 12h.",
            show_default=False,
        ),
    ] = None,
    pack: Annotated[
        Path | None,
        option(
            "PACK", "Delete sessions of this pack that are older than its retention_days.", show_default=False
        ),
    ] = None,
    tenant: Annotated[str, option("TENANT", "The tenant whose sessions are deleted.")] = TENANT,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Delete sessions that are over, with their events and blobs.

    This cannot be undone. A session that is not over is never deleted, nor is one with effects that a person still
    has to deal with.
    """
    if (older_than is None) == (pack is None):
        raise UsageError(
            "prune needs either --older-than or --pack",
            remedy="pass --older-than 90d, or --pack for the retention that a pack declares",
        )
    ms = None if older_than is None else read_duration(older_than)
    stay: list[dict[str, Any]] = []

    def signal(name: str, told: dict[str, Any]) -> None:
        if name == "prune_failed":
            stay.append(told)

    loaded = _no_pack() if pack is None else load_pack(pack)
    gone = _use_runtime(journal, loaded, lambda runtime: runtime.prune(older_than_ms=ms), signal, tenant)
    if as_json:
        print_json({"pruned": gone, "unreadable": stay})
        return
    screen = Screen()
    screen.say(f"{count(gone, 'session')} deleted" if gone or stay else "No session is old enough.")
    for each in stay:
        screen.say(f"! {each['session_id']} cannot be read and was kept: {printable(each['reason'])}")


def sweep(
    *,
    pack: Annotated[Path, option("PACK", "The folder of the pack whose sessions are run to their end.")],
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Expire or pause the sessions that no process runs.

    Sessions past their time to live are ended, and sessions whose process has died are paused. A runtime does this all
    the time; where none is running, call this command from a timer. Sessions of other packs are expired or paused, but
    not continued.
    """
    swept = _use_runtime(journal, load_pack(pack), lambda runtime: runtime.sweep())
    if as_json:
        print_json({"expired": swept.expired, "paused": swept.paused, "carried": swept.resumed})
        return
    screen = Screen()
    for what, sessions in (
        ("expired", swept.expired),
        ("paused", swept.paused),
        ("continued", swept.resumed),
    ):
        for session in sessions:
            screen.say(f"{session} {what}")
    if not (swept.expired or swept.paused or swept.resumed):
        screen.say("Nothing was due.")


def _no_pack() -> Pack:
    """Return an empty pack, for a runtime that needs none."""
    return Pack(name="operator", version="0.0.0")


# --- erase ---


ERASE_EXAMPLES = """\
tercet erase cus_4711
tercet erase cus_4711 --tenant acme --yes --json
"""


def erase(
    subject: Annotated[
        str, argument("SUBJECT", "The subject, as requests name it: a customer's number, for example.")
    ],
    *,
    tenant: Annotated[str, option("TENANT", "The tenant whose journal has the values.")] = TENANT,
    yes: Annotated[bool, flag("Erase without asking.", "--yes")] = False,
    force: Annotated[
        bool,
        flag(
            "Erase even while sessions of the subject are not over: calls that need an erased value are refused.",
            "--force",
        ),
    ] = False,
    journal: JournalUrl = DEFAULT,
    as_json: AsJson = False,
) -> ExitCode:
    """Erase the personal values of a subject for good.

    The key that they are encrypted with is destroyed. Sessions, their verdicts and their hashes stay, and replay still
    comes out equal; the values are shown as erased. What is erased is listed first, and the audit log records that it
    was. Copies of the journal made before still hold the key.
    """
    if not yes:
        _confirm(use_journal(journal, lambda opened: plan_erasure(opened, tenant, subject)), as_json=as_json)
    done = use_journal(
        journal,
        lambda opened: erase_and_log(
            opened, tenant, subject, by=login_name(), now_ms=SystemClock().now(), is_forced=force
        ),
        is_written=True,
    )
    if as_json:
        print_json({"erased": msgspec.to_builtins(done), "tenant": tenant})
    else:
        Screen().conclude(f"erased: key {done.key_id} is destroyed, {_describe(done)}")
    return ExitCode.ACCEPTED


def _confirm(planned: Erasure, *, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"nothing was erased: this destroys key {planned.key_id}, {_describe(planned)}",
            code="not_confirmed",
            remedy="confirm it with --yes",
        )
    screen = Screen()
    screen.say(f"This destroys key {planned.key_id} for good, {_describe(planned)}.")
    typer.confirm("Erase these personal values?", default=False, abort=True)


def _describe(erasure: Erasure) -> str:
    sessions = f": {listed(erasure.sessions)}" if erasure.sessions else ""
    return f"with the personal values of {count(len(erasure.sessions), 'session')}{sessions}"
