"""The refund story over HTTP: an agent starts it, finance approves it, the worker pays, and the record says who did what."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.desk import REFUND, open_desk, refunds
from tercet.engine.streams.audit import read_audit


@pytest.mark.req("R132")
async def test_a_refund_with_three_credentials(shop: Path) -> None:
    """The agent may not approve its own run, another tenant does not see it, and finance's approval pays it once."""
    async with open_desk() as desk:
        agent = await desk.key("agt_support")
        finance = await desk.key("user_finance_lead", roles=("finance_lead",))
        support = await desk.key("user_support_lead", roles=("support_lead",))
        started = await desk.rpc(agent, "invokeAgent", request=REFUND)
        session = started["session"]["session_id"]
        assert started["session"]["status"] == "awaiting_gate"
        (gate,) = started["gates"]
        assert started["progress"]["awaiting_gate"] == gate
        shown = (await desk.rpc(finance, "getGate", gate_id=gate))["gate"]
        assert (shown["tool"], shown["owner"]) == ("adp_payments.issue_refund", "agt_support")
        assert (await desk.rpc(agent, "approveGate", gate_id=gate))["code"] == "own_gate"
        assert (await desk.rpc(support, "approveGate", gate_id=gate))["code"] == "role_missing"
        assert refunds(shop) == []
        approved = await desk.rpc(finance, "approveGate", gate_id=gate, digest=shown["digest"], note="seen")
        assert approved["session"]["session_id"] == session
        done = await desk.until(agent, session)
        assert done["session"]["status"] == "completed"
        assert done["verdict"]["verdict"] == "accept"
        assert [each["approver"] for each in done["verdict"]["step_scores"] if "approver" in each] == [
            "user_finance_lead"
        ]
        record = (await desk.rpc(agent, "getRecord", session_id=session))["record"]
        (approval,) = record["approvals"]
        assert (approval["approver"], approval["gate"]) == ("user_finance_lead", "GATE_FINANCE_APPROVAL")
        assert len(refunds(shop)) == 1
        replayed = (await desk.rpc(agent, "replayRun", session_id=session))["replay"]
        assert replayed["outcome"] == "replay_equal"
        entries = [
            (entry.actor, entry.method, entry.outcome)
            for _, entry in await read_audit(desk.journal, "default")
        ]
        assert entries == [
            ("agt_support", "invokeAgent", "ok"),
            ("agt_support", "approveGate", "own_gate"),
            ("user_support_lead", "approveGate", "role_missing"),
            ("user_finance_lead", "approveGate", "ok"),
        ]


async def test_a_denied_refund_ends_rejected(shop: Path) -> None:
    """The worker brings a denied run to its end, and nothing is paid."""
    async with open_desk() as desk:
        agent, finance = (
            await desk.key("agt_support"),
            await desk.key("user_finance_lead", roles=("finance_lead",)),
        )
        started = await desk.rpc(agent, "invokeAgent", request=REFUND)
        await desk.rpc(finance, "denyGate", gate_id=started["gates"][0], note="no")
        done = await desk.until(agent, started["session"]["session_id"])
        assert done["session"]["status"] == "rejected"
        assert refunds(shop) == []
