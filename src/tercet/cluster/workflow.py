"""The workflow of a session: advance it, wait until something can have changed, and advance it again.

It holds no truth about the session. What it may do is decided by the activity, from the journal; the workflow only knows
when to ask again. So a lost, repeated or late wake-up changes nothing but the time at which the session goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ActivityError, is_cancelled_exception

WORKFLOW = "tercet.session"
ADVANCE = "tercet.advance"
WAKE = "wake"
WORKFLOW_QUEUE = "tercet"
"""The task queue of the workflows. They run no code of packs, so every worker takes them."""

TENANT = SearchAttributeKey.for_keyword("TercetTenant")
INTENT = SearchAttributeKey.for_keyword("TercetIntent")
STATUS = SearchAttributeKey.for_keyword("TercetStatus")
PACK = SearchAttributeKey.for_keyword("TercetPack")
SEARCH_ATTRIBUTES = (TENANT, INTENT, STATUS, PACK)

MOST_ADVANCES = 200
"""After so many advances a workflow begins a new history."""
_KEEPS_MOVES = "keeps-moves"
_LEAST_WAIT = timedelta(seconds=1)
_LONGEST_ADVANCE = timedelta(days=365)
_FAIRNESS_BYTES = 64
_RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=20))


@dataclass(frozen=True, kw_only=True)
class SessionTask:
    """Which session a workflow wakes, and where the code of its pack runs."""

    tenant: str
    session: str
    queue: str
    heartbeat_ms: int
    """After how long without a heartbeat another worker tries."""


@dataclass(frozen=True, kw_only=True)
class Wake:
    """A wake-up: the session had changed at this time, and belongs to this queue."""

    at: int
    queue: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How far a session came."""

    status: str
    is_over: bool
    updated_at: int
    """When the session was last changed; a wake-up for an earlier change brings nothing new."""
    queue: str
    wake_at: int | None = None
    """When to advance it again without a wake-up; None if only a wake-up can change something."""
    is_stuck: bool = False
    """Whether it cannot go on as it is: only a wake-up for a later change helps."""


@workflow.defn(name=WORKFLOW)
class SessionWorkflow:
    """Wakes one session until it is over."""

    @workflow.init
    def __init__(self, task: SessionTask) -> None:
        self._queue = task.queue
        self._woken_at = -1
        self._moved_at = -1
        self._advancing: workflow.ActivityHandle[Outcome] | None = None
        self._shown = ("", "")

    @workflow.run
    async def run(self, task: SessionTask) -> str:
        """Return the status that the session ended with, in this history or in a later one."""
        for _ in range(MOST_ADVANCES):
            outcome = await self._advance(task)
            if outcome is None:
                continue  # the session has moved to another queue
            if self._is_current(outcome.updated_at):
                self._queue = outcome.queue
            self._show(outcome)
            if outcome.is_over:
                return outcome.status
            await self._wait(outcome)
            if workflow.info().is_continue_as_new_suggested():
                break
        return workflow.continue_as_new(
            SessionTask(
                tenant=task.tenant, session=task.session, queue=self._queue, heartbeat_ms=task.heartbeat_ms
            )
        )

    @workflow.signal(name=WAKE)
    def wake(self, wake: Wake) -> None:
        """Advance the session soon; one that has moved to another queue is looked for there."""
        self._woken_at = max(self._woken_at, wake.at)
        if wake.queue != self._queue and self._is_current(wake.at):
            self._queue, self._moved_at = wake.queue, wake.at
            if self._advancing is not None:
                self._advancing.cancel()

    def _is_current(self, at: int) -> bool:
        """Return whether what was true at a time is later than the last move to another queue; an advance that ends, or a
        wake-up that was late, must not send the session back. Histories from before this rule replay as they were."""
        return at >= self._moved_at or not workflow.patched(_KEEPS_MOVES)

    async def _advance(self, task: SessionTask) -> Outcome | None:
        self._woken_at = -1  # the activity will see every change up to now
        queue = self._queue
        self._advancing = workflow.start_activity(
            ADVANCE,
            SessionTask(
                tenant=task.tenant, session=task.session, queue=queue, heartbeat_ms=task.heartbeat_ms
            ),
            task_queue=queue,
            result_type=Outcome,
            start_to_close_timeout=_LONGEST_ADVANCE,
            heartbeat_timeout=timedelta(milliseconds=task.heartbeat_ms),
            retry_policy=_RETRY,
            cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            priority=Priority(fairness_key=task.tenant.encode()[:_FAIRNESS_BYTES].decode(errors="ignore")),
        )
        try:
            return await self._advancing
        except ActivityError as error:
            if is_cancelled_exception(error) and queue != self._queue:
                return None
            raise
        finally:
            self._advancing = None

    def _show(self, outcome: Outcome) -> None:
        """Show the status in Temporal's lists."""
        shown = ("blocked" if outcome.is_stuck else outcome.status, outcome.queue)
        if shown != self._shown:
            self._shown = shown
            workflow.upsert_search_attributes(  # pyright: ignore[reportUnknownMemberType] - its signature is untyped
                [STATUS.value_set(shown[0]), PACK.value_set(shown[1])]
            )

    async def _wait(self, outcome: Outcome) -> None:
        """Wait for a wake-up or for the time that the session named."""
        # Two changes can have the same time; a session that is stuck needs one that certainly came later.
        least = outcome.updated_at + (1 if outcome.is_stuck else 0)
        timeout = None
        if outcome.wake_at is not None:
            left = timedelta(milliseconds=outcome.wake_at - workflow.now().timestamp() * 1000)
            timeout = max(left, _LEAST_WAIT)
        try:
            await workflow.wait_condition(
                lambda: self._woken_at >= least or self._queue != outcome.queue, timeout=timeout
            )
        except TimeoutError:
            return
