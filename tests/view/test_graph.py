"""The graph of a plan: its critical path, the shapes of lanes and notes, the tags of branches, and the words of its steps."""

from __future__ import annotations

from dataclasses import replace

from engine.workshop import ADA, ASK, Workshop, plan, step
from tercet.contracts.gate import Gate
from tercet.replay.run_data import read_run
from tercet.view.events import RunData
from tercet.view.html.graph import Drawing, Node, draw_plan
from tercet.view.html.safe_text import SafeText
from tercet.view.plan import PlanView, plan_views


def branched(workshop: Workshop) -> PlanView:
    """A plan with two branches that meet, a condition, an optional step, a note, and a step that waits for a person."""
    workshop.tool("do.it")
    workshop.tool("do.pay", mode="destructive", gates=["BOSS"], authority=[], no_compensation="it is gone")
    steps = plan(
        step("start"),
        step("fast", depends_on=("start",), optional=True),
        step("slow", depends_on=("start",), when="request.count == 3"),
        step("meet", None, depends_on=("fast", "slow")),
        step("pay", "do.pay", depends_on=("meet",)),
    )

    async def main() -> RunData:
        async with workshop.runtime(workshop.pack(gates=(Gate(name="BOSS", roles=("boss",)),))) as runtime:
            result = await runtime.run(ASK, plan=steps, actor=ADA)
            assert result.gate is not None, result
            return await read_run(runtime.journal, "default", result.session_id)

    (found,) = plan_views(workshop.run(main()))
    return found


def drawn(found: PlanView, **latency_ms: int) -> Drawing:
    """Draw a plan whose calls took so long."""
    steps = tuple(replace(each, latency_ms=latency_ms.get(each.id, 1)) for each in found.steps)
    drawing = draw_plan(replace(found, steps=steps), SafeText())
    assert drawing is not None
    return drawing


def nodes(drawing: Drawing) -> dict[str, Node]:
    """The steps of a drawing by their ids."""
    return {node.id: node for node in drawing.nodes}


def test_the_critical_path_takes_the_branch_whose_calls_took_longest(workshop: Workshop) -> None:
    """Its steps and the lines between them are marked, and it is written out with its time."""
    found = branched(workshop)
    for slow, other in (("slow", "fast"), ("fast", "slow")):
        drawing = drawn(found, **{slow: 900, other: 10})
        assert [node.id for node in drawing.nodes if not node.is_critical] == [other]
        assert sum(edge.is_critical for edge in drawing.edges) == 3
        assert drawing.critical == f"start → {slow} → meet → pay, 903 ms in calls"


def test_a_chain_has_no_critical_path(workshop: Workshop) -> None:
    """Where every step is on it, nothing is marked."""
    found = branched(workshop)
    chain = [
        replace(each, predecessors=(number - 1,) if number else ()) for number, each in enumerate(found.steps)
    ]
    drawing = drawn(replace(found, steps=tuple(chain)))
    assert drawing.critical == ""
    assert not any(each.is_critical for each in (*drawing.nodes, *drawing.edges))


def test_lanes_notes_and_branches_look_different(workshop: Workshop) -> None:
    """A lane and a note have a shape of their own, a conditional and an optional step a tag."""
    found = branched(workshop)
    lane = replace(found.steps[0], tool="lane.research")
    shown = nodes(drawn(replace(found, steps=(lane, *found.steps[1:]))))
    assert {name: node.shape for name, node in shown.items()} == {
        "start": "lane", "fast": "tool", "slow": "tool", "meet": "note", "pay": "tool",
    }  # fmt: skip
    assert {name: node.tag for name, node in shown.items() if node.tag} == {"fast": "optional", "slow": "if"}


def test_a_step_that_waits_says_once_for_whom(workshop: Workshop) -> None:
    """The gate stands in the place of its status, not below it."""
    pay = nodes(drawn(branched(workshop)))["pay"]
    assert (pay.how, pay.gate, pay.tone) == ("waits for BOSS", "", "wait")
