"""Loading a folder: the whole pack, or every reason why there is none, each with its file, row, place and remedy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import PackError
from tercet.contracts.gate import Notify
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.problem import Problem
from tercet.contracts.request import Actor
from tercet.contracts.runs.session import RoleLimit, SessionRules
from tercet.packs import Pack, check, check_folder, scaffold
from tercet.packs.folder import MAX_BYTES
from tercet.tools import Tool

WritePack = Callable[..., Path]


def problems_of(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(PackError) as caught:
        Pack.load(path)
    return caught.value.problems


def pack_modules() -> set[str]:
    return {name for name in sys.modules if name.startswith("tercet_pack_")}


def test_a_folder_becomes_a_pack(write_pack: WritePack) -> None:
    """Every file of the folder is in the pack."""
    pack = Pack.load(write_pack())
    assert (pack.ref, pack.safety_mode, pack.budget.max_steps) == ("desk@1.2.3", ApprovalMode.LOCAL_WRITE, 4)
    assert [tool.name for tool in pack.tools] == ["desk.find_copy", "desk.place_hold", "desk.drop_hold"]
    assert [decision.id for decision in pack.decisions] == ["hold"]
    assert [gate.name for gate in pack.gates] == ["GATE_LIBRARIAN"]
    assert [policy.name for policy in pack.policies] == ["few_holds"]
    assert [actor.id for actor in pack.actors] == ["lin.example"]
    assert [fact.id for fact in pack.evidence] == ["kg:loan_rules:all#snapshot_rules_1"]
    assert pack.evidence[0].trust is Trust.TRUSTED
    assert pack.snapshots == ("rules_1",)
    assert check(pack) == ()


def test_a_pack_says_how_its_sessions_live(write_pack: WritePack) -> None:
    """Sessions, limits, notification and what a decision does on failure are read, and are part of the pack's hash."""
    pack_toml = """
        name = "desk"
        version = "1.2.3"

        [session]
        ttl_ms = 60_000
        resume = "pinned"
        retention_days = 30

        [limits.planner]
        tokens = 900

        [limits.executor]
        timeout_ms = 1_000

        [models]
        planner = ["openai:gpt-5", "local"]
        max_tokens = 300

        [models.prices."openai:gpt-5"]
        input = "1.25"
        output = 10

        [notify]
        webhook = "http://localhost:8080/gates"
    """
    decisions = '[[decision]]\nid = "hold"\non_failure = "compensate"\nrisk_tier = "low"\ngates = ["GATE_LIBRARIAN"]\n'
    gates = '[[gate]]\nname = "GATE_LIBRARIAN"\nroles = ["librarian"]\ncovers = "sequence"\n'
    pack = Pack.load(write_pack({"pack.toml": pack_toml, "decisions.toml": decisions, "gates.toml": gates}))
    assert pack.session == SessionRules(ttl_ms=60_000, resume="pinned", retention_days=30)
    assert (pack.session.heartbeat_interval_ms, pack.session.on_heartbeat_loss) == (30_000, "pause")
    assert pack.limit_for("planner") == RoleLimit(timeout_ms=30_000, tokens=900)
    assert pack.limit_for("executor") == RoleLimit(timeout_ms=1_000)
    assert pack.limit_for("critic") == RoleLimit()
    assert pack.limit_for("planner", pack.decisions[0]) == RoleLimit(timeout_ms=5_000, tokens=900)
    assert (pack.models.planner, pack.models.max_tokens) == (("openai:gpt-5", "local"), 300)
    assert pack.models.prices["openai:gpt-5"].cost(1_000_000, 0) == 125_000_000
    assert pack.notify == Notify(webhook="http://localhost:8080/gates", timeout_ms=5_000)
    assert (pack.decisions[0].on_failure, pack.on_failure) == ("compensate", "ask")
    assert pack.gates[0].covers == "sequence"
    assert check(pack) == ()
    shorter = pack_toml.replace("60_000", "50_000")
    files = {"pack.toml": shorter, "decisions.toml": decisions, "gates.toml": gates}
    assert Pack.load(write_pack(files, folder="shorter")).hash != pack.hash


