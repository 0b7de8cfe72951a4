"""Breaking tasks down: which method is taken, what comes of it, and what is said if nothing does."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.planner import htn
from tercet.planner.alternatives import propose
from tercet.planner.knowledge import Knowledge
from tercet.planner.sources import PlanningError

from .libraries import library, planned, way


def order(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The steps with what each declares to wait for."""
    return {step.id: step.depends_on for step in plan.steps}


def refusal(*args: Any, **named: Any) -> PlanningError:
    """What the planner says if there is no plan."""
    with pytest.raises(PlanningError) as caught:
        planned(*args, **named)
    return caught.value


@pytest.mark.req("R66")
def test_a_total_order_is_a_chain() -> None:
    """The subtasks of a method in total order wait for each other, one by one."""
    assert order(planned(library([way("m", "do", "a", "b", "c")]))) == {"a": (), "b": ("a",), "c": ("b",)}


@pytest.mark.req("R66")
def test_a_partial_order_is_what_the_method_says() -> None:
    """The subtasks of a method in partial order wait for those that they name."""
    subtasks = ("a", "b", {"task": "c", "after": ["a", "b"]}, "d")
    plan = planned(library([way("m", "do", *subtasks, ordering="partial")]))
    assert order(plan) == {"a": (), "b": (), "d": (), "c": ("a", "b")}


@pytest.mark.req("R67")
def test_order_attaches_to_what_abstract_tasks_became() -> None:
    """What comes after an abstract task waits for its last steps, and its first steps wait for what comes before."""
    inner = way("inner", "mid", "x", "y", {"task": "z", "after": ["x"]}, ordering="partial")
    plan = planned(library([way("m", "do", "a", "mid", "b"), inner]))
    assert order(plan) == {
        "a": (),
        "mid__x": ("a",),
        "mid__y": ("a",),
        "mid__z": ("mid__x",),
        "b": ("mid__y", "mid__z"),
    }


def test_a_task_that_becomes_nothing_hands_on_what_it_waited_for() -> None:
    """A method without subtasks leaves no step, and no gap in the order."""
    plan = planned(library([way("m", "do", "a", "mid", "b"), way("nothing", "mid")]))
    assert order(plan) == {"a": (), "b": ("a",)}


@pytest.mark.req("R65")
def test_the_cheapest_method_is_taken() -> None:
    """Costs are numbers or expressions over facts; of two that cost the same, the first is taken."""
    facts = [{"name": "load", "type": "integer", "value": {"$from": "request#/load"}}]
    ways = [
        way("dear", "do", "a", cost=7),
        way("depends", "do", "b", cost="state.load * 2"),
        way("same", "do", "c", cost=7.0),
    ]
    assert list(order(planned(library([way("dear", "do", "a", cost=7), way("cheap", "do", "b")])))) == ["b"]
    shapes = library(ways, facts=facts)
    assert list(order(planned(shapes, request={"load": 3}))) == ["b"]
    assert list(order(planned(shapes, request={"load": 4}))) == ["a"]


@pytest.mark.req("R65")
@pytest.mark.parametrize(
    "broken",
    [
        {"applies": "state.load > 1"},
        {"applies": "request.load.deep.down"},
        {"applies": "args.nothing == 1"},
        {"cost": "state.load + 1"},
        {"cost": "1.0 / 0.0"},
    ],
)
def test_a_method_whose_rule_fails_does_not_apply(broken: dict[str, Any]) -> None:
    """A fact that is not there, or of another type, is not known, and a rule that reads it fails closed."""
    facts = [{"name": "load", "type": "integer", "value": {"$from": "request#/load"}}]
    shapes = library([way("broken", "do", "a", **broken), way("other", "do", "b", cost=9)], facts=facts)
    assert list(order(planned(shapes, request={"load": "much"}))) == ["b"]
    assert list(order(planned(shapes, request={}))) == ["b"]


@pytest.mark.req("R65")
def test_no_applicable_method_is_said_with_the_task() -> None:
    """A task without a method that applies has a code of its own, and is named with the way that led to it."""
    shapes = library([way("m", "do", "a", "mid"), way("never", "mid", "b", applies="false")])
    error = refusal(shapes)
    assert error.code == "no_applicable_method"
    assert "the task mid" in error.message
    assert "do → mid" in error.message


@pytest.mark.req("R68")
def test_a_branch_that_leads_nowhere_is_given_up_for_the_next() -> None:
    """Where a part of the cheapest method cannot be done, the next method of the nearest task above is tried."""
    shapes = library(
        [
            way("first", "do", "a", "stuck"),
            way("second", "do", "a", "mid", cost=2),
            way("never", "stuck", "x", applies="false"),
            way("dead", "mid", "stuck"),
            way("alive", "mid", "b", cost=3),
        ]
    )
    assert order(planned(shapes)) == {"a": (), "mid__b": ("a",)}


