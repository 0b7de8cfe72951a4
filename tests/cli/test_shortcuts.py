"""Commands that people guess, names with typing errors, and ids that are abbreviated."""

from __future__ import annotations

import pytest

from tercet.cli.main import COMMANDS, SHORTCUTS, SYNONYMS

from .harness import REFUNDS, Tercet
from .runs import BAKERY, LOOK, ORDER_881, REFUND, Kitchen


@pytest.mark.parametrize("name", SHORTCUTS)
def test_a_shortcut_is_the_command_that_it_stands_for(tercet: Tercet, name: str) -> None:
    """Its help is the help of that command, and the list of commands names both."""
    group, command, *_ = SHORTCUTS[name]
    assert tercet(name, "--help").out == tercet(group, command, "--help").out
    assert f"{name:<8} tercet {' '.join(SHORTCUTS[name])}" in tercet("--help").out


def test_shortcuts_look_at_sessions_and_answer_gates(tercet: Tercet, kitchen: Kitchen) -> None:
    """`list`, `show`, `status`, `logs`, `deny`, `cancel` and `resume` do what their long forms do."""
    session = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    assert tercet("list").out == tercet("status").out == tercet("sessions", "list").out
    assert f"session   {session}, waiting" in tercet("show", session).out
    assert f"session   {session}, waiting" in tercet("status", session).out
    logs = tercet("logs", session)
    assert (logs.code, "plan verified" in logs.out, "waits for GATE_FINANCE_APPROVAL" in logs.out) == (
        4,
        True,
        True,
    )
    assert tercet("deny", f"{session}.g1").code == 0
    assert tercet("resume", session, "--pack", REFUNDS).code == 5
    other = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    assert tercet("cancel", other, "--json").json["order"] == "cancel"


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (("sesions",), "tercet sessions"),
        (("gates", "aprove"), "tercet gates approve"),
        (("reusme",), "tercet resume"),
        (("start",), "tercet run"),
        (("reject",), "tercet gates deny"),
        (("sessions", "ls"), "tercet sessions list"),
    ],
)
def test_an_unknown_command_names_the_nearest(tercet: Tercet, words: tuple[str, ...], nearest: str) -> None:
    """The first suggestion is the likeliest."""
    error = tercet(*words, "--json").json["error"]
    assert error["message"] == f"unknown command 'tercet {' '.join(words)}'"
    assert error["remedy"].partition("?")[0].split(", ")[0] == f"did you mean {nearest}"


@pytest.mark.parametrize("word", ["pause", "prone", "erasee", "pruned"])
def test_no_mistake_is_answered_with_a_command_that_deletes(tercet: Tercet, word: str) -> None:
    """Unless the user has typed its very name."""
    remedy = tercet(word, "--json").json["error"]["remedy"]
    assert "prune" not in remedy
    assert "erase" not in remedy
    assert "tercet sessions prune" in tercet("prune", "--json").json["error"]["remedy"]


def test_what_is_suggested_exists() -> None:
    """Neither a shortcut nor a synonym leads to a command that is gone."""
    assert {" ".join(words[:2]) for words in SHORTCUTS.values()} <= set(COMMANDS)
    assert set(SYNONYMS.values()) <= set(COMMANDS)
    assert not {*SHORTCUTS, *SYNONYMS} & {words for words in COMMANDS if " " not in words}


def test_an_id_may_be_abbreviated(tercet: Tercet, kitchen: Kitchen) -> None:
    """Its beginning is enough, with or without `ses_`, wherever a session, a gate or a run is named."""
    session = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    for name in (session, session[:10], session.removeprefix("ses_")[:6]):
        assert tercet("sessions", "show", name, "--json").json["session_id"] == session
        assert tercet("gates", "show", f"{name}.g1", "--json").json["id"] == f"{session}.g1"
        assert tercet("replay", name, "--json").json["equal"] == 1
        assert tercet("provenance", name, "--json").json["session_id"] == session
        assert tercet("context", REFUNDS, "--session", name, "--json").code == 0
    assert tercet("gates", "deny", f"{session[4:9]}.g1", "--json").json["gate"] == f"{session}.g1"


def test_an_ambiguous_id_lists_the_candidates(tercet: Tercet, kitchen: Kitchen) -> None:
    """Nothing is guessed where two sessions begin alike."""
    found = [tercet(*REFUND, ORDER_881, "--json").json["session_id"] for _ in "12"]
    error = tercet("sessions", "show", "ses_", "--json").json["error"]
    assert error["code"] == "ambiguous_session"
    assert error["remedy"] == f"type more of it: {', '.join(sorted(found))}"


@pytest.mark.parametrize("name", ["zz", "ses_zz", "ses_0000000000000000"])
def test_an_unknown_id_says_how_to_list(tercet: Tercet, kitchen: Kitchen, name: str) -> None:
    """Whether it is whole or abbreviated."""
    tercet("run", BAKERY, "--plan", kitchen.plan(LOOK))
    answer = tercet("sessions", "show", name, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "unknown_session")
    assert "tercet sessions list" in answer.json["error"]["remedy"]
