"""What the demo tells, scene by scene: nothing but facts that were read back. With --json they are the document."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from tercet.contracts.request import Actor

Facts: TypeAlias = dict[str, Any]
"""What was read back for one scene, as it stands in the document."""


class Scene(NamedTuple):
    """One scene by the name that it has in the document; headings and asides are not in it."""

    name: str
    facts: Facts


def heading(number: int, text: str) -> Scene:
    """Return what is about to be done."""
    return Scene("heading", {"number": number, "text": text})


OWNER = Actor(id="agt_support", roles=("support_agent",))
APPROVER = Actor(id="user_finance_lead", roles=("finance_lead",))
