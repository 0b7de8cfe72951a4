"""A pack in Python: built like the folder, hashed by what it declares, and asked for decisions and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tercet.contracts.decision import DecisionSpec, RiskTier, Threshold
from tercet.contracts.errors import PackError, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.request import Actor
from tercet.contracts.runs.budget import RunBudget
from tercet.packs import Pack, check
from tercet.tools import ToolContext, tool

WritePack = Callable[..., Path]


@tool("desk.find_copy", mode="read_only", trust="trusted")
def find_copy(title: str) -> dict[str, str]:
    """Finds a copy of a title."""
    return {"copy_id": title}


@tool(
    "desk.place_hold",
    mode="local_write",
    trust="trusted",
    reversibility="compensable",
    authority=["copy_id"],
    limits=["args.days <= 14"],
    compensate={"tool": "desk.drop_hold", "params": {"copy_id": {"$from": "params#/copy_id"}}},
)
def place_hold(ctx: ToolContext, copy_id: str, days: int) -> None:
    """Keeps a copy for somebody."""


@tool(
    "desk.drop_hold",
    mode="local_write",
    trust="trusted",
    reversibility="reversible",
    no_compensation="place it again",
)
def drop_hold(copy_id: str) -> None:
    """Lets a copy go."""


def build(**changes: Any) -> Pack:
    fields: dict[str, Any] = {
        "name": "desk",
        "version": "1.2.3",
        "description": "Holds at an invented library desk.",
        "safety_mode": "local_write",
        "budget": RunBudget(max_steps=4),
        "tools": [find_copy, place_hold, drop_hold],
        "decisions": [
            DecisionSpec(
                id="hold",
                intents=("desk.hold",),
                required_outputs=("copy_id",),
                required_evidence=("loan_rules_evidence",),
                tools=("desk.find_copy", "desk.place_hold"),
                output_gate="GATE_LIBRARIAN",
                outputs_schema={"type": "object", "properties": {"copy_id": {"type": "string"}}},
                thresholds=(Threshold(name="policy"),),
            )
        ],
        "gates": [Gate(name="GATE_LIBRARIAN", roles=("librarian",))],
        "policies": [Policy(name="few_holds", expression="plan.steps.size() <= 4")],
        "actors": [Actor(id="lin.example", roles=("librarian",))],
        "evidence": [
            Evidence(id="kg:loan_rules:all#snapshot_rules_1", content={"max_days": 14}, trust=Trust.TRUSTED)
        ],
    }
    return Pack(**fields | changes)


def test_a_folder_and_python_declare_the_same(write_pack: WritePack) -> None:
    """The pack of a folder and the one built in Python differ in nothing but where their code comes from."""
    loaded, built = Pack.load(write_pack()), build()
    assert loaded.ref == built.ref
    assert [tool.spec for tool in loaded.tools] == [tool.spec for tool in built.tools]
    for field in (
        "safety_mode",
        "on_failure",
        "budget",
        "decisions",
        "gates",
        "policies",
        "actors",
        "evidence",
    ):
        assert getattr(loaded, field) == getattr(built, field), field
    assert loaded.hash != built.hash
    assert check(loaded) == check(built) == ()


def test_lists_and_tuples_are_kept_as_tuples() -> None:
    """What a pack holds cannot be changed through the list that it was made from."""
    tools = [find_copy]
    pack = build(tools=tools)
    tools.append(drop_hold)
    assert pack.tools == (find_copy,)
    with pytest.raises(ValidationError, match="frozen"):
        pack.tools = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "things"),
    [
        ("tools", [find_copy, find_copy.model_copy(update={"mode": "network"})]),
        ("gates", [Gate(name="G", roles=("r",)), Gate(name="G", roles=("s",))]),
        ("decisions", [DecisionSpec(id="d"), DecisionSpec(id="d")]),
        ("policies", [Policy(name="p", expression="true"), Policy(name="p", expression="false")]),
        ("actors", [Actor(id="a"), Actor(id="a", roles=("r",))]),
        ("evidence", [Evidence(id="kg:a:b#snapshot_1"), Evidence(id="kg:a:b#snapshot_1")]),
    ],
)
def test_two_of_one_name_are_refused(field: str, things: list[Any]) -> None:
    """A pack in which a name means two things cannot be built."""
    with pytest.raises(PackError) as caught:
        build(**{field: things})
    assert [problem.code for problem in caught.value.problems] == ["duplicate_name"]


@pytest.mark.parametrize(
    "wrong", [{"name": "A b"}, {"name": ""}, {"version": "1.0"}, {"version": "1.0.0-rc1"}]
)
def test_a_name_and_a_version_have_their_form(wrong: dict[str, str]) -> None:
    """`name@x.y.z` can be written down and read back without doubt."""
    with pytest.raises(ValidationError):
        build(**wrong)


# What is hashed.


def test_the_hash_is_the_same_wherever_and_however_the_folder_lies(
    write_pack: WritePack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the path, the working folder, the order of the files nor a second load changes the hash."""
    first = Pack.load(write_pack())
    other = write_pack(folder="elsewhere/deeper", order=-1)
    monkeypatch.chdir(other.parent)
    again = Pack.load("deeper")
    assert first.hash == Pack.load(tmp_path / "pack").hash == again.hash
    assert first == again
    assert hash(first) == hash(again)


