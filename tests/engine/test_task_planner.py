"""Tasks and methods in a run: the next alternative after a failure, nothing repeated, and the same after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tercet.contracts.errors import NotDone, UsageError
from tercet.contracts.request import Request
from tercet.contracts.tasks import TaskLibrary
from tercet.core import events as e
from tercet.engine.result import RunResult
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.tools import ToolContext

from .workshop import ADA, ASK, Death, Workshop, events, plan, step

RECOVER: dict[str, Any] = {
    "tasks": [
        {"name": "work"},
        {"name": "mend"},
        *(
            {"name": name, "tool": "do.it", "args": ["n"], "params": {"n": {"$arg": "n"}}}
            for name in ("look", "one", "two", "three", "tell")
        ),
    ],
    "methods": [
        {
            "name": "all",
            "task": "work",
            "subtasks": [
                {"task": "look", "args": {"n": {"$from": "request#/order"}}},
                {"task": "mend"},
                {"task": "tell", "args": {"n": {"$cel": "look.n + '!'"}}},
            ],
        },
        *(
            {
                "name": f"by_{name}",
                "task": "mend",
                "cost": cost,
                "subtasks": [{"task": name, "args": {"n": name}}],
            }
            for cost, name in enumerate(("one", "two", "three"))
        ),
    ],
    "goals": [{"intent": "work", "task": "work"}],
}
ONCE = {"max_step_retries": 0}


def recovery(workshop: Workshop, failing: tuple[str, ...], **header: Any) -> Pack:
    """A pack whose ways to mend fail if they are among these."""

    async def behave(_: ToolContext, params: dict[str, Any]) -> Any:
        if params["n"] in failing:
            raise NotDone(f"{params['n']} is broken")
        return params

    workshop.tool("do.it", behave, idempotent=True)
    return workshop.pack(budget=ONCE, library=TaskLibrary.model_validate(RECOVER), **header)


@pytest.mark.req("R68", "R129")
@pytest.mark.req("R75")
async def test_the_next_alternative_is_taken_and_nothing_is_repeated(workshop: Workshop) -> None:
    """A way that fails gives way to the next one, twice; what was done before is not done again."""
    pack = recovery(workshop, ("one", "two"))

    async def main() -> tuple[RunResult, list[e.Event]]:
        async with workshop.runtime(pack) as runtime:
            result = await runtime.run(ASK, actor=ADA)
            return result, await events(runtime.journal, result.session_id)

    result, found = await main()
    assert result.status == "completed", result.reason
    assert [name for name, _ in workshop.calls] == ["look", "mend__one", "mend__two", "mend__three", "tell"]
    proposed = [event for event in found if isinstance(event, e.PlanProposed)]
    assert [event.planner for event in proposed] == ["htn"] * 3
    looks = [next(step for step in event.plan["steps"] if step["id"] == "look") for event in proposed]
    assert looks[0] == looks[1] == looks[2]


async def test_without_an_alternative_the_run_says_so(workshop: Workshop) -> None:
    """When every way has failed, the run ends with the planner's reason."""
    pack = recovery(workshop, ("one", "two", "three"))
    budget = {**ONCE, "max_replans": 5, "replans_rationale": "there are three ways"}

    async def main() -> tuple[RunResult, list[e.Event]]:
        async with workshop.runtime(pack.model_copy(update={"budget": budget})) as runtime:
            result = await runtime.run(ASK, actor=ADA)
            return result, await events(runtime.journal, result.session_id)

    result, found = await main()
    assert result.status == "failed"
    (failed,) = [event for event in found if isinstance(event, e.PlanningFailed)]
    assert failed.code == "no_alternative_left"
    assert "by_one, by_two, by_three" in failed.reason


@pytest.mark.req("R75")
async def test_a_planner_of_another_process_goes_on_where_the_first_was(
    workshop: Workshop, tmp_path: Path
) -> None:
    """What was tried is in the journal: a process that takes over neither repeats a way nor passes one over."""
    pack = recovery(workshop, ("one", "two"))
    url = f"sqlite:///{tmp_path}/runs.db"

    async def main() -> RunResult:
        async with workshop.journal(url) as journal:
            death = Death("before_call", 3)  # of the second way

            async def life() -> RunResult:
                async with workshop.runtime(pack, journal, crash=death) as runtime:
                    return await runtime.run(ASK, actor=ADA)

            assert await death.of(life()) is None
            async with workshop.runtime(pack, journal) as runtime:
                (row,) = await runtime.sessions()
                return await runtime.resume(row.session_id)

    result = await main()
    assert result.status == "completed", result.reason
    assert [name for name, _ in workshop.calls] == ["look", "mend__one", "mend__two", "mend__three", "tell"]


@pytest.mark.req("R57")
async def test_a_request_that_no_method_is_for_starts_no_session(workshop: Workshop) -> None:
    """Where nothing applies, the planner's reason is the answer, nothing is called, and nothing is recorded."""
    workshop.tool("do.it")
    methods = [{**method, "applies": "request.missing"} for method in RECOVER["methods"]]
    pack = workshop.pack(library=TaskLibrary.model_validate({**RECOVER, "methods": methods}))

    async def main() -> tuple[str, int]:
        async with workshop.runtime(pack) as runtime:
            with pytest.raises(PlanningError) as caught:
                await runtime.run(ASK, actor=ADA)
            return caught.value.code, len(await runtime.sessions())

    assert (await main()) == ("no_applicable_method", 0)
    assert workshop.calls == []


