"""Templates: a pack's own plans, filled from the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import PackError
from tercet.contracts.plan import Plan, Step
from tercet.contracts.request import Request
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.planner.template import example_input, fill, inputs_of, missing_inputs

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.text(max_size=8).filter(lambda text: "$" not in text),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def template(value: Any) -> Plan:
    """A template with one parameter."""
    return Plan(intent="work", steps=(Step(id="a", tool="do.it", params={"p": value}),))


def filled(value: Any, snapshot: str = "may", /, **given: Any) -> Any:
    """What a parameter becomes."""
    return fill(template(value), Request(intent="work", input=given), snapshot).steps[0].params["p"]


@given(JSON)
def test_a_lone_placeholder_becomes_the_value_itself(value: Any) -> None:
    """Numbers stay numbers, objects stay objects, wherever in the parameter it stands."""
    assert filled("${input.x}", x=value) == value
    assert filled({"deep": ["${input.x.y}"]}, x={"y": value}) == {"deep": [value]}


def test_placeholders_inside_a_text_are_written_into_it() -> None:
    """Several of them, and the snapshot, make one string."""
    assert filled("order ${input.id} of ${snapshot}: ${input.id}", id=7) == "order 7 of may: 7"
    assert filled("${snapshot}") == "may"


def test_missing_fields_are_all_named_with_an_example() -> None:
    """Fields inside of others too; a field that is there is not missing."""
    wanted = template(["${input.id}", "${input.to.name}", "${input.to.city}", "${input.note}"])
    missing = missing_inputs(wanted, {"note": None, "to": {"city": "Bern"}})
    assert missing == ("id", "to.name")
    assert example_input(inputs_of(wanted)) == '{"id": "…", "to": {"name": "…", "city": "…"}, "note": "…"}'
    assert example_input(missing) == '{"id": "…", "to": {"name": "…"}}'


@pytest.mark.parametrize("text", ["plain", "$5", "${other}", "${input}", "{input.x}", "${input.x-y}"])
def test_what_is_no_placeholder_stays(text: str) -> None:
    """Only `${input.…}` and `${snapshot}` mean something."""
    assert filled(text, x=1) == text


def test_references_are_left_to_the_critic() -> None:
    """A template may refer to the request, to evidence and to results as any plan may."""
    reference = {"$from": "request#/x"}
    assert filled(reference, x=1) == reference


def test_a_template_may_be_filled_with_lists_by_position() -> None:
    """A number in the path is a place in a list."""
    assert filled("${input.items.1}", items=["a", "b"]) == "b"


@pytest.mark.parametrize("path", ["input.gone", "input.x.gone", "input.items.9"])
def test_a_missing_value_is_named(path: str) -> None:
    """The message says which input the request must have."""
    with pytest.raises(PlanningError) as caught:
        filled(f"${{{path}}}", x=1, items=[])
    assert path in caught.value.message
    assert caught.value.code == "planning_failure"


@pytest.mark.parametrize(
    "value", [{"$from": "s1#/secret"}, {"a": [{"$cel": "1 + 1"}]}, [{"$evidence": "x"}], {"$literal": 1}]
)
def test_a_value_from_a_request_is_data(value: Any) -> None:
    """An object that looks like a reference stays what it is, and refers to nothing."""
    assert filled("${input.x}", x=value) == {"$literal": value}


@pytest.mark.parametrize("step", [{"when": "'${input.x}' == 'a'"}, {"params": {"p": {"$cel": "${input.x}"}}}])
def test_a_value_from_a_request_is_never_code(step: dict[str, Any]) -> None:
    """A template that would write one into an expression is refused with what to write instead."""
    plan = Plan(intent="work", steps=(Step.model_validate({"id": "a", "tool": "do.it", **step}),))
    with pytest.raises(PlanningError, match="into the expression"):
        fill(plan, Request(intent="work", input={"x": "' || true || '"}), "may")


def write_pack(folder: Path, **templates: str) -> Path:
    """A pack folder with these templates."""
    (folder / "templates").mkdir()
    (folder / "pack.toml").write_text('name = "p"\nversion = "1.0.0"\n', encoding="utf-8")
    (folder / "decisions.toml").write_text('[[decision]]\nid = "work"\n', encoding="utf-8")
    for name, text in templates.items():
        (folder / "templates" / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


def test_templates_come_from_the_packs_folder(tmp_path: Path) -> None:
    """One file a plan, one plan an intent; they are part of the pack's hash."""
    text = '{"intent": "work", "steps": [{"id": "n", "kind": "note"}]}'
    pack = Pack.load(write_pack(tmp_path, one=text))
    assert [plan.intent for plan in pack.templates] == ["work"]
    (tmp_path / "templates" / "one.json").write_text(text.replace('"n"', '"m"'), encoding="utf-8")
    assert Pack.load(tmp_path).hash != pack.hash


@pytest.mark.parametrize(
    ("templates", "fault"),
    [
        ({"a": '{"steps": []}'}, "names the intent"),
        (
            {"a": '{"intent": "x", "steps": []}', "b": '{"intent": "x", "steps": []}'},
            "another template for x",
        ),
        ({"a": '{"intent": "x", "stepz": []}'}, "stepz"),
    ],
    ids=["no intent", "two for one intent", "no plan"],
)
def test_a_bad_template_is_a_problem_of_the_pack(
    tmp_path: Path, templates: dict[str, str], fault: str
) -> None:
    """It is found when the pack is loaded, with the file in the message."""
    with pytest.raises(PackError) as caught:
        Pack.load(write_pack(tmp_path, **templates))
    assert any(fault in problem.line() for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("body", "is_filled"),
    [
        ({"from": "request#/rows", "where": {"payee": "${input.payee}"}}, True),
        ({"from": "request#/rows", "order": "largest", "by": "${input.payee}"}, False),
        ({"from": "request#/rows", "field": "${input.payee}"}, False),
        ({"from": "request#/${input.payee}"}, False),
    ],
)
def test_an_untrusted_field_may_be_compared_with_and_never_chooses_what_is_read(
    body: dict[str, Any], *, is_filled: bool
) -> None:
    """In `where` it is a value that review judges; as a list or a field it would decide what is selected."""
    request = Request(intent="work", input={"payee": "asha", "rows": []})
    if is_filled:
        step = fill(template({"$select": body}), request, "may", ("/payee",)).steps[0]
        assert step.params["p"]["$select"]["where"] == {"payee": "asha"}
    else:
        with pytest.raises(PlanningError, match="not trusted"):
            fill(template({"$select": body}), request, "may", ("/payee",))
