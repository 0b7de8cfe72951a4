"""The command line as a whole: help, version, wrong words, bugs, and what the shell gets to know."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tercet.cli import inputs
from tercet.cli.main import COMMANDS, GROUPS, Entry, commands_of

from .harness import PLANS, REFUNDS, Tercet

PLAN_B = (REFUNDS, PLANS / "plan_b.json")


def test_the_version_is_told(tercet: Tercet) -> None:
    """`tercet --version` says which one is installed."""
    assert tercet("--version").out == f"tercet {version('tercet')}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_teaches_by_example(tercet: Tercet, name: str) -> None:
    """The help of each command shows how it is called, and knows --json."""
    answer = tercet(*name.split(), "--help")
    assert answer.code == 0
    assert f"\n  tercet {name}" in answer.out
    assert "--json" in answer.out


def test_no_words_show_the_help(tercet: Tercet) -> None:
    """`tercet` alone lists the commands, and counts as wrong use."""
    answer = tercet()
    assert answer.code == 2
    assert all(name.split()[0] in answer.out for name in COMMANDS)


@pytest.mark.parametrize("words", [(), *((group,) for group in GROUPS)])
def test_no_line_of_a_list_of_commands_is_cut(
    tercet: Tercet, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """At 80 columns each command is told with a whole sentence."""
    monkeypatch.setenv("COLUMNS", "80")
    listing = tercet(*words, "--help").out.partition("Commands:")[2]
    assert listing
    assert "...\n" not in listing


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_shows_its_commands(tercet: Tercet, group: str) -> None:
    """`tercet sessions` alone lists what can follow, and counts as wrong use."""
    answer = tercet(group)
    assert answer.code == 2
    assert all(name.split()[1] in answer.out for name in COMMANDS if name.startswith(f"{group} "))


def test_an_option_without_its_value_names_the_help_of_its_command(tercet: Tercet) -> None:
    """Also in a group, and with an example."""
    remedy = "--help lists its arguments and options"
    answer = tercet("gates", "deny", "ses_1.g1", "--note")
    assert f"tercet gates deny {remedy}" in answer.text
    assert "an example: tercet gates deny ses_0123456789abcdef.g1 --note" in answer.text
    assert f"tercet verify {remedy}" in tercet("verify", "--plan").text


def test_a_misspelt_option_names_the_nearest(tercet: Tercet) -> None:
    """With the way to the others."""
    answer = tercet("sessions", "list", "--sttus", "paused", "--json")
    assert answer.json["error"] == {
        "code": "usage",
        "message": "no such option: --sttus",
        "remedy": "did you mean --status? tercet sessions list --help lists its arguments and options",
        "problems": [],
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("verfiy",), "verfiy"),
        (("verify",), "PACK"),
        (("verify", *PLAN_B, "--saftey-mode", "network"), "--saftey-mode"),
        (("verify", *PLAN_B, "--safety-mode", "reckless"), "reckless"),
        (("check", REFUNDS, "and", "more"), "and"),
    ],
)
def test_wrong_words_are_wrong_use(tercet: Tercet, words: tuple[str, ...], complaint: str) -> None:
    """A typing mistake is answered with exit 2 and where to find help, as JSON if that was asked for."""
    answer = tercet(*words)
    assert (answer.code, answer.out) == (2, "")
    assert complaint in answer.err
    assert "--help" in answer.text
    as_json = tercet(*words, "--json")
    assert as_json.code == 2
    assert complaint in as_json.json["error"]["message"]
    assert set(as_json.json["error"]) == {"code", "message", "remedy", "problems"}


def test_a_bug_is_ours(tercet: Tercet, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody expected is called a bug, without a traceback, and exits with 1."""
    monkeypatch.setattr(inputs, "load_plan", lambda source: 1 / 0)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    answer = tercet("verify", *PLAN_B)
    assert answer.code == 1
    assert "a bug in Tercet, not in what you typed (ZeroDivisionError: division by zero)" in answer.text
    assert "TERCET_TRACEBACK=1" in answer.text
    as_json = tercet("verify", *PLAN_B, "--json")
    assert (as_json.code, as_json.json["error"]["code"]) == (1, "internal")


def test_a_library_that_cannot_be_loaded_is_one_error(
    tercet: Tercet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command whose imports fail, such as on a machine without libstdc++, is reported once and without a traceback."""

    def fail(entry: Entry) -> None:
        raise ImportError("libstdc++.so.6: cannot open shared object file")

    monkeypatch.setattr(Entry, "load", fail)
    commands_of.cache_clear()
    answer = tercet("gates", "deny", "ses_0123456789abcdef.g1")
    assert answer.code == 1
    assert "ImportError: libstdc++.so.6: cannot open shared object file" in answer.text


def test_an_interrupt_is_quiet(tercet: Tercet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends a command with 130 and without a word."""

    def interrupt(source: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inputs, "load_plan", interrupt)
    answer = tercet("verify", *PLAN_B)
    assert (answer.code, answer.out, answer.err) == (130, "", "")
