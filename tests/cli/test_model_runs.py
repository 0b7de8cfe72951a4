"""Runs that a language model plans, at the command line: which one, what became of it, and the story of a run that was
handed to a person."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tercet.cli.attempts_view import attempt_rows
from tercet.cli.gate_view import show_rows
from tercet.cli.screen import Screen

from ..models.misbehaving import (  # noqa: TID252 - the server that the models themselves are tried with
    Misbehaving,
    misbehaving,
)
from .harness import ROOT, Tercet
from .test_gate_page import HOSTILE, is_inert

LOCAL = ROOT / "examples" / "local"
RENEW = ("run", LOCAL, "--intent", "library.renew", "--input", '{"loan_id": "ln_7"}')


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    """A server of models that answers badly, in a thread of its own."""
    started, ended = threading.Event(), threading.Event()
    found: list[Misbehaving] = []

    async def serve() -> None:
        async with misbehaving() as made:
            found.append(made)
            started.set()
            await asyncio.to_thread(ended.wait, 60)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(10)
        yield found[0]
    finally:
        ended.set()
        thread.join(10)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder of its own for each test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)


@pytest.mark.parametrize(
    ("way", "story"),
    [
        ("prose", ("it answered I would rather talk about the weather.", "no plan: answer_not_json")),
        ("cut", ("no plan: answer_cut_off",)),
    ],
)
def test_who_is_handed_a_run_reads_the_whole_story(
    tercet: Tercet, server: Misbehaving, way: str, story: tuple[str, ...]
) -> None:
    """A model that never answers with a plan ends at a gate, whose page tells what was asked and answered."""
    ran = tercet(*RENEW, "--model", f"openai-compatible:m@{server.url(way)}", "--json")
    assert ran.code == 5
    (gate,) = ran.json["gates"]
    page = tercet("gates", "show", gate["id"])
    assert page.code == 0
    assert "tried     asked openai-compatible:m" in page.out
    for line in story:
        assert line in page.text
    assert tercet("gates", "show", gate["id"], "--json").json["packet"]["attempts"]


@pytest.mark.parametrize(("way", "cause"), [("error_401", "401"), ("error_500", "500")])
def test_a_model_that_is_down_pauses_the_run_with_its_cause(
    tercet: Tercet, server: Misbehaving, way: str, cause: str
) -> None:
    """The cause is named once, no re-plan is used, and the next command resumes the session."""
    ran = tercet(*RENEW, "--model", f"openai-compatible:m@{server.url(way)}", "--json")
    assert (ran.code, ran.json["code"], ran.json["gates"]) == (4, "model_unavailable", [])
    assert (ran.json["used"]["replans"], ran.json["reason"].count(f"({cause}")) == (0, 1)
    assert ran.json["next"][0].startswith("tercet sessions resume")


def test_a_server_that_does_not_run_is_named_with_its_address(tercet: Tercet) -> None:
    """Nothing listens on a port that was just given back."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ran = tercet(*RENEW, "--model", f"openai-compatible:m@http://127.0.0.1:{port}/v1")
    assert ran.code == 4
    assert f"connection refused: 127.0.0.1:{port}" in ran.text
    assert "re-plan" not in ran.text


def test_the_next_model_is_asked_when_one_does_not_answer(tercet: Tercet, server: Misbehaving) -> None:
    """`--model` given twice: the second stands in for the first, and both are in the story."""
    names = [
        f"openai-compatible:{name}@{server.url(way)}" for name, way in (("a", "error_401"), ("b", "prose"))
    ]
    ran = tercet(*RENEW, "--model", names[0], "--model", names[1], "--json")
    assert ran.code == 5
    page = tercet("gates", "show", ran.json["gates"][0]["id"]).out
    assert page.count("asked openai-compatible:a") == page.count("asked openai-compatible:b") == 3


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--model", "nobody"), "unknown_model"),
        (("--model", "nobody:knows"), "unknown_model"),
        (("--planner", "template", "--model", "local"), "wrong_planner"),
        (("--planner", "oracle"), "usage"),
    ],
)
def test_a_model_that_cannot_be_asked_starts_nothing(
    tercet: Tercet, words: tuple[str, ...], code: str
) -> None:
    """Wrong use is told with a remedy, and there is no session."""
    ran = tercet(*RENEW, *words, "--json")
    assert ran.code == 2
    assert ran.json["error"]["code"] == code
    assert tercet("sessions", "list", "--json").json.get("sessions", []) == []


def test_what_models_say_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Answers, errors and plans are shown with nothing in them that is no letter."""
    attempts = [
        {"what": "asked", "model": HOSTILE},
        {"what": "answered", "answer": HOSTILE * 20},
        {"what": "answered", "code": "model_refused", "error": HOSTILE},
        {"what": "no_plan", "code": HOSTILE, "reason": HOSTILE},
        {"what": "plan", "plan": {"steps": [{"id": HOSTILE, "tool": HOSTILE}] * 20}},
        {"what": "verdict", "outcome": "replan", "code": HOSTILE, "reasons": [HOSTILE]},
        {"what": "verdict", "outcome": "ok"},
        {"what": "step", "step": HOSTILE, "reason": HOSTILE},
        {"what": "turn", "action": HOSTILE, "critic": HOSTILE, "reason": HOSTILE},
        {"what": "something new"},
    ]
    show_rows(Screen(), attempt_rows(attempts))
    printed = capsys.readouterr().out
    assert printed.count("\n") >= len(attempts) - 1
    assert is_inert(printed)
