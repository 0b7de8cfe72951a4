"""What is printed loads again as the same plan, and what was loaded prints back as the same document."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.plan import Plan
from tercet.contracts.plan_formats import PlanFormat, load_plan, print_plan

Document = dict[str, Any]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | st.text(max_size=6)
)
keys = st.text(min_size=1, max_size=4).filter(lambda key: key[0] != "$")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)
references = st.sampled_from(
    [
        {"$from": "s0"},
        {"$from": "s0#/a~1b/0"},
        {"$from": "request#/order_id"},
        {"$evidence": "kg:a:b#snapshot_c#/field"},
        {"$cel": "s0.total - request.fee"},
        {"$literal": {"$from": "this is no reference"}},
    ]
)
params = st.dictionaries(keys, values | references, max_size=3)
texts = st.lists(st.text(max_size=5), min_size=1, max_size=2)

beside: st.SearchStrategy[Document] = st.fixed_dictionaries(
    {},
    optional={
        "approval_mode": st.sampled_from(["read_only", "local_write", "network", "delegated", "destructive"]),
        "requires": st.lists(st.text(max_size=5), max_size=2),
        "requires_evidence": texts,
        "evidence_refs": texts,
        "evidence_queries": st.just([{"classification": "x", "query": "y"}]),
        "estimated_tokens": st.integers(1, 10**12),
        "estimated_ms": st.integers(0, 10**12),
        "priority": st.integers(1, 10**6),
        "preconditions": texts,
        "reversibility": st.sampled_from(["pure", "reversible", "compensable", "irreversible"]),
        "compensate": params.filter(bool).map(lambda own: {"tool": "x.undo", "params": own}),
        "when": st.text(max_size=5),
        "optional": st.just(value=True),
    },
)
"""Fields that stand in a document only where they say something: a default is not printed back."""

around: st.SearchStrategy[Document] = st.fixed_dictionaries(
    {},
    optional={
        "outputs": st.dictionaries(keys, values | references, min_size=1, max_size=2),
        "declared_outputs": texts,
        "decision_checkpoints": st.just([{"decision_id": "d", "after_step": "s0"}]),
    },
)
heads: st.SearchStrategy[Document] = st.fixed_dictionaries(
    {},
    optional={
        "plan_id": st.text(min_size=1, max_size=5),
        "revision": st.integers(2, 9),
        "parent": st.just("sha256:0"),
        "intent": st.text(max_size=5),
    },
)


@st.composite
def named_documents(draw: st.DrawFn) -> Document:
    """A plan in the named shape."""
    steps: list[Document] = []
    for index in range(draw(st.integers(0, 4))):
        own = draw(st.sampled_from([{"tool": "orders.lookup"}, {"tool": "a.b.c"}, {"kind": "note"}]))
        before = draw(st.lists(st.sampled_from(steps), unique_by=id, max_size=2)) if steps else []
        given_params = draw(params)
        step: Document = {"id": draw(st.sampled_from([f"s{index}", f"n-{index}.x", f"s{index + 10}"])), **own}
        if given_params:
            step["params"] = given_params
        if before:
            step["depends_on"] = [other["id"] for other in before]
        steps.append({**step, **draw(beside)})
    return {**draw(heads), "steps": steps, **draw(around)}


@st.composite
def indexed_documents(draw: st.DrawFn) -> Document:
    """A plan in the indexed shape."""
    steps: list[Document] = []
    ids: list[str] = []
    for index in range(draw(st.integers(1, 4))):
        own = {"kind": "tool", "adapter_id": "orders", "capability_id": draw(st.sampled_from(["get", "a.b"]))}
        step: Document = {**own, "args": draw(params)}
        if draw(st.booleans()):
            step = {"kind": "note", "args": {"total": draw(scalars)}}
        named = draw(st.none() | st.just(f"n{index}"))
        if named is not None:
            step["id"] = named
        needed = draw(st.none() | st.lists(st.sampled_from(ids or ["s9"]), unique=True, max_size=2))
        if needed is not None and needed != ids[-1:]:
            step["depends_on"] = needed
        ids.append(named or f"s{index}")
        steps.append({**step, **draw(beside)})
    return {**draw(heads), "steps": steps, **draw(around)}


documents = st.tuples(st.just(PlanFormat.NAMED), named_documents()) | st.tuples(
    st.just(PlanFormat.INDEXED), indexed_documents()
)


@settings(deadline=None, max_examples=150)
@given(documents)
def test_a_document_prints_back_as_it_came(case: tuple[PlanFormat, Document]) -> None:
    """Whatever shape a document is written in, the plan in it prints back equal to it."""
    shape, document = case
    assert print_plan(load_plan(document), shape) == document


@settings(deadline=None, max_examples=150)
@given(documents, st.sampled_from(PlanFormat))
def test_a_printed_plan_loads_as_the_same_plan(case: tuple[PlanFormat, Document], shape: PlanFormat) -> None:
    """In both shapes, as a document and as JSON text, with and without naming the shape, it is the same plan."""
    plan = load_plan(case[1])
    printed = print_plan(plan, shape)
    for again in (
        load_plan(printed),
        load_plan(printed, shape),
        load_plan(orjson.dumps(printed)),
        Plan.model_validate_json(plan.model_dump_json()),
    ):
        assert again == plan
        assert again.hash == plan.hash


@settings(deadline=None, max_examples=50)
@given(documents)
def test_loading_is_a_function_of_the_document(case: tuple[PlanFormat, Document]) -> None:
    """Loading the same document twice gives equal plans and leaves it unchanged."""
    before = orjson.dumps(case[1])
    first, second = load_plan(case[1]), load_plan(case[1])
    assert first == second
    assert orjson.dumps(case[1]) == before