CHANGED = {
    "pack.toml": 'name = "desk"\nversion = "1.2.4"\n',
    "tools.py": None,
    "decisions.toml": '[[decision]]\nid = "hold"\n',
    "gates.toml": '[[gate]]\nname = "GATE_LIBRARIAN"\nroles = ["librarian"]\nquorum = 2\n',
    "policies.toml": '[[policy]]\nname = "few_holds"\nexpression = "plan.steps.size() <= 5"\n',
}


@pytest.mark.parametrize("file", CHANGED)
def test_the_hash_changes_with_every_declaration(file: str, write_pack: WritePack) -> None:
    """Another version, tool, decision, gate or policy is another pack."""
    pack, changed = Pack.load(write_pack()), Pack.load(write_pack({file: CHANGED[file]}, folder="changed"))
    assert pack.hash != changed.hash
    assert pack != changed


def test_the_hash_changes_with_one_byte_of_the_tools(write_pack: WritePack) -> None:
    """Code that declares the same and does something else is another pack."""
    folder = write_pack()
    before = Pack.load(folder)
    source = folder / "tools.py"
    source.write_bytes(source.read_bytes() + b"#")
    after = Pack.load(folder)
    assert [tool.hash for tool in before.tools] == [tool.hash for tool in after.tools]
    assert before.hash != after.hash


def test_the_hash_does_not_change_with_evidence_plans_and_words(write_pack: WritePack) -> None:
    """Evidence has its own pin, and plans and the README declare nothing; but other evidence is no equal pack."""
    facts = '{"snapshot": "rules_2", "facts": [{"class": "loan_rules", "id": "all", "content": 7}]}'
    pack = Pack.load(write_pack())
    other = Pack.load(
        write_pack({"evidence/rules.json": facts, "plans/b.json": "{}", "README.md": "?"}, folder="b")
    )
    assert pack.hash == other.hash
    assert pack != other
    assert pack != "desk@1.2.3"


def test_a_user_cannot_be_two_actors() -> None:
    """A pack in which one user of the operating system is two actors cannot be built in Python either."""
    with pytest.raises(PackError) as caught:
        build(actors=[Actor(id="a", os_user="u"), Actor(id="b", os_user="u")])
    assert [(problem.code, problem.place) for problem in caught.value.problems] == [
        ("duplicate_os_user", "actor b, os_user")
    ]


def test_people_are_not_the_pack() -> None:
    """Who holds a role leaves the hash as it is, so that losing one is told as that; equal such packs are not."""
    pack = build()
    other = build(actors=[Actor(id="lin.example", roles=("librarian", "guest"))])
    assert pack.hash == other.hash
    assert pack != other


def test_only_the_order_of_policies_counts() -> None:
    """Policies are judged in their order; tools, gates and actors are looked up by name."""
    one, two = Policy(name="one", expression="true"), Policy(name="two", expression="true")
    assert build(policies=[one, two]).hash != build(policies=[two, one]).hash
    assert build(tools=[find_copy, place_hold]).hash == build(tools=[place_hold, find_copy]).hash


