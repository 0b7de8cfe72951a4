"""Runs that a language model plans, at the command line: which one, what became of it, and the story of a run that was
escalated to a person."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tercet.cli.screen import Screen
from tercet.view.hand_off import attempt_views
from tercet.view.terminal.gate import attempt_rows, show_rows

from ..models.misbehaving import (  # noqa: TID252 - the server that the models themselves are tried with
    WAYS,
    Misbehaving,
    body,
    completion,
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
        assert started.wait(300)
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
    assert "tried     · asked openai-compatible:m" in page.out
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


RULES = "kg:loan_rules:books#snapshot_may"
FIND = {"tool": "loans.find", "params": {"loan_id": {"$from": "request#/loan_id"}}, "evidence_refs": [RULES]}
EXTEND: dict[str, Any] = {
    "tool": "loans.extend",
    "params": {
        "loan_id": {"$from": "request#/loan_id"},
        "days": {"$evidence": f"{RULES}#/extension_days"},
    },
    "evidence_refs": [RULES],
}
PLAN = ("plan", *RENEW[1:])


def answer_with(monkeypatch: pytest.MonkeyPatch, *steps: dict[str, Any]) -> None:
    """Let the server answer every question with a plan of these steps."""
    plan = {"steps": steps, "outputs": {"days_left": {"$from": "s1#/days_left"}}}
    monkeypatch.setitem(WAYS, "plan", body(json.dumps(completion(json.dumps(plan)))))


def test_a_plan_of_a_model_is_previewed_with_its_verdict_and_its_cost(
    tercet: Tercet, server: Misbehaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is asked once, as in a run; nothing is run, and no session is kept."""
    answer_with(monkeypatch, FIND, EXTEND)
    model = f"openai-compatible:m@{server.url('plan')}"
    planned = tercet(*PLAN, "--planner", "model", "--model", model, "--json")
    assert planned.code == 0, planned.text
    assert [step["tool"] for step in planned.json["plan"]["steps"]] == ["loans.find", "loans.extend"]
    assert planned.json["verdict"]["outcome"] == "ok"
    assert planned.json["cost"] == {"models": [model], "calls": 1, "tokens": 18, "cost_microcents": 0}
    assert not Path("library.db").exists()
    assert not Path("tercet.db").exists()
    shown = tercet(*PLAN, "--model", model)
    assert (shown.code, len(server.heads)) == (0, 2)
    assert f"{model}: 1 call, 18 tokens, 0.00 cents" in shown.text


def test_a_refused_plan_of_a_model_is_shown_and_not_planned_again(
    tercet: Tercet, server: Misbehaving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict is what a run would give it first: back to the model, with the refusal."""
    days: dict[str, Any] = {**EXTEND["params"], "days": 15}
    answer_with(monkeypatch, FIND, {**EXTEND, "params": days})
    planned = tercet(*PLAN, "--model", f"openai-compatible:m@{server.url('plan')}", "--json")
    assert (planned.code, len(server.heads)) == (3, 1)
    assert (planned.json["verdict"]["code"], planned.json["verdict"]["outcome"]) == (
        "unbound_argument",
        "replan",
    )


@pytest.mark.parametrize(
    ("way", "exit_code", "code"),
    [("prose", 2, "answer_not_json"), ("error_401", 5, "model_unavailable")],
)
def test_a_preview_without_a_plan_says_why(
    tercet: Tercet, server: Misbehaving, way: str, exit_code: int, code: str
) -> None:
    """What is no plan is wrong use of that model; a model that does not answer is not."""
    planned = tercet(*PLAN, "--model", f"openai-compatible:m@{server.url(way)}", "--json")
    assert (planned.code, planned.json["error"]["code"]) == (exit_code, code)
    assert planned.json["error"]["remedy"]


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
    show_rows(Screen(), attempt_rows(attempt_views(attempts)))
    printed = capsys.readouterr().out
    assert printed.count("\n") >= len(attempts) - 1
    assert is_inert(printed)
