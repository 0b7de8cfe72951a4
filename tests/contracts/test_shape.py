"""How contracts are built: frozen, strict where somebody writes them, tolerant where Tercet itself does."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.packs.schema import PUBLIC_TYPES, json_schema
from tercet.contracts.plan import Compensation, Plan, Step
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.runs.session import Heartbeat
from tercet.contracts.shape import TYPE_VERSION, Authored, Published, Shape, unchecked
from tercet.contracts.tool import ToolSpec
from tercet.contracts.verdict import StepScore, Verdict

MODELS: dict[str, type[BaseModel]] = {
    name: kind
    for name, kind in PUBLIC_TYPES.items()
    if isinstance(kind, type) and issubclass(kind, BaseModel)
}


@pytest.mark.parametrize("name", MODELS)
def test_every_contract_is_one_of_two_kinds(name: str) -> None:
    """A public type is written by Tercet or by somebody else, and is frozen either way."""
    kind = MODELS[name]
    assert issubclass(kind, Shape) != issubclass(kind, Authored)
    assert kind.model_config.get("frozen") is True
    assert kind.model_config.get("allow_inf_nan") is False
    assert kind.model_config.get("extra") == ("ignore" if issubclass(kind, Shape) else "forbid")
    assert kind.__doc__


def test_published_shapes_never_print_null() -> None:
    """Every field of a published shape that may be absent leaves itself out."""
    shapes = [Published]
    for shape in shapes:  # grows while it is read
        shapes += shape.__subclasses__()
    optional = {
        f"{shape.__name__}.{name}": field.exclude_if
        for shape in shapes
        for name, field in shape.model_fields.items()
        if not field.is_required() and field.get_default(call_default_factory=True) is None
    }
    assert {"StepScore.approver", "CriticReport.score", "Finding.step_id"} <= set(optional)
    assert [name for name, is_left_out in optional.items() if is_left_out is None] == []
    assert StepScore(step_id="s", scores={}).model_dump() == {"step_id": "s", "scores": {}}


@pytest.mark.req("R33")
def test_a_type_that_tercet_writes_ignores_what_a_newer_version_added() -> None:
    """A record with fields of a later version loads as if they were not there, at every depth."""
    heartbeat = {"interval_ms": 1, "ttl_ms": 2, "last_seen": "2026-05-04T10:25:00Z"}
    assert Heartbeat.model_validate({**heartbeat, "added_later": {"a": 1}}) == Heartbeat.model_validate(
        heartbeat
    )
    verdict = {"stage": "review", "outcome": "ok", "reasons": ["fine"]}
    demand = {"step": 0, "step_id": "s1", "gate": "G", "reason": "r"}
    newer = Verdict.model_validate({**verdict, "gates": [{**demand, "urgency": 3}], "mood": "good"})
    assert newer == Verdict.model_validate({**verdict, "gates": [demand]})
    assert "mood" not in newer.model_dump()


@pytest.mark.req("R33")
@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if issubclass(kind, Authored)])
def test_a_type_that_somebody_writes_refuses_unknown_fields(name: str) -> None:
    """A misspelt field is an error that names it, and never silently dropped."""
    with pytest.raises(ValidationError) as caught:
        MODELS[name].model_validate({"mispelt": 1})
    assert ("mispelt",) in [
        error["loc"] for error in caught.value.errors() if error["type"] == "extra_forbidden"
    ]


@pytest.mark.req("R33")
def test_types_carry_a_version() -> None:
    """Schemas, verdicts and records say which version they are of, and one of another version is refused."""
    assert TYPE_VERSION == 1
    assert all(json_schema(name)["$id"].endswith(f":{name}:{TYPE_VERSION}") for name in ("Plan", "Verdict"))
    assert Verdict(stage="run", outcome="accept", reasons=()).version == TYPE_VERSION
    assert DecisionRecord.model_fields["version"].default == TYPE_VERSION
    with pytest.raises(ValidationError, match="version"):
        Verdict.model_validate({"version": 2, "stage": "run", "outcome": "accept", "reasons": []})


def test_a_copy_of_what_somebody_wrote_is_checked() -> None:
    """A change that the type would refuse is refused in a copy as well."""
    step = Step(id="a", tool="x.y")
    assert step.model_copy(update={"tool": "x.z"}).tool == "x.z"
    changes: list[dict[str, Any]] = [
        {"tool": "nodot"},
        {"tool": None},
        {"kind": "note"},
        {"id": "request"},
        {"tol": "x.y"},
    ]
    for change in changes:
        with pytest.raises(ValidationError):
            step.model_copy(update=change)


def test_a_copy_forgets_what_was_derived() -> None:
    """What was worked out from the old fields is worked out anew."""
    tool = ToolSpec(name="x.y", mode=ApprovalMode.NETWORK, parameters={"properties": {"a": {}}})
    assert (tool.parameters_text, tool.authority_parameters) == ('{"properties":{"a":{}}}', {"a"})
    first_hash = tool.hash
    other = tool.model_copy(update={"parameters": {"properties": {"b": {}}}})
    assert (other.parameters_text, other.authority_parameters) == ('{"properties":{"b":{}}}', {"b"})
    assert other.hash != first_hash
    assert tool.hash == first_hash
    fact = Evidence(id="kg:a:b#snapshot_c", content=1)
    assert fact.hash != fact.model_copy(update={"content": 2}).hash
    plan = Plan(steps=(Step(id="a", kind="note", params={"x": 1}),))
    assert plan.steps[0].found != plan.steps[0].model_copy(update={"params": {"x": 2}}).found


def test_a_copy_knows_which_fields_were_given() -> None:
    """A copy prints like its original: fields that nobody gave stay out of it."""
    step = Step(id="a", tool="x.y", priority=0)
    assert step.model_copy().model_fields_set == {"id", "tool", "priority"}
    assert step.model_copy(update={"when": "true"}).model_dump(exclude_unset=True) == {
        "id": "a",
        "tool": "x.y",
        "priority": 0,
        "when": "true",
    }


def test_a_deep_copy_shares_nothing() -> None:
    """Changing the data inside of a deep copy leaves the original alone."""
    step = Step(
        id="a", tool="x.y", params={"list": [1]}, compensate=Compensation(tool="x.z", params={"k": []})
    )
    copied = step.model_copy(deep=True)
    assert copied == step
    copied.params["list"].append(2)
    assert step.params == {"list": [1]}


def test_a_number_that_is_none_is_refused() -> None:
    """No score is NaN, and no NaN is dumped as null where any value may stand."""
    scores = {"step_id": "s1", "scores": {"policy": float("nan")}}
    with pytest.raises(ValidationError):
        PUBLIC_TYPES["StepScore"].model_validate(scores)
    result = PUBLIC_TYPES["ToolResult"](step_id="s1", outcome="done", value=[float("inf")])
    assert result.model_dump(mode="json")["value"] == [float("inf")]


@pytest.mark.parametrize("name", [name for name, kind in PUBLIC_TYPES.items() if isinstance(kind, type)])
def test_every_public_type_says_what_it_is(name: str) -> None:
    """The first line of a type's docstring is its description in `tercet schema`."""
    kind: type[object] = PUBLIC_TYPES[name]
    assert issubclass(kind, BaseModel | Enum)
    assert kind.__doc__
    assert kind.__doc__.strip().splitlines()[0].endswith((".", ":"))


@pytest.mark.parametrize(
    "checked",
    [
        Step(id="a", tool="do.it", params={"n": 1}, depends_on=("b",)),
        StepScore(step_id="a", scores={"policy": 1.0}),
        Heartbeat.model_validate({"interval_ms": 1, "ttl_ms": 2, "last_seen": "2026-05-04T10:25:00Z"}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_contract_of_checked_fields_is_like_any_other(checked: BaseModel) -> None:
    """It equals the one that was checked, prints like it, can be copied and cannot be changed."""
    kind = type(checked)
    made = unchecked(kind, {name: getattr(checked, name) for name in kind.model_fields})
    assert made == checked
    assert made.model_dump_json() == checked.model_dump_json()
    assert made.model_copy() == checked
    assert kind.model_validate(made) == checked
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, next(iter(kind.model_fields)), "other")
