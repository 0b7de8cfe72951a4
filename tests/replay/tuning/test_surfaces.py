"""The five surfaces: what each is set to, what it may be set to, and what `tercet check` says of bounds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from engine.workshop import ADA, ASK, Workshop, step
from tercet.contracts.packs.tuning import LaneSurface, TuningRules, domain_of
from tercet.contracts.plan import Plan
from tercet.contracts.tasks import TaskLibrary
from tercet.packs.checking import check
from tercet.packs.pack import Pack
from tercet.packs.surfaces import read_value, write_value

from .callers import TUNING, centre
from .letters import writers

LIBRARY: dict[str, Any] = {
    "tasks": [
        {"name": "tell"},
        {"name": "phone", "tool": "phone.ring", "params": {"who": "ann"}},
        {"name": "send", "tool": "courier.send", "params": {"who": "ann"}},
    ],
    "methods": [
        {"name": "by_phone", "task": "tell", "cost": 1, "subtasks": [{"task": "phone"}]},
        {"name": "by_courier", "task": "tell", "cost": 5, "subtasks": [{"task": "send"}]},
    ],
    "goals": [{"intent": "tell", "task": "tell"}],
}


def _problems(pack: Pack) -> list[str]:
    return [f"{each.severity} {each.code}" for each in check(pack) if each.place == "tuning"]


@pytest.mark.req("R277")
def test_every_surface_can_be_declared_and_all_but_lanes_set() -> None:
    """Each of the five has a table of its own; what is set is read back, and the pack is another one."""
    rules = TuningRules.model_validate({**TUNING, "lane": [{"value": "timeout_ms", "choices": [1_000]}]})
    assert {each.surface for each in rules.surfaces} == {
        "planner_templates",
        "replan_budgets",
        "subagent_lanes",
        "background_sessions",
    }
    letters, calls = writers(Workshop()), centre(Workshop())
    assert {each.surface for each in letters.tuning.surfaces} == {"critic_rubrics"}
    for pack in (letters, calls):
        for surface in pack.tuning.surfaces:
            for value in domain_of(surface):
                changed = write_value(pack, surface, value)
                assert read_value(changed, surface) == value
                assert (changed.hash == pack.hash) == (value == read_value(pack, surface))


def test_which_method_comes_first_is_a_surface() -> None:
    """The chosen method takes the cost of the one that was cheapest, and that one takes its."""
    pack = centre(
        Workshop(), library=LIBRARY, tuning={"method": [{"task": "tell", "choices": ["by_courier"]}]}
    )
    surface = pack.tuning.method[0]
    assert read_value(pack, surface) == "by_phone"
    assert _problems(pack) == []
    changed = write_value(pack, surface, "by_courier")
    assert {each.name: each.cost for each in changed.library.methods} == {"by_phone": 5, "by_courier": 1}
    assert write_value(changed, surface, "by_phone").hash == pack.hash


WAYS: dict[str, Any] = {
    "tasks": [
        {"name": "serve"},
        *({"name": name, "tool": f"desk.{name}", "params": {}} for name in ("check", "note", "act")),
    ],
    "methods": [
        {"name": name, "task": "serve", "cost": cost, "subtasks": [{"task": task} for task in tasks]}
        for cost, (name, tasks) in enumerate(
            {
                "plain": ("note", "act"),
                "other_order": ("act", "note"),
                "checked": ("note", "check", "act"),
            }.items()
        )
    ],
    "goals": [{"intent": "work", "task": "serve"}],
}


@pytest.mark.req("R277")
@pytest.mark.parametrize(
    ("choice", "made"),
    [("plain", "note act"), ("other_order", "act note"), ("checked", "note check act")],
)
def test_step_order_and_added_checks_are_methods(choice: str, made: str) -> None:
    """A candidate that puts another method first changes the order of steps, or adds a check before an action."""
    workshop = Workshop()
    called: list[str] = []

    def noting(name: str) -> Any:
        async def note(*_: Any) -> dict[str, Any]:
            called.append(name)
            return {}

        return note

    for name in ("check", "note", "act"):
        workshop.tool(f"desk.{name}", noting(name), mode="read_only")
    surfaces = {"method": [{"task": "serve", "choices": ["plain", "other_order", "checked"]}]}
    pack = workshop.pack(library=TaskLibrary.model_validate(WAYS), tuning=surfaces)
    tuned = write_value(pack, pack.tuning.method[0], choice)

    async def main() -> None:
        async with workshop.runtime(tuned) as runtime:
            assert (await runtime.run(ASK, planner="htn", actor=ADA)).status == "completed"

    workshop.run(main())
    assert " ".join(called) == made


def test_another_weight_leaves_that_of_safety() -> None:
    """The others make up for it in proportion, the weights still sum to 1, and what safety weighs stays."""
    pack = writers(Workshop())
    changed = write_value(pack, pack.tuning.rubric[2], 0.3)
    quality = changed.decisions[0].quality
    assert quality is not None
    assert {each.name: each.weight for each in quality.rubric.dimensions} == {
        "correctness": 0.3,
        "coherence": 0.4,
        "safety": 0.3,
    }


NOT_SURFACES: list[dict[str, Any]] = [
    {"replan": [{"budget": "max_steps", "low": 1, "high": 2}]},
    {"replan": [{"budget": "max_replans", "low": 3, "high": 2}]},
    {"rubric": [{"decision": "work", "value": "threshold", "low": 0.1, "high": 0.2}]},
    {"rubric": [{"decision": "work", "value": "rubric_threshold", "name": "x", "low": 0.1, "high": 0.2}]},
    {"rubric": [{"decision": "w", "value": "minimum", "name": "x", "low": 0.0, "high": 1.0, "step": 1e-9}]},
    {"session": [{"value": "resume", "choices": ["pinned"]}]},
    {"session": [{"value": "ttl_ms", "choices": [0]}]},
    {"lane": [{"value": "risk_tier", "choices": ["none"]}]},
    {"lane": [{"value": "timeout_ms", "choices": ["long"]}]},
    {"template": [{"intent": "a", "step": "b", "param": "c", "choices": [{"tool": "x"}]}]},
    {"template": [{"intent": "a", "step": "b", "param": "c", "choices": []}]},
    {"tool": [{"name": "money.pay"}]},
    {"session": [{"value": "ttl_ms", "choices": [5]}, {"value": "ttl_ms", "choices": [6]}]},
]


@pytest.mark.parametrize("rules", NOT_SURFACES)
def test_what_is_no_surface_cannot_be_declared(rules: dict[str, Any]) -> None:
    """There are five surfaces with typed values, and no others."""
    with pytest.raises(ValidationError):
        TuningRules.model_validate(rules)


def _letters(*surfaces: dict[str, Any]) -> Pack:
    return writers(Workshop(), surfaces)


def _surface(value: str, name: str | None, low: float, decision: str = "work") -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"decision": decision, "value": value, "low": low, "high": 1.0, **named}


@pytest.mark.req("R283")
def test_floors_can_be_raised_and_not_lowered() -> None:
    """Bounds that would let safety fall, as threshold, minimum or weight, are an error; raising it is not."""
    assert _problems(_letters(_surface("threshold", "safety", 0.5))) == ["error surface_below_floor"]
    assert _problems(_letters(_surface("minimum", "safety", 0.5))) == ["error surface_below_floor"]
    assert _problems(_letters(_surface("weight", "safety", 0.3))) == ["error surface_below_floor"]
    assert _problems(_letters(_surface("threshold", "safety", 0.98))) == []
    assert _problems(_letters(_surface("threshold", "correctness", 0.1))) == []


def test_what_a_pack_does_not_write_cannot_be_tuned() -> None:
    """A value that stands nowhere, and a decision, dimension, template or method that is not there, are told."""
    for surface in (
        _surface("threshold", "policy", 1.0),
        _surface("threshold", "coherence", 0.1),
        _surface("minimum", "beauty", 0.1),
        _surface("rubric_threshold", None, 0.1, decision="other"),
    ):
        assert _problems(_letters(surface)) == ["error surface_missing"]
    for tuning in (
        {"replan": [{"budget": "max_repairs", "low": 0, "high": 2}]},
        {"session": [{"value": "heartbeat_interval_ms", "choices": [5_000]}]},
        {"template": [{"intent": "other", "step": "ring", "param": "patience", "choices": [1]}]},
        {"template": [{"intent": "work", "step": "ring", "param": "who", "choices": ["ann"]}]},
        {"method": [{"task": "tell", "choices": ["by_foot"]}]},
    ):
        assert _problems(centre(Workshop(), tuning=tuning)) == ["error surface_missing"]


@pytest.mark.req("R278")
def test_nobody_searches_for_who_is_paid() -> None:
    """A parameter that carries authority is no surface, nor is one of another type or with a placeholder in it."""
    workshop = Workshop()
    centre(workshop)
    workshop.tool("money.pay", mode="destructive", no_compensation="gone")
    steps = (
        step("pay", "money.pay", params={"to": "ann"}),
        step("ring", "phone.ring", params={"patience": 3}),
    )
    plan = Plan(plan_id="p", intent="work", steps=steps)
    for surface in (
        {"step": "pay", "param": "to", "choices": ["eve"]},
        {"step": "ring", "param": "patience", "choices": ["long"]},
    ):
        tuning = {"template": [{"intent": "work", **surface}]}
        assert _problems(centre(workshop, tuning=tuning, templates=(plan,))) == ["error surface_unsafe"]
    tuning = {"template": [{"intent": "work", "step": "ring", "param": "channel", "choices": ["${input.x}"]}]}
    assert _problems(centre(Workshop(), tuning=tuning)) == ["error surface_unsafe"]


@pytest.mark.req("R284")
def test_lanes_are_typed_and_not_searched() -> None:
    """A lane's surface is checked and told to wait."""
    pack = centre(
        Workshop(), tuning={**TUNING, "lane": [{"value": "risk_tier", "choices": ["low", "medium"]}]}
    )
    assert _problems(pack) == ["warning surface_not_searched"]
    assert isinstance(pack.tuning.lane[0], LaneSurface)


def test_what_may_be_tuned_is_no_part_of_the_hash() -> None:
    """Other bounds leave sessions pinned to the same pack."""
    assert centre(Workshop()).hash == centre(Workshop(), tuning={}).hash
