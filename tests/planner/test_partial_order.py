"""Partial-order plans: links, threats, orders, and how much freedom is left."""

from __future__ import annotations

from itertools import combinations, permutations
from math import factorial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.plan import Plan, Step
from tercet.contracts.steps.conditions import effects_in, exposures
from tercet.contracts.tool import ToolSpec
from tercet.planner.flexibility import Flexibility, flexibility
from tercet.planner.partial_order import Arrangement, Link, Threat, arrange
from tercet.planner.schedule import schedule

CONDITIONS = ("p", "q")
Effects = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def tool(name: str, needs: str = "", gives: str = "", takes: str = "", ms: int = 0) -> ToolSpec:
    """A tool with conditions of one letter each."""
    return ToolSpec.model_validate(
        {
            "name": f"x.{name}",
            "mode": "read_only",
            "preconditions": tuple(needs),
            "establishes": tuple(gives),
            "revokes": tuple(takes),
            "estimated_ms": ms,
        }
    )


def plan_of(*tools: ToolSpec, before: dict[str, tuple[str, ...]] | None = None) -> Plan:
    """A plan with one step for each tool, called like it, and these orderings."""
    names = [spec.name.partition(".")[2] for spec in tools]
    return Plan(
        steps=tuple(
            Step(id=name, tool=f"x.{name}", depends_on=(before or {}).get(name, ())) for name in names
        )
    )


def arranged(
    *tools: ToolSpec, held: str = "", before: dict[str, tuple[str, ...]] | None = None
) -> Arrangement:
    """These tools as steps, arranged."""
    return arrange(plan_of(*tools, before=before), {spec.name: spec for spec in tools}, frozenset(held))


@pytest.mark.req("R71")
def test_a_condition_links_who_brings_it_about_to_who_needs_it() -> None:
    """The link becomes an ordering, and is reported with its condition."""
    found = arranged(tool("use", needs="p"), tool("make", gives="p"))
    assert found.links == (Link("make", "p", "use"),)
    assert found.plan.steps[0].depends_on == ("make",)


@pytest.mark.req("R72")
def test_a_threat_is_put_after_the_one_that_needs_the_condition() -> None:
    """Promotion: what revokes a condition waits until it has been used."""
    found = arranged(tool("make", gives="p"), tool("use", needs="p"), tool("break", takes="p"))
    assert found.unresolved == ()
    assert found.plan.steps[2].depends_on == ("use",)


@pytest.mark.req("R72")
def test_a_threat_that_must_come_before_is_put_before_the_link() -> None:
    """Demotion: what revokes a condition comes before it is brought about, if it must come before its use."""
    found = arranged(
        tool("make", gives="p"), tool("break", takes="p"), tool("use", needs="p"), before={"use": ("break",)}
    )
    assert found.unresolved == ()
    assert found.plan.steps[0].depends_on == ("break",)


@pytest.mark.req("R72")
def test_a_threat_that_cannot_be_moved_is_reported() -> None:
    """What stands between the two of a link by the plan's own order is named with the link."""
    found = arranged(
        tool("make", gives="p"), tool("break", takes="p"), tool("use", needs="p"),
        before={"break": ("make",), "use": ("break",)},
    )  # fmt: skip
    assert found.unresolved == (Threat("break", Link("make", "p", "use")),)


def test_a_condition_that_holds_at_the_start_is_protected_too() -> None:
    """Nobody brings it about, so what revokes it can only come later."""
    found = arranged(tool("break", takes="p"), tool("use", needs="p"), held="p")
    assert found.links == (Link(None, "p", "use"),)
    assert found.plan.steps[0].depends_on == ("use",)


def test_a_condition_that_nobody_brings_about_stays_open() -> None:
    """The step and the condition are reported, and the plan is left to the critic."""
    assert arranged(tool("use", needs="p")).open == (("use", "p"),)


def test_one_choice_is_taken_back_for_another() -> None:
    """Where promoting one threat would leave another without a way out, it is demoted."""
    tools = (
        tool("make", gives="p"), tool("use", needs="p"),
        tool("mix", takes="p", gives="q"), tool("take", needs="q", gives="r"), tool("last", takes="q"),
    )  # fmt: skip
    found = arranged(*tools, before={"use": ("last",), "last": ()})
    assert found.unresolved == ()
    assert no_link_is_broken(found, {spec.name: spec for spec in tools})


def linear_orders(plan: Plan) -> list[tuple[int, ...]]:
    """Brute force: every permutation that keeps the plan's order."""
    before = [(a, b) for b, waits in enumerate(plan.graph.predecessors) for a in waits]
    return [
        order
        for order in permutations(range(len(plan.steps)))
        if all(order.index(a) < order.index(b) for a, b in before)
    ]


def no_link_is_broken(found: Arrangement, surface: dict[str, ToolSpec]) -> bool:
    """Whether in every linear order each link's condition holds from where it is brought about to where it is used."""
    ids = [step.id for step in found.plan.steps]
    for order in linear_orders(found.plan):
        line = [ids[index] for index in order]
        for producer, condition, consumer in found.links:
            start = -1 if producer is None else line.index(producer)
            between = line[start + 1 : line.index(consumer)]
            if start > line.index(consumer) or any(condition in surface[f"x.{n}"].revokes for n in between):
                return False
    return True


@st.composite
def puzzles(draw: st.DrawFn) -> tuple[tuple[ToolSpec, ...], dict[str, tuple[str, ...]], str]:
    """Up to five tools with conditions, some orderings, and what holds at the start."""
    letters = st.lists(st.sampled_from(CONDITIONS), unique=True, max_size=1).map("".join)
    count = draw(st.integers(1, 5))
    tools = tuple(tool(f"s{n}", draw(letters), draw(letters), draw(letters)) for n in range(count))
    before = {f"s{b}": tuple(f"s{a}" for a in range(b) if draw(st.integers(0, 4)) == 0) for b in range(count)}
    return tools, before, draw(letters)


