"""`tercet stop`: nothing that is stopped is called, and runs go on once it is lifted."""

from __future__ import annotations

import asyncio
import json

import pytest

from tercet.journal.opening import open_journal

from .harness import Tercet
from .office import code_of
from .runs import BAKERY, LOOK, Kitchen, bake


@pytest.fixture
def bakery(tercet: Tercet, kitchen: Kitchen) -> Kitchen:
    """A bakery with a journal."""
    assert tercet("run", BAKERY, "--plan", kitchen.plan(LOOK)).code == 0
    return kitchen


STOPS: list[tuple[str, ...]] = [("tool", "bakery.bake"), ("pack", "bakery"), ("tenant",)]


@pytest.mark.parametrize("stop", STOPS, ids=[stop[0] for stop in STOPS])
def test_what_is_stopped_is_not_called_until_it_is_lifted(
    tercet: Tercet, bakery: Kitchen, stop: tuple[str, ...]
) -> None:
    """A run pauses before the call with the reason; after the stop is lifted it is resumed, and bakes one loaf."""
    told = tercet("stop", *stop, "--note", "mice")
    assert told.code == 0
    assert f"    tercet stop lift {' '.join(stop)}\n" in told.out
    held = tercet("run", BAKERY, "--plan", bakery.plan(LOOK, bake(0)))
    assert held.code == 4
    assert "· paused: emergency stop of" in held.out
    assert "by agt_support: mice" in held.text
    assert bakery.count("calls") == 0
    session = held.out.split()[1]
    assert tercet("sessions", "resume", session, "--pack", BAKERY).code == 4
    (listed,) = tercet("stop", "list", "--json").json["stops"]
    assert (listed["kind"], listed["by"], listed["note"]) == (stop[0], "agt_support", "mice")
    assert tercet("stop", "lift", *stop, "--json").json["is_lifted"] is True
    assert tercet("stop", "list").out == "Nothing is stopped.\n"
    assert tercet("sessions", "resume", session, "--pack", BAKERY).code == 0
    assert bakery.count("calls") == 1


def test_a_stop_reaches_a_run_that_is_under_way(tercet: Tercet, kitchen: Kitchen) -> None:
    """The call that has begun ends; the next one is not made, in a process that had begun before the stop."""
    running = kitchen.start_baking(60)
    assert tercet("stop", "tool", "bakery.look").code == 0
    kitchen.open_oven()
    out, _ = running.communicate(timeout=600)
    assert running.returncode == 4
    assert "· paused: emergency stop of tool bakery.look by agt_support" in out
    assert kitchen.count("calls") == 1


UNKNOWN: list[tuple[tuple[str, ...], str]] = [
    (
        ("tool", "bakery.bke"),
        "no pack of a run in this journal has a tool bakery.bke; did you mean bakery.bake",
    ),
    (("pack", "bakeri"), "this journal has no run of a pack bakeri; did you mean bakery?"),
    (("pack", "xyz"), "this journal has no run of a pack xyz"),
]


@pytest.mark.parametrize(("stop", "warning"), UNKNOWN, ids=[" ".join(stop) for stop, _ in UNKNOWN])
def test_a_stop_of_what_no_run_has_stands_with_a_warning(
    tercet: Tercet, bakery: Kitchen, stop: tuple[str, ...], warning: str
) -> None:
    """A misspelt name is stopped, to be safe, and the words say what was meant perhaps; programs are told `known: false`."""
    told = tercet("stop", *stop)
    assert told.code == 0
    assert f"! {warning}" in told.text
    assert f"{' '.join(stop)} is stopped" in told.text
    assert tercet("stop", *stop, "--json").json["known"] is False
    (listed,) = tercet("stop", "list", "--json").json["stops"]
    assert (listed["kind"], listed["name"]) == stop


def test_a_stop_of_what_runs_have_needs_no_warning(tercet: Tercet, bakery: Kitchen) -> None:
    """A tool, the pack and the tenant of a run in the journal are known; lifting says nothing of it."""
    for stop in STOPS:
        assert "!" not in tercet("stop", *stop).out
        assert tercet("stop", *stop, "--json").json["known"] is True
        assert "known" not in tercet("stop", "lift", *stop, "--json").json


def test_a_stop_in_a_journal_without_runs_says_so(tercet: Tercet, bakery: Kitchen) -> None:
    """Whoever stops the tenant in the wrong journal hears that nothing ran there."""

    async def make() -> None:
        async with open_journal("sqlite:///other.db"):
            pass

    asyncio.run(make())
    assert (
        "! there is no run in this journal" in tercet("stop", "tenant", "--journal", "sqlite:///other.db").out
    )


BAD: list[tuple[tuple[str, ...], str]] = [
    (("tool", "everything"), "usage"),
    (("pack", "bakery@1.0.0"), "usage"),
    (("pack", "tests/bakery"), "usage"),
    (("lift", "tool", "bakery.bake"), "not_stopped"),
    (("lift", "oven", "bakery.bake"), "usage"),
    (("lift", "tool"), "usage"),
    (("lift", "tenant", "default"), "usage"),
]


@pytest.mark.parametrize(("words", "code"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_stop_of_nothing_is_wrong_use(
    tercet: Tercet, bakery: Kitchen, words: tuple[str, ...], code: str
) -> None:
    """A name that nothing can have would stop nothing, so it is refused."""
    assert code_of(tercet("stop", *words, "--json")) == (2, code)
    assert tercet("stop", "list", "--json").json == {"stops": []}


def test_a_stop_is_shown_inert(tercet: Tercet, bakery: Kitchen) -> None:
    """A note with control codes cannot draw on the list, nor on the run that it stops."""
    tercet("stop", "tool", "bakery.bake", "--note", "\x1b[2Jmice\u202e")
    for words in (("stop", "list"), ("run", BAKERY, "--plan", bakery.plan(LOOK, bake(0)))):
        out = tercet(*words).out
        assert "mice" in out
        assert "\x1b" not in out
        assert "\u202e" not in out
    rows = json.loads(tercet("sessions", "list", "--json").out)["sessions"]
    assert rows[0]["reason"].startswith("emergency stop of tool bakery.bake")
