"""`tercet stop`: nothing that is stopped is called, and runs go on once it is lifted."""

from __future__ import annotations

import json

import pytest

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
    out, _ = running.communicate(timeout=50)
    assert running.returncode == 4
    assert "· paused: emergency stop of tool bakery.look by agt_support" in out
    assert kitchen.count("calls") == 1


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
