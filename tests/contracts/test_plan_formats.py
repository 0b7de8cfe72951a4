"""The two shapes of a plan: which one a document is written in, and what each of its spellings means."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.errors import PlanError
from tercet.contracts.mode import ApprovalMode, Reversibility
from tercet.contracts.plan import Compensation, EvidenceQuery, Plan, Step
from tercet.contracts.plan_formats import PlanFormat, detect_format, load_plan, print_plan

INDEXED, NAMED = PlanFormat.INDEXED, PlanFormat.NAMED

CALL: dict[str, Any] = {"kind": "tool", "adapter_id": "orders", "capability_id": "lookup", "args": {}}
NOTE: dict[str, Any] = {"kind": "note"}

BESIDE: dict[str, Any] = {
    "approval_mode": "network",
    "requires": ["GATE_X"],
    "requires_evidence": ["window"],
    "evidence_refs": ["kg:window:w1#snapshot_k1"],
    "evidence_queries": [{"classification": "window", "query": "of ord_881", "limit": 3}],
    "estimated_tokens": 40,
    "estimated_ms": 900,
    "priority": -2,
    "preconditions": ["order_open"],
    "reversibility": "compensable",
    "compensate": {"tool": "orders.undo", "params": {"id": {"$from": "self#/id"}}},
    "when": "request.amount > 10",
    "optional": True,
}
"""Every field of a step that both shapes may have beside their own spelling."""


def problems(document: Any, shape: PlanFormat | None = None) -> list[tuple[str, str]]:
    """The code and place of each problem of a document."""
    with pytest.raises(PlanError) as caught:
        load_plan(document, shape)
    return [(problem.code, problem.place) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"steps": [CALL]}, INDEXED),
        ({"steps": [{"id": "a", **CALL}]}, INDEXED),
        ({"steps": [{"id": "a", "kind": "note"}, {"kind": "note", "args": {"a": 1}}]}, INDEXED),
        ({"steps": [NOTE]}, INDEXED),
        ({"steps": [], "declared_outputs": ["x"]}, INDEXED),
        ({"steps": [{"id": "a", "tool": "orders.lookup"}]}, NAMED),
        ({"steps": [{"id": "a", "kind": "note"}]}, NAMED),
        ({"steps": []}, NAMED),
        (dict[str, Any](), NAMED),
        ({"steps": 7}, NAMED),
    ],
)
def test_the_shape_is_found(document: dict[str, Any], expected: PlanFormat) -> None:
    """A step in the indexed spelling, or steps without any id, make a plan indexed."""
    assert detect_format(document) is expected


@pytest.mark.req("R9")
def test_indexed_steps_run_in_the_order_they_stand_in() -> None:
    """An indexed step depends on the one before it unless it says otherwise, and its id tells its position."""
    plan = load_plan({"steps": [CALL, CALL, {**CALL, "depends_on": []}, {**CALL, "id": "last"}]})
    assert [step.id for step in plan.steps] == ["s0", "s1", "s2", "last"]
    assert [step.depends_on for step in plan.steps] == [(), ("s0",), (), ("s2",)]


def test_indexed_steps_depend_on_positions_or_ids() -> None:
    """A number in `depends_on` is a position, and finds the id that stands there."""
    plan = load_plan(
        {
            "steps": [
                {**CALL, "id": "first"},
                CALL,
                {**CALL, "depends_on": [0, 1]},
                {**CALL, "depends_on": ["first"]},
            ]
        }
    )
    assert plan.steps[2].depends_on == ("first", "s1")
    assert plan.steps[3].depends_on == ("first",)


def test_a_position_that_no_step_has_stays_an_unknown_name() -> None:
    """A wrong position parses, as a wrong name does: refusing it is the critic's business."""
    plan = load_plan({"steps": [CALL, {**CALL, "depends_on": [7, -1]}]})
    assert plan.steps[1].depends_on == ("s7", "s-1")


@pytest.mark.req("R10")
def test_named_steps_run_as_early_as_they_can() -> None:
    """A named step depends on nothing that it does not name."""
    plan = load_plan({"steps": [{"id": "a", "tool": "x.y"}, {"id": "b", "tool": "x.y"}]})
    assert [step.depends_on for step in plan.steps] == [(), ()]


@pytest.mark.req("R9", "R10", "R61")
@pytest.mark.parametrize("step", [CALL, {"id": "s0", "tool": "orders.lookup"}], ids=["indexed", "named"])
def test_both_shapes_take_every_field_of_a_step(step: dict[str, Any]) -> None:
    """Each field of the one model may stand beside a shape's own spelling."""
    expected = Step(
        id="s0",
        tool="orders.lookup",
        approval_mode=ApprovalMode.NETWORK,
        gates=("GATE_X",),
        requires_evidence=("window",),
        evidence_refs=("kg:window:w1#snapshot_k1",),
        evidence_queries=(EvidenceQuery(classification="window", query="of ord_881", limit=3),),
        estimated_tokens=40,
        estimated_ms=900,
        priority=-2,
        preconditions=("order_open",),
        reversibility=Reversibility.COMPENSABLE,
        compensate=Compensation(tool="orders.undo", params={"id": {"$from": "self#/id"}}),
        when="request.amount > 10",
        optional=True,
    )
    assert load_plan({"steps": [{**step, **BESIDE}]}).steps == (expected,)
    assert set(expected.model_dump(exclude_defaults=True)) | {"kind", "params", "depends_on"} == set(
        Step.model_fields
    )


