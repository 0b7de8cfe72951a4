"""Whatever a library says: its plans are primitive, acyclic, ordered as it says and no more, found if there are any, and
of least cost at each choice. What there is to find is told by other algorithms than the planner's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.contracts.plan import Plan
from tercet.contracts.tasks import Method, TaskLibrary
from tercet.planner.htn import Node
from tercet.planner.partial_order import lay_out
from tercet.planner.sources import Placeholders, PlanningError

from .libraries import broken_down, libraries, planned

REQUESTS = st.sampled_from([{"x": True}, {"x": False}])


def applicable(library: TaskLibrary, task: str, request: dict[str, bool]) -> list[Method]:
    """The methods of a task that apply: worked out from the few conditions that made-up libraries have."""
    holds = {None: True, "request.x": request["x"], "!request.x": not request["x"], "request.missing": False}
    return [method for method in library.methods_of.get(task, ()) if holds[method.applies]]


def doable(library: TaskLibrary, request: dict[str, bool]) -> set[str]:
    """The tasks that can be done at all: primitive ones, and those with a method of such, until nothing is added."""
    found = {task.name for task in library.tasks if task.is_primitive}
    while True:
        more = {
            task.name
            for task in library.tasks
            for method in applicable(library, task.name, request)
            if all(subtask.task in found for subtask in method.subtasks)
        }
        if more <= found:
            return found
        found |= more


def can_follow(
    library: TaskLibrary, method: Method, above: tuple[str, ...], request: dict[str, bool]
) -> bool:
    """Brute force: whether some choice of methods does all of this one, and no task comes up below itself."""
    primitive = {task.name for task in library.tasks if task.is_primitive}
    return all(
        subtask.task in primitive
        or (
            subtask.task not in above
            and any(
                can_follow(library, other, (*above, subtask.task), request)
                for other in applicable(library, subtask.task, request)
            )
        )
        for subtask in method.subtasks
    )


def outcome(library: TaskLibrary, request: dict[str, bool], *setbacks: tuple[str, ...]) -> Plan | None:
    """The plan, or None if the planner says that there is none."""
    try:
        return planned(library, *setbacks, request=request)
    except PlanningError:
        return None


@pytest.mark.req("R64")
@pytest.mark.req("R65")
@given(libraries(), REQUESTS)
@settings(max_examples=150)
def test_a_plan_is_found_if_there_is_one(library: TaskLibrary, request: dict[str, bool]) -> None:
    """A plan is found if and only if the task can be done, and it is made of primitive tasks alone."""
    plan = outcome(library, request)
    assert (plan is not None) == ("t0" in doable(library, request))
    tools = {task.tool for task in library.tasks if task.is_primitive}
    assert {step.tool for step in plan.steps} <= tools if plan else True


def abstract_nodes(node: Node, above: tuple[str, ...] = ()) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Every abstract node of a tree with the tasks above it, itself included."""
    if not node.task.is_primitive:
        path = (*above, node.task.name)
        yield node, path
        for child in node.branches[0].children:
            yield from abstract_nodes(child, path)


@pytest.mark.req("R65")
@given(libraries(), REQUESTS)
@settings(max_examples=150)
def test_each_choice_is_the_cheapest_that_leads_anywhere(
    library: TaskLibrary, request: dict[str, bool]
) -> None:
    """At each task, no method that is cheaper, or as cheap and written before, could have been followed to its end."""
    tree = broken_down(library, request)
    if isinstance(tree, PlanningError):
        return
    for node, path in abstract_nodes(tree):
        usable = [
            m for m in applicable(library, node.task.name, request) if can_follow(library, m, path, request)
        ]
        assert node.branches[0].way.method == min(usable, key=lambda method: float(method.cost))


def leaf_ids(node: Node) -> set[str]:
    """The ids of the steps that a node became."""
    if node.task.is_primitive:
        return {node.site.id}
    return {step for child in node.branches[0].children for step in leaf_ids(child)}


def demanded(node: Node) -> set[tuple[str, str]]:
    """Every pair of steps of which the library says that the first comes before the second, through others or not."""
    if node.task.is_primitive:
        return set()
    method, children = node.branches[0].way.method, node.branches[0].children
    names = [subtask.label for subtask in method.subtasks]
    before = {(names.index(a), names.index(b.label)) for b in method.subtasks for a in b.after}
    before |= set(combinations(range(len(names)), 2)) if method.ordering == "total" else set()
    for middle in range(len(names)):
        before |= {(a, d) for a, b in before for c, d in before if b == c == middle}
    found = {(x, y) for a, b in before for x in leaf_ids(children[a]) for y in leaf_ids(children[b])}
    return found.union(*(demanded(child) for child in children))


@pytest.mark.req("R66")
@pytest.mark.req("R67")
@given(libraries(), REQUESTS)
@settings(max_examples=150)
def test_steps_are_ordered_as_the_library_says(library: TaskLibrary, request: dict[str, bool]) -> None:
    """A step comes before another if and only if some method orders the subtasks that they came from."""
    tree = broken_down(library, request)
    if isinstance(tree, PlanningError):
        return
    plan = planned(library, request=request)
    assert plan.graph.is_acyclic
    ids = [step.id for step in plan.steps]
    kept = {(ids[a], ids[b]) for b in range(len(ids)) for a in plan.graph.ancestors(b)}
    assert set(ids) == leaf_ids(tree)
    assert kept == demanded(tree)


