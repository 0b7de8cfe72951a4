"""`--telemetry` and `tercet stats`: what runs did, told while they run and counted afterwards."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from observe.receiver import Receiver, receiving
from tercet.cli.sessions import people

from .harness import REFUNDS, Tercet
from .office import code_of
from .runs import BAKERY, LOOK, ORDER_881, REFUND, Kitchen, knead

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    """A collector that commands are told of by the usual variable."""
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


@pytest.mark.req("R319")
def test_two_processes_tell_one_trace(
    tercet: Tercet, kitchen: Kitchen, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real process ends at the gate, somebody approves, another process pays: the collector has one connected tree,
    below the span of whoever asked."""
    run = kitchen.start(*REFUND, ORDER_881, "--json", "--telemetry", "otlp", "--traceparent", PARENT)
    out, err = run.communicate(timeout=600)
    assert (run.returncode, err) == (4, "")
    told = json.loads(out)
    monkeypatch.setattr(people, "login_name", lambda: "user_finance_lead")
    approved = tercet("gates", "approve", told["gates"][0]["id"], "--actors", REFUNDS)
    assert approved.code == 0, approved.text
    resumed = kitchen.start(
        "sessions", "resume", told["session_id"], "--pack", REFUNDS, "--json", "--telemetry", "otlp"
    )
    out, err = resumed.communicate(timeout=600)
    assert (resumed.returncode, err) == (0, "")
    spans = {span.span_id: span for span in receiver.spans}
    assert len(spans) == len(receiver.spans) > 12
    (root,) = (span for span in spans.values() if span.parent_span_id not in spans)
    assert root.name == "run support.refund.execute"
    assert root.parent_span_id.hex() == "00f067aa0ba902b7"
    assert {span.trace_id.hex() for span in spans.values()} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    (gate,) = receiver.named("gate approval")
    assert gate.end_time_unix_nano > gate.start_time_unix_nano


def test_a_run_says_where_it_tells_what_and_what_nobody_took(
    tercet: Tercet, kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate is printed, a collector that is not there costs the run nothing, and the log is a file of JSON lines."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:pass@127.0.0.1:1")
    words = (
        "--telemetry",
        "otlp",
        "--telemetry",
        "log:run.jsonl",
        "--telemetry",
        "prometheus:0",
        "--sample",
        "1",
    )
    answer = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), *words)
    assert answer.code == 0
    assert "telemetry: spans of every run to http://127.0.0.1:1; metrics on http://127.0.0.1:" in answer.text
    assert "a log in run.jsonl" in answer.text
    assert "telemetry: not delivered:" in answer.text
    assert "pass@" not in answer.text
    told = tercet(
        "run", BAKERY, "--plan", kitchen.plan(LOOK), "--telemetry", "otlp", "--sample", "1", "--json"
    )
    assert json.loads(told.out)["telemetry"]["undelivered"]["spans"] > 0
    untold = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--json")
    assert "telemetry" not in json.loads(untold.out)
    lines = [json.loads(line) for line in (kitchen.folder / "run.jsonl").read_text().splitlines()]
    assert {line["action"] for line in lines} >= {"loop_started", "action_dispatched", "commit"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--telemetry", "jaeger"), "wrong_telemetry"),
        (("--telemetry", "otlp", "--sample", "2"), "wrong_sampling"),
        (("--traceparent", "hello"), "wrong_traceparent"),
        (("--telemetry", "log:no/where.jsonl"), "log_unwritable"),
    ],
)
def test_what_cannot_be_told_is_refused_before_anything_runs(
    tercet: Tercet, kitchen: Kitchen, words: tuple[str, ...], code: str
) -> None:
    """Wrong words are wrong use, with a remedy, and no call was made."""
    answer = tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--json", *words)
    assert code_of(answer) == (2, code)
    assert kitchen.count("calls") == 0


@pytest.mark.req("R316")
def test_stats_count_the_runs_of_a_journal(tercet: Tercet, kitchen: Kitchen) -> None:
    """Runs, plans, steps, retries and gates are counted; --intent and --since narrow them."""
    assert tercet("run", BAKERY, "--plan", kitchen.plan(LOOK, knead(1))).code == 0
    assert tercet("run", BAKERY, "--plan", kitchen.plan({**LOOK, "tool": "bakery.nothing"})).code == 3
    assert tercet(*REFUND, ORDER_881).code == 4
    told = tercet("stats", "--json").json["figures"]
    assert (told["runs"], told["commits"], told["plan_pass_rate"]) == (3, 1, 0.666667)
    assert (told["retries"], told["steps_recovered"], told["recovery_rate"]) == (1, 1, 1.0)
    assert told["gates_opened"] == {"approval": 1}
    assert tercet("stats", "--intent", "bake", "--json").json["figures"]["runs"] == 2
    assert tercet("stats", "--since", "1d", "--json").json["figures"]["runs"] == 3
    shown = tercet("stats")
    for line in (
        "runs         3: 1 completed, 1 failed, 1 waiting",
        "plans        3 reviewed (66.7 % passed the critic)",
        "retries      1 call (",
        "retried      1 step, 1 completed (100 % of them)",
        "gates        1 approval",
    ):
        assert line in shown.out
    assert tercet("stats", "--json").json["unfinished"] == {"waiting": 1}
    assert "re-planned" not in shown.out
    assert tercet("stats", "--intent", "nothing").out == "There is no matching run.\n"


def test_stats_of_what_is_not_there_are_wrong_use(tercet: Tercet, kitchen: Kitchen) -> None:
    """No journal and no duration are answered with what to do."""
    assert code_of(tercet("stats", "--json")) == (2, "journal_not_found")
    tercet("run", BAKERY, "--plan", kitchen.plan(LOOK))
    assert code_of(tercet("stats", "--since", "soon", "--json")) == (2, "duration_invalid")


def test_stats_leave_rehearsals_out(tercet: Tercet, kitchen: Kitchen) -> None:
    """A run that only rehearsed is no run."""
    tercet("run", BAKERY, "--plan", kitchen.plan(LOOK), "--shadow")
    assert tercet("stats", "--json").json["figures"]["plans_reviewed"] == 0
