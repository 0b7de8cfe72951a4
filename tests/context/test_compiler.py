"""Compiling: what a run may see, why, and the same every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.context import compile as compile_context
from tercet.contracts.context import USUAL_TIERS, CompiledContext
from tercet.contracts.decision import DecisionSpec, RiskTier
from tercet.contracts.errors import UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.gate import Gate, Policy
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Actor, Request
from tercet.contracts.values.canonical import digest
from tercet.packs import Pack
from tercet.tools import Tool

NOON = datetime(2026, 5, 9, 12, tzinfo=UTC)


def act() -> None:
    """Stands in for the code of every tool."""


def make(name: str, mode: ApprovalMode = ApprovalMode.READ_ONLY, roles: tuple[str, ...] = ()) -> Tool:
    return Tool(name=name, call=act, mode=mode, roles=roles)


TOOLS = [make("b.pay", ApprovalMode.DESTRUCTIVE), make("a.read"), make("a.other"), make("a.banned")]
EVIDENCE = [
    Evidence(id="kg:rate:b#snapshot_new", content=2),
    Evidence(id="kg:rate:a#snapshot_new", content=1, expires_at=NOON),
    Evidence(id="kg:rate:a#snapshot_old", content=0),
]
DECISION = DecisionSpec(
    id="d", intents=("do.d",), tools=("a.read", "a.banned", "b.pay"), prohibited_tools=("a.banned",)
)


def build(**changes: Any) -> Pack:
    fields: dict[str, Any] = {
        "name": "p",
        "version": "1.0.0",
        "tools": TOOLS,
        "decisions": [DecisionSpec(id="z"), DECISION],
        "gates": [Gate(name="H", roles=("r",)), Gate(name="G", roles=("r",))],
        "policies": [Policy(name="second", expression="true"), Policy(name="first", expression="true")],
        "evidence": EVIDENCE,
        "snapshot_times": {"new": NOON, "old": NOON - timedelta(days=1)},
        "risk_tiers": {"low": []},
    }
    return Pack(**fields | changes)


def compiled(pack: Pack | None = None, snapshot: str | None = None, **frame: Any) -> CompiledContext:
    pack = pack or build()
    return compile_context(pack, Request(intent="do.d"), pack.run_context(**frame), snapshot)


def reasons(context: CompiledContext) -> dict[str, tuple[bool, str]]:
    return {entry.name: (entry.admitted, entry.reason) for entry in context.ledger}


@pytest.mark.req("R14")
def test_the_surface_is_what_the_decision_may_use() -> None:
    """Tools that the decision lists and does not prohibit are in the manifest, by name, with their modes."""
    entries = compiled().manifests.tool_manifest
    assert [(entry.adapter_id, entry.capability_id, entry.approval_mode) for entry in entries] == [
        ("a", "read", ApprovalMode.READ_ONLY),
        ("b", "pay", ApprovalMode.DESTRUCTIVE),
    ]


def test_a_decision_that_lists_no_tools_may_use_all() -> None:
    """Silence means every tool of the pack."""
    pack = build(decisions=[DecisionSpec(id="do.d")])
    assert list(compiled(pack).surface) == ["a.banned", "a.other", "a.read", "b.pay"]


def test_the_ledger_says_why_a_tool_is_there_or_is_not() -> None:
    """Listed, not listed, prohibited, and kept although it is above the safety mode."""
    ledger = reasons(compiled())
    assert ledger["a.read"] == (True, "decision d may use it")
    assert ledger["a.other"] == (False, "decision d does not list it")
    assert ledger["a.banned"] == (False, "decision d prohibits it")
    admitted, reason = ledger["b.pay"]
    assert admitted
    assert reason.startswith(
        "not offered to a planner: its mode destructive is above the safety mode local_write"
    )
    assert reasons(compiled(safety_mode=ApprovalMode.DESTRUCTIVE))["b.pay"] == (True, "decision d may use it")


@pytest.mark.req("R15")
def test_evidence_is_that_of_the_snapshot() -> None:
    """The newest snapshot is used unless another is named, and every fact is in the ledger."""
    context = compiled()
    entries = context.manifests.evidence_manifest
    assert [(entry.id, entry.classification, entry.content) for entry in entries] == [
        ("kg:rate:a#snapshot_new", "rate", 1),
        ("kg:rate:b#snapshot_new", "rate", 2),
    ]
    assert context.snapshot == "new"
    assert reasons(context)["kg:rate:a#snapshot_old"] == (False, "it is not of snapshot new")
    assert list(compiled(snapshot="old").evidence) == ["kg:rate:a#snapshot_old"]


def test_expired_evidence_is_left_out() -> None:
    """What has expired when the run starts is not admitted, and without a time nothing has."""
    late = compiled(started_at=NOON)
    assert list(late.evidence) == ["kg:rate:b#snapshot_new"]
    assert reasons(late)["kg:rate:a#snapshot_new"] == (False, "it expired at 2026-05-09T12:00:00+0000")
    assert len(compiled(started_at=NOON - timedelta(seconds=1)).evidence) == 2
    assert "its expiry was not judged" in reasons(compiled())["kg:rate:a#snapshot_new"][1]


def test_the_rest_of_the_pack_comes_along() -> None:
    """Gates and decisions by name, policies in their order, tiers completed by the usual ones, and the pins."""
    pack = build()
    context = compiled(pack)
    assert [gate.name for gate in context.gates] == ["G", "H"]
    assert [policy.name for policy in context.policies] == ["second", "first"]
    assert [decision.id for decision in context.decisions] == ["d", "z"]
    assert context.risk_tiers == {**USUAL_TIERS, RiskTier.LOW: ()}
    assert (context.pack, context.pack_hash) == ("p@1.0.0", pack.hash)
    assert context.request == Request(intent="do.d")
    assert {"G", "H", "first", "second"} <= reasons(context).keys()


def test_a_pack_without_evidence_compiles() -> None:
    """There is then no snapshot, and no evidence to pin."""
    context = compiled(build(evidence=[], snapshot_times={}))
    assert (context.snapshot, context.evidence) == ("", {})


def test_an_unknown_intent_or_snapshot_is_the_callers_mistake() -> None:
    """Both are answered with what there is."""
    pack = build()
    with pytest.raises(UsageError, match=r"do\.d"):
        compile_context(pack, Request(intent="do.x"), pack.run_context())
    with pytest.raises(UsageError, match="choose one of old, new"):
        compiled(snapshot="newer")


@given(
    order=st.randoms(use_true_random=False),
    mode=st.sampled_from(ApprovalMode),
    started_at=st.none() | st.just(NOON),
    tokens=st.fixed_dictionaries(
        {}, optional={"tools": st.integers(30, 90), "evidence": st.integers(30, 90)}
    ),
    roles=st.lists(st.sampled_from(["clerk", "chief", "cook"]), unique=True),
)
def test_the_same_inputs_give_the_same_context(
    order: Random,
    mode: ApprovalMode,
    started_at: datetime | None,
    tokens: dict[str, int],
    roles: list[str],
) -> None:
    """The order in which a pack lists its tools, facts, gates, decisions and an actor their roles changes no byte."""
    parts: dict[str, list[Any]] = {
        "tools": [*TOOLS, make("b.read", roles=("chief", "clerk")), make("b.see", roles=("cook",))],
        "evidence": [*EVIDENCE],
        "gates": [Gate(name=name, roles=("r",)) for name in "GHI"],
        "decisions": [DecisionSpec(id="z"), DecisionSpec(id="d", intents=("do.d",)), DecisionSpec(id="y")],
    }
    frame: dict[str, Any] = {"safety_mode": mode, "started_at": started_at}
    limits = {"context": {"tokens": tokens}}
    once = compiled(build(**parts, **limits), actor=Actor(id="ada", roles=tuple(roles)), **frame)
    for part in (*parts.values(), roles):
        order.shuffle(part)
    again = compiled(build(**parts, **limits), actor=Actor(id="bob", roles=tuple(roles)), **frame)
    assert once == again
    assert once.hash == again.hash
    assert once.model_dump_json() == again.model_dump_json()


def test_the_hash_is_that_of_all_but_the_ledger_and_the_mode() -> None:
    """However the hash is put together, it is the digest of the dumped context, with a request and without."""
    context = compiled(build())
    fields = context.model_dump(mode="json", exclude_defaults=True, exclude={"ledger", "safety_mode"})
    assert context.hash == digest(fields)
    alone = context.model_copy(update={"request": None})
    assert alone.hash == digest({name: value for name, value in fields.items() if name != "request"})
    assert CompiledContext().hash == digest({})


def test_a_pack_that_compiled_before_compiles_the_same() -> None:
    """What is kept on a pack is never seen: each context equals that of a pack which compiles for the first time."""
    pack = build()
    frames: list[tuple[str | None, dict[str, Any]]] = [
        (snapshot, {"started_at": started_at, "safety_mode": mode})
        for snapshot in (None, "new", "old")
        for started_at in (None, NOON - timedelta(hours=1), NOON, NOON + timedelta(hours=1))
        for mode in (ApprovalMode.READ_ONLY, ApprovalMode.DESTRUCTIVE)
    ]
    for snapshot, frame in [*frames, *frames]:
        again, fresh = compiled(pack, snapshot, **frame), compiled(build(), snapshot, **frame)
        assert (again, again.hash, again.ledger) == (fresh, fresh.hash, fresh.ledger)
    assert len({compiled(pack, snapshot, **frame).hash for snapshot, frame in frames}) == 3


def test_each_request_has_a_context_of_its_own() -> None:
    """Contexts of one pack share what the pack says, and neither the request nor the hash over it."""
    pack = build()
    contexts = [
        compile_context(pack, Request(intent="do.d", input={"n": n}), pack.run_context()) for n in (1, 2, 1)
    ]
    assert [context.input() for context in contexts] == [{"n": 1}, {"n": 2}, {"n": 1}]
    assert contexts[0].hash == contexts[2].hash != contexts[1].hash
    assert contexts[0].answering(Request(intent="do.d", input={"n": 2})).hash == contexts[1].hash


def shared(pack: Pack, request: Request, **frame: Any) -> CompiledContext:
    """The context of a request, which equal requests may share."""
    return compile_context(pack, request, pack.run_context(**frame), is_shared=True)


def test_equal_requests_may_share_a_context() -> None:
    """It is the one that each would get alone, and holds a request that no sender can change."""
    pack, mine = build(), Request(intent="do.d", input={"list": [1]})
    one = shared(pack, mine)
    assert one == compile_context(pack, mine, pack.run_context())
    mine.input["list"].append(2)
    assert shared(pack, Request(intent="do.d", input={"list": [1]})) is one
    assert one.input() == {"list": [1]}
    assert shared(pack, mine).input() == {"list": [1, 2]}


@pytest.mark.parametrize(
    ("request_fields", "frame"),
    [
        ({"input": {"n": 1.0}}, {}),
        ({"input": {"n": True}}, {}),
        ({"input": {"n": 1}, "request_key": "k"}, {}),
        ({"input": {"n": 1}, "intent": "z"}, {}),
        ({"input": {"n": 1}}, {"safety_mode": ApprovalMode.DESTRUCTIVE}),
    ],
)
def test_other_requests_have_other_contexts(request_fields: dict[str, Any], frame: dict[str, Any]) -> None:
    """Whatever a context is made of counts, to the type of a number."""
    pack = build()
    one = shared(pack, Request(intent="do.d", input={"n": 1}))
    other = Request.model_validate({"intent": "do.d", **request_fields})
    found = shared(pack, other, **frame)
    assert found is not one
    assert found == compile_context(pack, other, pack.run_context(**frame))
    assert type(found.input()["n"]) is type(other.input["n"])


def test_a_large_request_is_not_kept() -> None:
    """It would take room, and is hardly sent again."""
    pack, large = build(), Request(intent="do.d", input={"text": "x" * 20_000})
    assert shared(pack, large) is not shared(pack, large)
    assert shared(pack, large).request is large
