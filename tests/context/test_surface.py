"""Surfacing: the registry, less what is not permitted or prohibited, within tenant and safety mode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Request

from .shop import compiled, entries, make, shop

OPEN = make("a.open")
CLERKS = make("a.clerks", roles=("clerk", "chief"))
NORTH = make("a.north", tenants=("north",))
BOTH = make("a.both", roles=("chief",), tenants=("north",))
GUARDED = shop(OPEN, CLERKS, NORTH, BOTH)


def test_a_tool_with_roles_is_seen_by_those_who_hold_one() -> None:
    """Any one of its roles will do, and others do not count."""
    assert list(compiled(GUARDED).surface) == ["a.open"]
    assert list(compiled(GUARDED, "cook", "clerk").surface) == ["a.clerks", "a.open"]
    assert list(compiled(GUARDED, "chief").surface) == ["a.clerks", "a.open"]


def test_a_tool_with_tenants_is_seen_by_their_runs() -> None:
    """Where a tool asks for a role and a tenant, a run needs both."""
    assert list(compiled(GUARDED, tenant="north").surface) == ["a.north", "a.open"]
    assert list(compiled(GUARDED, "chief", tenant="south").surface) == ["a.clerks", "a.open"]
    assert list(compiled(GUARDED, "chief", tenant="north").surface) == [
        "a.both",
        "a.clerks",
        "a.north",
        "a.open",
    ]


def test_the_ledger_says_why_a_tool_is_not_permitted() -> None:
    """It names the roles that would have done, and of other tenants it says nothing."""
    ledger = entries(compiled(GUARDED, tenant="south"), "tool")
    assert ledger["a.clerks"] == (False, "the actor holds none of the roles clerk, chief")
    assert ledger["a.north"] == (False, "it is not for the tenant of this run")
    assert ledger["a.open"] == (True, "decision sell may use it")
    assert "north" not in str([reason for _, reason in ledger.values()])


def test_a_permission_does_not_lift_a_prohibition() -> None:
    """What the decision prohibits or does not list stays away from whoever holds the role."""
    spec = DecisionSpec(id="sell", tools=("a.clerks", "a.open"), prohibited_tools=("a.clerks",))
    assert list(compiled(shop(OPEN, CLERKS, BOTH, decisions=[spec]), "chief", "clerk").surface) == ["a.open"]


MODES = ("read_only", "local_write", "network", "delegated", "destructive")


@pytest.mark.req("R19")
@pytest.mark.parametrize("mode", MODES)
def test_a_planner_is_offered_what_is_within_the_safety_mode(mode: str) -> None:
    """The rest stays on the surface, so that the critic can say why it is refused, and the ledger says so."""
    pack = shop(*(make(f"a.{each}", each) for each in MODES))
    context = compiled(pack, safety_mode=ApprovalMode(mode))
    assert set(context.offered) == {f"a.{each}" for each in MODES[: MODES.index(mode) + 1]}
    assert set(context.surface) == {f"a.{each}" for each in MODES}
    told = entries(context, "tool")
    assert {name for name, (_, reason) in told.items() if reason.startswith("not offered")} == set(
        context.surface
    ) - set(context.offered)


def test_a_context_without_a_mode_offers_its_whole_surface() -> None:
    """A context that somebody puts together by hand need not say how far its run may go."""
    context = compiled(GUARDED)
    alone = CompiledContext(manifests=context.manifests)
    assert alone.offered == alone.surface == context.surface


ROLES = st.lists(st.sampled_from(["clerk", "chief", "cook"]), unique=True)
TENANTS = st.sampled_from(["north", "south", "default"])


@given(st.lists(st.tuples(ROLES, TENANTS, st.sampled_from(ApprovalMode)), min_size=1, max_size=12))
def test_what_is_kept_of_one_owner_never_reaches_another(
    owners: list[tuple[list[str], str, ApprovalMode]],
) -> None:
    """Each context equals that of a pack which compiles for the first time, whoever asked before."""
    pack = shop(*GUARDED.tools)
    for roles, tenant, mode in owners:
        fresh = compiled(shop(*GUARDED.tools), *roles, tenant=tenant, safety_mode=mode)
        again = compiled(pack, *roles, tenant=tenant, safety_mode=mode)
        assert (again, again.hash, again.ledger) == (fresh, fresh.hash, fresh.ledger)
        for name in again.surface:
            assert again.surface[name].is_open_to(roles)
            assert again.surface[name].serves(tenant)


def test_owners_whom_no_tool_tells_apart_share_a_frame() -> None:
    """Roles and tenants that no tool names make no frames of their own."""
    pack = shop(*GUARDED.tools)
    for number in range(100):
        compiled(pack, f"role_{number}", tenant=f"tenant_{number}")
    assert len(pack.derived["frames"]) == 1


def test_the_ledger_says_which_decision_answers() -> None:
    """By its id or by an intent that it lists; the others are there for checkpoints only."""
    pack = shop(OPEN, decisions=[DecisionSpec(id="z"), DecisionSpec(id="sell.it", intents=("sell", "offer"))])
    assert entries(compiled(pack), "decision") == {
        "sell.it": (True, "it lists the intent sell"),
        "z": (False, "it does not answer sell; a checkpoint may name it"),
    }
    by_id = compiled(pack, request=Request(intent="sell.it"))
    assert entries(by_id, "decision")["sell.it"] == (True, "the intent is its id")
