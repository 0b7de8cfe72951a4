"""A call centre: recorded calls under several settings, with one setting planted that is better than the others.

Who is called is busy for some attempts and then answers, if one lets it ring for long enough. A courier always arrives, but
sending one is a call to the outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from engine.workshop import ADA, Workshop, step
from tercet import NotDone
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.request import Request
from tercet.journal.memory import MemoryJournal
from tercet.packs.pack import Pack
from tercet.replay.recording import Recording, load
from tercet.tools import ToolContext


class Caller(NamedTuple):
    """Somebody who is called."""

    busy: int
    """How many attempts find the line busy."""
    need: int
    """How many seconds it must ring."""


CALLERS = {
    "ann": Caller(0, 10),
    "ben": Caller(1, 30),
    "cem": Caller(2, 60),
    "dov": Caller(0, 60),
    "eve": Caller(1, 10),
    "fay": Caller(99, 10),
    "gus": Caller(0, 1_000),
}
PATIENCE = (10, 30, 60, 90)
CHANNELS = ("voice", "courier")
TUNING: dict[str, Any] = {
    "min_runs": 3,
    "template": [
        {"intent": "work", "step": "ring", "param": "patience", "choices": list(PATIENCE)},
        {"intent": "work", "step": "ring", "param": "channel", "choices": list(CHANNELS)},
    ],
    "replan": [{"budget": "max_step_retries", "low": 0, "high": 5}],
    "session": [{"value": "ttl_ms", "choices": [60_000, 600_000, 3_600_000]}],
}
RETRIES, PATIENT, CHANNEL, TTL = (
    "replan max_step_retries",
    "template work ring.patience",
    "template work ring.channel",
    "session ttl_ms",
)


async def notify(ctx: ToolContext, params: dict[str, Any]) -> Any:
    """Rings, and raises while the line is busy or if nobody answers in time."""
    caller = CALLERS[params["who"]]
    if ctx.attempt <= caller.busy:
        raise NotDone("the line is busy")
    is_reached = params["channel"] == "courier" or params["patience"] >= caller.need
    if not is_reached:
        raise NotDone("nobody answers", is_retriable=False)
    return {"courier": params["channel"] == "courier"}


def template(patience: int = 30, channel: str = "voice") -> Plan:
    """The plan of the pack."""
    params = {"who": "${input.who}", "patience": patience, "channel": channel}
    courier = step(
        "send",
        "courier.send",
        params={"who": {"$from": "request#/who"}},
        depends_on=("ring",),
        when="ring.courier",
    )
    return Plan(plan_id="reach", intent="work", steps=(step("ring", "phone.ring", params=params), courier))


def centre(workshop: Workshop, *, tuning: dict[str, Any] | None = None, **header: Any) -> Pack:
    """The pack of the call centre."""
    if not workshop.tools:
        workshop.tool("phone.ring", notify, mode="read_only", cost_microcents=1_000, endorses=True)
        workshop.tool("courier.send", mode="network", authority=("who",), no_compensation="it is on its way")
    grant = Policy(name="couriers", scope="step", effect="grant", expression="true")
    fields: dict[str, Any] = {
        "budget": {"max_step_retries": 5, "max_retries": 20},
        "session": {"ttl_ms": 3_600_000},
        "templates": (template(),),
        "policies": (grant,),
        "tuning": TUNING if tuning is None else tuning,
    }
    return workshop.pack(**{**fields, **header})


def call(workshop: Workshop, pack: Pack, who: Iterable[str] = CALLERS) -> list[Recording]:
    """One recorded run for each caller. Each has a journal of its own, so that nobody opens a circuit for others."""

    async def main() -> list[Recording]:
        found: list[Recording] = []
        for name in who:
            journal = MemoryJournal()
            async with workshop.runtime(pack, journal) as runtime:
                request = Request(intent="work", input={"who": name})
                result = await runtime.run(request, planner="template", actor=ADA)
            found.append(await load(journal, "default", result.session_id))
        return found

    return workshop.run(main())


def call_with_all(workshop: Workshop, pack: Pack) -> Sequence[Recording]:
    """Every caller called with every template that the pack has ever had: only then does a record tell about them."""
    packs = [
        pack.model_copy(update={"templates": (template(patience, channel),), "version": f"0.{number}.0"})
        for number, (patience, channel) in enumerate(product(PATIENCE, CHANNELS))
        if (patience, channel) != (30, "voice")
    ]
    return [run for each in (pack, *packs) for run in call(workshop, each)]
