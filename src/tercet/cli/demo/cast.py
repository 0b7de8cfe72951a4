"""Who takes part in the demo; the pack's actors.toml gives them their roles."""

from __future__ import annotations

from tercet.contracts.request import Actor

OWNER = Actor(id="agt_support", roles=("support_agent",))
APPROVER = Actor(id="user_finance_lead", roles=("finance_lead",))
