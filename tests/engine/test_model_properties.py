"""Whatever a model answers: the run comes to rest, nothing runs that the critic did not let through, the books add up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.question import ModelFault

from .oracle import GOOD, ORDER, TILL, demand_sound, find, pay, planner, scripted, shop
from .workshop import ADA, Workshop

SCALARS = (
    st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from(["ord_1", "pay_7", "pay_666", "x"])
)
REFERENCES = st.sampled_from(
    ["s1#/payment", "s1#/total", "s1#/remark", "s2#/payment", "request#/order", "request#/note", "s9", "#"]
).map(lambda text: {"$from": text})
VALUES = SCALARS | REFERENCES | st.just({"$cel": "s1.total + 1"}) | st.just({"$form": "x"})


NOWHERE: dict[str, Any] = {"tool": "shop.nowhere", "params": {}}
KINDS = [json.dumps(step) for step in (find(), pay(), pay("s3"), TILL, NOWHERE)]


@st.composite
def steps(draw: st.DrawFn) -> Any:
    """A step as a model might write it, rightly or wrongly."""
    step: dict[str, Any] = json.loads(draw(st.sampled_from(KINDS)))
    if draw(st.booleans()):
        step["params"][draw(st.sampled_from(["order", "payment", "amount", "extra"]))] = draw(VALUES)
    extras: dict[str, Any] = {
        "id": "s1",
        "depends_on": ["s2"],
        "approval_mode": "read_only",
        "gates": [],
        "when": "s1.total > 3",
        "optional": True,
        "evidence_refs": ["kg:a:b#snapshot_c"],
        "estimated_tokens": 10**9,
    }
    for name in draw(st.lists(st.sampled_from(sorted(extras)), max_size=2)):
        step[name] = extras[name]
    return step


PLANS = st.fixed_dictionaries(
    {"steps": st.lists(steps(), max_size=5)},
    optional={"outputs": st.dictionaries(st.sampled_from(["x", "y"]), VALUES, max_size=2)},
)
TEXTS = st.text(max_size=40) | st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3)).map(
    json.dumps
)
CUT = st.integers(1, len(json.dumps(GOOD))).map(lambda end: json.dumps(GOOD)[:end])
FAULTS = st.sampled_from(["model_unavailable", "model_quota", "model_timeout", "model_refused"]).map(
    lambda code: ModelFault("no", code=code)  # pyright: ignore[reportArgumentType]
)
ANSWERS = st.lists(PLANS | TEXTS | CUT | FAULTS | st.just(GOOD), max_size=6)


@pytest.mark.req("R57")
@settings(max_examples=150, deadline=None)
@given(ANSWERS, st.sampled_from([{}, {"tokens": 6_000}, {"tool_calls": 2}, {"cost_microcents": 300_000}]))
def test_whatever_a_model_answers(answers: list[Any], budget: dict[str, int]) -> None:
    """Random text, half plans, mutated plans, good ones and faults, under several budgets."""
    workshop = Workshop()
    pack = shop(workshop, budget=budget, on_failure="keep")
    models = scripted(*answers), scripted(*answers[::-1], name="scripted:two")

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ORDER, planner=planner(*models), actor=ADA)
            state, _ = await demand_sound(runtime.journal, result.session_id, workshop)
            assert result.status in ("completed", "failed", "paused")
            is_waiting = result.gate is not None or result.code == "model_unavailable"
            assert (result.status == "paused") == is_waiting
            assert state == await runtime.state(result.session_id)

    workshop.run(main())
