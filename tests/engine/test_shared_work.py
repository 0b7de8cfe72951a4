"""Runs that are alike share a review, an execution plan and a context; runs that differ in anything do not."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.plan import Plan
from tercet.contracts.request import Request
from tercet.contracts.tool import ToolSpec
from tercet.contracts.verdict import Verdict
from tercet.core import events as e
from tercet.core.config import RunConfig
from tercet.core.resolve import planning
from tercet.core.shared import MOST, SharedWork
from tercet.engine.result import RunResult
from tercet.runtime import Runtime

from .workshop import ADA, ASK, DAN, Workshop, events, plan, step


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that the critic was asked about."""
    plans: list[Plan] = []
    verify = planning.verify

    def counted(*given: Any, **named: Any) -> Verdict:
        plans.append(given[3])
        return verify(*given, **named)

    monkeypatch.setattr(planning, "verify", counted)
    return plans


def work(name: str = "a", **fields: Any) -> Plan:
    """A plan of two steps."""
    return plan(step(name), step("b", depends_on=(name,)), **fields)


async def reviewed(runtime: Runtime, result: RunResult) -> e.PlanReviewed:
    """The review of a run."""
    found = await events(runtime.journal, result.session_id, runtime.tenant)
    return next(event for event in found if isinstance(event, e.PlanReviewed))


def test_runs_that_are_alike_are_reviewed_once(workshop: Workshop, asked: list[Plan]) -> None:
    """The second one has the same verdict, in a dict of its own, and time that has passed makes no difference."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            first = await runtime.run(ASK, plan=work(), actor=ADA)
            assert first.record is not None
            first.record.outputs["x"] = first.outputs["x"] = "changed by its reader"
            workshop.clock.advance(5_000)
            second = await runtime.run({"intent": "work", "input": dict(ASK.input)}, plan=work(), actor=ADA)
            assert len(asked) == 1
            assert second.verdict is not None
            assert (second.status, second.verdict.outcome) == ("completed", "ok")
            assert "x" not in second.outputs
            one, other = [await reviewed(runtime, each) for each in (first, second)]
            assert (
                one.verdict == other.verdict == second.verdict.model_dump(mode="json", exclude_defaults=True)
            )

    workshop.run(main())


@pytest.mark.parametrize(
    ("other", "reviews"),
    [
        ({"actor": DAN}, 4),  # one review is kept of each plan and context
        ({"safety_mode": "local_write"}, 2),
        ({"plan": work("c")}, 2),
        ({"plan": work(outputs={"x": 1})}, 2),
        ({"request": Request(intent="work", input={"order": "o1", "count": 2.0})}, 2),
        ({"request": Request(intent="work", input={"order": "o2", "count": 2})}, 2),
    ],
)
def test_runs_that_differ_are_reviewed_each(
    workshop: Workshop, asked: list[Plan], other: dict[str, Any], reviews: int
) -> None:
    """Whose run it is, how far it may go, what it was asked for and what it does all count."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            usual: dict[str, Any] = {"request": ASK, "plan": work(), "actor": ADA}
            for given in (usual, usual | other, usual, usual | other):
                result = await runtime.run(given["request"], **{k: given[k] for k in given if k != "request"})
                assert result.status == "completed"
            assert len(asked) == reviews
            assert asked[:2] == [usual["plan"], (usual | other)["plan"]]

    workshop.run(main())


def test_a_role_that_a_tool_asks_for_is_asked_of_each_owner(workshop: Workshop) -> None:
    """What one may do is not what another may do with the same plan."""
    workshop.tool("do.it", roles=("clerk",))

    async def main() -> None:
        clerk = ADA.model_copy(update={"roles": ("clerk",)})
        async with workshop.runtime(workshop.pack()) as runtime:
            for actor, status in ((clerk, "completed"), (DAN, "failed"), (clerk, "completed")):
                assert (await runtime.run(ASK, plan=work(), actor=actor)).status == status

    workshop.run(main())


def test_a_replay_asks_the_critic_itself(workshop: Workshop, asked: list[Plan]) -> None:
    """What live runs have worked out proves nothing."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            result = await runtime.run(ASK, plan=work(), actor=ADA)
            asked.clear()
            for number in (1, 2):
                report = await runtime.replay(result.session_id)
                assert (report.difference, len(asked)) == (None, number)

    workshop.run(main())


def test_a_sender_who_changes_a_request_changes_no_other_run(workshop: Workshop) -> None:
    """The context of a run holds a request of its own."""
    workshop.tool("do.it")

    async def main() -> None:
        async with workshop.runtime(workshop.pack()) as runtime:
            mine = Request(intent="work", input={"list": [1]})
            shown = work(outputs={"x": {"$from": "request#/list"}})
            first = await runtime.run(mine, plan=shown, actor=ADA)
            mine.input["list"].append(2)
            changed = await runtime.run(mine, plan=shown, actor=ADA)
            again = await runtime.run(Request(intent="work", input={"list": [1]}), plan=shown, actor=ADA)
            assert [each.outputs["x"] for each in (first, changed, again)] == [[1], [1, 2], [1]]

    workshop.run(main())


class Meddler:
    """A planner that changes the context which it is handed."""

    name = "meddler"

    async def propose(self, config: RunConfig, feedback: tuple[str, ...]) -> Plan:
        """A plan that says what was asked for."""
        config.compiled.input()["count"] += 1
        return work(outputs={"x": config.compiled.input()["count"]})


def test_a_planner_that_changes_its_context_changes_no_other_run(workshop: Workshop) -> None:
    """Only what the runtime alone sees is shared."""
    workshop.tool("do.it")
    workshop.is_forged = True  # such a planner cannot be replayed

    async def main() -> None:
        asking = {"intent": "work", "input": {"count": 1}}
        shown = work(outputs={"x": {"$from": "request#/count"}})
        async with workshop.runtime(workshop.pack()) as runtime:
            assert (await runtime.run(asking, plan=shown)).outputs == {"x": 1}
            assert (await runtime.run(asking, planner=Meddler())).outputs == {"x": 2}
            assert (await runtime.run(asking, plan=shown)).outputs == {"x": 1}

    workshop.run(main())


def test_gates_are_worked_out_for_each_run(workshop: Workshop) -> None:
    """An execution plan that is shared has the same steps, and gates of its own for each run."""
    surface: dict[str, ToolSpec] = {"do.it": workshop.tool("do.it")}
    shared, one = SharedWork(), work()
    first, second = (shared.execution_plan(one, surface, surface) for _ in range(2))
    assert first.calls is second.calls
    assert first.demanded is not second.demanded
    others = [shared.execution_plan(work(f"n{number}"), surface, surface) for number in range(MOST)]
    assert len({id(each.calls) for each in others}) == MOST
    assert shared.execution_plan(one, surface, surface).calls is not first.calls  # which had to make room
