"""`tercet test`: the scenarios of a pack, with real critic and gates and with tools that are not called."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tercet.packs import Pack, scaffold
from tercet.packs.scaffold import FLAVOURS, template_files
from tercet.packs.scenarios import load_scenarios
from tercet.testing.scenarios import run_scenario

from .harness import Tercet

ROOT = Path(__file__).parents[2]
PACK = {
    "pack.toml": 'name = "till"\nversion = "1.0.0"\nsafety_mode = "destructive"\n[notify]\ncommand = ["false"]\n',
    "tools.py": """
from pathlib import Path
from tercet import tool

@tool("till.count", mode="read_only", trust="trusted")
def count(drawer: str) -> int:
    return 7

@tool("till.pay", mode="destructive", trust="trusted", authority=["cents"], gates=["BOSS"], no_compensation="gone")
def pay(cents: int) -> str:
    Path("paid.txt").write_text("real money")
    return "paid"
""",
    "decisions.toml": '[[decision]]\nid = "pay"\n',
    "gates.toml": '[[gate]]\nname = "BOSS"\nroles = ["boss"]\n',
    "actors.toml": '[[actor]]\nid = "ann"\n[[actor]]\nid = "bea"\nroles = ["boss"]\n',
}
PLAN = '{ steps = [{ id = "a", tool = "till.pay", params = { cents = 5 } }] }'


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack whose payment would leave a file."""
    for name, text in PACK.items():
        (tmp_path / "till" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "till" / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "till"


def write(pack: Path, text: str) -> None:
    """Make the text the only scenario file of the pack."""
    (pack / "scenarios").mkdir(exist_ok=True)
    (pack / "scenarios" / "one.toml").write_text(text, encoding="utf-8")


def paying(more: str, expect: str) -> str:
    """Return a scenario in which five cents are paid."""
    return f'[[scenario]]\nname = "pays"\ninput = {{ cents = 5 }}\nplan = {PLAN}\n{more}\nexpect = {expect}\n'


def test_the_scenarios_of_the_example_pass(tercet: Tercet, tmp_path: Path) -> None:
    """The refund desk keeps its promises, and the JUnit report counts them; a second report replaces the first."""
    report = tmp_path / "out.xml"
    assert tercet("test", ROOT / "examples" / "refunds", "--junit", report).code == 0
    done = tercet("test", ROOT / "examples" / "refunds", "--json", "--junit", report)
    assert (done.code, done.json["failed"]) == (0, 0), done.json
    suite = ElementTree.parse(report).getroot()  # noqa: S314 - we wrote it
    assert suite.get("tests") == str(done.json["passed"]) == "4"
    report.write_text("mine", encoding="utf-8")
    assert tercet("test", ROOT / "examples" / "refunds", "--junit", report).code == 2
    assert report.read_text(encoding="utf-8") == "mine"


def test_an_approved_payment_is_not_really_made(tercet: Tercet, till: Path) -> None:
    """The gate is answered, the call is listed, its declared result comes out, and nothing happened."""
    answered = 'results = [{ tool = "till.pay", value = "ok" }]\nanswers = [{ gate = "BOSS", by = "bea" }]'
    write(till, paying(answered, '{ status = "completed", calls = ["till.pay"], gates = ["BOSS"] }'))
    done = tercet("test", till, "--json")
    assert (done.code, done.json["scenarios"][0]["mismatches"]) == (0, [])
    assert not Path("paid.txt").exists()


def test_a_call_without_a_declared_result_fails_and_is_not_made(tercet: Tercet, till: Path) -> None:
    """A forgotten result is named, and does not become a real call."""
    write(till, paying('answers = [{ gate = "BOSS", by = "bea" }]', '{ status = "failed" }'))
    done = tercet("test", till)
    assert done.code == 5
    assert "a result for till.pay" in done.out
    assert not Path("paid.txt").exists()


@pytest.mark.parametrize(
    ("more", "expect", "field"),
    [
        ("", '{ status = "completed" }', "status"),
        ("", '{ verdict = "reject", code = "unbound_argument" }', "verdict"),
        ("", "{ gates = [] }", "gates"),
        ("", '{ calls = ["till.pay"] }', "calls"),
        ("", "{ outputs = { total = 1 } }", "outputs.total"),
        ("", '{ reason = "too late" }', "reason"),
        ('answers = [{ gate = "BOSS", by = "bea", refused = "own_gate" }]', "{}", "answers"),
        ('answers = [{ gate = "BOSS", by = "ann" }]', "{}", "answers"),
        ('answers = [{ gate = "escalation", by = "bea" }]', "{}", "answers"),
    ],
)
def test_each_difference_is_shown(tercet: Tercet, till: Path, more: str, expect: str, field: str) -> None:
    """Whatever comes out otherwise than expected fails the scenario with both values: exit 5."""
    write(till, paying(more, expect))
    done = tercet("test", till, "--json")
    found: list[dict[str, Any]] = done.json["scenarios"][0]["mismatches"]
    assert (done.code, found[0]["field"]) == (5, field)
    assert found[0]["expected"] != found[0]["actual"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ('real = ["till.pay"]', "scenario_real"),
        ('results = [{ tool = "till.empty", value = 1 }]', "unknown_tool"),
        ('answers = [{ gate = "CHEF", by = "bea" }]', "unknown_gate"),
        ('answers = [{ gate = "BOSS", by = "cy" }]', "unknown_actor"),
        ('script = ["{}"]', "scenario_plan"),
        ("colour = 1", "unknown_key"),
    ],
)
def test_a_scenario_that_cannot_be_meant_is_refused(tercet: Tercet, till: Path, more: str, code: str) -> None:
    """A name that the pack does not have is an error of the file, and so is a real call that does harm: exit 2."""
    write(till, paying(more, "{}"))
    done = tercet("test", till, "--json")
    assert (done.code, [problem["code"] for problem in done.json["error"]["problems"]]) == (2, [code])