def test_a_user_is_an_actor(write_pack: WritePack) -> None:
    """A user is who is mapped to it, else who is called like it, else nobody with a role."""
    actors = """
        [[actor]]
        id = "lin.example"
        roles = ["librarian"]
        os_user = "lin"

        [[actor]]
        id = "lin"
        roles = ["guest"]

        [[actor]]
        id = "mo"
        roles = ["reader"]
    """
    pack = Pack.load(write_pack({"actors.toml": actors}))
    assert pack.actor_for("lin").id == "lin.example"
    assert pack.actor_for("mo").roles == ("reader",)
    assert pack.actor_for("eve") == Actor(id="eve", roles=(), auth="local")


def test_only_pack_toml_is_needed(write_pack: WritePack) -> None:
    """Every other file may be absent."""
    absent = (
        "tools.py",
        "decisions.toml",
        "gates.toml",
        "policies.toml",
        "actors.toml",
        "evidence/rules.json",
    )
    pack = Pack.load(write_pack(dict.fromkeys(absent)))
    assert (pack.tools, pack.decisions, pack.evidence, pack.newest_snapshot) == ((), (), (), None)


def test_tools_may_be_spread_over_named_files(write_pack: WritePack) -> None:
    """`tools` in pack.toml lists the Python files, which may be in folders of their own."""
    one = 'from tercet.tools import tool\n@tool("{0}.x", mode="read_only", trust="trusted")\ndef x() -> None: ...\n'
    pack_toml = 'name = "p"\nversion = "1.0.0"\ntools = ["a.py", "more/b.py"]\n'
    pack = Pack.load(
        write_pack({"pack.toml": pack_toml, "a.py": one.format("a"), "more/b.py": one.format("b")})
    )
    assert [tool.name for tool in pack.tools] == ["a.x", "b.x"]
    assert sorted(pack.code) == ["a.py", "more/b.py"]


