"""A small pack to compile, of which a test changes what it is about."""

from __future__ import annotations

from typing import Any

from tercet.context import compile as compile_context
from tercet.contracts.context import CompiledContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.request import Actor, Request
from tercet.packs import Pack
from tercet.tools import Tool

ASK = Request(intent="sell")


def act() -> None:
    """Stands in for the code of every tool."""


def make(name: str, mode: str = "read_only", **declared: Any) -> Tool:
    """A tool; all of the same length are of the same size."""
    return Tool(name=name, call=act, mode=ApprovalMode(mode), **declared)


def fact(name: str, content: Any = "x", *, trusted: bool = True, **more: Any) -> Evidence:
    """A fact of snapshot s, as class:id."""
    trust = Trust.TRUSTED if trusted else Trust.UNTRUSTED
    return Evidence(id=f"kg:{name}#snapshot_s", content=content, trust=trust, **more)


def shop(*tools: Tool, tokens: dict[str, int] | None = None, **changes: Any) -> Pack:
    """A pack with one decision, `sell`, unless it is given others."""
    fields: dict[str, Any] = {
        "name": "shop",
        "version": "1.0.0",
        "tools": tools,
        "decisions": [DecisionSpec(id="sell")],
        "context": {"tokens": tokens or {}},
    }
    return Pack(**fields | changes)


def compiled(
    pack: Pack, *roles: str, tenant: str = "default", request: Request = ASK, **frame: Any
) -> CompiledContext:
    """The context of a run whose owner holds these roles."""
    given = {name: frame.pop(name) for name in ("snapshot", "evidence") if name in frame}
    context = pack.run_context(actor=Actor(id="ada", roles=roles), tenant=tenant, **frame)
    return compile_context(pack, request, context, **given)


def entries(context: CompiledContext, kind: str) -> dict[str, tuple[bool, str]]:
    """What the ledger says about the things of one kind."""
    return {entry.name: (entry.admitted, entry.reason) for entry in context.ledger if entry.kind == kind}