@pytest.mark.req("R72")
@given(puzzles())
@settings(max_examples=200)
def test_no_order_of_an_arranged_plan_breaks_a_link(
    puzzle: tuple[tuple[ToolSpec, ...], dict[str, tuple[str, ...]], str],
) -> None:
    """A plan without unresolved threats keeps every condition in every order that it allows; one with them cannot."""
    tools, before, held = puzzle
    found = arranged(*tools, held=held, before=before)
    assert found.plan.graph.is_acyclic
    surface = {spec.name: spec for spec in tools}
    if not found.unresolved:
        assert no_link_is_broken(found, surface)
    else:
        # Its links cannot be kept by any more orders: each single line of the plan breaks one of them.
        ids = [step.id for step in found.plan.steps]
        for order in linear_orders(found.plan):
            line = {ids[index]: (ids[order[at - 1]],) if at else () for at, index in enumerate(order)}
            steps = tuple(step.model_copy(update={"depends_on": line[step.id]}) for step in found.plan.steps)
            forced = Arrangement(plan=Plan(steps=steps), links=found.links)
            assert not no_link_is_broken(forced, surface)


@pytest.mark.req("R72")
@given(puzzles())
@settings(max_examples=200)
def test_the_critic_finds_no_threat_in_what_was_arranged(
    puzzle: tuple[tuple[ToolSpec, ...], dict[str, tuple[str, ...]], str],
) -> None:
    """Planner and critic mean the same by a threat: what the one has resolved, the other does not refuse."""
    tools, before, held = puzzle
    found = arranged(*tools, held=held, before=before)
    effects = effects_in(found.plan, {spec.name: spec for spec in tools})
    if not found.unresolved:
        assert list(exposures(found.plan.graph, effects, frozenset(held))) == []


@st.composite
def plans(draw: st.DrawFn, most: int = 7) -> Plan:
    """Plans of so many steps in some acyclic order."""
    count = draw(st.integers(0, most))
    chosen = draw(st.sets(st.sampled_from(list(combinations(range(max(2, count)), 2)))))
    return Plan(
        steps=tuple(
            Step(id=f"s{b}", kind="note", depends_on=tuple(f"s{a}" for a in range(b) if (a, b) in chosen))
            for b in range(count)
        )
    )


@pytest.mark.req("R73")
@given(plans())
@settings(max_examples=100)
def test_orders_are_counted_as_brute_force_counts_them(plan: Plan) -> None:
    """The number of linear orders is that of the permutations that keep the order."""
    number = len(linear_orders(plan))
    assert flexibility(plan.graph) == Flexibility(number, number)


@pytest.mark.req("R73")
@given(plans())
@settings(max_examples=100)
def test_bounds_enclose_the_number(plan: Plan) -> None:
    """What is said of parts that are too large to count would be true of those that are not."""
    number = len(linear_orders(plan))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tercet.planner.flexibility.EXACT_STEPS", 1)
        found = flexibility(plan.graph)
    assert found.low <= number <= found.high


def layers(*sizes: int) -> Plan:
    """Steps in layers, each step waiting for all of the layer before."""
    names = [[f"l{layer}_{n}" for n in range(size)] for layer, size in enumerate(sizes)]
    return Plan(
        steps=tuple(
            Step(id=name, kind="note", depends_on=tuple(names[layer - 1]) if layer else ())
            for layer, listed in enumerate(names)
            for name in listed
        )
    )


@pytest.mark.req("R73")
def test_twenty_steps_are_counted_and_more_are_bounded() -> None:
    """Two layers of ten are 10! · 10! orders to the last one; with one more step there are two bounds."""
    assert flexibility(layers(10, 10).graph) == Flexibility(factorial(10) ** 2, factorial(10) ** 2)
    found = flexibility(layers(10, 11).graph)
    assert found.low < factorial(10) * factorial(11) < found.high
    assert not found.is_exact


def test_steps_without_any_order_are_counted_however_many() -> None:
    """Parts that have nothing to do with each other interleave freely."""
    assert flexibility(layers(30).graph) == Flexibility(factorial(30), factorial(30))


def test_a_circle_has_no_order() -> None:
    """A plan that waits for itself cannot be carried out in any order."""
    steps = (Step(id="a", kind="note", depends_on=("b",)), Step(id="b", kind="note", depends_on=("a",)))
    assert flexibility(Plan(steps=steps).graph) == Flexibility(0, 0)
    assert schedule(Plan(steps=steps), {}).critical_path == ()
    assert arrange(Plan(steps=steps), {}).plan == Plan(steps=steps)


@pytest.mark.req("R69")
@pytest.mark.req("R70")
def test_the_critical_path_has_no_slack_and_the_rest_has() -> None:
    """The longest chain is the least time that the plan takes; what is beside it may wait for the difference."""
    tools = (tool("a", ms=10), tool("long", ms=50), tool("short", ms=20), tool("end", ms=5))
    plan = plan_of(*tools, before={"long": ("a",), "short": ("a",), "end": ("long", "short")})
    found = schedule(plan, {spec.name: spec for spec in tools})
    assert (found.total_ms, found.critical_path) == (65, ("a", "long", "end"))
    assert {name: window.slack_ms for name, window in found.windows.items()} == {
        "a": 0,
        "long": 0,
        "short": 30,
        "end": 0,
    }