def test_check_finds_what_is_wrong_in_scenarios(tercet: Tercet, till: Path) -> None:
    """`tercet check` names the line of a misspelt actor or gate and what was meant, and a file that is not TOML."""
    write(till, paying('actor = "anne"\nanswers = [{ gate = "BOS", by = "bea" }]', "{}"))
    (till / "scenarios" / "two.toml").write_text("[[scenario", encoding="utf-8")
    done = tercet("check", till, "--json")
    found = {(each["code"], each["file"], each["row"]): each["remedy"] for each in done.json["problems"]}
    assert done.code == 2
    assert found["unknown_actor", "scenarios/one.toml", 5] == "did you mean ann?"
    assert found["unknown_gate", "scenarios/one.toml", 6] == "did you mean BOSS?"
    assert any(file == "scenarios/two.toml" for _, file, _ in found)


def test_an_answer_that_is_refused_for_another_reason_shows_the_code(tercet: Tercet, till: Path) -> None:
    """The code can be copied from the message into the scenario."""
    answers = 'answers = [{ gate = "BOSS", by = "ann", refused = "twice" }]'
    write(till, paying(answers, "{}"))
    (mismatch,) = tercet("test", till, "--json").json["scenarios"][0]["mismatches"]
    assert mismatch["actual"].startswith("refused with role_missing: ")


def test_a_tool_that_only_reads_can_be_real(tercet: Tercet, till: Path) -> None:
    """With `real`, the function of the pack is called."""
    plan = '{ steps = [{ id = "a", tool = "till.count", params = { drawer = "x" } }], outputs = { n = { "$from" = "a#" } } }'
    text = f'[[scenario]]\nname = "counts"\nplan = {plan}\nreal = ["till.count"]\n'
    write(till, text + 'expect = { status = "completed", calls = ["till.count"], outputs = { n = 7 } }\n')
    done = tercet("test", till, "--json")
    assert done.json["failed"] == 0, done.json


def test_an_unknown_outcome_asks_a_person(tercet: Tercet, till: Path) -> None:
    """A result may be unknown: then the run waits for a person, who settles it."""
    more = """results = [{ tool = "till.pay", outcome = "unknown" }]
answers = [{ gate = "BOSS", by = "bea" }, { gate = "reconcile", by = "bea", answer = "happened", value = "paid" }]"""
    write(till, paying(more, '{ status = "completed", gates = ["BOSS", "reconcile"], calls = ["till.pay"] }'))
    done = tercet("test", till, "--json")
    assert done.json["scenarios"][0]["mismatches"] == []


