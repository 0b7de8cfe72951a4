"""`tercet stop`: emergency stops of a tool, a pack or a tenant. They need only the journal, not the pack."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, cast, get_args

import msgspec
import orjson
from rich.text import Text

from tercet.cli import ExitCode
from tercet.cli.journals import DEFAULT, TENANT, JournalUrl, tenant_of, use_journal
from tercet.cli.options import AsJson, argument, takes
from tercet.cli.remote import as_remote
from tercet.cli.screen import Screen, print_json
from tercet.cli.server_option import is_service
from tercet.cli.sessions.next_commands import Commands
from tercet.cli.sessions.people import OperatorOptions, local_user_from, refuse_actors
from tercet.contracts.errors import UsageError
from tercet.contracts.shape import as_list, as_object
from tercet.contracts.values.plain import storable
from tercet.core.transcript import timestamp
from tercet.engine.session_reader import list_rows
from tercet.engine.streams.stops import EmergencyStops, Stop, StopKind
from tercet.executor.clock import SystemClock
from tercet.journal.errors import JournalError
from tercet.journal.protocol import Journal
from tercet.view.terminal.text import ago, count, printable

_TOOL = re.compile(r"[A-Za-z0-9_\-]+\.[A-Za-z0-9_.\-/]+")
_PACK = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")

STOP_TOOL_EXAMPLES = 'tercet stop tool adp_payments.issue_refund --note "double payments reported"\n'
STOP_PACK_EXAMPLES = 'tercet stop pack refunds --note "wrong rules since this morning"\n'
STOP_TENANT_EXAMPLES = 'tercet stop tenant --note "incident 12"\n'
LIST_STOPS_EXAMPLES = "tercet stop list\n"
LIFT_EXAMPLES = """\
tercet stop lift tool adp_payments.issue_refund --note "fixed"
tercet stop lift tenant
"""


@takes(OperatorOptions)
def stop_tool(
    name: Annotated[str, argument("NAME", "The tool: adapter.capability.")], *, options: OperatorOptions
) -> ExitCode:
    """Stop a tool: no run calls it from now on.

    The stop applies to every process that uses the journal. Calls in flight are not interrupted. Runs that reach the
    tool pause, and can be resumed once the stop is lifted. A tool that no run in this journal knows is stopped too,
    with a warning.
    """
    return _write("tool", name, options)


@takes(OperatorOptions)
def stop_pack(
    name: Annotated[str, argument("NAME", "The pack's name without its version: all versions stop.")],
    *,
    options: OperatorOptions,
) -> ExitCode:
    """Stop a pack: its runs call no tool from now on."""
    return _write("pack", name, options)


@takes(OperatorOptions)
def stop_tenant(*, options: OperatorOptions) -> ExitCode:
    """Stop everything in this journal: no run calls a tool from now on."""
    return _write("tenant", TENANT, options)


@takes(OperatorOptions)
def lift(
    kind: Annotated[str, argument("KIND", "What to lift: tool, pack or tenant.")],
    name: Annotated[
        str | None, argument("NAME", "The tool or pack; not for tenant.", show_default=False)
    ] = None,
    *,
    options: OperatorOptions,
) -> ExitCode:
    """Lift an emergency stop. Paused runs stay paused until resumed; a service resumes them itself."""
    if kind not in get_args(StopKind) or (kind == "tenant") != (name is None):
        raise UsageError(
            f"there is no stop '{' '.join(filter(None, [kind, name]))}'",
            remedy="write tool NAME, pack NAME or tenant; tercet stop list shows the stops",
        )
    return _write(cast("StopKind", kind), name or TENANT, options, is_lifted=True)


def list_stops(*, journal: JournalUrl = DEFAULT, as_json: AsJson = False) -> None:
    """List the emergency stops, with time, person and reason."""
    stops = use_journal(journal, _active)
    if as_json:
        print_json({"stops": [_json(stop) for stop in stops]})
        return
    screen, now = Screen(), SystemClock().now()
    if not stops:
        screen.say("Nothing is stopped.")
    for stop in stops:
        note = f": {printable(stop.note)}" if stop.note else ""
        since = f", {ago(now - stop.at)}" if stop.at else ""  # the time of a damaged stop is unknown
        by = f"  by {printable(stop.by, 80)}{since}{note}"
        screen.say(Text.assemble(("■ ", "red"), (f"{stop.kind} {printable(stop.name, 200)}", "bold"), by))


async def _active(journal: Journal) -> tuple[Stop, ...]:
    if (remote := as_remote(journal)) is not None:
        return tuple(_read_stop(each) for each in (await remote.client.call("listStops"))["stops"])
    board = EmergencyStops(journal, TENANT, pack="")
    await board.refresh()
    return tuple(await board.shown())


def _write(kind: StopKind, name: str, options: OperatorOptions, *, is_lifted: bool = False) -> ExitCode:
    _require_name(kind, name)
    url, note, now = options.journal, storable(options.note), SystemClock().now()
    refuse_actors(url, options.actors)
    by = "" if is_service(url) else local_user_from(options.actors).actor.id
    stop = Stop(kind=kind, name=name, by=by, at=now, note=note, is_lifted=is_lifted)
    stop, names, resumed, left = use_journal(url, lambda opened: _post(opened, stop), is_written=True)
    name, is_known = stop.name, names is None or stop.name in names
    if options.as_json:
        more = {"resumed": resumed, "not_resumed": left} if is_service(url) else {}
        print_json({**_json(stop), **(more if is_lifted else {"known": is_known})})
        return ExitCode.ACCEPTED
    screen = Screen()
    if not is_known:
        _warn(screen, kind, name, names or frozenset())
    what = f"{kind} {printable(name, 200)}"
    done = f"{what} is no longer stopped" if is_lifted else f"{what} is stopped"
    screen.say(Text.assemble(("✓ " if is_lifted else "■ ", "bold green" if is_lifted else "bold red"), done))
    words = Commands(journal=url)
    if is_lifted and words.is_remote:
        screen.say(
            Text(f"  The service has resumed {count(len(resumed), 'run')} that it paused.", style="dim")
        )
        for each in left:
            name, reason = printable(each["session_id"]), printable(each["message"])
            screen.put(Text.assemble(("! ", "bold yellow"), f"{name} stays paused: {reason}"), rest="  ")
        return ExitCode.ACCEPTED
    screen.say(Text(f"  {_NEXT[is_lifted]}", style="dim"))
    screen.show_command(words.paused() if is_lifted else words.lift(kind, name))
    return ExitCode.ACCEPTED


_NEXT = {
    True: "Resume the paused runs one by one:",
    False: "Runs that reach it pause. To lift the stop:",
}


def _warn(screen: Screen, kind: StopKind, name: str, names: frozenset[str]) -> None:
    """Warn that a stop matches no known tool or pack; it is set all the same, since a later run may have it."""
    what = {
        "tool": f"no pack of a run in this journal has a tool {printable(name, 200)}",
        "pack": f"this journal has no run of a pack {printable(name, 200)}",
        "tenant": "there is no run in this journal",
    }[kind]
    near = get_close_matches(name, names, n=3, cutoff=0.8)
    meant = f"; did you mean {' or '.join(printable(each, 200) for each in near)}?" if near else ""
    screen.put(Text.assemble(("! ", "bold yellow"), f"{what}{meant}"), rest="  ")


def _require_name(kind: StopKind, name: str) -> None:
    """Raise `UsageError` for a name that no tool or pack can have: such a stop would have no effect."""
    if kind == "tool" and not _TOOL.fullmatch(name):
        raise UsageError(
            f"'{name}' is not the name of a tool",
            remedy="write the adapter and the capability, such as adp_payments.issue_refund",
        )
    if kind == "pack" and not _PACK.fullmatch(name):
        raise UsageError(
            f"'{name}' is not the name of a pack",
            remedy="write the name in pack.toml, such as refunds, without a version and without a folder",
        )


async def _post(
    journal: Journal, stop: Stop
) -> tuple[Stop, frozenset[str] | None, list[str], list[dict[str, str]]]:
    """Write a stop; return it, the names of its kind that runs know (None for a stop that is lifted), the sessions that a
    service has resumed, and those that it could not resume."""
    resumed: list[str] = []
    left: list[dict[str, str]] = []
    if (remote := as_remote(journal)) is not None:
        asked = {"kind": stop.kind, "name": "" if stop.kind == "tenant" else stop.name, "note": stop.note}
        found = await remote.client.call("liftStop" if stop.is_lifted else "emergencyStop", asked)
        stop, resumed = _read_stop(found["stop"]), list(found.get("resumed", ()))
        left = list(found.get("not_resumed", ()))
    else:
        await EmergencyStops(journal, TENANT, pack="").write(stop)
    return stop, None if stop.is_lifted else await _known(journal, stop), resumed, left


def _read_stop(found: dict[str, Any]) -> Stop:
    at = datetime.fromisoformat(found["at"])
    return msgspec.convert({**found, "at": round(at.timestamp() * 1000)}, Stop)


async def _known(journal: Journal, stop: Stop) -> frozenset[str]:
    """Return the tools or packs of the runs in a journal, read until the stopped one is found."""
    names: set[str] = set()
    read: set[str] = set()
    async for row in list_rows(journal, tenant_of(journal)):
        if stop.kind != "tool":
            names.add(row.tenant if stop.kind == "tenant" else row.pack.partition("@")[0])
        elif row.pack_hash not in read:
            read.add(row.pack_hash)
            names |= await _tools(journal, row.pack_hash)
        if stop.name in names:
            break
    return frozenset(names)


async def _tools(journal: Journal, pack_hash: str) -> set[str]:
    """Return the tools of a pack that runs have recorded."""
    with suppress(JournalError, UsageError, ValueError):  # without the pack there is only no warning
        declared = as_object(orjson.loads(await journal.blob(tenant_of(journal), pack_hash))) or {}
        return {str((as_object(tool) or {}).get("name")) for tool in as_list(declared.get("tools")) or ()}
    return set()


def _json(stop: Stop) -> dict[str, Any]:
    fields = msgspec.structs.asdict(stop)
    del fields["key"]
    return {**fields, "at": timestamp(stop.at)}
