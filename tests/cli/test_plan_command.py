"""`tercet plan`: what would be proposed, what is known about it, what the critic says, and that nothing is run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.plan_formats import load_plan

from .harness import REFUNDS, ROOT, Tercet
from .runs import BAKERY, Kitchen

RUNBOOK = ROOT / "examples" / "runbook"
NEWCOMERS = ROOT / "examples" / "newcomers"
CART = ("--intent", "ops.recover", "--input", '{"service": "cart"}')
ASHA = ("--intent", "people.welcome", "--input", '{"name": "Asha Rao", "team": "workshop"}')
ORDER = ("--input", '{"order_id": "ord_881", "window_id": "rw_881"}')


@pytest.fixture
def folder(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own, with the databases of the examples in it."""
    monkeypatch.setenv("TERCET_RUNBOOK_DB", str(kitchen.folder / "runbook.db"))
    monkeypatch.setenv("TERCET_NEWCOMERS_DB", str(kitchen.folder / "newcomers.db"))
    return kitchen.folder


def bakery(folder: Path, *, methods: str = "", template: Any = None) -> Path:
    """The bakery with a library, or with a template for its intent."""
    pack = shutil.copytree(BAKERY, folder / "pack", ignore=shutil.ignore_patterns("__pycache__"))
    if methods:
        (pack / "methods.toml").write_text(methods, encoding="utf-8")
    if template is not None:
        (pack / "templates").mkdir()
        (pack / "templates" / "bake.json").write_text(json.dumps(template), encoding="utf-8")
    return pack


def looks(count: int, **fields: Any) -> dict[str, Any]:
    """A template of so many reads, the first without a fault."""
    steps = [{"id": f"s{n}", "tool": "bakery.look", "params": {"bread": "rye"}} for n in range(count)]
    return {"intent": "bake", "steps": [{**step, **(fields if n else {})} for n, step in enumerate(steps)]}


@pytest.mark.req("R57", "R69")
def test_a_plan_is_a_table_in_order_with_its_critical_path(tercet: Tercet, folder: Path) -> None:
    """Steps that run side by side have slack, the longest chain is marked, and nothing is left behind."""
    answer = tercet("plan", NEWCOMERS, *ASHA)
    assert answer.code == 0, answer.text
    lines = answer.out.splitlines()
    table = [line.split() for line in lines[lines.index("") + 2 :][:4]]
    assert table == [
        ["▸", "0", "file", "people.register", "40", "ms"],
        ["▸", "1", "account", "accounts.open", "file", "300", "ms"],
        ["2", "desk", "desks.assign", "file", "60", "ms", "240", "ms"],
        ["▸", "3", "greet", "people.greet", "account,", "desk,", "file", "10", "ms"],
    ]
    assert "at least 350 ms (410 ms one after the other) along file → account → greet" in answer.text
    assert "may wait desk 240 ms" in answer.text
    assert "orders 2" in answer.text
    assert "file → on_file → account" in answer.text
    assert "✓ verified: 4 steps" in answer.text
    assert list(folder.iterdir()) == []


@pytest.mark.req("R57", "R77")
@pytest.mark.parametrize(
    ("pack", "words", "planner", "code"),
    [(RUNBOOK, CART, "htn", 0), (NEWCOMERS, ASHA, "template", 0), (REFUNDS, ORDER, "template", 4)],
)
def test_a_printed_plan_can_be_run_as_it_is(
    tercet: Tercet, folder: Path, pack: Path, words: tuple[str, ...], planner: str, code: int
) -> None:
    """What stands under `plan` is a plan in its published shape: saved to a file, it runs, and is the same plan."""
    told = tercet("plan", pack, *words, "--json").json
    assert told["planner"] == planner
    assert told["verify"]["ok"]
    path = folder / "plan.json"
    path.write_text(json.dumps(told["plan"]), encoding="utf-8")
    assert load_plan(path.read_bytes()).hash == told["plan_hash"]
    given = words[words.index("--input") :]
    frozen = tercet("run", pack, "--plan", path, *given, "--json")
    is_failed = (
        pack is RUNBOOK
    )  # cart does not come back from a restart, and a caller's plan is not planned anew
    assert frozen.code == (5 if is_failed else code), frozen.text
    assert frozen.json["plan_hash"] == told["plan_hash"]


