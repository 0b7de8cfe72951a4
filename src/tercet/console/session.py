"""The page of a session: its plan, timeline, transcript, approvals, quality, evidence and record, now or after any event."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response

from tercet.console.fields import amount_fields, read_amounts
from tercet.console.run_parts import (
    CALLS,
    EVENTS,
    FACTS,
    POINTS,
    RunAt,
    part_of,
    plan_part,
    read_run_at,
    timeline_part,
    transcript_part,
    with_facts,
    with_minimums,
)
from tercet.console.visit import HEADERS, HOME, Page, Visit
from tercet.contracts.values.canonical import canonical, hash_bytes
from tercet.core.budget import DIMENSIONS
from tercet.core.state import State
from tercet.engine.session_reader import read_checkpoints
from tercet.service.errors import ServiceError
from tercet.view.events import describe, run_events
from tercet.view.evidence import evidence_view
from tercet.view.gate import run_gates
from tercet.view.plan import plan_views
from tercet.view.quality import quality_view
from tercet.view.questions import effects_at_the_end
from tercet.view.run import ReplayReport, unreadable
from tercet.view.session import session_view

SESSION = f"{HOME}/sessions/{{session}}"
TABS = {
    "plan": "Plan",
    "timeline": "Timeline",
    "transcript": "Transcript",
    "people": "Approvals",
    "quality": "Quality",
    "evidence": "Evidence",
    "record": "Record",
}
_AMOUNTS = amount_fields(each.name for each in DIMENSIONS if each.limit)
_MOST_PLANS = 8
_GATES = 20


def session_path(session: str, **query: Any) -> str:
    """Return the address of a session's page."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{HOME}/sessions/{quote(session, safe='')}{f'?{urlencode(given)}' if given else ''}"


async def show_session(visit: Visit) -> Response:
    """Show one tab of a session."""
    visit.caller.demand("read")
    hub, tenant = visit.console.http.service.hub, visit.caller.tenant
    row = await hub.find_row(tenant, visit.path["session"])
    session = row.session_id
    run = await read_run_at(hub.journal, tenant, session, read_number(visit, "at"))
    tab = visit.query.get("tab", "plan")
    tab = tab if tab in TABS else "plan"
    try:
        shown = session_view(run.data)
        values = await _TABS[tab](visit, run)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # Plans, verdicts and gates are recorded as JSON, and a journal may hold what another version wrote.
        raise unreadable(f"something in session {session}") from error
    state = run.data.state
    where = {
        "tab": None if tab == "plan" else tab,
        "at": None if run.is_newest else run.at,
        "plan": read_number(visit, "plan") if tab == "plan" else None,
    }

    def link(**query: Any) -> str:
        return session_path(session, **{**where, **query})

    return visit.render(
        "session.html.j2",
        title=f"{shown.intent}: {shown.standing}",
        section="sessions",
        session=session,
        view=shown,
        run=run,
        event=describe(run.data.events[-1]),
        state=state,
        tab=tab,
        tabs=TABS,
        link=link,
        here=link(),
        controls=_controls(visit, state, is_served=hub.serves(row)) if run.is_newest else None,
        gates=[] if state.is_over else list(state.gates.values()),
        most_gates=_GATES,
        lane=dict(state.start.lane),
        **values,
    )


def read_number(visit: Visit, name: str) -> int | None:
    """Return a number of the query; None if it is not there, or not a number."""
    given = visit.query.get(name, "").strip()
    return int(given) if given.isdecimal() and len(given) < 16 else None


# --- tabs ---


async def _plan(visit: Visit, run: RunAt) -> dict[str, Any]:
    plans = plan_views(run.data, _MOST_PLANS)
    wanted = read_number(visit, "plan")
    chosen = next((plan for plan in plans if plan.number == wanted), plans[0] if plans else None)
    if chosen is None:
        return {"plans": (), "shown": None}
    return {"plans": plans, "shown": plan_part(chosen, read_number(visit, "page"), visit.console.safe)}


async def _timeline(visit: Visit, run: RunAt) -> dict[str, Any]:
    events = run.data.events
    number = read_number(visit, "page")
    part = part_of(events, len(events) if number is None else number, EVENTS)
    return {
        "part": part,
        "line": timeline_part(events, part),
        "events": run_events(events, part.first, part.last),
    }


async def _transcript(visit: Visit, run: RunAt) -> dict[str, Any]:
    journal = visit.console.http.service.hub.journal
    part = await transcript_part(journal, visit.caller.tenant, run.data, read_number(visit, "page"))
    return {"part": part, "per_page": CALLS}


async def _people(visit: Visit, run: RunAt) -> dict[str, Any]:
    found = run_gates(run.data)
    number = read_number(visit, "page")
    return {"part": part_of(found, len(found) if number is None else number, _GATES)}