def test_the_superset_spelling_is_understood_in_an_indexed_plan() -> None:
    """`tool`, `params` and `gates` mean the same as the indexed spelling of them."""
    plain = {"tool": "orders.lookup", "params": {"a": 1}, "gates": ["G"]}
    own = {"adapter_id": "orders", "capability_id": "lookup", "args": {"a": 1}, "requires": ["G"]}
    assert load_plan({"steps": [plain]}, INDEXED) == load_plan({"steps": [own]}, INDEXED)


def test_a_capability_may_have_dots() -> None:
    """The adapter ends at the first dot of a tool, and everything behind it is the capability."""
    plan = Plan(steps=(Step(id="s0", tool="crm.contacts.v2/read"),))
    printed = print_plan(plan, INDEXED)
    assert (printed["steps"][0]["adapter_id"], printed["steps"][0]["capability_id"]) == (
        "crm",
        "contacts.v2/read",
    )
    assert load_plan(printed) == plan


def test_an_adapter_with_a_dot_is_refused() -> None:
    """Such a plan would print back with another adapter than it came with."""
    step: dict[str, Any] = {"adapter_id": "crm.eu", "capability_id": "read", "args": {}}
    assert problems({"steps": [step]}) == [("wrong_value", "/steps/0/adapter_id")]


def test_a_note_keeps_the_spelling_of_its_shape() -> None:
    """The values of a note are `args` in an indexed plan and `params` in a named one."""
    document = {"steps": [{"kind": "note", "args": {"total": 3}}]}
    plan = load_plan(document)
    assert plan.steps[0].params == {"total": 3}
    assert print_plan(plan, INDEXED) == document
    assert print_plan(plan, NAMED) == {"steps": [{"id": "s0", "kind": "note", "params": {"total": 3}}]}


def test_an_indexed_print_is_read_as_indexed() -> None:
    """A plan of nothing but named notes keeps its implied order when it is printed in the indexed shape."""
    plan = Plan(steps=(Step(id="a", kind="note"), Step(id="b", kind="note", depends_on=("a",))))
    printed = print_plan(plan, INDEXED)
    assert "depends_on" not in printed["steps"][1]
    assert load_plan(printed) == plan


@pytest.mark.req("R62")
def test_outputs_by_name_may_be_listed_under_either_name() -> None:
    """A list under `outputs` declares names, after those of `declared_outputs`; an object binds them."""
    listed = load_plan({"steps": [], "declared_outputs": ["a"], "outputs": ["b", "c"]})
    assert listed.declared_outputs == ("a", "b", "c")
    bound = load_plan({"steps": [], "declared_outputs": ["a"], "outputs": {"b": {"$from": "request#/b"}}})
    assert bound.output_names == ("b", "a")
    assert load_plan({"steps": [], "declared_outputs": [], "outputs": ["b"]}).output_names == ("b",)


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ({**CALL, "params": {}}, "/steps/0/params"),
        ({**CALL, "tool": "orders.lookup"}, "/steps/0/tool"),
        ({**CALL, "requires": [], "gates": []}, "/steps/0/gates"),
        ({"id": "a", "tool": "x.y", "requires": [], "gates": []}, "/steps/0/gates"),
    ],
)
def test_a_field_in_both_spellings_is_refused(step: dict[str, Any], place: str) -> None:
    """A step that says one thing twice might say two things, so it is told to keep one."""
    assert problems({"steps": [step]}) == [("duplicate_field", place)]


def test_a_named_plan_does_not_know_the_indexed_spelling() -> None:
    """In a document that is to be read as named, `args` and `adapter_id` are unknown fields."""
    found = problems({"steps": [{"id": "a", **CALL}]}, NAMED)
    assert ("unknown_field", "/steps/0/args") in found
    assert ("unknown_field", "/steps/0/adapter_id") in found


@pytest.mark.parametrize("half", ["adapter_id", "capability_id"])
def test_half_a_tool_is_refused(half: str) -> None:
    """An indexed step names its tool by both halves, and the missing half is named."""
    other = {"adapter_id": "capability_id", "capability_id": "adapter_id"}[half]
    assert problems({"steps": [{half: "orders", "args": {}}]}) == [("missing_field", f"/steps/0/{other}")]


def test_python_sequences_are_read_like_lists() -> None:
    """A document built in Python may hold its steps in a tuple."""
    assert load_plan({"steps": (CALL, CALL)}) == load_plan({"steps": [CALL, CALL]})
