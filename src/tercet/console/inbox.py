"""The inbox: the gates that wait for the caller, oldest first, then those that wait for others."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from tercet.console.permissions import Permissions, find_permissions
from tercet.console.visit import HOME, Page, Visit
from tercet.contracts.errors import TercetError
from tercet.core.state import OpenGate, State
from tercet.engine.checks.journal import DamagedSession
from tercet.engine.lists import open_gates
from tercet.engine.personal.sealing import reveal_struct
from tercet.view.gate import question_text, reason_text, reversibility_of

MOST = 500
"""How many open gates are looked at."""
_SHOWN_VALUES = 3


@dataclass(frozen=True, kw_only=True)
class InboxItem:
    """A gate as the inbox lists it."""

    id: str
    session: str
    question: str
    tool: str
    values: tuple[tuple[str, object], ...]
    """The first values of the call, those with authority first."""
    more: int
    """How many values are left out."""
    intent: str
    owner: str
    nature: str
    at: int
    expires: int
    why: str
    """What is asked and why, where it is not whether a call may be made."""
    approved: int
    needed: int
    """How many approvals it has, and how many it takes."""
    permissions: Permissions


def _item(state: State, gate: OpenGate, permissions: Permissions) -> InboxItem:
    shown = gate.shown
    authority = [str(name) for name in shown.get("authority", ())]
    params = dict(shown.get("params") or {})
    names = sorted(params, key=lambda name: name not in authority)
    return InboxItem(
        id=gate.id,
        session=str(state.start.session),
        question=question_text(gate),
        tool=str(shown.get("tool") or ""),
        values=tuple((name, params[name]) for name in names[:_SHOWN_VALUES]),
        more=max(0, len(names) - _SHOWN_VALUES),
        intent=str(state.start.request.get("intent", "")),
        owner=str(state.start.actor["id"]),
        nature=", ".join(filter(None, (str(shown.get("mode") or ""), reversibility_of(shown)))),
        at=gate.at,
        expires=gate.expires,
        why=_why(gate),
        approved=sum(min(need.quorum, len(gate.approvers(name))) for name, need in gate.needs.items()),
        needed=sum(need.quorum for need in gate.needs.values()),
        permissions=permissions,
    )


def _why(gate: OpenGate) -> str:
    if gate.kind == "approval":
        return ""
    asked = f"{question_text(gate)} " if gate.shown.get("tool") else ""
    return f"{asked}{reason_text(gate)}"


async def show_inbox(visit: Visit) -> Response:
    """Show what waits."""
    visit.caller.demand("read")
    hub = visit.console.http.service.hub
    damaged: list[DamagedSession] = []
    found = await open_gates(hub.journal, visit.caller.tenant, MOST, unreadable=damaged)
    items: list[InboxItem] = []
    unserved = 0
    for state, gate in found:
        try:
            runtime = await hub.of_gate(visit.caller.tenant, gate.id)
        except TercetError:
            unserved += 1  # its pack is not served here
            continue
        permissions = find_permissions(visit.caller, runtime, state, gate, visit.now)
        shown = await reveal_struct(hub.journal, visit.caller.tenant, gate)
        items.append(_item(state, shown, permissions))
    items.sort(key=lambda item: item.at)
    return visit.render(
        "inbox.html.j2",
        title="Inbox",
        section="inbox",
        mine=[item for item in items if item.permissions.waits],
        others=[item for item in items if not item.permissions.waits],
        is_cut=len(found) == MOST,
        most=MOST,
        damaged=damaged,
        unserved=unserved,
    )


PAGES = (Page(HOME, show_inbox),)
