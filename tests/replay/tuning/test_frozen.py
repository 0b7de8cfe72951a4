"""A candidate is values of surfaces and nothing else: every attempt at more is refused, by its type and by comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from engine.workshop import Workshop, step
from tercet.contracts.gate import Gate
from tercet.contracts.packs.tuning import Candidate
from tercet.contracts.policy import Policy
from tercet.packs.pack import Pack
from tercet.replay.tuning.frozen import CandidateRefused, apply, demand_same

from .callers import CHANNEL, PATIENT, RETRIES, centre, template

GATE = Gate(name="BOSS", roles=("boss",), quorum=2)
DENY = Policy(name="never", scope="plan", effect="deny", expression="true")
BETTER = Candidate(values={RETRIES: 2, PATIENT: 60})


def _pack() -> Pack:
    """A pack with one of everything that could be loosened."""
    workshop = Workshop()
    centre(workshop)
    workshop.tool("money.pay", mode="destructive", gates=("BOSS",), authority=("to",), no_compensation="gone")
    return centre(
        workshop,
        gates=(GATE,),
        policies=(Policy(name="couriers", scope="step", effect="grant", expression="true"), DENY),
        decision={
            "gates": ("BOSS",),
            "required_outputs": ("receipt",),
            "required_evidence": ("order",),
            "prohibited_tools": ("money.pay",),
            "risk_tier": "high",
            "thresholds": [{"name": "safety", "minimum": 0.98}],
            "requires_human_approval": True,
        },
        safety_mode="network",
    )


def _tools(pack: Pack, name: str, **changes: Any) -> Pack:
    tools = [each.model_copy(update=changes) if each.name == name else each for each in pack.tools]
    return pack.model_copy(update={"tools": tools})


def _decision(pack: Pack, **changes: Any) -> Pack:
    return pack.model_copy(update={"decisions": [pack.decisions[0].model_copy(update=changes)]})


def _added_tool(pack: Pack) -> Pack:
    extra = pack.tools[0].model_copy(update={"name": "phone.hack"})
    return pack.model_copy(update={"tools": [*pack.tools, extra]})


def _template(pack: Pack, *more: Any, **changes: Any) -> Pack:
    plan = template(60)
    changed = plan.model_copy(update={"steps": (*plan.steps, *more), **changes})
    return pack.model_copy(update={"templates": (changed,)})


ATTEMPTS: dict[str, tuple[Callable[[Pack], Pack], str]] = {
    "a tool more": (_added_tool, "tools.phone.hack"),
    "a tool less": (lambda p: p.model_copy(update={"tools": p.tools[:2]}), "tools.money.pay"),
    "a mode lowered": (lambda p: _tools(p, "money.pay", mode="read_only"), "tools.money.pay.mode"),
    "a gate of a tool dropped": (lambda p: _tools(p, "money.pay", gates=()), "tools.money.pay.gates"),
    "authority dropped": (lambda p: _tools(p, "money.pay", authority=()), "tools.money.pay.authority"),
    "a gate dropped": (lambda p: p.model_copy(update={"gates": ()}), "gates.BOSS"),
    "a quorum lowered": (
        lambda p: p.model_copy(update={"gates": (GATE.model_copy(update={"quorum": 1}),)}),
        "gates.BOSS.quorum",
    ),
    "roles widened": (
        lambda p: p.model_copy(update={"gates": (GATE.model_copy(update={"roles": ("boss", "all")}),)}),
        "gates.BOSS.roles",
    ),
    "a policy dropped": (lambda p: p.model_copy(update={"policies": p.policies[:1]}), "policies.never"),
    "a policy loosened": (
        lambda p: p.model_copy(
            update={"policies": (p.policies[0], DENY.model_copy(update={"expression": "1 == 1"}))}
        ),
        "policies.never.expression",
    ),
    "a policy that grants": (
        lambda p: p.model_copy(
            update={
                "policies": (*p.policies, Policy(name="yes", scope="step", effect="grant", expression="true"))
            }
        ),
        "policies.yes",
    ),
    "the gates of a decision": (lambda p: _decision(p, gates=()), "decisions.work.gates"),
    "its outputs": (lambda p: _decision(p, required_outputs=()), "decisions.work.required_outputs"),
    "its evidence": (lambda p: _decision(p, required_evidence=()), "decisions.work.required_evidence"),
    "what it prohibits": (lambda p: _decision(p, prohibited_tools=()), "decisions.work.prohibited_tools"),
    "its risk tier": (lambda p: _decision(p, risk_tier="low"), "decisions.work.risk_tier"),
    "its human approval": (
        lambda p: _decision(p, requires_human_approval=False),
        "decisions.work.requires_human_approval",
    ),
    "its safety floor": (
        lambda p: _decision(p, thresholds=[{"name": "safety", "minimum": 0.1}]),
        "decisions.work.thresholds.safety.minimum",
    ),
    "the safety mode": (lambda p: p.model_copy(update={"safety_mode": "destructive"}), "safety_mode"),
    "another budget": (
        lambda p: p.model_copy(update={"budget": p.budget.model_copy(update={"max_steps": 100})}),
        "budget.max_steps",
    ),
    "a budget out of its bounds": (
        lambda p: p.model_copy(update={"budget": p.budget.model_copy(update={"max_step_retries": 9})}),
        "budget.max_step_retries",
    ),
    "how sessions resume": (
        lambda p: p.model_copy(update={"session": p.session.model_copy(update={"resume": "pinned"})}),
        "session.resume",
    ),
    "a step more": (
        lambda p: _template(p, step("pay", "money.pay", params={"to": "me"})),
        "templates.work.steps.pay",
    ),
    "another tool in a step": (
        lambda p: _template(p, steps=(template(60).steps[0].model_copy(update={"tool": "money.pay"}),)),
        "templates.work.steps.ring.tool",
    ),
    "a mode understated in a step": (
        lambda p: _template(
            p,
            steps=(
                template(60).steps[0],
                template(60).steps[1].model_copy(update={"approval_mode": "read_only"}),
            ),
        ),
        "templates.work.steps.send.approval_mode",
    ),
    "other code": (lambda p: p.model_copy(update={"code": {"tools.py": "sha256:00"}}), "code.tools.py"),
    "how effects are taken back": (lambda p: p.model_copy(update={"on_failure": "keep"}), "on_failure"),
    "fewer checks": (lambda p: p.model_copy(update={"risk_tiers": {"high": ()}}), "risk_tiers"),
}


@pytest.mark.req("R278")
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_is_no_surface_cannot_change(attempt: str) -> None:
    """Whatever else a pack that is offered as a candidate changes is refused, and the answer names the place."""
    original = _pack()
    demand_same(original, BETTER, apply(original, BETTER))  # without the attempt it is the candidate
    make, place = ATTEMPTS[attempt]
    with pytest.raises(CandidateRefused) as refused:
        demand_same(original, BETTER, make(apply(original, BETTER)))
    assert refused.value.message.startswith(place)


@pytest.mark.req("R278")
def test_people_evidence_and_bounds_cannot_change() -> None:
    """What is not part of a pack's hash is compared as well."""
    original = _pack()
    wider = original.tuning.model_copy(update={"min_runs": 1})
    for changes in ({"actors": [{"id": "eve", "roles": ["boss"]}]}, {"tuning": wider}):
        with pytest.raises(CandidateRefused, match="people, evidence or the bounds"):
            demand_same(original, BETTER, apply(original, BETTER).model_copy(update=changes))


