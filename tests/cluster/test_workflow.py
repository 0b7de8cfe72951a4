"""The workflow of a session alone, with activities of the test."""

from __future__ import annotations

import asyncio
import os

import pytest
from temporalio import activity
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from cluster.crew import PATIENCE_S, client_of
from plugins.temporal import TemporalServer
from tercet.cluster.workflow import ADVANCE, WAKE, Outcome, SessionTask, SessionWorkflow, Wake

pytestmark = pytest.mark.slow


async def test_a_session_that_is_moved_while_its_advance_ends_goes_on_with_its_new_version(
    temporal: TemporalServer,
) -> None:
    """Both arrive together, and an earlier wake-up after them: what was true before the move must not send the session back
    to a queue that may have no worker."""
    name = f"moved-{os.urandom(4).hex()}"
    client = await client_of(temporal)
    old, new = f"{name}-old", f"{name}-new"
    begun = asyncio.Event()

    @activity.defn(name=ADVANCE)
    async def advance(task: SessionTask) -> Outcome:
        is_old = activity.info().task_queue == old
        if is_old:
            begun.set()
        return Outcome(
            status="awaiting_gate" if is_old else "completed",
            is_over=not is_old,
            updated_at=1,
            queue=task.queue,
        )

    def workflows() -> Worker:
        return Worker(
            client, task_queue=name, workflows=[SessionWorkflow], workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=0,
        )  # fmt: skip

    handle = await client.start_workflow(
        SessionWorkflow.run,
        SessionTask(tenant="acme", session=name, queue=old, heartbeat_ms=60_000),
        id=name,
        task_queue=name,
    )
    async with asyncio.timeout(PATIENCE_S):
        async with workflows():
            while not (await handle.describe()).raw_description.pending_activities:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        async with Worker(client, task_queue=old, activities=[advance]):
            await begun.wait()
        for wake in (Wake(at=2, queue=new), Wake(at=1, queue=old)):  # the second one was late
            await handle.signal(WAKE, wake)
        async with Worker(client, task_queue=new, activities=[advance]), workflows():
            assert await handle.result() == "completed"