@pytest.mark.req("R69", "R71", "R73")
def test_json_holds_the_analysis(tercet: Tercet, folder: Path) -> None:
    """Order, schedule, flexibility, links and hashes stand beside the plan, by the names of its steps."""
    told = tercet("plan", RUNBOOK, *CART, "--json").json
    assert list(told) == [
        "plan",
        "plan_hash",
        "planner",
        "verify",
        "verdict",
        "analysis",
        "rules",
        "warnings",
    ]
    analysis = told["analysis"]
    assert analysis["order"] == ["inspect", "drain", "repair__restart", "undrain", "confirm"]
    assert analysis["schedule"]["critical_path"] == analysis["order"]
    assert analysis["schedule"]["steps"]["drain"] == {
        "duration_ms": 500,
        "source": "tool",
        "earliest_ms": 50,
        "latest_ms": 50,
        "slack_ms": 0,
    }
    assert analysis["flexibility"] == {
        "is_exact": True, "low": 1, "high": 1, "low_log10": 0, "high_log10": 0,
    }  # fmt: skip
    assert analysis["links"] == [{"producer": "drain", "condition": "drained", "consumer": "repair__restart"}]
    assert (analysis["added"], analysis["threats"]) == ([], [])
    plan = load_plan(told["plan"])
    assert analysis["hashes"] == {step.id: step.hash for step in plan.steps}


def test_the_rules_are_listed_with_the_steps_that_they_applied_to(tercet: Tercet, folder: Path) -> None:
    """Those that did not apply say why, on the screen and as JSON."""
    answer = tercet("plan", REFUNDS, *ORDER)
    said = " ".join(answer.out[answer.out.index("\nrules\n") :].split())
    assert "✓ gate GATE_FINANCE_APPROVAL: refund waits (adp_payments.issue_refund is destructive)" in said
    assert "✓ policy order_is_read_first: holds for refund" in said
    assert "✓ policy one_refund_per_plan: holds for the plan" in said
    assert "✓ evidence refund_window_evidence: holds for the plan; holds for refund" in said
    why = "did not apply: no step calls adp_messages.notify_customer"
    assert f"· policy letter_after_the_refund: {why}" in said
    assert f"· gate GATE_SUPPORT_APPROVAL: {why}" in said
    rules = {use["name"]: use for use in tercet("plan", REFUNDS, *ORDER, "--json").json["rules"]}
    assert rules["order_is_read_first"]["applied"] == [{"step": "refund", "outcome": "holds", "detail": ""}]
    assert rules["letter_after_the_refund"]["not_applied"] == why.removeprefix("did not apply: ")


def test_a_refused_proposal_says_why(tercet: Tercet, folder: Path) -> None:
    """The critic's reason and remedy stand below the table: exit 3."""
    answer = tercet("plan", REFUNDS, *ORDER, "--safety-mode", "local_write")
    assert answer.code == 3
    assert "step 2 mode destructive > safety_mode local_write" in answer.text
    assert "remedy request a run with safety mode destructive" in answer.text
    assert "✗ refused: approval_mode_mismatch (mode_exceeded) at step 2 Nothing was run." in answer.text
    told = tercet("plan", REFUNDS, *ORDER, "--safety-mode", "local_write", "--json")
    assert (told.code, told.json["verdict"]["code"]) == (3, "mode_exceeded")


