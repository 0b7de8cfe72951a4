"""Emergency stops: which are active, what a new one would stop, and lifting one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from starlette.responses import Response

from tercet.console.visit import HOME, Page, Visit
from tercet.engine.streams.stops import StopKind
from tercet.journal.protocol import SessionRow
from tercet.packs.pack import Pack
from tercet.service.errors import ServiceError
from tercet.service.hub import pack_name

STOPS = f"{HOME}/stops"
MOST_ROWS = 500
"""How many sessions of each status are looked at."""
_CONCERNED = ("in_progress", "awaiting_gate")


@dataclass(frozen=True, kw_only=True)
class StopPreview:
    """What a stop would keep from being called."""

    kind: StopKind
    name: str
    tools: tuple[str, ...]
    packs: tuple[str, ...]
    in_progress: int
    waiting: int
    is_cut: bool
    """Whether there are more sessions than were counted."""
    is_known: bool
    """Whether something that is served here has this name."""


def preview_stop(kind: StopKind, name: str, packs: Sequence[Pack], rows: Sequence[SessionRow]) -> StopPreview:
    """Return what a stop would concern among packs that are served and sessions that are not over."""
    if kind == "tenant":
        concerned = list(packs)
    elif kind == "pack":
        concerned = [pack for pack in packs if pack.name == name]
    else:
        concerned = [pack for pack in packs if any(tool.name == name for tool in pack.tools)]
    tools = {tool.name for pack in concerned for tool in pack.tools if kind != "tool" or tool.name == name}
    names = {pack.name for pack in concerned}
    of_it = [row for row in rows if kind == "tenant" or pack_name(row.pack) in names]
    return StopPreview(
        kind=kind,
        name=name,
        tools=tuple(sorted(tools)),
        packs=tuple(sorted(names)),
        in_progress=sum(row.status == "in_progress" for row in of_it),
        waiting=sum(row.status == "awaiting_gate" for row in of_it),
        is_cut=len(rows) >= MOST_ROWS,
        is_known=kind == "tenant" or bool(concerned),
    )


async def show_stops(visit: Visit) -> Response:
    """List the active stops, with a form for another one."""
    visit.caller.demand("read")
    packs = _served(visit)
    return visit.render(
        "stops.html.j2",
        title="Emergency stops",
        section="stops",
        tools=sorted({tool.name for pack in packs for tool in pack.tools}),
        packs=sorted({pack.name for pack in packs}),
        may_stop="operate" in visit.caller.scopes,
    )


async def show_banner(visit: Visit) -> Response:
    """Return the banner of the active stops, which open pages ask for."""
    return visit.render_unless_known("banner.html.j2")


async def confirm_stop(visit: Visit) -> Response:
    """Name what a stop would stop, and ask for a confirmation."""
    visit.caller.demand("operate")
    kind, name = _target(visit, visit.query.get("kind", ""), visit.query.get("name", ""))
    journal, rows = visit.console.http.service.hub.journal, list[SessionRow]()
    for status in _CONCERNED:
        rows += await journal.sessions(visit.caller.tenant, status=status, limit=MOST_ROWS)
    return visit.render(
        "stop_confirm.html.j2",
        title="Confirm an emergency stop",
        section="stops",
        preview=preview_stop(kind, name, _served(visit), rows),
    )


async def begin_stop(visit: Visit) -> Response:
    """Begin an emergency stop."""
    kind, name = _target(visit, visit.form.get("kind", ""), visit.form.get("name", ""))
    await visit.call("emergencyStop", kind=kind, name=name, note=visit.form.get("note", ""))
    return visit.redirect(STOPS)


async def lift_stop(visit: Visit) -> Response:
    """End an emergency stop; sessions that it paused go on."""
    kind, name = _target(visit, visit.form.get("kind", ""), visit.form.get("name", ""))
    await visit.call("liftStop", kind=kind, name=name, note=visit.form.get("note", ""))
    return visit.redirect(STOPS)


def _served(visit: Visit) -> list[Pack]:
    return [pack for versions in visit.console.http.service.hub.packs.values() for pack in versions]


def _target(visit: Visit, kind: str, name: str) -> tuple[StopKind, str]:
    """Return what a form names; raises `ServiceError` if it names nothing that can be stopped."""
    found: StopKind | None = next((each for each in get_args(StopKind) if each == kind), None)
    if found == "tenant":
        return found, visit.caller.tenant
    if found is None or not name.strip():
        raise ServiceError(
            "the form does not say what to stop",
            code="usage",
            remedy="choose a tool, a pack or the tenant, and name it",
            status=422,
        )
    return found, name.strip()


PAGES = (
    Page(STOPS, show_stops),
    Page(f"{HOME}/banner", show_banner),
    Page(f"{STOPS}/confirm", confirm_stop),
    Page(STOPS, begin_stop, method="POST"),
    Page(f"{STOPS}/lift", lift_stop, method="POST"),
)