def test_a_task_below_itself_with_other_arguments_may_end() -> None:
    """Recursion is no error as long as the arguments lead to an end."""
    tasks = [{"name": "do", "args": ["left"]}]
    again = {"task": "do", "name": "again", "args": {"left": "none"}}
    shapes = library(
        [
            way("more", "do", "a", again, applies='args.left == "some"'),
            way("last", "do", "b", applies='args.left == "none"'),
        ],
        tasks=tasks,
        goals=[{"intent": "work", "task": "do", "args": {"left": "some"}}],
    )
    assert order(planned(shapes)) == {"a": (), "again__b": ("a",)}


def test_endless_recursion_is_named_with_its_circle() -> None:
    """A library that leads back to where it was is refused with the tasks of the circle."""
    shapes = library([way("m", "do", "left"), way("l", "left", "right"), way("r", "right", "left")])
    error = refusal(shapes)
    assert error.code == "endless_recursion"
    assert "left → right → left" in error.message
    assert error.remedy


@pytest.mark.parametrize(
    ("grown", "code"),
    [
        ({"$from": "a#/x"}, "too_deep"),
        ([{"$arg": "grown"}], "too_deep"),
        ([{"$arg": "grown"}, {"$arg": "grown"}], "too_large"),
        ({"$cel": "args.grown + args.grown"}, "too_large"),
    ],
)
def test_recursion_that_grows_is_bounded(grown: Any, code: str) -> None:
    """Arguments that are others each time cannot be told from progress, so depth and size end it."""
    tasks = [{"name": "do", "args": ["grown"]}]
    again = {"task": "do", "name": "again", "args": {"grown": grown}}
    shapes = library(
        [way("m", "do", "a", again)],
        tasks=tasks,
        goals=[{"intent": "work", "task": "do", "args": {"grown": 1}}],
    )
    assert refusal(shapes).code == code