PARTIAL = """
[[goal]]
intent = "ops.recover"
task = "work"
outputs = { healthy = true }

[[task]]
name = "work"

[[method]]
name = "loosely"
task = "work"
ordering = "partial"
subtasks = [{ task = "back" }, { task = "restart" }, { task = "out" }]

[[task]]
name = "out"
tool = "ops_balancer.drain"
params = { host = { "$from" = "request#/host" } }

[[task]]
name = "restart"
tool = "ops_hosts.restart"
params = { host = { "$from" = "request#/host" } }

[[task]]
name = "back"
tool = "ops_balancer.undrain"
params = { host = { "$from" = "request#/host" } }
"""


@pytest.mark.req("R71", "R72")
def test_resolved_threats_are_told(tercet: Tercet, folder: Path) -> None:
    """The orders that conditions ask for are named with their reason: first drained, then restarted, then back."""
    pack = shutil.copytree(RUNBOOK, folder / "pack", ignore=shutil.ignore_patterns("__pycache__"))
    (pack / "methods.toml").write_text(PARTIAL, encoding="utf-8")
    answer = tercet("plan", pack, "--input", '{"host": "web-1"}')
    assert answer.code == 0, answer.text
    assert "links out → drained → restart" in answer.text
    assert "out before restart: it brings about drained" in answer.text
    assert "restart before back: it needs drained, which is revoked" in answer.text
    assert "orders one" in answer.text
    told = tercet("plan", pack, "--input", '{"host": "web-1"}', "--json").json
    assert [(each["before"], each["after"]) for each in told["analysis"]["added"]] == [
        ("out", "restart"),
        ("restart", "back"),
    ]


@pytest.mark.req("R72")
def test_a_threat_in_a_template_is_shown_and_refused(tercet: Tercet, folder: Path) -> None:
    """A template is proposed as it is written: a threat in it is the critic's to refuse, with the order that is missing."""
    pack = shutil.copytree(RUNBOOK, folder / "pack", ignore=shutil.ignore_patterns("__pycache__"))
    host = {"host": {"$from": "request#/host"}}
    steps = [
        {"id": "out", "tool": "ops_balancer.drain", "params": host},
        {"id": "restart", "tool": "ops_hosts.restart", "params": host, "depends_on": ["out"]},
        {"id": "back", "tool": "ops_balancer.undrain", "params": host},
    ]
    (pack / "templates").mkdir()
    template = {"intent": "ops.recover", "steps": steps, "outputs": {"healthy": True}}
    (pack / "templates" / "recover.json").write_text(json.dumps(template), encoding="utf-8")
    answer = tercet("plan", pack, "--input", '{"host": "web-1"}')
    assert answer.code == 3
    assert "threats back could come in between: out → drained → restart" in answer.text
    assert "remedy add depends_on restart to back or add depends_on back to out" in answer.text
    (threat,) = tercet("plan", pack, "--input", '{"host": "web-1"}', "--json").json["analysis"]["threats"]
    assert threat == {"step": "back", "producer": "out", "condition": "drained", "consumer": "restart"}


@pytest.mark.req("R73")
def test_flexibility_is_counted_up_to_twenty_steps_and_bounded_beyond(tercet: Tercet, folder: Path) -> None:
    """One step before nineteen others leaves 19! orders; of more steps two bounds are told."""
    few = bakery(folder, template=looks(20, depends_on=["s0"]))
    flexibility = tercet("plan", few, "--json").json["analysis"]["flexibility"]
    assert flexibility["is_exact"]
    assert flexibility["low"] is None, "19! is more than JSON readers can tell apart"
    assert flexibility["low_log10"] == pytest.approx(17.085095)
    (few / "templates" / "bake.json").write_text(json.dumps(looks(12, depends_on=["s0"])), encoding="utf-8")
    assert "orders 39,916,800" in tercet("plan", few).text
    shutil.rmtree(few)
    grid = looks(30)
    for index, step in enumerate(grid["steps"][2:], start=2):
        step["depends_on"] = [f"s{index - 2}", f"s{index - 1}"] if index % 3 else [f"s{index - 2}"]
    flexibility = tercet("plan", bakery(folder, template=grid), "--json").json["analysis"]["flexibility"]
    assert not flexibility["is_exact"]
    assert flexibility["low_log10"] <= flexibility["high_log10"]