@given(libraries(), REQUESTS)
@settings(max_examples=50)
def test_the_same_library_gives_the_same_plan(library: TaskLibrary, request: dict[str, bool]) -> None:
    """Planning twice, with everything compiled anew, comes to the same bytes."""
    first, second = outcome(library, request), outcome(library.model_copy(), request)
    assert (first and first.hash) == (second and second.hash)


def way_down(node: Node, step: str) -> tuple[Node, ...]:
    """The abstract nodes above a step, the outermost first; none if it is not below this node."""
    if node.task.is_primitive:
        return ()
    for child in node.branches[0].children:
        below = way_down(child, step)
        if below or child.site.id == step:
            return (node, *below)
    return ()


def choices(node: Node, without: str) -> dict[str, str]:
    """The method that was taken at each abstract node, but for those at and below the node with this key."""
    if node.task.is_primitive or node.site.key == without:
        return {}
    taken = {node.site.key: node.branches[0].way.method.name}
    for child in node.branches[0].children:
        taken |= choices(child, without)
    return taken


@pytest.mark.req("R68")
@pytest.mark.req("R75")
@given(libraries(), REQUESTS, st.integers(0, 100))
@settings(max_examples=150)
def test_a_setback_changes_the_part_that_it_is_about(
    library: TaskLibrary, request: dict[str, bool], number: int
) -> None:
    """The innermost task above a failed step that can be done in another way is, by the next cheapest; no other is."""
    tree = broken_down(library, request)
    steps = sorted(leaf_ids(tree)) if isinstance(tree, Node) else []
    if isinstance(tree, PlanningError) or not steps:
        return
    above = way_down(tree, steps[number % len(steps)])
    given_up = {above[-1].site.key: frozenset({above[-1].branches[0].way.method.name})}
    other = broken_down(library, request, given_up)
    for depth in range(len(above), 0, -1):
        node, path = above[depth - 1], tuple(node.task.name for node in above[:depth])
        left = [
            method
            for method in applicable(library, node.task.name, request)
            if method != node.branches[0].way.method and can_follow(library, method, path, request)
        ]
        if left:
            assert isinstance(other, Node)
            assert choices(other, node.site.key) == choices(tree, node.site.key)
            taken = choices(other, "nowhere")[node.site.key]
            assert taken == min(left, key=lambda method: float(method.cost)).name
            return
    assert isinstance(other, PlanningError)


@pytest.mark.req("R68")
@given(libraries(), REQUESTS, st.integers(0, 100))
@settings(max_examples=100)
def test_after_a_setback_there_is_another_plan_or_none(
    library: TaskLibrary, request: dict[str, bool], number: int
) -> None:
    """A plan that was given up is never proposed again."""
    plan = outcome(library, request)
    if plan is None or not plan.steps:
        return
    other = outcome(library, request, (plan.steps[number % len(plan.steps)].id,))
    assert other is None or other.hash != plan.hash


def parted(first: Node, second: Node) -> tuple[Node, Node] | None:
    """The outermost node at which two trees took different methods, in both; None if they are the same."""
    if first.task.is_primitive:
        return None
    if first.branches[0].way.method != second.branches[0].way.method:
        return first, second
    pairs = zip(first.branches[0].children, second.branches[0].children, strict=True)
    return next((found for one, other in pairs if (found := parted(one, other))), None)


def assert_kept_outside(plan: Plan, other: Plan, inside: set[str]) -> None:
    """Steps outside a branch are the same bytes; one that waits for a step of the branch may wait for others."""
    before, after = ({step.id: step for step in each.steps} for each in (plan, other))
    assert before.keys() - inside == after.keys() - inside
    for name in before.keys() - inside:
        first, second = before[name], after[name]
        if {*first.depends_on, *second.depends_on} & inside:
            second = second.model_copy(update={"depends_on": first.depends_on})
        assert first.model_dump_json() == second.model_dump_json()
        assert first.hash == second.hash


@pytest.mark.req("R68")
@pytest.mark.req("R75")
@given(libraries(), REQUESTS, st.lists(st.integers(0, 100), min_size=1, max_size=3))
@settings(max_examples=200)
def test_every_step_outside_the_failed_branch_stays_byte_for_byte(
    library: TaskLibrary, request: dict[str, bool], numbers: list[int]
) -> None:
    """After each of several failures only the branch is another one, and the planner proposes just that."""
    tree, goal = broken_down(library, request), library.goals[0]
    tried: dict[str, frozenset[str]] = {}
    setbacks: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for number in numbers:
        if isinstance(tree, PlanningError) or not (steps := lay_out(tree, goal, Placeholders()).steps):
            return
        plan = lay_out(tree, goal, Placeholders())
        seen.add(plan.hash)
        setbacks.append((steps[number % len(steps)].id,))
        above = way_down(tree, setbacks[-1][0])[-1]
        gone = tried.get(above.site.key, frozenset()) | {above.branches[0].way.method.name}
        tried[above.site.key] = gone
        other = broken_down(library, request, tried)
        if isinstance(other, PlanningError) or lay_out(other, goal, Placeholders()).hash in seen:
            return
        branches = parted(tree, other)
        assert branches is not None
        assert planned(library, *setbacks, request=request) == lay_out(other, goal, Placeholders())
        assert_kept_outside(
            plan, lay_out(other, goal, Placeholders()), leaf_ids(branches[0]) | leaf_ids(branches[1])
        )
        tree = other