async def _quality(visit: Visit, run: RunAt) -> dict[str, Any]:
    journal = visit.console.http.service.hub.journal
    data = await with_minimums(journal, visit.caller.tenant, run.data)
    return {"quality": quality_view(data, visit.console.safe.lines)}


async def _evidence(visit: Visit, run: RunAt) -> dict[str, Any]:
    journal = visit.console.http.service.hub.journal
    found = evidence_view(await with_facts(journal, visit.caller.tenant, run.data))
    return {"evidence": found, "part": part_of(found.facts, read_number(visit, "page") or 1, FACTS)}


async def _record(visit: Visit, run: RunAt) -> dict[str, Any]:
    journal, session = visit.console.http.service.hub.journal, str(run.data.state.start.session)
    points = await read_checkpoints(journal, visit.caller.tenant, session)
    known = [point for point in points if point.seq <= run.at]
    number = read_number(visit, "page")
    return {
        "part": part_of(known, len(known) if number is None else number, POINTS),
        "bytes": sum(len(p.data) for p in known),
    }


_TABS: Mapping[str, Callable[[Visit, RunAt], Awaitable[dict[str, Any]]]] = {
    "plan": _plan,
    "timeline": _timeline,
    "transcript": _transcript,
    "people": _people,
    "quality": _quality,
    "evidence": _evidence,
    "record": _record,
}


# --- what may be done ---


def _controls(visit: Visit, state: State, *, is_served: bool) -> dict[str, Any]:
    """Return which buttons the page has; the service checks every call again."""
    caller = visit.caller
    is_operator = "operate" in caller.scopes
    gate = next((gate.id for gate in state.gates.values() if gate.kind == "escalation"), "")
    is_own = state.start.actor["id"] == caller.actor.id
    may = is_served and not state.is_over and "run" in caller.scopes and (is_operator or is_own)
    return {
        "is_served": is_served,
        "pause": may and state.status == "in_progress",
        # Resuming would close the gate of an escalated run, and the run would ask again at the next one.
        "resume": may and state.status == "paused" and not gate,
        "gate": gate if not state.is_over else "",
        "cancel": may,
        "if_cancelled": ("the run ends cancelled", *effects_at_the_end(state)),
        "extend": is_served and not state.is_over and is_operator,
        "amounts": _AMOUNTS,
        "why_not": _why_not(state, is_served=is_served, may=may),
    }


def _why_not(state: State, *, is_served: bool, may: bool) -> str:
    if state.is_over or may:
        return ""
    if not is_served:
        return "The pack version that it is pinned to is not served here."
    return "Only its owner and operators may pause, resume or cancel it."


_STEERED = {"pause": "pauseSession", "resume": "resumeSession", "cancel": "cancelSession"}


async def steer(visit: Visit) -> Response:
    """Pause, resume or cancel a session."""
    method = _STEERED.get(visit.path["act"])
    if method is None:
        raise ServiceError("there is nothing here", code="not_found", remedy="use a form", status=404)
    session = visit.path["session"]
    await visit.call(method, session_id=session, note=visit.form.get("note", ""))
    return visit.redirect(session_path(session))


async def extend(visit: Visit) -> Response:
    """Add to the budget of a session; sent twice from one page, the form counts once."""
    session, more = visit.path["session"], read_amounts(_AMOUNTS, visit.form)
    seen = f"{visit.form.get('seen', '')}:{visit.form.get('note', '')}"
    key = f"console:{hash_bytes(canonical([session, more, seen]))[7:39]}"
    await visit.call(
        "extendBudget", session_id=session, more=more, note=visit.form.get("note", ""), request_key=key
    )
    return visit.redirect(session_path(session))


async def export(visit: Visit) -> Response:
    """Send a session as a bundle."""
    session = visit.path["session"]
    found = await visit.call("exportRun", session_id=session)
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", session)[:100]
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{name}.tercet"'}
    return Response(base64.b64decode(found["bundle"]), 200, headers, "application/octet-stream")


async def replay(visit: Visit) -> Response:
    """Judge a session again, and show whether everything comes out as recorded."""
    session = visit.path["session"]
    found = await visit.call("replayRun", session_id=session)
    return visit.render(
        "replay.html.j2",
        title="Replay",
        section="sessions",
        session=session,
        path=session_path(session),
        report=ReplayReport.model_validate(found["replay"]),
    )


PAGES = (
    Page(SESSION, show_session),
    Page(f"{SESSION}/export", export),
    Page(f"{SESSION}/replay", replay),
    Page(f"{SESSION}/extend", extend, method="POST"),
    Page(f"{SESSION}/act/{{act}}", steer, method="POST"),
)
