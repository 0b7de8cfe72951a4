"""The inbox: the gates that wait for the caller, those that wait longest first, then those that wait for others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response

from tercet.console.permissions import Permissions, find_permissions
from tercet.console.visit import HOME, Page, Visit
from tercet.contracts.errors import TercetError
from tercet.core.state import OpenGate, State
from tercet.engine.checks.journal import DamagedSession
from tercet.engine.lists import gates_of, waiting_rows
from tercet.engine.personal.reveal import Revealer
from tercet.engine.rows import details_of
from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import SessionRow
from tercet.runtime import Runtime
from tercet.service.hub import pack_name
from tercet.service.methods import actor_for
from tercet.view.gate import question_text, reason_text, reversibility_of

PER_PAGE = 50
"""How many sessions a page of the caller's gates shows."""
OTHERS_PER_PAGE = 20
MOST_FOR_OTHERS = 100
"""How many sessions are read to find the gates of others: many that wait for the caller may be before them."""
_SHOWN_VALUES = 3


@dataclass(frozen=True, kw_only=True)
class InboxItem:
    """A gate as the inbox lists it."""

    id: str
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
    why_not: str
    """Why it does not wait for the caller."""


def _item(state: State, gate: OpenGate, permissions: Permissions) -> InboxItem:
    shown = gate.shown
    authority = [str(name) for name in shown.get("authority", ())]
    params = dict(shown.get("params") or {})
    names = sorted(params, key=lambda name: name not in authority)
    return InboxItem(
        id=gate.id,
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
        why_not="" if permissions.waits else permissions.why_not,
    )


def _why(gate: OpenGate) -> str:
    if gate.kind == "approval":
        return ""
    asked = f"{question_text(gate)} " if gate.shown.get("tool") else ""
    return f"{asked}{reason_text(gate)}"


class WaitingPlace(NamedTuple):
    """The place of a session in the order of waiting."""

    since: int
    session: str

    @classmethod
    def parse(cls, text: str) -> WaitingPlace | None:
        """Return a place as an address names it; None for anything else."""
        since, _, session = text.partition(":")
        is_time = since.isascii() and since.isdecimal() and len(since) < 19
        return cls(int(since), session) if is_time and session.isprintable() else None

    def __str__(self) -> str:
        return f"{self.since}:{self.session}"


@dataclass(kw_only=True)
class _List:
    """A page of gates. Those of one session stay together."""

    after: WaitingPlace | None
    """The last session of the page before."""
    most: int
    items: list[InboxItem] = field(default_factory=list[InboxItem])
    last: WaitingPlace | None = None
    """The last session of this page."""
    has_more: bool = False

    @property
    def is_full(self) -> bool:
        """Whether gates of further sessions belong to the next page."""
        return len(self.items) >= self.most

    def holds(self, place: WaitingPlace) -> bool:
        """Return whether it takes gates of a session, or the word that there are more."""
        return not self.has_more and (self.after is None or place > self.after)

    def add(self, item: InboxItem, place: WaitingPlace) -> None:
        """Add a gate, unless the page is full."""
        if not self.holds(place):
            return
        if self.is_full and place != self.last:
            self.has_more = True
            return
        self.items.append(item)
        self.last = place


class _Scan:
    """Looks at the sessions that wait, until both lists are full."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._hub = visit.console.http.service.hub
        self._tenant = visit.caller.tenant
        self._roles: dict[str, frozenset[str]] = {}
        self._for_others = 0
        self.mine = _List(after=WaitingPlace.parse(visit.query.get("mine", "")), most=PER_PAGE)
        self.others = _List(after=WaitingPlace.parse(visit.query.get("others", "")), most=OTHERS_PER_PAGE)
        self.damaged: list[DamagedSession] = []
        self.has_unserved = False
        """Whether a session was left out because its pack is not served here."""

    async def run(self) -> None:
        """Fill the lists."""
        both = (self.mine.after, self.others.after)
        begin = None if None in both else min(each for each in both if each is not None)
        place: WaitingPlace | None = begin
        async for row in waiting_rows(self._hub.journal, self._tenant, begin):
            before, place = place, WaitingPlace(row.waits_since or 0, row.session_id)
            if self.mine.has_more and self.others.has_more:
                break
            if pack_name(row.pack) not in self._hub.packs:
                self.has_unserved = True
                continue
            runtime = await self._hub.runtime(self._tenant, pack_name(row.pack))
            may_be_mine = self._may_be_mine(row, runtime)
            if not (may_be_mine and self.mine.holds(place)):
                if not self.others.holds(place):
                    continue
                if self.others.is_full and not may_be_mine:
                    self.others.has_more = True
                    continue
                if may_be_mine and self._for_others == MOST_FOR_OTHERS:
                    self.others.has_more, self.others.last = True, before
                    continue
                self._for_others += may_be_mine
            await self._add(row, runtime, place)

    async def _add(self, row: SessionRow, runtime: Runtime, place: WaitingPlace) -> None:
        async for state, gate in self._gates(row):
            permissions = find_permissions(self._visit.caller, runtime, state, gate, self._visit.now)
            chosen = self.mine if permissions.waits else self.others
            chosen.add(_item(state, gate, permissions), place)

    async def _gates(self, row: SessionRow) -> AsyncIterator[tuple[State, OpenGate]]:
        """Yield the gates of a session with their personal values."""
        journal, load = self._hub.journal, self._visit.console.states.load
        for state, gate in await gates_of(journal, self._tenant, row, unreadable=self.damaged, load=load):
            yield state, await Revealer(journal, self._tenant, row.session_id).reveal_struct(gate)

    def _may_be_mine(self, row: SessionRow, runtime: Runtime) -> bool:
        """Return whether the caller may have a role for a gate of a session, by its row."""
        try:
            asked = details_of(row).roles
        except JournalCorrupt:  # loading its gates says so
            return True
        if row.pack not in self._roles:
            self._roles[row.pack] = self._roles_in(runtime)
        is_own = (
            row.owner == self._visit.caller.actor.id
        )  # no role lets people answer the gates of their own runs
        return not asked or (not is_own and not self._roles[row.pack].isdisjoint(asked))

    def _roles_in(self, runtime: Runtime) -> frozenset[str]:
        """Return the roles that the caller has in a pack; none without the right to answer."""
        try:
            self._visit.caller.demand("answer")
            return frozenset(runtime.known(actor_for(self._visit.caller, runtime)).roles)
        except TercetError:
            return frozenset()


async def show_inbox(visit: Visit) -> Response:
    """Show what waits."""
    visit.caller.demand("read")
    scan = _Scan(visit)
    await scan.run()
    return visit.render_unless_known(
        "inbox.html.j2",
        title="Inbox",
        section="inbox",
        mine=scan.mine.items,
        others=scan.others.items,
        next_mine=_address(mine=scan.mine, others=scan.others, following="mine"),
        next_others=_address(mine=scan.mine, others=scan.others, following="others"),
        is_first=scan.mine.after is None and scan.others.after is None,
        damaged=scan.damaged,
        has_unserved=scan.has_unserved,
    )


def _address(*, following: str, **lists: _List) -> str:
    """Return the address of the next page of a list, with the same page of the other; empty if there is none."""
    if not lists[following].has_more:
        return ""
    places = {name: each.last if name == following else each.after for name, each in lists.items()}
    return f"{HOME}?{urlencode({name: str(place) for name, place in places.items() if place})}"


PAGES = (Page(HOME, show_inbox),)
