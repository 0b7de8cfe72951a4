"""Placeholders in evidence ids: of the request, of the pack's snapshot, and of a store's."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import Request
from tercet.contracts.tasks import TaskLibrary
from tercet.planner.alternatives import propose
from tercet.planner.knowledge import Knowledge
from tercet.planner.sources import Placeholders, PlanningError
from tercet.planner.template import fill

OURS = "kg:order:${input.order}#snapshot_${snapshot}"
KNOWN = {"kg:order:p1#snapshot_april": {"goods": "nails"}}


def library(**task: Any) -> TaskLibrary:
    """One task that is one step, chosen by what the order holds."""
    return TaskLibrary.model_validate(
        {
            "facts": [{"name": "goods", "type": "string", "value": {"$evidence": f"{OURS}#/goods"}}],
            "tasks": [
                {"name": "work"},
                {"name": "nail", "tool": "do.nail", **task},
                {"name": "other", "tool": "do.other", "args": ["what"], "params": {"what": {"$arg": "what"}}},
            ],
            "methods": [
                {
                    "name": "a",
                    "task": "work",
                    "applies": "state.goods == 'nails'",
                    "subtasks": [{"task": "nail"}],
                },
                {
                    "name": "b",
                    "task": "work",
                    "cost": 2,
                    "subtasks": [{"task": "other", "args": {"what": {"$evidence": f"{OURS}#/goods"}}}],
                },
            ],
            "goals": [{"intent": "work", "task": "work"}],
        }
    )


def planned(order: str, *, marks: tuple[str, ...] = (), store: str = "may", **task: Any) -> Plan:
    """The plan for an order, with a pack's snapshot and a store's."""
    made = library(**task)
    knowledge = Knowledge(made.on("april"))
    given = Placeholders(input={"order": order}, snapshot="april", store=store, known=KNOWN, marks=marks)
    case = knowledge.case({"order": order}, KNOWN, placeholders=given)
    return propose(knowledge, made.goals[0], case)


@pytest.mark.parametrize(
    ("order", "store", "expected"),
    [
        ("p1", "may", "kg:order:p1#snapshot_april"),
        ("o1", "may", "kg:order:o1#snapshot_may"),
        ("o1", "", "kg:order:o1#snapshot_april"),
    ],
)
def test_the_snapshot_is_that_of_the_pack_or_of_the_store(order: str, store: str, expected: str) -> None:
    """The pack's if the run has the fact from there, else the store's; for templates and tasks alike."""
    template = Plan(steps=(Step(id="a", tool="do.it", evidence_refs=(OURS,)),))
    request = Request(intent="work", input={"order": order})
    filled = fill(template, request, "april", store=store, known=KNOWN)
    assert filled.steps[0].evidence_refs == (expected,)
    (made,) = planned(order, store=store, evidence_refs=[OURS]).steps
    assert made.tool == ("do.nail" if order == "p1" else "do.other")
    if order == "p1":
        assert made.evidence_refs == (expected,)
    else:
        assert made.params == {"what": {"$evidence": f"{expected}#/goods"}}


def test_without_a_snapshot_of_the_pack_it_is_the_stores() -> None:
    """Also in texts that are no id."""
    template = Plan(steps=(Step(id="a", tool="do.it", params={"at": "${snapshot}"}, evidence_refs=(OURS,)),))
    filled = fill(template, Request(intent="work", input={"order": "o1"}), "", store="may")
    assert filled.steps[0].evidence_refs == ("kg:order:o1#snapshot_may",)
    assert filled.steps[0].params == {"at": "may"}


def test_an_untrusted_field_in_an_id_makes_the_evidence_untrusted() -> None:
    """As for templates: listed in the plan, but for an id whose whole variable part is the field."""
    mixed = "kg:order:p${input.order}#snapshot_${snapshot}"
    plan = planned("p1", marks=("/order",), evidence_refs=[OURS, mixed])
    assert plan.steps[0].evidence_refs == ("kg:order:p1#snapshot_april", "kg:order:pp1#snapshot_may")
    assert plan.untrusted_refs == ("kg:order:pp1#snapshot_may",)
    assert planned("p1", evidence_refs=[OURS, mixed]).untrusted_refs == ()


def test_text_of_the_request_is_written_once() -> None:
    """A field that looks like a placeholder stays what it is."""
    plan = planned("${snapshot}", evidence_refs=[OURS])
    assert plan.steps[0].params == {"what": {"$evidence": "kg:order:${snapshot}#snapshot_may#/goods"}}


def test_a_task_that_needs_a_field_which_is_not_there_says_so() -> None:
    """A fact that needs it is only unknown."""
    made = library()
    knowledge = Knowledge(made)
    with pytest.raises(PlanningError, match=r"input\.order"):
        propose(knowledge, made.goals[0], knowledge.case({}, {}))


def test_older_sessions_fill_in_the_snapshot_alone() -> None:
    """What they recorded as a plan comes out again."""
    given = Placeholders(snapshot="april")
    assert given.fill_refs([OURS]) == ["kg:order:${input.order}#snapshot_april"]


def test_a_parameter_may_be_called_like_a_field_of_a_step() -> None:
    """Only the pins of the task are ids; a parameter of the same name is a value."""
    plan = planned("p1", params={"evidence_refs": {"a": "${input.order}"}}, evidence_refs=[OURS])
    assert plan.steps[0].params == {"evidence_refs": {"a": "${input.order}"}}
