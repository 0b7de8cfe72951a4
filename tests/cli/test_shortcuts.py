"""Commands that people guess, names with typing errors, and ids that are abbreviated."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest

from tercet.cli.main import COMMANDS, SHORTCUTS, SYNONYMS
from tercet.runtime import options

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


@pytest.mark.parametrize("name", [name for name in SHORTCUTS if name not in ("list", "status")])
def test_a_shortcut_without_its_argument_is_named_as_it_was_typed(tercet: Tercet, name: str) -> None:
    """The remedy and its example say `tercet logs`, not the command that it stands for."""
    error = tercet(name, "--json").json["error"]
    named = "GATE" if name in ("approve", "deny") else "ID"
    assert error["message"] == f"missing argument '{named}'"
    remedy = f"tercet {name} --help lists its arguments and options; an example: tercet {name} ses_0123456789abcdef"
    assert error["remedy"].startswith(remedy)


def test_a_wrong_option_of_a_shortcut_names_the_shortcut(tercet: Tercet) -> None:
    """As for a missing argument."""
    error = tercet("status", "--statis", "failed", "--json").json["error"]
    assert error["remedy"] == "did you mean --status? tercet status --help lists its arguments and options"


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


def test_an_ambiguous_id_lists_the_candidates(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is guessed where two sessions begin alike."""
    numbers = count(1)

    def urandom(size: int) -> bytes:
        return b"\xab\x12" + next(numbers).to_bytes(size - 2, "big")

    monkeypatch.setattr(options, "os", SimpleNamespace(urandom=urandom))
    found = [tercet(*REFUND, ORDER_881, "--json").json["session_id"] for _ in "12"]
    error = tercet("sessions", "show", "ab12", "--json").json["error"]
    assert error["code"] == "ambiguous_session"
    assert error["remedy"] == f"type more of it: {', '.join(sorted(found))}"


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("prefix", ["ses_", ""])
def test_too_few_letters_name_no_session(tercet: Tercet, kitchen: Kitchen, length: int, prefix: str) -> None:
    """Although the journal has only one session: a slip must not cancel it."""
    session = tercet(*REFUND, ORDER_881, "--json").json["session_id"]
    name = f"{prefix}{session.removeprefix('ses_')[:length]}"
    for words in (("cancel", name), ("show", name), ("replay", name), ("deny", f"{name}.g1")):
        if name or words[0] in ("cancel", "show"):
            error = tercet(*words, "--json").json["error"]
            assert error["message"] == f"'{name}' is too short to name a session"
            assert "at least 4 characters" in error["remedy"]
    assert tercet("show", session, "--json").json["status"] == "awaiting_gate"


@pytest.mark.parametrize("name", ["zz", "ses_zz", "ses_0000000000000000"])
def test_an_unknown_id_says_how_to_list(tercet: Tercet, kitchen: Kitchen, name: str) -> None:
    """Whether it is whole or abbreviated."""
    tercet("run", BAKERY, "--plan", kitchen.plan(LOOK))
    answer = tercet("sessions", "show", name, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "unknown_session")
    assert "tercet sessions list" in answer.json["error"]["remedy"]
