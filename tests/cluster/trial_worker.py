"""A worker of the crash campaign whose session Temporal schedules, instead of `acceptance.worker`, which runs it by itself.

It starts the tenant's session as a service would if there is none, wakes it, and carries it as a worker of the cluster, until
it is over or waits for a person. `TERCET_CRASH` says where it dies, and `VARIABLE` names the server and a namespace, in which
no other trial is under way.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from acceptance import worker
from acceptance.acting import Scene, crash_plan, run_of
from acceptance.clocks import worker_clock
from acceptance.scenes import scene
from acceptance.trial import Engine
from acceptance.witness import witness
from tercet import Actor, TercetError
from tercet.cluster.connection import TemporalSettings, connect
from tercet.cluster.dispatch import Dispatcher
from tercet.cluster.worker import WorkerSettings, running_worker
from tercet.core.resolve.sessions import find_expired
from tercet.core.state import TERMINAL
from tercet.engine import inbox
from tercet.engine.session_reader import load_state
from tercet.journal.opening import open_journal
from tercet.journal.protocol import Journal, SessionRow
from tercet.packs.pack import Pack
from tercet.runtime import Runtime, RuntimeOptions
from tercet.service.hub import Hub
from tercet.testing.crash_points import plant

VARIABLE = "TERCET_TRIAL_TEMPORAL"
_POLL_S = 0.03


def engine_of(address: str, namespace: str) -> Engine:
    """Return the engine of a trial that Temporal schedules."""
    return Engine(main=main, told={VARIABLE: f"{address} {namespace}"})


async def work(url: str, tenant: str, chosen: Scene, lease_ms: int, say: worker.Say) -> dict[str, Any]:
    """Carry the tenant's session as far as it goes; start one if there is none."""
    alerts: list[str] = []

    def hear(name: str, fields: dict[str, Any]) -> None:
        if name == worker.ALERT:
            alerts.append(fields["action"])

    address, _, namespace = os.environ[VARIABLE].partition(" ")
    client = await connect(TemporalSettings(address=address, namespace=namespace))
    options = RuntimeOptions(clock=worker_clock(), lease_ms=lease_ms, crash=crash_plan(), signal=hear)
    # Every process is new here, so none finds a workflow that it has in memory.
    settings = WorkerSettings(at_once=4, cached_workflows=0, sweep_ms=None, heartbeat_ms=lease_ms)
    async with open_journal(url) as journal:
        say("ready")
        witness().journal = journal

        def open_hub(pack: Pack) -> Hub:
            return Hub((pack,), journal, options=options, watchdog_ms=None)

        async with running_worker(client, journal, open_hub, (chosen.pack,), settings):
            row = await _find(journal, tenant, chosen, options)
            assert await Dispatcher(client, heartbeat_ms=lease_ms).wake(row)
            status = await _settled(journal, row)
    return {"status": status, "alerts": alerts}


async def _find(journal: Journal, tenant: str, chosen: Scene, options: RuntimeOptions) -> SessionRow:
    """Return the row of the tenant's session, which is started if there is none."""
    if run_of(await journal.sessions(tenant)) is None:
        front = RuntimeOptions(clock=options.clock, crash=options.crash, is_front=True)
        async with Runtime(chosen.pack, journal, tenant=tenant, watchdog_ms=None, options=front) as runtime:
            await runtime.run(chosen.request, plan=chosen.plan, actor=Actor(id="agt_campaign"))
    row = run_of(await journal.sessions(tenant))
    assert row is not None
    return row


async def _settled(journal: Journal, row: SessionRow) -> str:
    """Return the status of a session once it is over, or waits for a person whose answer has not come."""
    while True:
        state = await load_state(journal, row.tenant, row.session_id)
        if state.status in TERMINAL:
            return state.status
        # While it ends it may wait as well: for a person who says whether effects are compensated.
        is_waiting = state.status in ("awaiting_gate", "paused") and not (state.ending and not state.gates)
        unread = await inbox.read_unread(journal, row.tenant, state)
        if is_waiting and not unread and find_expired(state, int(time.time() * 1000)) is None:
            return state.status
        await asyncio.sleep(_POLL_S)


def main(words: Sequence[str], say: worker.Say) -> None:
    """Work on a journal, for a tenant, in a scene, with a lease of so many milliseconds."""
    journal, tenant, name, lease_ms = words
    plant(crash_plan())
    try:
        ended = asyncio.run(work(journal, tenant, scene(name), int(lease_ms), say))
    except TercetError as error:
        ended = {"error": error.code, "reason": str(error)}
    say(json.dumps(ended))
