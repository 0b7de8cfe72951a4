"""The packs that are served: tools, decisions, gates and policies, what `check` says, and the versions in use."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from starlette.responses import Response

from tercet.console.visit import HOME, Page, Visit
from tercet.core.state import TERMINAL
from tercet.journal.protocol import Journal
from tercet.packs.checking import check
from tercet.service.errors import not_found
from tercet.service.hub import pack_name

PACKS = f"{HOME}/packs"
WINDOW = 500
"""How many of the newest sessions, and of those of each status that is not over, the versions are counted in."""
_UNFINISHED = ("in_progress", "awaiting_gate", "paused")


@dataclass(frozen=True, kw_only=True)
class VersionUse:
    """A version of a pack, and the sessions that are pinned to it."""

    ref: str
    hash: str
    unfinished: int
    ended: int
    """Among the newest sessions."""
    last_at: int
    is_served: bool
    is_newest: bool
    """Whether new runs use it."""


async def count_versions(journal: Journal, tenant: str) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return, by version and hash, how many sessions are not over, how many of the newest are, and when the last began."""
    unfinished: Counter[tuple[str, str]] = Counter()
    ended: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], int] = {}
    rows = await journal.sessions(tenant, limit=WINDOW)
    for row in rows:
        ended[row.pack, row.pack_hash] += row.status in TERMINAL
    for status in _UNFINISHED:
        found = await journal.sessions(tenant, status=status, limit=WINDOW)
        unfinished.update((row.pack, row.pack_hash) for row in found)
        rows += found
    for row in rows:
        key = (row.pack, row.pack_hash)
        last[key] = max(last.get(key, 0), row.started_at)
    return {key: (unfinished[key], ended[key], at) for key, at in last.items()}


async def _versions(visit: Visit, name: str) -> list[VersionUse]:
    hub = visit.console.http.service.hub
    used = await count_versions(hub.journal, visit.caller.tenant)
    served = {(pack.ref, pack.hash): pack for pack in hub.packs.get(name, ())}
    newest = hub.packs[name][0] if name in hub.packs else None
    keys = [*served, *(key for key in used if pack_name(key[0]) == name and key not in served)]
    found: list[VersionUse] = []
    for key in keys:
        unfinished, ended, last_at = used.get(key, (0, 0, 0))
        is_newest = newest is not None and key == (newest.ref, newest.hash)
        found.append(
            VersionUse(
                ref=key[0], hash=key[1], unfinished=unfinished, ended=ended, last_at=last_at,
                is_served=key in served, is_newest=is_newest,
            )
        )  # fmt: skip
    return found


async def show_packs(visit: Visit) -> Response:
    """List the packs."""
    visit.caller.demand("read")
    hub = visit.console.http.service.hub
    found = [
        (versions[0], check(versions[0]), await _versions(visit, name))
        for name, versions in hub.packs.items()
    ]
    return visit.render("packs.html.j2", title="Packs", section="packs", packs=found, window=WINDOW)


async def show_pack(visit: Visit) -> Response:
    """Show one pack."""
    visit.caller.demand("read")
    versions = visit.console.http.service.hub.packs.get(visit.path["name"])
    if versions is None:
        raise not_found("pack", visit.path["name"], "look among the packs for those that are served")
    wanted = visit.query.get("version", "")
    pack = next((each for each in versions if each.version == wanted), versions[0])
    return visit.render(
        "pack.html.j2",
        title=pack.ref,
        section="packs",
        pack=pack,
        problems=check(pack),
        versions=await _versions(visit, pack.name),
        window=WINDOW,
    )


PAGES = (Page(PACKS, show_packs), Page(f"{PACKS}/{{name}}", show_pack))