NOTE = """
from tercet import tool

@tool("till.note", mode="network", trust="trusted", authority=[], no_compensation="sent", reversibility="compensable")
def note(text: str) -> str:
    return "sent"
"""


def noting(steps: int, answers: str, expect: str) -> str:
    """Return a scenario with calls that wait for an approval without a name, all at once."""
    plan = ", ".join(
        f'{{ id = "n{i}", tool = "till.note", params = {{ text = "{i}" }} }}' for i in range(steps)
    )
    results = 'results = [{ tool = "till.note", value = "ok" }]'
    return f'[[scenario]]\nname = "notes"\nplan = {{ steps = [{plan}] }}\n{results}\nanswers = [{answers}]\nexpect = {expect}\n'


def test_an_approval_without_a_name_can_be_answered(tercet: Tercet, till: Path) -> None:
    """`approval` stands for it, in answers and in the expected gates."""
    (till / "tools.py").write_text(NOTE, encoding="utf-8")
    expect = '{ status = "completed", gates = ["approval"], calls = ["till.note"] }'
    write(till, noting(1, '{ gate = "approval", by = "bea" }', expect))
    done = tercet("test", till, "--json")
    assert (done.code, done.json["scenarios"][0]["mismatches"]) == (0, [])


def test_approval_does_not_choose_between_two_gates(tercet: Tercet, till: Path) -> None:
    """Where two calls wait without a name, the answer is given to neither, and both steps are named."""
    (till / "tools.py").write_text(NOTE, encoding="utf-8")
    write(till, noting(2, '{ gate = "approval", by = "bea" }', '{ status = "awaiting_gate" }'))
    done = tercet("test", till, "--json")
    (mismatch,) = done.json["scenarios"][0]["mismatches"]
    assert (done.code, done.json["scenarios"][0]["calls"]) == (5, [])
    assert mismatch["actual"].startswith("n0 and n1 wait at once")


@pytest.mark.parametrize("pack", ["BOSS", "approval"])
def test_a_run_that_waits_unexpectedly_names_the_step_and_the_answer(
    pack: str, tercet: Tercet, till: Path
) -> None:
    """The text can be copied into the scenario, which then passes but for the approver."""
    if pack == "BOSS":
        write(till, paying("", '{ status = "completed" }'))
    else:
        (till / "tools.py").write_text(NOTE, encoding="utf-8")
        write(till, noting(1, "", '{ status = "completed" }'))
    (mismatch,) = tercet("test", till, "--json").json["scenarios"][0]["mismatches"]
    step = "a" if pack == "BOSS" else "n0"
    assert mismatch["actual"] == (
        f'awaiting_gate: step {step} waits at {pack}; to answer, write answers = [{{ gate = "{pack}", by = "…" }}]'
    )


def test_a_pack_without_scenarios_says_how_to_write_one(tercet: Tercet, till: Path) -> None:
    """Testing nothing is not a success."""
    done = tercet("test", till, "--json")
    assert (done.code, done.json["error"]["code"]) == (2, "no_scenarios")
    lines = done.json["error"]["remedy"].partition("input: ")[2].split(" | ")
    write(till, "\n".join(lines))
    assert tercet("test", till, "--json").code == 5


