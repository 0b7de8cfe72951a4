"""The list of sessions, with search, filters and pages. A search looks at a limited number of sessions for each page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from tercet.console.inbox import WaitingPlace
from tercet.console.visit import HOME, Page, Visit
from tercet.contracts.decision import RiskTier
from tercet.contracts.runs.session import SessionStatus
from tercet.contracts.values.plain import storable
from tercet.core.fold.session import ESCALATED
from tercet.engine.lists import ListedSession
from tercet.service.hub import pack_name
from tercet.service.journal_reads import SEARCHED_FIRST, SEARCHED_NEXT
from tercet.service.views import listed_session
from tercet.view.text import with_plain_causes
from tercet.view.vocabulary import STANDINGS, standing, standing_of

SESSIONS = f"{HOME}/sessions"
PER_PAGE = 50
ID_PREFIX = "ses_"
"""A search that begins like this is for an id."""
_FILTERS = ("text", "status", "intent", "risk", "owner")
_WAITING = {"waiting": "yes"}
"""The filter for sessions that wait for people, which is used alone: no status says that."""


async def show_sessions(visit: Visit) -> Response:
    """Show a page of sessions."""
    given = {name: text for name in _FILTERS if (text := visit.query.get(name, "").strip())}
    given = _WAITING if visit.query.get("waiting") else given
    cursor = visit.query.get("cursor", "")
    if given is _WAITING:
        found = await _waiting(visit, cursor)
    elif list(given) == ["text"] and given["text"].startswith(ID_PREFIX) and not cursor:
        found = await _by_id(visit, given["text"])
    else:
        found = await visit.call(
            "listSessions", limit=PER_PAGE, **given, **({"cursor": cursor} if cursor else {})
        )
    following = found["next_cursor"]
    tiers = dict(_risk_tiers(visit))
    return visit.render(
        "sessions.html.j2",
        title="Sessions",
        section="sessions",
        sessions=[
            {**await _listed(visit, each), "risk": tiers.get(_decision(each), "")}
            for each in found["sessions"]
        ],
        given=given,
        is_first=not cursor,
        newest=_address(given),
        current=_address({**given, **({"cursor": cursor} if cursor else {})}),
        older=_address({**given, "cursor": following}) if following else "",
        searched=_searched(found, is_first=not cursor),
        statuses=get_args(SessionStatus),
        risks=[each.value for each in RiskTier],
        intents=sorted(_intents(visit)),
    )


async def _by_id(visit: Visit, text: str) -> dict[str, Any]:
    """Return the sessions whose ids begin like this: they are looked up, while other words are searched for."""
    visit.caller.demand("read")
    hub, tenant = visit.console.http.service.hub, visit.caller.tenant
    ids = await hub.journal.session_ids(tenant, storable(text), limit=PER_PAGE)
    rows = [await hub.find_row(tenant, each) for each in ids]
    return {"sessions": [listed_session(ListedSession.of(row)) for row in rows], "next_cursor": None}


async def _waiting(visit: Visit, cursor: str) -> dict[str, Any]:
    """Return the sessions with an open gate, escalated ones too: those that have waited longest first, as in the inbox."""
    visit.caller.demand("read")
    journal, after = visit.console.http.service.hub.journal, WaitingPlace.parse(cursor)
    rows = await journal.waiting(visit.caller.tenant, after=after, limit=PER_PAGE + 1)
    page, more = rows[:PER_PAGE], rows[PER_PAGE:]
    return {
        "sessions": [listed_session(ListedSession.of(row)) for row in page],
        "next_cursor": str(WaitingPlace(page[-1].waits_since or 0, page[-1].session_id)) if more else None,
    }


def _searched(found: dict[str, Any], *, is_first: bool) -> str:
    """Return how far a search has come; empty for a page that is full or the last."""
    if found["next_cursor"] is None or len(found["sessions"]) == PER_PAGE:
        return ""
    return f"the newest {SEARCHED_FIRST:,} sessions" if is_first else f"{SEARCHED_NEXT:,} older sessions"


async def _listed(visit: Visit, row: dict[str, Any]) -> dict[str, Any]:
    is_waiting = bool(row["gates"])
    is_escalated = row["reason"].startswith(ESCALATED)
    word = standing_of(row["status"], row["ending"], is_escalated=is_escalated, has_gates=is_waiting)
    if word == "failed" and await _was_refused(visit, row["session_id"]):
        word = "refused"
    times = {
        name: int(datetime.fromisoformat(row[name]).timestamp() * 1000)
        for name in ("started_at", "updated_at")
    }
    reason = with_plain_causes(row["reason"])
    return {**row, **times, "reason": reason, "word": word, "tone": STANDINGS[word][0]}


async def _was_refused(visit: Visit, session: str) -> bool:
    """Return whether the critic approved no plan of a failed session, which its row does not say."""
    journal, tenant = visit.console.http.service.hub.journal, visit.caller.tenant
    try:
        return standing(await visit.console.states.load(journal, tenant, session)) == "refused"
    except Exception:  # noqa: BLE001 - damaged events can fail in any way, and the page of the session says how
        return False


def _intents(visit: Visit) -> Iterator[str]:
    """Yield the intents of the packs that are served."""
    packs = (versions[0] for versions in visit.console.http.service.hub.packs.values())
    yield from {name for pack in packs for each in pack.decisions for name in (each.id, *each.intents)}


def _decision(row: dict[str, Any]) -> tuple[str, str]:
    return pack_name(row["pack"]), row["intent"]


def _risk_tiers(visit: Visit) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the risk tier of each decision of the packs that are served, by pack and intent, as the filter goes by them."""
    for name, (newest, *_) in visit.console.http.service.hub.packs.items():
        for each in newest.decisions:
            yield from (((name, intent), each.risk_tier.value) for intent in (each.id, *each.intents))


def _address(given: dict[str, str]) -> str:
    return f"{SESSIONS}?{urlencode(given)}" if given else SESSIONS


PAGES = (Page(SESSIONS, show_sessions),)
