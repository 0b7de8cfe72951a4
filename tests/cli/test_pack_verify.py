"""`Pack.verify`: the verdict that a run of the plan would get, in one call and without a run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import tercet
from engine.test_retrieving import looks_up
from engine.workshop import ADA, ASK, Workshop, plan
from tercet import Pack, Request, Runtime
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode

from .harness import PLANS, REFUNDS, Tercet

INPUT = {"order_id": "ord_881", "window_id": "rw_881"}
REQUEST: dict[str, Any] = {"intent": "support.refund", "input": INPUT}


@pytest.fixture(scope="module")
def pack() -> Pack:
    """The pack of the refund desk."""
    return Pack.load(REFUNDS)


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.json")), ids=lambda path: path.stem)
def test_it_is_the_verdict_of_the_command_and_of_a_run(pack: Pack, path: Path, tercet: Tercet) -> None:
    """Every plan of the example gets the same verdict from the pack, from `tercet verify` and from a run."""
    proposed = json.loads(path.read_text(encoding="utf-8"))

    async def main() -> Any:
        async with Runtime(pack) as runtime:
            result = await runtime.run(
                REQUEST, plan=proposed, safety_mode=ApprovalMode.READ_ONLY, shadow=True
            )
            usual = await runtime.run(REQUEST, plan=proposed, shadow=True)
            return result.verdict, usual.verdict, pack.verify(proposed, request=REQUEST)

    reading, usual, inside = asyncio.run(main())
    assert pack.verify(proposed, request=Request.model_validate(REQUEST)) == inside == usual
    said = tercet("verify", REFUNDS, path, "--json", "--input", json.dumps(INPUT))
    assert said.json["verdict"] == inside.model_dump(mode="json")
    context = pack.run_context(safety_mode=ApprovalMode.READ_ONLY, plan_origin="caller")
    assert pack.verify(proposed, request=REQUEST, context=context) == reading
    assert {reading.code} <= {"mode_exceeded", inside.code}


@pytest.mark.req("R35", "R102", "R103")
def test_issues_are_the_same_from_the_pack_and_from_the_command(
    pack: Pack, tmp_path: Path, tercet: Tercet
) -> None:
    """A plan that exceeds its tokens is valid with a warning and refused; a cyclic one has one critical issue."""
    proposed = json.loads((PLANS / "plan_b.json").read_text(encoding="utf-8"))
    costly = {**proposed, "steps": [{**step, "estimated_tokens": 9_000} for step in proposed["steps"]]}
    ring = {"steps": [{"id": "a", "tool": "no.such", "depends_on": ["a"]}]}
    found: dict[str, list[tuple[str, str]]] = {}
    for name, asked in {"as it is": proposed, "costly": costly, "ring": ring}.items():
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(asked), encoding="utf-8")
        result = pack.validate(asked, request=REQUEST)
        said = tercet("verify", REFUNDS, path, "--json", "--input", json.dumps(INPUT))
        assert said.json["validation"] == result.model_dump(mode="json")
        found[name] = [(issue.severity, issue.code) for issue in result.issues if issue.severity != "ERROR"]
        assert (result.valid, said.code) == {
            "as it is": (True, 0), "costly": (True, 3), "ring": (False, 3)
        }[name]  # fmt: skip
    assert found["costly"] == [("WARNING", "token_budget_exceeded")]
    assert found["ring"] == [("CRITICAL", "cyclic_dependency_detected")]
    assert len(pack.validate(ring).issues) == 1


def test_without_a_request_relations_to_it_are_not_checked(pack: Pack, tercet: Tercet) -> None:
    """As on the command line without --input: the plan passes, and the verdict lists what was not checked."""
    proposed = json.loads((PLANS / "plan_b.json").read_text(encoding="utf-8"))
    verdict = pack.verify(proposed)
    assert verdict.ok
    assert verdict.unchecked
    said = tercet("verify", REFUNDS, PLANS / "plan_b.json", "--json")
    assert said.json["verdict"] == verdict.model_dump(mode="json")


def test_a_template_is_filled_from_the_request(pack: Pack) -> None:
    """A template of the pack gets the verdict of what it comes to for the request, as in a run that it plans."""
    (template,) = pack.templates
    assert pack.verify(template, request=REQUEST).ok
    other = {"intent": "support.refund", "input": {**INPUT, "order_id": "ord_882"}}
    assert not pack.verify(template, request=other).ok


def test_evidence_queries_are_answered_as_in_a_run() -> None:
    """A template's look-up is deferred to the run, which makes it; a caller's plan is reviewed without it in both."""
    workshop = Workshop()
    workshop.tool("do.it")
    workshop.tool("shop.order", attests=("order",), mode="read_only")
    asking = plan(looks_up("a", "shop.order", {"n": "${input.count}"}))
    caller = plan(looks_up("a", "shop.order", {"n": 2}))
    made = workshop.pack(templates=(asking,))

    async def main() -> None:
        async with workshop.runtime(made) as runtime:
            planned = await runtime.run(ASK, actor=ADA)
            given = await runtime.run(ASK, plan=caller, actor=ADA)
            assert planned.verdict is not None
            assert planned.verdict.ok
            assert given.verdict == made.verify(caller, request=ASK)

    workshop.run(main())
    verdict = made.verify(asking, request=ASK)
    assert (verdict.ok, verdict.deferred) == (True, ("step a: shop.order looks up order",))
    assert made.verify(caller, request=ASK).code == "evidence_not_pinned"


def test_what_is_no_plan_or_request_is_wrong_use(pack: Pack) -> None:
    """A caller who mixes the arguments up is told which one is wrong, and what to give instead."""
    wrong: Any = "plan_b.json"
    with pytest.raises(UsageError, match="plan"):
        pack.verify(wrong)
    with pytest.raises(UsageError, match="Request"):
        pack.verify(tercet.Plan(steps=()), request={"input": {}})
