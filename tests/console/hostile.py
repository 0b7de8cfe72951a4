"""Runs whose every text is markup: request, plan, parameters, results, errors, outputs, names, notes, reasons of stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from console.desk import ConsoleDesk
from service.desk import ENDED
from tercet.console.session import TABS
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import NotDone
from tercet.contracts.gate import Gate
from tercet.packs.pack import Pack
from tercet.tools import Tool

HOSTILE = (
    "<b><i><u>hi</u></i></b>\"'></script></title></textarea></pre><script>window.wasHit=1</script>"
    "<img src=//evil.example/a onerror=window.wasHit=2><svg/onload=window.wasHit=3>"
    "<a href=javascript:window.wasHit=4>x</a><iframe src=//evil.example></iframe>{{7*7}}${7*7}"
)
"""Printable, so that it can also be a name."""
NAME = HOSTILE[:250].strip()
OPERATOR = ("read", "run", "answer", "operate")


def _work(**given: Any) -> dict[str, Any]:
    if given.get("fails"):
        raise NotDone(HOSTILE, code="hostile", remedy=HOSTILE, is_retriable=False)
    return {"said": HOSTILE, HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}], "letter": f"{HOSTILE}\n\n{HOSTILE}"}


def hostile_pack() -> Pack:
    """A pack with a tool that says nothing but markup, free or at a gate."""
    tools = [
        Tool.model_validate({
            "name": f"shop.{name}", "mode": "local_write", "call": _work, "gates": gates, "description": HOSTILE,
            "no_compensation": HOSTILE, "parameters": {"type": "object", "additionalProperties": True},
        })
        for name, gates in (("work", ()), ("ask", ("LEAD",)))
    ]  # fmt: skip
    spec = DecisionSpec.model_validate(
        {"id": "work", "risk_tier": "low", "repeatable": ["shop.work"], "required_outputs": ["letter"]}
    )
    return Pack.model_validate(
        {
            "name": "shop",
            "version": "1.0.0",
            "tools": tools,
            "decisions": (spec,),
            "gates": [Gate(name="LEAD", roles=("lead",))],
        }
    )


@dataclass(frozen=True, kw_only=True)
class HostileRuns:
    """The runs, by how they ended."""

    gate: str
    sessions: dict[str, str]

    def paths(self) -> list[str]:
        """Return every page on which something hostile may be."""
        query, ended = quote(HOSTILE, safe=""), self.sessions["ended"]
        return [
            "", "/sessions", f"/sessions?text={query}", f"/sessions?owner={query}&intent={query}", "/metrics",
            f"/metrics?intent={query}", "/packs", "/packs/shop", f"/packs/{query}", "/stops",
            f"/stops/confirm?kind=tool&name={query}", f"/sessions/{query}", f"/gates/{query}", f"/{query}",
            f"/compare?a={query}&b={query}", f"/compare?a={ended}&pack={query}", f"/compare?a={ended}&pack=shop@1.0.0",
            f"/compare?a={ended}&b={self.sessions['failed']}", f"/sessions/{ended}/replay", f"/sessions/{ended}?at=5",
            f"/gates/{self.gate}", *(f"/gates/{self.sessions[name]}.g1" for name in ("denied", "ended", "failed")),
            *(f"/sessions/{session}?tab={tab}" for session in self.sessions.values() for tab in TABS),
        ]  # fmt: skip

    def shown(self) -> dict[str, str]:
        """Return pages that must show the words, so that the test can fail: each with what it shows."""
        ended = self.sessions["ended"]
        return {
            "": "the owner of a run", "/stops": "the reason of a stop", f"/gates/{self.gate}": "a parameter",
            f"/sessions/{ended}?tab=transcript": "a result", f"/sessions/{ended}?tab=people": "a note",
            f"/sessions/{ended}": "an output", f"/sessions/{self.sessions['failed']}?tab=transcript": "an error",
            "/sessions": "the reason of an end",
        }  # fmt: skip


async def fill_hostile(desk: ConsoleDesk) -> HostileRuns:
    """Write markup into every field that an agent, a tool or a person can write."""
    agent = await desk.key(NAME, note=HOSTILE)
    lead = await desk.key("lead", roles=("lead",), scopes=OPERATOR)
    sessions: dict[str, str] = {}
    for name in ("waiting", "ended", "denied", "failed", "cancelled", "refused"):
        tool = "shop.work" if name == "failed" else "shop.ask"
        params = {HOSTILE: HOSTILE, "fails": name == "failed", "list": [HOSTILE, {HOSTILE: HOSTILE}]}
        step = {"id": "s1", "tool": "shop.none" if name == "refused" else tool, "params": params}
        note = {"id": "n1", "kind": "note", "params": {"text": HOSTILE, HOSTILE: HOSTILE}}
        plan = {"plan_id": NAME[:200], "steps": [note, step], "outputs": {"letter": {"$from": "s1#/letter"}}}
        asked = {
            "intent": "work",
            "input": {HOSTILE: HOSTILE, "note": HOSTILE},
            "request_key": f"{name}{NAME}",
        }
        found = await desk.rpc(agent, "invokeAgent", request=asked, plan=plan)
        assert "session" in found, found
        sessions[name] = found["session"]["session_id"]
        for method, wanted in (("approveGate", "ended"), ("denyGate", "denied")):
            if wanted == name:
                answered = await desk.rpc(lead, method, gate_id=found["gates"][0], note=HOSTILE)
                assert "session" in answered, answered
        if name == "cancelled":
            await desk.rpc(lead, "cancelSession", session_id=sessions[name], note=HOSTILE)
        if name != "waiting":
            await desk.until(lead, sessions[name], *ENDED, "paused")
    for name in (HOSTILE[:200], "shop.none"):
        await desk.rpc(lead, "emergencyStop", kind="tool", name=name, note=HOSTILE)
    return HostileRuns(gate=f"{sessions['waiting']}.g1", sessions=sessions)