def test_a_library_that_explodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of tasks that are looked at has a limit, whatever comes of them."""
    monkeypatch.setattr(htn, "MAX_TASKS", 500)
    rounds = [way(f"m{n}", f"t{n}", f"t{n + 1}", {"task": f"t{n + 1}", "name": "b"}) for n in range(12)]
    error = refusal(library(rounds, "t0"))
    assert error.code == "too_many_tasks"
    assert "t0 → t1" in error.message


def test_long_ways_make_short_ids() -> None:
    """An id that would be too long is shortened, stays its own, and is the same every time."""
    names = [f"a_task_with_quite_a_long_name_{n}" for n in range(4)]
    chain = [way(f"m{n}", names[n], names[n + 1]) for n in range(3)]
    both = way("both", "do", names[0], {"task": names[0], "name": "other_task_with_quite_a_long_name"})
    first, second = (planned(library([both, *chain])) for _ in range(2))
    ids = [step.id for step in first.steps]
    assert len(set(ids)) == 2
    assert all(len(name) <= 64 for name in ids)
    assert ids == [step.id for step in second.steps]


def test_values_find_their_way_through_arguments() -> None:
    """An argument is a literal or a reference, is handed down, and may stand in parameters and expressions."""
    tasks = [
        {"name": "look", "tool": "x.look", "args": ["at"], "params": {"at": {"$arg": "at"}}},
        {
            "name": "act",
            "tool": "x.act",
            "args": ["on", "times"],
            "params": {"on": {"$arg": "on"}, "n": {"$cel": "args.times + 1"}, "by": {"$literal": {"$x": 1}}},
        },
        {"name": "mid", "args": ["on"]},
    ]
    shapes = library(
        [
            way(
                "m",
                "do",
                {"task": "look", "args": {"at": {"$from": "request#/place"}}},
                {"task": "mid", "args": {"on": {"$from": "look#/found/0"}}},
                {"task": "look", "name": "again", "args": {"at": {"$from": "mid#/where"}}},
            ),
            way(
                "n",
                "mid",
                {"task": "act", "args": {"on": {"$arg": "on"}, "times": {"$arg": "on"}}},
                result="act",
            ),
        ],
        tasks=tasks,
    )
    params = {step.id: step.params for step in planned(shapes).steps}
    assert params == {
        "look": {"at": {"$from": "request#/place"}},
        "mid__act": {
            "on": {"$from": "look#/found/0"},
            "n": {"$cel": 'look["found"][0] + 1'},
            "by": {"$literal": {"$x": 1}},
        },
        "again": {"at": {"$from": "mid__act#/where"}},
    }


@pytest.mark.req("R71")
@pytest.mark.req("R74")
def test_methods_with_when_become_branches() -> None:
    """Methods that look at what is observed all come into the plan: if, else if, else."""
    shapes = library(
        [
            way("m", "do", "look", {"task": "mend", "args": {"seen": {"$from": "look#/state"}}}, "tell"),
            way("hot", "mend", "cool", when='args.seen == "hot"', cost=1),
            way("cold", "mend", "heat", when='args.seen == "cold"', cost=2),
            way("else", "mend", "call", cost=3),
            way("never", "mend", "cry", cost=4),
        ],
        tasks=[{"name": "mend", "args": ["seen"]}],
    )
    plan = planned(shapes)
    assert {step.id: step.when for step in plan.steps} == {
        "look": None,
        "mend__hot__cool": 'look["state"] == "hot"',
        "mend__cold__heat": '(!(look["state"] == "hot")) && (look["state"] == "cold")',
        "mend__else__call": '(!(look["state"] == "hot")) && (!(look["state"] == "cold"))',
        "tell": None,
    }
    assert plan.steps[-1].depends_on == ("mend__hot__cool", "mend__cold__heat", "mend__else__call")


@pytest.mark.req("R74")
def test_a_condition_of_a_subtask_guards_all_that_it_became() -> None:
    """A subtask with `when` hands its condition to every step below it, together with theirs."""
    inner = way("inner", "mid", "a", {"task": "b", "when": "a.ok"})
    shapes = library([way("m", "do", "look", {"task": "mid", "when": "look.bad"}), inner])
    assert {step.id: step.when for step in planned(shapes).steps} == {
        "look": None,
        "mid__a": "look.bad",
        "mid__b": "(look.bad) && (mid__a.ok)",
    }


@pytest.mark.req("R74")
def test_branch_depth_is_bounded() -> None:
    """Five conditions around a step are one too many, and fewer where a run may have fewer."""

    def nested(depth: int) -> Any:
        chain = [
            way(f"m{n}", f"t{n}", f"a{n}", {"task": f"t{n + 1}", "when": f"a{n}.ok"}) for n in range(depth)
        ]
        return library([*chain, way("last", f"t{depth}", "end")], "t0")

    assert len(planned(nested(4)).steps) == 5
    error = refusal(nested(5))
    assert error.code == "branch_depth"
    knowledge = Knowledge(nested(2))
    with pytest.raises(PlanningError, match="more than 1 conditions") as caught:
        propose(knowledge, knowledge.library.goals[0], knowledge.case({}, {}, branch_depth=1))
    assert caught.value.code == "branch_depth"


@pytest.mark.req("R68")
@pytest.mark.req("R75")
def test_after_a_setback_the_innermost_alternative_is_taken() -> None:
    """The method that brought a failed step gives way to the next one of its task, then that of the task above."""
    shapes = library(
        [
            way("careful", "do", "a", "mid", "z"),
            way("rough", "do", "a", "force", cost=9),
            way("first", "mid", "b"),
            way("second", "mid", "c", cost=2),
        ]
    )
    before, after, last = (
        planned(shapes),
        planned(shapes, ("mid__b",)),
        planned(shapes, ("mid__b",), ("mid__c",)),
    )
    assert [list(order(plan)) for plan in (before, after, last)] == [
        ["a", "mid__b", "z"],
        ["a", "mid__c", "z"],
        ["a", "force"],
    ]
    assert {plan.steps[0].hash for plan in (before, after, last)} == {before.steps[0].hash}
    error = refusal(shapes, ("mid__b",), ("mid__c",), ("force",))
    assert error.code == "no_alternative_left"


@pytest.mark.req("R68")
def test_a_setback_of_the_whole_plan_gives_up_its_last_choice() -> None:
    """A refusal that names no step is answered by the last task that can be done in another way."""
    shapes = library(
        [
            way("m", "do", "one", "two", "end"),
            way("o1", "one", "a"),
            way("o2", "one", "b", cost=2),
            way("t1", "two", "c"),
            way("t2", "two", "d", cost=2),
        ]
    )
    plans = [planned(shapes, *[()] * number) for number in range(3)]
    assert [[step.id for step in plan.steps] for plan in plans] == [
        ["one__a", "two__c", "end"],
        ["one__a", "two__d", "end"],
        ["one__b", "two__d", "end"],
    ]
    error = refusal(shapes, (), (), ())
    assert error.code == "no_alternative_left"


def test_an_alternative_that_comes_to_the_same_is_passed_over() -> None:
    """A plan that was refused is not proposed again only because two methods say the same."""
    shapes = library([way("m", "do", "a"), way("twin", "do", "a", cost=2), way("other", "do", "b", cost=3)])
    assert list(order(planned(shapes, ("a",)))) == ["b"]


def test_a_setback_about_another_plan_changes_nothing() -> None:
    """A step that this library does not come to cannot be a reason to give anything up."""
    shapes = library([way("m", "do", "a"), way("other", "do", "b", cost=3)])
    assert list(order(planned(shapes, ("gone",)))) == ["a"]