def test_code_built_in_python_is_known_by_its_name() -> None:
    """Without a file to hash, two functions of different names make two packs."""

    def other(title: str) -> dict[str, str]:
        return {"copy_id": title}

    class Finder:
        def __call__(self, title: str) -> dict[str, str]:
            return {"copy_id": title}

    same = build(tools=[find_copy.model_copy(update={"call": find_copy.call})])
    assert build(tools=[find_copy]).hash == same.hash
    for call in (other, Finder()):
        assert build(tools=[find_copy.model_copy(update={"call": call})]).hash != same.hash


def test_a_loaded_pack_whose_code_is_replaced_is_another_pack(write_pack: WritePack) -> None:
    """The hash of the file does not vouch for a function that did not come from it."""
    pack = Pack.load(write_pack())
    tools = [tool.model_copy(update={"call": find_copy.call}) for tool in pack.tools]
    assert pack.model_copy(update={"tools": tools}).hash != pack.hash


# What is asked.


def test_a_decision_is_found_by_its_id_and_by_its_intents() -> None:
    """An intent, the decision's own id and, where there is one decision only, silence lead to it."""
    pack = build()
    assert {pack.decision_for(intent).id for intent in ("hold", "desk.hold", None)} == {"hold"}


def test_an_unknown_intent_is_answered_with_the_known_ones() -> None:
    """The error lists the intents that there are."""
    with pytest.raises(UsageError, match=r"choose one of desk\.hold") as caught:
        build().decision_for("desk.hole")
    assert caught.value.code == "unknown_intent"
    with pytest.raises(UsageError, match="add a decision") as caught:
        build(decisions=[]).decision_for(None)
    assert caught.value.code == "unknown_intent"


def test_an_ambiguous_intent_is_refused() -> None:
    """Two decisions that one intent asks for, and silence where there are two, are no answer."""
    pack = build(decisions=[DecisionSpec(id="a", intents=("x",)), DecisionSpec(id="b", intents=("x",))])
    for intent in ("x", None):
        with pytest.raises(UsageError, match="2 of the decisions") as caught:
            pack.decision_for(intent)
        assert caught.value.code == "ambiguous_intent"


def test_snapshots_stand_in_the_order_in_which_they_were_taken() -> None:
    """The newest is the last taken; where times are equal or missing the name decides."""
    evidence = [Evidence(id=f"kg:a:b#snapshot_{name}") for name in ("z", "a", "m", "n")]
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    pack = build(evidence=evidence, snapshot_times={"a": moment.replace(year=2027), "n": moment, "m": moment})
    assert pack.snapshots == ("z", "m", "n", "a")
    assert pack.newest_snapshot == "a"
    assert [fact.id for fact in pack.evidence_in("m")] == ["kg:a:b#snapshot_m"]


def test_an_unknown_snapshot_is_answered_with_the_known_ones() -> None:
    """The error lists the snapshots that there are, or says that there are none."""
    with pytest.raises(UsageError, match="choose one of rules_1") as caught:
        build().evidence_in("rules_9")
    assert caught.value.code == "unknown_snapshot"
    with pytest.raises(UsageError, match="add evidence files"):
        build(evidence=[]).evidence_in("rules_9")


def test_the_frame_of_a_run_is_the_packs() -> None:
    """Budget and safety mode come from the pack, and the mode may be set for one run."""
    pack = build(risk_tiers={"low": ["duplicates"]})
    frame = pack.run_context(actor=Actor(id="ada"), plan_origin="caller")
    assert (frame.run_budget.max_steps, frame.safety_mode) == (4, ApprovalMode.LOCAL_WRITE)
    assert (frame.actor.id, frame.plan_origin) == ("ada", "caller")
    assert pack.run_context(safety_mode=ApprovalMode.READ_ONLY).safety_mode is ApprovalMode.READ_ONLY
    assert Pack(name="a", version="0.0.1").run_context().safety_mode is ApprovalMode.LOCAL_WRITE
    assert pack.risk_tiers == {RiskTier.LOW: ("duplicates",)}
