"""Sessions that Temporal schedules end as sessions of one process do: gates, answers, time limits, pauses, compensation, lanes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from acceptance.trial import normalise
from cluster.crew import PATIENCE_S, working
from cluster.front import Front, open_front
from cluster.orders import AGENT, DEAR, FAILING_PLAN, LEAD, PLAN, SELL, make_pack
from plugins.temporal import TemporalServer
from tercet.engine.session_reader import load_state, read_record
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import SessionRow
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.service.hub import Hub
from tercet.service.server import running_worker
from tercet.service.worker import Worker

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Deed:
    """What a person does to a session once it has a status, and at a gate that nobody has answered if it waits at one."""

    status: str = "awaiting_gate"
    do: Callable[[Runtime, str, str], Awaitable[Any]]
    """Takes the session and the gate."""
    wakes: bool = True
    """Whether the session is woken afterwards."""


APPROVE = Deed(do=lambda runtime, _, gate: runtime.approve(gate, actor=LEAD))
DENY = Deed(do=lambda runtime, _, gate: runtime.deny(gate, actor=LEAD))
ABANDON = Deed(status="paused", do=lambda runtime, _, gate: runtime.decide(gate, "abandon", actor=LEAD))
CANCEL = Deed(do=lambda runtime, session, _: runtime.cancel(session, actor=AGENT))
PAUSE = Deed(
    status="in_progress", do=lambda runtime, session, _: runtime.pause(session, actor=LEAD), wakes=False
)
PAUSED = (replace(APPROVE, wakes=False), PAUSE)
RESUME = Deed(status="paused", do=lambda runtime, session, _: runtime.resume(session))
CANCEL_PAUSED = replace(CANCEL, status="paused")


@dataclass(frozen=True, kw_only=True)
class Story:
    """A session: its plan, what people do one after the other, and how it ends."""

    deeds: Sequence[Deed] = ()
    status: str = "completed"
    happened: dict[str, int]
    plan: Any = None
    supplier: str = "birch"
    ttl_ms: int = DAY_MS


SOLD, TAKEN_BACK = {"s1": 1, "s2": 1}, {"s1": 1, "~s1": 1}
STORIES = {
    "approved": Story(deeds=(APPROVE,), happened=SOLD),
    "denied": Story(deeds=(DENY,), status="rejected", happened=TAKEN_BACK),
    "expired": Story(ttl_ms=1_000, status="expired", happened=TAKEN_BACK),
    "cancelled": Story(deeds=(CANCEL,), status="cancelled", happened=TAKEN_BACK),
    "paused and resumed": Story(deeds=(*PAUSED, RESUME), happened=SOLD),
    "paused and cancelled": Story(deeds=(*PAUSED, CANCEL_PAUSED), status="cancelled", happened=TAKEN_BACK),
    "abandoned": Story(
        plan=FAILING_PLAN, deeds=(ABANDON,), status="failed", happened={**TAKEN_BACK, "s2": 1, "~s2": 1}
    ),
    "approved in its lane and after it": Story(supplier=DEAR, deeds=(APPROVE, APPROVE), happened=SOLD),
    "denied in its lane": Story(supplier=DEAR, deeds=(DENY, APPROVE), happened=SOLD),
    "cancelled while its lane waits": Story(supplier=DEAR, deeds=(CANCEL,), status="cancelled", happened={}),
}


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a session left behind."""

    status: str
    happened: Counter[str]
    lanes: list[str]
    record: dict[str, Any]


async def carry_out(front: Front, story: Story) -> Left:
    """Start a session and do to it what the story says; return what it left."""
    request = SELL.model_copy(update={"input": {**SELL.input, "supplier": story.supplier}})
    (session,) = await front.start(request=request, plan=story.plan or PLAN)
    answered: set[str] = set()
    for deed in story.deeds:
        gate = await _gate_with(front, session, deed.status, answered)
        await deed.do(front.runtime, session, gate)
        answered.add(gate)
        if deed.wakes:
            await front.wake(session)
    row = await front.until(session)
    state = await load_state(front.journal, front.tenant, session)
    rows = await front.journal.sessions(front.tenant)
    return Left(
        status=row.status,
        happened=Counter(
            {step: count for step, count in front.happened(session).items() if step.strip("~") != "a"}
        ),
        lanes=[each.status for each in rows if each.session_id != session],
        record=normalise(await read_record(front.journal, front.tenant, state)),
    )


async def _gate_with(front: Front, session: str, status: str, answered: set[str]) -> str:
    """Wait until a session has a status; return its gate that nobody has answered, if it has one then."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            state = await front.runtime.state(session)
            gate = next((each for each in state.gates if each not in answered), "")
            if state.status == status and (gate or status != "awaiting_gate"):
                return gate
            await asyncio.sleep(0.02)


class Queue:
    """Wakes sessions in the worker of this process."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def wake(self, row: SessionRow) -> bool:
        """Queue the session."""
        self._worker.enqueue(row)
        return True


@asynccontextmanager
async def open_alone(pack: Pack, folder: Path, poll_ms: int) -> AsyncGenerator[Front]:
    """A front whose sessions a worker in this process carries on, without Temporal."""
    journal = MemoryJournal()
    hub = Hub((pack,), journal, watchdog_ms=None)
    worker = Worker(hub, poll_ms=poll_ms)
    options = RuntimeOptions(is_front=True)
    async with (
        running_worker(hub, worker, set()),
        Runtime(pack, journal, watchdog_ms=None, options=options) as runtime,
    ):
        yield Front(
            client=cast("Any", None), journal=journal, dispatcher=Queue(worker), runtime=runtime, tenant=runtime.tenant,
            effects=folder / "effects.db",
        )  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
async def test_a_session_leaves_what_it_leaves_without_temporal(
    name: str, temporal: TemporalServer, postgres_url: str, shop: Path
) -> None:
    """The same deeds bring the same end, effects, lanes and record with both engines."""
    story = STORIES[name]
    pack = make_pack(gate_ttl_ms=story.ttl_ms)
    async with (
        open_alone(pack, shop, story.ttl_ms) as alone,
        open_front(temporal, postgres_url, pack, shop) as front,
        working(front.client, front.journal, pack),
    ):
        expected, found = await asyncio.gather(carry_out(alone, story), carry_out(front, story))
    assert (found.status, found.happened) == (story.status, story.happened)
    assert found == expected