@pytest.mark.req("R278")
@pytest.mark.parametrize(
    "values",
    [
        {"tools": "phone.hack"},
        {"template work pay.amount": 3},
        {"budget max_steps": 99},
        {"session resume": "pinned"},
        {"lane timeout_ms": 5},
        {RETRIES: 9},
        {RETRIES: -1},
        {RETRIES: True},
        {RETRIES: 2.0},
        {RETRIES: "2"},
        {PATIENT: 61},
        {CHANNEL: "fax"},
        {CHANNEL: "${input.channel}"},
    ],
)
def test_a_candidate_has_no_other_values(values: dict[str, Any]) -> None:
    """A surface that is not declared, and a value that is out of bounds or of another type, are refused."""
    with pytest.raises(CandidateRefused):
        apply(centre(Workshop()), Candidate(values=values))


@pytest.mark.req("R278")
@pytest.mark.parametrize(
    "values",
    [{PATIENT: {"$cel": "1 + 1"}}, {PATIENT: [1]}, {PATIENT: None}, {"steps": [{"tool": "money.pay"}]}],
)
def test_a_candidate_cannot_hold_a_plan(values: dict[str, Any]) -> None:
    """Its type has room for scalars alone: no plan, step or call can be written down in one."""
    with pytest.raises(ValidationError):
        Candidate(values=values)


@pytest.mark.req("R278")
def test_a_pack_with_errors_is_no_candidate() -> None:
    """A value within its bounds that makes the pack unsound is refused all the same."""
    tuning = {"replan": [{"budget": "max_replans", "low": 0, "high": 9}]}
    pack = centre(Workshop(), tuning=tuning, budget={"max_replans": 2})
    assert apply(pack, Candidate(values={"replan max_replans": 1})).budget.max_replans == 1
    with pytest.raises(CandidateRefused, match="would not be sound"):
        apply(pack, Candidate(values={"replan max_replans": 7}))
