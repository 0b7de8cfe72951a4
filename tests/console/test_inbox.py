"""The inbox with many gates: the caller's own are found, oldest first and in pages, and what is unchanged is not sent again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from console.desk import ConsoleDesk, open_console
from console.example_runs import MovableClock
from console.many_gates import copy_waiting, pack_of_two_roles, wait_for
from tercet.console import inbox
from tercet.core.messages import session_of
from tercet.journal.opening import open_journal
from tercet.runtime import RuntimeOptions

MANY = 520


def gates(page: str) -> tuple[list[str], list[str]]:
    """Return the gates that wait for the caller, and those that wait for others, in the order of a page."""
    mine, _, others = page.partition('aria-labelledby="others"')
    found = [re.findall(r'href="/console/gates/([^"]+)"', each) for each in (mine, others)]
    return cast("tuple[list[str], list[str]]", tuple(found))


async def wait_in_turn(desk: ConsoleDesk, clock: MovableClock, role: str, number: int) -> list[str]:
    """Start runs that wait for a role, each opened a second after the one before, and return their gates."""
    found: list[str] = []
    for _ in range(number):
        clock.shift_ms += 1_000
        found.append(await wait_for(desk, role))
    return found


def next_page(page: str, which: str) -> str:
    """Return the address of the next page of a list; empty if there is none."""
    found = re.search(
        rf'aria-label="Pages of gates that wait for {which}"><a class="button" href="([^"]+)"', page
    )
    return found[1].replace("&amp;", "&") if found else ""


async def test_my_gate_is_found_however_many_newer_or_older_ones_wait_for_others(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal,
        open_console(journal, pack_of_two_roles(), options=RuntimeOptions(clock=clock)) as desk,
    ):
        (oldest,) = await wait_in_turn(desk, clock, "lead", 1)
        clock.shift_ms += MANY
        (theirs,) = await wait_in_turn(desk, clock, "clerk", 1)
        copies = await copy_waiting(journal, session_of(theirs), MANY, later_ms=-1)
        (newer,) = await wait_in_turn(desk, clock, "lead", 1)
        lead = await desk.person("lena", roles=("lead",))
        page = (await lead.get("/console")).text
        mine, others = gates(page)
        assert mine == [oldest, newer]
        assert others == [f"{name}.g1" for name in copies[: -inbox.OTHERS_PER_PAGE - 1 : -1]]
        assert "2 gates" in page
        assert "the first 20 gates" in page


async def test_both_lists_are_paged_without_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "PER_PAGE", 4)
    monkeypatch.setattr(inbox, "OTHERS_PER_PAGE", 3)
    clock = MovableClock()
    async with (
        open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal,
        open_console(journal, pack_of_two_roles(), options=RuntimeOptions(clock=clock)) as desk,
    ):
        mine = await wait_in_turn(desk, clock, "lead", 9)
        others = await wait_in_turn(desk, clock, "clerk", 7)
        lead = await desk.person("lena", roles=("lead",))
        page = (await lead.get("/console")).text
        assert "Back to the oldest gates" not in page
        found = gates(page)
        while address := next_page(page, "you"):
            page = (await lead.get(address)).text
            found[0].extend(gates(page)[0])
        assert found[0] == mine
        while address := next_page(page, "others"):
            page = (await lead.get(address)).text
            assert gates(page)[0] == mine[-1:]
            found[1].extend(gates(page)[1])
        assert found[1] == others
        assert "Back to the oldest gates" in page
        broken = (await lead.get("/console?mine=x:y&others=9999999999999999999999:z")).text
        assert gates(broken)[0] == mine[:4]


async def test_a_page_that_shows_the_same_is_not_sent_again() -> None:
    async with open_console(None, pack_of_two_roles()) as desk:
        await wait_for(desk, "lead")
        lead, clerk = [await desk.person(name, roles=(name,)) for name in ("lead", "clerk")]
        first = await lead.get("/console")
        known = {"if-none-match": first.headers["etag"]}
        same = await lead.client.get("/console", headers=known)
        assert (same.status_code, same.content) == (304, b"")
        assert (await clerk.client.get("/console", headers=known)).status_code == 200
        gate = await wait_for(desk, "lead")
        changed = await lead.client.get("/console", headers=known)
        assert changed.status_code == 200
        assert gate in changed.text
        stopped = await desk.rpc(
            await desk.key("olga", scopes=("operate",)), "emergencyStop", kind="pack", name="post"
        )
        assert "code" not in stopped, stopped
        known = {"if-none-match": changed.headers["etag"]}
        assert "Emergency stop" in (await lead.client.get("/console", headers=known)).text


async def test_gates_of_others_behind_many_of_mine_are_looked_for_page_by_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "PER_PAGE", 1)
    monkeypatch.setattr(inbox, "MOST_FOR_OTHERS", 2)
    clock = MovableClock()
    async with open_console(None, pack_of_two_roles(), options=RuntimeOptions(clock=clock)) as desk:
        mine = await wait_in_turn(desk, clock, "lead", 6)
        (theirs,) = await wait_in_turn(desk, clock, "clerk", 1)
        lead = await desk.person("lena", roles=("lead",))
        page = (await lead.get("/console")).text
        assert gates(page) == (mine[:1], [])
        page = (await lead.get(next_page(page, "others"))).text
        assert gates(page) == (mine[:1], [theirs])
        assert not next_page(page, "others")