# ---- bad input ----------------------------------------------------------------------------------------------------

ENDLESS = """
[[goal]]
intent = "bake"
task = "bake"

[[task]]
name = "bake"

[[method]]
name = "again"
task = "bake"
subtasks = [{ task = "bake" }]
"""

GROWING = """
[[goal]]
intent = "bake"
task = "bake"
args = { n = [] }

[[task]]
name = "bake"
args = ["n"]

[[method]]
name = "more"
task = "bake"
subtasks = [{ task = "bake", args = { n = [{ "$arg" = "n" }] } }]

[[method]]
name = "stop"
task = "bake"
applies = "false"
subtasks = []
"""


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(("methods", "code"), [(ENDLESS, "endless_recursion"), (GROWING, "too_deep")])
def test_a_library_without_an_end_is_wrong_use(
    tercet: Tercet, folder: Path, command: str, methods: str, code: str
) -> None:
    """A task that only leads to itself does not load, and one that goes on with ever larger arguments is cut off."""
    answer = tercet(command, bakery(folder, methods=methods), "--json")
    assert answer.code == 2
    error = answer.json["error"]
    assert code in (error["code"], *(problem["code"] for problem in error["problems"]))
    assert not (folder / "bakery.db").exists()


@pytest.mark.parametrize("command", ["plan", "run"])
def test_ten_thousand_steps_are_a_refusal_and_more_do_not_load(
    tercet: Tercet, folder: Path, command: str
) -> None:
    """A template of 10,000 steps is read and refused for its length; one step more is no plan."""
    pack = bakery(folder, template=looks(10_000, depends_on=["s0"]))
    # A busy machine takes longer than the usual limit.
    with (pack / "pack.toml").open("a", encoding="utf-8") as file:
        file.write("\n[limits.planner]\ntimeout_ms = 600_000\n")
    answer = tercet(command, pack, "--json")
    assert (answer.code, answer.json["verdict"]["code"]) == (3, "too_many_steps")
    text = tercet(command, pack)
    assert text.code == 3
    assert len(text.out.splitlines()) < 100
    (pack / "templates" / "bake.json").write_text(json.dumps(looks(10_001)), encoding="utf-8")
    assert tercet(command, pack, "--json").code == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((NEWCOMERS, "--intent", "people.welcome"), "planning_failure"),
        ((NEWCOMERS, *ASHA, "--planner", "htn"), "no_goal"),
        ((RUNBOOK, *CART, "--planner", "template"), "planning_failure"),
        ((RUNBOOK, *CART, "--planner", "magic"), "usage"),
        ((RUNBOOK, *CART, "--snapshot", "nobody"), "unknown_snapshot"),
        ((NEWCOMERS,), "ambiguous_intent"),
        ((RUNBOOK, "--input", "["), "input_invalid"),
    ],
)
def test_where_there_is_no_plan_it_is_wrong_use(
    tercet: Tercet, folder: Path, words: tuple[str | Path, ...], code: str
) -> None:
    """A missing input, a planner that is not there, an unknown snapshot: exit 2, a code, a remedy, and no traceback."""
    answer = tercet("plan", *words, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, code)
    assert answer.json["error"]["remedy"]
    assert list(folder.iterdir()) == []


def test_a_template_with_a_cycle_is_shown_as_far_as_it_goes(tercet: Tercet, folder: Path) -> None:
    """Steps that wait for each other have no order and no time: the table is there, and the refusal names them."""
    template = looks(2, depends_on=["s1"])
    answer = tercet("plan", bakery(folder, template=template))
    assert answer.code == 3
    assert "orders none: steps wait for each other" in answer.text
    assert "(cyclic_dependency)" in answer.text