def test_a_pack_may_be_reached_through_a_link_and_a_relative_path(
    write_pack: WritePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder lies, and how it is named, does not matter."""
    (tmp_path / "current").symlink_to(write_pack())
    monkeypatch.chdir(tmp_path)
    assert Pack.load("current").hash == Pack.load("pack").hash
    assert check_folder("current") == ()


TOOL = 'from tercet.tools import tool\n\n\n@tool("a.b", mode="read_only", trust="trusted")\ndef {0}() -> None: ...\n'

Case = tuple[dict[str, str | bytes | None], str, str | None, int | None, str]
"""What is changed; the code, file, row and a word of the problem's place or message."""

BROKEN: dict[str, Case] = {
    "no pack.toml": ({"pack.toml": None}, "missing_file", "pack.toml", None, "there is no pack.toml"),
    "pack.toml is not TOML": ({"pack.toml": 'name = "a"\nversion = \n'}, "toml_syntax", "pack.toml", 2, "not TOML"),
    "gates.toml ends too soon": ({"gates.toml": "[[gate"}, "toml_syntax", "gates.toml", None, "not TOML"),
    "TOML nested beyond measure": ({"gates.toml": "a = " + "[" * 20_000}, "toml_syntax", "gates.toml", None, ""),
    "TOML with an endless number": ({"gates.toml": "a = " + "9" * 5_000}, "toml_syntax", "gates.toml", None, ""),
    "an unknown key in pack.toml": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\nsafty_mode = "network"\n'},
        "unknown_key", "pack.toml", 3, "did you mean 'safety_mode'",
    ),
    "an unknown key of the budget": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n\n[budget]\nsteps = 3\n'},
        "unknown_key", "pack.toml", 5, "pack, budget.steps",
    ),
    "no version": ({"pack.toml": 'name = "a"\n'}, "missing_key", "pack.toml", None, "pack, version"),
    "a version of two numbers": (
        {"pack.toml": 'name = "a"\nversion = "1.0"\n'}, "wrong_value", "pack.toml", 2, "three numbers",
    ),
    "a version with a leading zero": (
        {"pack.toml": 'name = "a"\nversion = "1.01.0"\n'}, "wrong_value", "pack.toml", 2, "three numbers",
    ),
    "a name with a space": (
        {"pack.toml": 'name = "a b"\nversion = "1.0.0"\n'}, "wrong_value", "pack.toml", 1, "lower-case letters",
    ),
    "an unknown safety mode": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\nsafety_mode = "wild"\n'},
        "wrong_value", "pack.toml", 3, "choose 'read_only'",
    ),
    "an unknown check of a risk tier": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[risk_tiers]\nlow = ["speed"]\n'},
        "wrong_value", "pack.toml", 4, "risk_tiers",
    ),
    "tools that are no list": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\ntools = "tools.py"\n'}, "wrong_value", "pack.toml", 3, "tools",
    ),
    "a tools file that is not there": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\ntools = ["other.py"]\n'}, "missing_file", "other.py", None, "",
    ),
    "a tools file outside": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\ntools = ["../other.py"]\n'},
        "outside_pack", "../other.py", None, "inside the folder",
    ),
    "a tools file that is no Python": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\ntools = ["gates.toml"]\n'}, "not_python", "pack.toml", None, "",
    ),
    "a misspelt file": ({"polices.toml": ""}, "unknown_file", "polices.toml", None, "did you mean policies.toml"),
    "a file that is not read": ({"zebra.toml": ""}, "unknown_file", "zebra.toml", None, "a pack reads pack.toml"),
    "a plural table": (
        {"gates.toml": '[[gates]]\nname = "G"\nroles = ["librarian"]\n'}, "unknown_key", "gates.toml", 1, "[[gate]]",
    ),
    "a single table": (
        {"gates.toml": '[gate]\nname = "G"\nroles = ["librarian"]\n'}, "wrong_value", "gates.toml", 1, "two brackets",
    ),
    "a wrong type in a gate": (
        {"gates.toml": '[[gate]]\nname = "G"\nroles = ["librarian"]\n\n[[gate]]\nname = "H"\nroles = "librarian"\n'},
        "wrong_value", "gates.toml", 7, "gate H, roles",
    ),
    "a gate without a name": (
        {"gates.toml": '[[gate]]\nroles = ["librarian"]\n'}, "missing_key", "gates.toml", 1, "gate number 1, name",
    ),
    "two gates of one name": (
        {"gates.toml": '[[gate]]\nname = "G"\nroles = ["librarian"]\n[[gate]]\nname = "G"\nroles = ["librarian"]\n'},
        "duplicate_name", "gates.toml", 4, "gates.toml, line 1",
    ),
    "two decisions of one id": (
        {"decisions.toml": '[[decision]]\nid = "d"\n[[decision]]\nid = "d"\n'}, "duplicate_name", "decisions.toml", 3, "",
    ),
    "two policies of one name": (
        {"policies.toml": '[[policy]]\nname = "p"\nexpression = "true"\n[[policy]]\nname = "p"\nexpression = "true"\n'},
        "duplicate_name", "policies.toml", 4, "policy p",
    ),
    "two actors of one id": (
        {"actors.toml": '[[actor]]\nid = "a"\n[[actor]]\nid = "a"\n'}, "duplicate_name", "actors.toml", 3, "actor a",
    ),
    "two actors of one user": (
        {"actors.toml": '[[actor]]\nid = "a"\nroles = ["librarian"]\nos_user = "u"\n[[actor]]\nid = "b"\nos_user = "u"\n'},
        "duplicate_os_user", "actors.toml", 7, "the user u already belongs to a",
    ),
    "an actor of no user": (
        {"actors.toml": '[[actor]]\nid = "a"\nroles = ["librarian"]\nos_user = ""\n'},
        "wrong_value", "actors.toml", 4, "actor a, os_user",
    ),
    "a grant over the plan": (
        {"policies.toml": '[[policy]]\nname = "p"\neffect = "grant"\nexpression = "true"\n'},
        "grant_of_plan", "policies.toml", 1, 'scope = "step"',
    ),
    "a grant of a gate": (
        {"policies.toml": '[[policy]]\nname = "p"\neffect = "grant"\nscope = "step"\ngate = "GATE_LIBRARIAN"\nexpression = "true"\n'},
        "grant_of_gate", "policies.toml", 5, "GATE_LIBRARIAN",
    ),
    "an unknown effect": (
        {"policies.toml": '[[policy]]\nname = "p"\neffect = "allow"\nexpression = "true"\n'},
        "wrong_value", "policies.toml", 3, "'grant'",
    ),
    "an unknown key of the session": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[session]\nttl = 5\n'}, "unknown_key", "pack.toml", 4, "pack, session.ttl",
    ),
    "a session of no time": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[session]\nttl_ms = 0\n'}, "wrong_value", "pack.toml", 4, "session.ttl_ms",
    ),
    "an unknown answer to heartbeat loss": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[session]\non_heartbeat_loss = "retry"\n'},
        "wrong_value", "pack.toml", 4, "choose 'pause' or 'resume'",
    ),
    "a limit of an unknown role": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[limits.plannner]\ntimeout_ms = 9000\n'},
        "wrong_value", "pack.toml", 3, "choose 'planner', 'critic' or 'executor'",
    ),
    "a notification of nobody": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[notify]\ntimeout_ms = 5\n'},
        "wrong_value", "pack.toml", 3, "give command = [",
    ),
    "a notification by no program": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[notify]\ncommand = [" "]\n'},
        "wrong_value", "pack.toml", 3, "names no program",
    ),
    "a webhook that is no URL": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[notify]\nwebhook = "ftp://hooks.example"\n'},
        "wrong_value", "pack.toml", 4, "http:// or https://",
    ),
    "a webhook without a host": (
        {"pack.toml": 'name = "a"\nversion = "1.0.0"\n[notify]\nwebhook = "https:///gates"\n'},
        "wrong_value", "pack.toml", 4, "http:// or https://",
    ),
    "a value that CEL cannot type": (
        {"policies.toml": '[[policy]]\nname = "p"\nexpression = "plan.stepz.size() > 1"\n'},
        "expression_invalid", "policies.toml", 3, "policy p, expression",
    ),
    "a CEL bomb": (
        {"policies.toml": "[[policy]]\nname = 'p'\nexpression = '" + "[1,2].all(a, " * 9 + "true" + ")" * 9 + "'\n"},
        "expression_invalid", "policies.toml", 3, "nests comprehensions 9 deep",
    ),
    "a CEL bomb of brackets": (
        {"policies.toml": "[[policy]]\nname = 'p'\nexpression = '" + "(" * 3_000 + "'\n"},
        "expression_invalid", "policies.toml", 3, "recursion",
    ),
    "a schema that is none": (
        {"decisions.toml": '[[decision]]\nid = "d"\n[decision.outputs_schema]\ntype = 5\n'},
        "schema_invalid", "decisions.toml", 3, "decision d, outputs_schema",
    ),
    "a date in a schema": (
        {"decisions.toml": '[[decision]]\nid = "d"\noutputs_schema.const = 2026-01-02\n'},
        "wrong_value", "decisions.toml", 3, "decision d, outputs_schema",
    ),
    "a syntax error in the tools": ({"tools.py": "def f(:\n"}, "python_syntax", "tools.py", 1, "not Python"),
    "a null character in the tools": ({"tools.py": b"x = 1\n\0"}, "python_syntax", "tools.py", 2, "null character"),
    "tools that raise": ({"tools.py": "x = 1\ny = x / 0\n"}, "tools_failed", "tools.py", 2, "ZeroDivisionError"),
    "tools that exit": ({"tools.py": "import sys\nsys.exit(0)\n"}, "tools_failed", "tools.py", 2, "SystemExit: 0"),
    "tools that import a neighbour": (
        {"tools.py": "import neighbour\n", "neighbour.py": ""}, "tools_failed", "tools.py", 1, "cannot import its neighbours",
    ),
    "a misuse of the decorator": (
        {"tools.py": TOOL.format("x").replace("read_only", "wild")}, "tool_declaration", "tools.py", 4, "choose one of",
    ),
    "a signature that cannot be a tool's": (
        {"tools.py": TOOL.format("x").replace("()", "(*a: int)")}, "tool_signature", "tools.py", 4, "name each parameter",
    ),
    "two tools of one name": (
        {"tools.py": TOOL.format("x") + TOOL.format("y")}, "duplicate_name", "tools.py", 9, "tools.py, line 4",
    ),
    "two tools of one name and one function name": (
        {"tools.py": TOOL.format("x") + TOOL.format("x")}, "duplicate_name", "tools.py", 9, "tools.py, line 4",
    ),
    "tools that are no UTF-8": ({"tools.py": b"# \xff\n"}, "not_utf8", "tools.py", 1, "byte 2"),
    "gates that are no UTF-8": ({"gates.toml": b"# ok\n# \xff\n"}, "not_utf8", "gates.toml", 2, "save the file as UTF-8"),
    "evidence that is no JSON": ({"evidence/rules.json": '{\n"a" 1}'}, "json_syntax", "evidence/rules.json", 2, ""),
    "evidence with NaN": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": [NaN]}'}, "json_syntax", "evidence/rules.json", None, "NaN",
    ),
    "evidence with a key twice": (
        {"evidence/rules.json": '{"snapshot": "s", "snapshot": "t", "facts": []}'},
        "json_syntax", "evidence/rules.json", None, "'snapshot' occurs twice",
    ),
    "evidence nested beyond measure": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": ' + "[" * 200_000}, "json_syntax", "evidence/rules.json", None, "",
    ),
    "evidence that is a list": ({"evidence/rules.json": "[]"}, "wrong_value", "evidence/rules.json", None, "one JSON object"),
    "evidence without a snapshot": ({"evidence/rules.json": '{"facts": []}'}, "missing_key", "evidence/rules.json", None, ""),
    "a fact without a class": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": [{"id": "a", "content": 1}]}'},
        "missing_key", "evidence/rules.json", None, "facts.0.class",
    ),
    "a fact with a class of two parts": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": [{"class": "a:b", "id": "a", "content": 1}]}'},
        "wrong_value", "evidence/rules.json", None, "facts.0.class",
    ),
    "a fact with a time without a zone": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": [{"class": "a", "id": "a", "content": 1, "expires_at": "2026-01-02T03:04:05"}]}'},
        "wrong_value", "evidence/rules.json", None, "facts.0.expires_at",
    ),
    "a fact with an unpaired surrogate": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": [{"class": "a", "id": "a", "content": "\\ud800"}]}'},
        "wrong_value", "evidence/rules.json", None, "facts.0.content",
    ),
    "a fact with too large a number": (
        {"evidence/rules.json": '{"snapshot": "s", "facts": [{"class": "a", "id": "a", "content": 9007199254740993}]}'},
        "wrong_value", "evidence/rules.json", None, "written as a string",
    ),
    "two facts of one id": (
        {"evidence/more.json": '{"snapshot": "rules_1", "facts": [{"class": "loan_rules", "id": "all", "content": 1}]}'},
        "duplicate_name", "evidence/rules.json", None, "the first is in evidence/more.json",
    ),
    "one snapshot at two times": (
        {"evidence/more.json": '{"snapshot": "rules_1", "created_at": "2026-02-02T03:04:05Z", "facts": []}'},
        "snapshot_time", "evidence/rules.json", None, "evidence/more.json",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_what_keeps_a_folder_from_loading_is_told(case: Case, write_pack: WritePack) -> None:
    """One mistake gives one problem with its code, file, row, place and remedy, from loading and from check alike."""
    changes, code, file, row, said = case
    folder = write_pack(changes)
    problems = problems_of(folder)
    assert [(problem.code, problem.file, problem.row) for problem in problems] == [(code, file, row)]
    assert said in problems[0].line()
    assert problems[0].remedy
    errors = [problem for problem in check_folder(folder) if problem.severity == "error"]
    assert problems[0] in errors


def test_a_path_that_is_no_folder_is_told(tmp_path: Path) -> None:
    """There is one problem, and nothing is said about what such a folder lacks."""
    path = tmp_path / "pack"
    assert [p.code for p in problems_of(path)] == [p.code for p in check_folder(path)] == ["missing_folder"]
    path.touch()
    assert [p.code for p in problems_of(path)] == [p.code for p in check_folder(path)] == ["not_a_folder"]


def test_a_folder_that_is_no_pack_is_told_once(tmp_path: Path) -> None:
    """A folder without any file of a pack is a wrong path rather than a pack full of mistakes."""
    assert [problem.code for problem in check_folder(tmp_path)] == ["missing_file"]
    assert [problem.code for problem in check_folder(f"{tmp_path}/\0")] == ["missing_folder"]


def test_links_and_strange_files_are_refused_unread(write_pack: WritePack, tmp_path: Path) -> None:
    """A link, a pipe, a folder in the place of a file, and a file in the place of a folder."""
    folder = write_pack(dict.fromkeys(("gates.toml", "policies.toml", "actors.toml", "evidence/rules.json")))
    (tmp_path / "outside.toml").write_text("")
    (folder / "gates.toml").symlink_to(tmp_path / "outside.toml")
    os.mkfifo(folder / "policies.toml")
    (folder / "actors.toml").mkdir()
    (folder / "evidence").write_text("")
    found = {problem.file: problem.code for problem in problems_of(folder)}
    assert found == {
        "gates.toml": "symlink",
        "policies.toml": "not_a_file",
        "actors.toml": "not_a_file",
        "evidence": "not_a_folder",
    }


def test_a_linked_folder_of_evidence_or_tools_is_refused(write_pack: WritePack, tmp_path: Path) -> None:
    """What lies behind a link could change without the pack changing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "t.py").write_text("")
    folder = write_pack(
        {"evidence/rules.json": None, "pack.toml": 'name = "a"\nversion = "1.0.0"\ntools = ["lib/t.py"]\n'}
    )
    (folder / "evidence").symlink_to(outside)
    (folder / "lib").symlink_to(outside)
    assert {problem.file: problem.code for problem in problems_of(folder)} == {
        "evidence": "not_a_folder",
        "lib/t.py": "symlink",
    }


def test_a_file_that_is_too_large_is_refused_unread(write_pack: WritePack) -> None:
    """The bound holds for evidence, and a lower one for TOML."""
    folder = write_pack({"evidence/rules.json": b" " * (MAX_BYTES + 1), "gates.toml": b"#" * (2**20 + 1)})
    assert [(p.file, p.code) for p in problems_of(folder)] == [
        ("gates.toml", "file_too_large"),
        ("evidence/rules.json", "file_too_large"),
    ]


DOTTED = ".".join("a" * 18)


@pytest.mark.parametrize(
    ("text", "code", "row"),
    [
        (f"#\n{DOTTED} = 1", "key_too_long", 2),
        (f"#\n[{DOTTED}]", "key_too_long", 2),
        (f"x = {{ {DOTTED} = 1 }}", "key_too_long", 1),
        ("#\n" + " . ".join(["'a'", '"b"'] * 9) + " = 1", "key_too_long", 2),
        ("[[gate]]\n" * 5_001, "too_many_tables", 5_001),
        ("".join(f"[t{n}]\n" for n in range(5_001)), "too_many_tables", 5_001),
        ("".join(f"t{n} = 1\n" for n in range(5_001)), "too_many_tables", None),
        ("#\ngate = [" + "{ name = 'a' }," * 5_001 + "]", "too_many_tables", 2),
    ],
)
def test_toml_that_takes_too_long_to_read_is_refused(
    write_pack: WritePack, text: str, code: str, row: int | None
) -> None:
    """The parser's time grows with the square of the dots in a key, and checking takes time for each table."""
    assert [(p.file, p.code, p.row) for p in problems_of(write_pack({"gates.toml": text}))] == [
        ("gates.toml", code, row)
    ]


def test_a_long_key_or_a_long_name_in_a_text_is_not_a_dotted_key(write_pack: WritePack) -> None:
    """Sixteen dots are allowed, and so are sentences with many dots."""
    dotted = ".".join("a" * 17)
    text = f"# {'One. Two, three. ' * 40} {'.' * 99}\n[[gate]]\nname = 'x'\n{dotted} = 1\n"
    assert {p.code for p in problems_of(write_pack({"gates.toml": text}))} == {"unknown_key", "missing_key"}


def test_a_file_full_of_unknown_keys_is_cut_short(write_pack: WritePack) -> None:
    """The rest counts as an error, since it was not looked at."""
    keys = "".join(f"key{n} = 1\n" for n in range(1_500))
    problems = problems_of(
        write_pack({"gates.toml": f"[[gate]]\nname = 'x'\n{keys}[[gate]]\nname = 'y'\nz = 1\n"})
    )
    cut = [(p.code, p.row, p.severity) for p in problems if p.code not in ("unknown_key", "missing_key")]
    assert len(problems) == 1_002
    assert cut == [("too_many_problems", 1, "error"), ("too_many_problems", 1_503, "error")]


def test_a_file_full_of_wrong_facts_is_cut_short(write_pack: WritePack) -> None:
    """A generated file with thousands of the same mistake does not bury the other problems."""
    facts = ",".join(['{"id": "a", "content": 1, "class": ""}'] * 5_000)
    problems = problems_of(write_pack({"evidence/rules.json": f'{{"snapshot": "s", "facts": [{facts}]}}'}))
    assert len(problems) == 51
    assert problems[-1].code == "too_many_problems"


def test_every_problem_is_reported_at_once(write_pack: WritePack) -> None:
    """A typo in one file, CEL that does not type-check in the next and an unknown tool in a third come together."""
    folder = write_pack(
        {
            "pack.toml": 'name = "desk"\nversion = "1.2"\nsafety_mode = "local_write"\n',
            "gates.toml": "[[gate]]\nname = GATE_LIBRARIAN\n",
            "policies.toml": '[[policy]]\nname = "p"\nexpression = "plan.stepz"\n\n[[policy]]\nname = "q"\n',
            "decisions.toml": '[[decision]]\nid = "d"\ntools = ["desk.find_copi"]\n',
            "evidence/rules.json": "{",
        }
    )  # fmt: skip
    assert [(p.file, p.row, p.code) for p in check_folder(folder)] == [
        ("decisions.toml", 3, "unknown_tool"),
        ("evidence/rules.json", 1, "json_syntax"),
        ("gates.toml", 2, "toml_syntax"),
        ("pack.toml", 2, "wrong_value"),
        ("policies.toml", 3, "expression_invalid"),
        ("policies.toml", 5, "missing_key"),
    ]


def test_what_could_not_be_read_is_not_reported_as_missing(write_pack: WritePack) -> None:
    """A file that does not parse brings one problem, not one for every name that it would have declared."""
    for name in ("tools.py", "gates.toml", "actors.toml", "decisions.toml", "evidence/rules.json"):
        folder = write_pack({name: "?"}, folder=name.replace("/", "_"))
        assert len(check_folder(folder)) == 1, name


def test_tools_made_before_the_file_failed_are_still_checked(write_pack: WritePack) -> None:
    """The reason why the file fails and a mistake in the tool above it are reported together."""
    source = TOOL.format("x").replace("read_only", "destructive") + "\n1 / 0\n"
    codes = {problem.code for problem in check_folder(write_pack({"tools.py": source}))}
    assert {"tools_failed", "compensation_missing", "ungated"} <= codes


@pytest.mark.parametrize(
    ("file", "known"),
    [("template/a.json", "templates"), ("Templates/a.json", "templates"), ("senarios/a.toml", "scenarios"), ("evidences/a.json", "evidence")],
)  # fmt: skip
def test_a_misspelt_folder_is_named(file: str, known: str, write_pack: WritePack) -> None:
    """A folder that looks like one of a pack gets a warning; one with other files is left alone."""
    (problem,) = check_folder(write_pack({file: "{}"}))
    folder = file.partition("/")[0]
    assert (problem.code, problem.severity, problem.file) == ("unknown_folder", "warning", f"{folder}/")
    assert problem.remedy == f"did you mean {known}/?"
    assert (
        check_folder(write_pack({f"{folder}/notes.md": "", f"plans_of/{file}": "{}"}, folder="other")) == ()
    )


def test_an_interruption_is_not_a_problem_of_the_pack(write_pack: WritePack) -> None:
    """Ctrl-C while a pack is loading reaches whoever waits for it, and leaves no module behind."""
    before = pack_modules()
    with pytest.raises(KeyboardInterrupt):
        Pack.load(write_pack({"tools.py": "raise KeyboardInterrupt\n"}))
    assert pack_modules() == before


def test_a_file_that_fails_leaves_no_module_behind(write_pack: WritePack) -> None:
    """Only modules that loaded are kept, since their classes are looked up there."""
    before = pack_modules()
    problems_of(write_pack({"tools.py": "x = 1\nraise ValueError(x)\n"}))
    assert pack_modules() == before


def test_two_versions_live_side_by_side(write_pack: WritePack) -> None:
    """Each pack calls its own code, and its annotations lead to its own classes."""
    source = """
        from __future__ import annotations

        from dataclasses import dataclass
        from tercet.tools import tool

        @dataclass
        class Answer:
            number: int

        @tool("a.b", mode="read_only", trust="trusted")
        def answer() -> Answer:
            return Answer({0})
    """
    first = Pack.load(write_pack({"tools.py": source.replace("{0}", "1")}, folder="one"))
    second = Pack.load(write_pack({"tools.py": source.replace("{0}", "2")}, folder="two"))
    assert [first.tools[0].call().number, second.tools[0].call().number] == [1, 2]
    assert first.tools[0].hash == second.tools[0].hash
    assert first.hash != second.hash


def test_loading_writes_nothing_into_the_folder(
    write_pack: WritePack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No bytecode appears beside the tools."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = write_pack()
    before = sorted(folder.rglob("*"))
    Pack.load(folder)
    assert sorted(folder.rglob("*")) == before


def test_a_tools_file_is_compiled_by_its_own_rules(write_pack: WritePack) -> None:
    """Annotations that are values stay values: the loader's own __future__ imports do not apply."""
    source = TOOL.format("x") + "\ndef check(a: int) -> None: ...\nassert check.__annotations__['a'] is int\n"
    assert isinstance(Pack.load(write_pack({"tools.py": source, "decisions.toml": None})).tools[0], Tool)


def test_a_byte_order_mark_is_no_mistake(write_pack: WritePack) -> None:
    """Some editors begin a file with one."""
    mark = b"\xef\xbb\xbf"
    gates = mark + b'[[gate]]\nname = "GATE_LIBRARIAN"\nroles = ["librarian"]\n'
    assert Pack.load(write_pack({"gates.toml": gates, "tools.py": mark + TOOL.format("x").encode()})).gates


def test_a_file_name_that_is_no_text_is_spelt_out(write_pack: WritePack) -> None:
    """A byte that is no character can be shown and stored."""
    folder = write_pack()
    Path(os.fsdecode(os.fsencode(folder) + b"/evidence/\xff.json")).write_text("?")
    (problem,) = problems_of(folder)
    assert problem.file == "evidence/\\udcff.json"
    assert problem.model_dump_json()


def test_a_message_that_is_no_text_is_spelt_out(write_pack: WritePack) -> None:
    """Whatever a failing tools file says can be shown and stored."""
    (problem,) = problems_of(write_pack({"tools.py": "raise ValueError('\\ud800')\n"}))
    assert problem.model_dump_json()


@given(
    name=st.sampled_from(
        ["pack.toml", "decisions.toml", "gates.toml", "policies.toml", "evidence/watering_plans.json"]
    ),
    start=st.integers(0, 400),
    length=st.integers(0, 30),
    insert=st.sampled_from(
        [
            "",
            "[",
            "]]",
            '"',
            "=",
            "1",
            "nan",
            "{",
            "}",
            "[[gate]]",
            "\\ud800",
            "\\u001c",
            "\x1c",
            "'''",
            "#",
            "\0",
        ]
    ),
)
def test_no_damage_to_a_file_ends_in_anything_but_problems(
    name: str, start: int, length: int, insert: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cut and patched files load, or are refused with a list; `check` answers always, and agrees."""
    folder = tmp_path_factory.mktemp("pack") / "pack"
    scaffold(folder)
    path = folder / name
    text = path.read_text()
    path.write_text(text[:start] + insert + text[start + length :])
    found = check_folder(folder)
    try:
        expected = check(Pack.load(folder))
    except PackError as error:
        expected = error.problems
    assert all(problem in found for problem in expected)


def test_a_file_that_may_not_be_read_is_told(write_pack: WritePack, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system says about it is passed on."""
    folder, open_file = write_pack(), Path.open

    def refuse(path: Path, mode: str) -> Any:
        if path.name == "gates.toml":
            raise PermissionError(13, "Permission denied")
        return open_file(path, mode)

    monkeypatch.setattr(Path, "open", refuse)
    assert [(p.file, p.code, p.message) for p in problems_of(folder)] == [
        ("gates.toml", "unreadable", "it cannot be read: Permission denied")
    ]


@pytest.mark.parametrize("name", ["gpt-5", "", "open ai:x", ":x", "local:"])
def test_a_model_is_named_by_its_provider(write_pack: WritePack, name: str) -> None:
    """A name that no provider could have is a problem of the pack, at its place."""
    toml = f'name = "desk"\nversion = "1.2.3"\n[models]\nplanner = ["{name}"]\n'
    assert [problem.file for problem in problems_of(write_pack({"pack.toml": toml}))] == ["pack.toml"]