@pytest.mark.parametrize("flavours", [(), *((name,) for name in FLAVOURS), tuple(FLAVOURS)], ids=str)
def test_every_new_pack_passes_its_own_scenarios(flavours: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever `tercet init --with` combines has no problem and keeps what its scenarios promise."""
    folder = tmp_path / "new"
    scaffold(folder, flavours=flavours)
    pack = Pack.load(folder)
    results = [run_scenario(pack, each) for each in load_scenarios(folder, pack)]
    assert len(results) >= 3
    assert [result.mismatches for result in results if not result.ok] == []


TEMPLATE = dict(template_files())
RULES = [
    *(("decisions.toml", text) for text in re.findall(r"\[\[decision\.bind\]\]\n(?:.+\n)+", TEMPLATE["decisions.toml"])),
    *(("policies.toml", text) for text in re.findall(r"\[\[policy\]\]\n(?:.+\n)+", TEMPLATE["policies.toml"])),
    *(("tools.py", text) for text in re.findall(r"    limits=.+\n", TEMPLATE["tools.py"])),
]  # fmt: skip
"""Each rule of a new pack: its file, and the text that declares it."""


def test_the_rules_of_a_new_pack_are_found() -> None:
    """Four relations, two policies and one limit."""
    assert [file for file, _ in RULES] == [*["decisions.toml"] * 4, *["policies.toml"] * 2, "tools.py"]


@pytest.mark.parametrize(("file", "text"), RULES, ids=range(len(RULES)))
@pytest.mark.parametrize("flavours", [(), ("gate",)], ids="+".join)
def test_a_new_pack_notices_when_one_of_its_rules_is_deleted(
    file: str, text: str, flavours: tuple[str, ...], tmp_path: Path
) -> None:
    """Each relation, limit and policy has a scenario that fails without it."""
    folder = tmp_path / "new"
    scaffold(folder, flavours=flavours)
    before = (folder / file).read_text(encoding="utf-8")
    assert before.count(text) == 1
    (folder / file).write_text(before.replace(text, ""), encoding="utf-8")
    pack = Pack.load(folder)
    results = [run_scenario(pack, each) for each in load_scenarios(folder, pack)]
    assert [result.name for result in results if not result.ok]


def test_what_a_model_proposes_in_a_new_pack_is_refused_for_its_bed(tmp_path: Path) -> None:
    """The scenario of the agent fails once its plans name the right bed: nothing else is wrong with them."""
    folder = tmp_path / "new"
    scaffold(folder, flavours=("agent",))
    file = folder / "scenarios/agent.toml"
    file.write_text(file.read_text(encoding="utf-8").replace("bed_basil", "bed_tomato"), encoding="utf-8")
    pack = Pack.load(folder)
    (result,) = [
        run_scenario(pack, each)
        for each in load_scenarios(folder, pack)
        if each.file == "scenarios/agent.toml"
    ]
    assert {each.field: each.actual for each in result.mismatches}["code"] == ""


@pytest.mark.parametrize(
    ("expect", "is_hinted"),
    [
        ('{ verdict = "reject" }', True),
        ('{ status = "failed", calls = [] }', True),
        ('{ verdict = "reject", code = "unbound_argument" }', False),
        ('{ verdict = "reject", reason = "literal" }', False),
        ('{ status = "rejected", calls = [] }', False),
        ('{ status = "failed", calls = ["till.pay"] }', False),
    ],
)
def test_check_asks_for_the_code_of_an_expected_refusal(
    expect: str, is_hinted: bool, tercet: Tercet, till: Path
) -> None:
    """A scenario that any refusal would satisfy gets a note with its line; it is a note, so the scenarios still run."""
    write(till, paying("", expect))
    done = tercet("check", till, "--json")
    notes = [each for each in done.json["problems"] if each["code"] == "scenario_without_code"]
    assert (done.code, len(notes)) == (0, int(is_hinted))
    for note in notes:
        assert (note["severity"], note["file"], note["row"]) == ("note", "scenarios/one.toml", 6)
        assert "tercet test" in note["remedy"]
    assert tercet("test", till, "--json").code in (0, 5)


def test_the_flavours_of_a_new_pack_can_be_combined(tercet: Tercet, tmp_path: Path) -> None:
    """Each flavour leaves its files, the pack has no problem, and an unknown one is refused with the list."""
    made = tercet("init", tmp_path / "new", "--with", "http, gate,agent", "--json").json
    assert {"http.toml", "agent.py", "ci/github-actions.yml", "scenarios/agent.toml"} <= set(made["files"])
    assert tercet("check", tmp_path / "new", "--json").json["problems"] == []
    job = (tmp_path / "new/ci/github-actions.yml").read_text(encoding="utf-8")
    assert re.search(r"run: pip install .* @ git\+https://", job), (
        "the index may have another package of this name"
    )
    wrong = tercet("init", tmp_path / "other", "--with", "grpc", "--json").json["error"]
    assert (wrong["code"], "http" in wrong["remedy"]) == ("unknown_flavour", True)