async def test_a_template_comes_first_unless_methods_are_asked_for(workshop: Workshop) -> None:
    """A pack with both for an intent uses its template; `planner` names the other one, and a wrong name is wrong use."""
    pack = recovery(workshop, (), templates=(plan(step("own")),))

    async def main() -> None:
        async with workshop.runtime(pack) as runtime:
            await runtime.run(ASK, actor=ADA)
            await runtime.run(ASK, actor=ADA, planner="htn")
            with pytest.raises(UsageError, match="unknown planner") as caught:
                await runtime.run(ASK, actor=ADA, planner="magic")  # pyright: ignore[reportArgumentType] - that is the test
            assert caught.value.code == "unknown_planner"
            with pytest.raises(PlanningError) as missing:
                await runtime.run(Request(intent="work.other"), actor=ADA, planner="htn")
            assert missing.value.code == "no_goal"

    pack = pack.model_copy(
        update={"decisions": [pack.decisions[0].model_copy(update={"intents": ("work", "work.other")})]}
    )
    await main()
    assert [name for name, _ in workshop.calls] == ["own", "look", "mend__one", "tell"]


@pytest.mark.req("R74")
def test_what_is_observed_decides_between_branches(workshop: Workshop) -> None:
    """Only the branch whose condition holds is carried out, and what comes after both waits for neither in vain.

    Where the budget allows no branches, the way without a condition is the only one.
    """
    workshop.tool("do.it")
    methods = [
        RECOVER["methods"][0]
        | {
            "subtasks": [
                {"task": "look", "args": {"n": {"$from": "request#/order"}}},
                {"task": "mend", "args": {"seen": {"$from": "look#/n"}}},
                {"task": "tell", "args": {"n": "end"}},
            ]
        },
        {
            "name": "if_so",
            "task": "mend",
            "when": 'args.seen == "o1"',
            "subtasks": [{"task": "one", "args": {"n": "1"}}],
        },
        {"name": "if_not", "task": "mend", "cost": 2, "subtasks": [{"task": "two", "args": {"n": "2"}}]},
    ]
    tasks = [
        task if task["name"] != "mend" else {"name": "mend", "args": ["seen"]} for task in RECOVER["tasks"]
    ]
    pack = workshop.pack(library=TaskLibrary.model_validate({**RECOVER, "tasks": tasks, "methods": methods}))

    async def main() -> list[str]:
        async with workshop.runtime(pack) as runtime:
            first = await runtime.run(ASK, actor=ADA)
            second = await runtime.run(Request(intent="work", input={"order": "o2"}), actor=ADA)
            return [first.status, second.status]

    assert workshop.run(main()) == ["completed", "completed"]
    names = [name for name, _ in workshop.calls]
    assert names == ["look", "mend__if_so__one", "tell", "look", "mend__if_not__two", "tell"]

    async def without_branches() -> str:
        async with workshop.runtime(pack.model_copy(update={"budget": {"max_branch_depth": 0}})) as runtime:
            return (await runtime.run(ASK, actor=ADA)).status

    workshop.calls.clear()
    assert workshop.run(without_branches()) == "completed"
    assert [name for name, _ in workshop.calls] == ["look", "mend__if_not__two", "tell"]


def step_that_revokes(workshop: Workshop, order: list[str]) -> str:
    """What a run says of a method with these tools, of which `do.use` needs what `do.make` makes and `do.break` breaks."""
    workshop.tool("do.make", establishes=("made",))
    workshop.tool("do.break", revokes=("made",))
    workshop.tool("do.use", preconditions=("made",))
    library = {
        "tasks": [
            {"name": "work"},
            *({"name": n, "tool": f"do.{n}", "params": {"n": n}} for n in ("make", "break", "use")),
        ],
        "methods": [
            {
                "name": "m",
                "task": "work",
                "ordering": "partial" if not order else "total",
                "subtasks": [{"task": name} for name in order or ("use", "break", "make")],
            }
        ],
        "goals": [{"intent": "work", "task": "work"}],
    }
    pack = workshop.pack(library=TaskLibrary.model_validate(library))

    async def main() -> str:
        async with workshop.runtime(pack) as runtime:
            return (await runtime.run(ASK, actor=ADA)).status

    return workshop.run(main())


@pytest.mark.req("R72")
def test_conditions_order_what_a_method_leaves_open(workshop: Workshop) -> None:
    """Unordered tasks run in the order that their tools' conditions ask for: made, used, and only then broken."""
    assert step_that_revokes(workshop, []) == "completed"
    assert [name for name, _ in workshop.calls] == ["make", "use", "break"]


@pytest.mark.req("R72")
def test_a_threat_that_a_method_insists_on_is_refused(workshop: Workshop) -> None:
    """A method that breaks what it needs next is no plan, and nothing is called."""
    with pytest.raises(PlanningError) as caught:
        step_that_revokes(workshop, ["make", "break", "use"])
    assert caught.value.code == "unresolved_threat"
    assert workshop.calls == []
