"""One trial: a session whose worker processes are killed again and again, until one of them brings it to its end.

The campaign's operator stands beside it: approves what waits for approval, as somebody else than the run's owner, and
answers from the database of effects whether a call of unknown outcome happened.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tercet import Actor
from tercet.contracts.canonical import hash_bytes
from tercet.journal import codec
from tercet.journal import events as e
from tercet.journal.opening import open_journal
from tercet.runtime import opening
from tercet.runtime.driver import LARGE
from tercet.runtime.records import read_record
from tercet.runtime.runtime import Runtime
from tercet.testing import crash_points

from . import effects
from .nursery import Worker
from .scenes import HANG, scene, truth_of

LEASE_MS = 500
PATIENCE_S = 60
MOST_WORKERS = 40
OPERATOR = Actor(id="user_operator", roles=("finance_lead",))
RANDOM = "random"
"""Instead of a crash point: the campaign kills the worker at an instant of its own choice."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is to be run, and how often and where its workers are to be killed."""

    name: str
    journal: str
    scene: str
    kills: Sequence[str] = ()
    """One for each of the first workers: `point:n`, or `random`."""
    hang: str = ""
    """The step whose first attempt outlives its time after its effect."""
    folder: Path
    seed: int = 0

    @property
    def effects(self) -> Path:
        """The database of what happened."""
        return self.folder / f"{self.name}.effects.db"

    @property
    def declaration(self) -> str:
        """How the tools recover."""
        return self.scene.partition(":")[2]


@dataclass(kw_only=True)
class Found:
    """What became of a trial."""

    trial: Trial
    kills: int = 0
    workers: int = 0
    status: str = "not started"
    gates: int = 0
    duplicates: int = 0
    """Effects beyond the first of their key."""
    blind_repeats: int = 0
    """Attempts that followed one of unknown outcome without an operator's word, for tools that declare nothing."""
    steps: Counter[str] = field(default_factory=Counter[str])
    record: dict[str, Any] = field(default_factory=dict[str, Any])
    errors: list[str] = field(default_factory=list[str])
    """How workers ended that neither were killed nor came to a result."""

    @property
    def is_lost(self) -> bool:
        """Whether the run did not come to its end."""
        return self.status != "completed"


async def run_trial(trial: Trial) -> Found:
    """Kill its workers as told, then let it come to its end, and look at what is left."""
    found = Found(trial=trial)
    effects.create(trial.effects)
    draw = random.Random(trial.seed)  # noqa: S311 - instants, not secrets
    kills = list(trial.kills)
    while found.workers < MOST_WORKERS and found.is_lost:
        kill = kills[0] if kills else ""
        found.workers += 1
        code, told = await work(trial, kill, draw)
        if code == -signal.SIGKILL and not told:
            found.kills += 1
            del kills[:1]
        found.status = told.get("status", told.get("error", f"exit {code}"))
        if "status" not in told and code != -signal.SIGKILL:
            found.errors.append(f"exit {code}: {told.get('reason', 'it said nothing')}")
        if found.status == "awaiting_gate":
            found.gates += await operate(trial, told["session"])
    if not found.is_lost:
        await look(trial, found)
    return found


# --- workers ---


async def work(trial: Trial, kill: str, draw: random.Random) -> tuple[int, dict[str, Any]]:
    """One worker, killed or not: its exit code, and what it said at its end."""
    worker = start(trial, "" if kill == RANDOM else kill)
    try:
        async with asyncio.timeout(PATIENCE_S):
            if kill == RANDOM:
                await worker.said()
                await asyncio.sleep(0.25 * draw.random() ** 2)  # more often early: most runs are short
                worker.kill()
            return await worker.ended()
    except TimeoutError:
        return 0, {"error": "hung", "reason": f"it did not end within {PATIENCE_S} s"}
    finally:
        worker.kill()


def start(trial: Trial, crash: str = "") -> Worker:
    """Start a worker, told by its environment where to die and what to hang at."""
    told = {
        "TERCET_REFUNDS_DB": str(trial.folder / f"{trial.name}.refunds.db"),
        effects.VARIABLE: str(trial.effects),
        crash_points.VARIABLE: crash,
        HANG: trial.hang,
    }
    return Worker((trial.journal, trial.name, trial.scene, str(LEASE_MS)), told)


# --- the operator ---


async def operate(trial: Trial, session: str) -> int:
    """Answer every open gate of a session, truthfully; how many there were."""
    async with Runtime(
        scene(trial.scene).pack, trial.journal, tenant=trial.name, lease_ms=LEASE_MS
    ) as runtime:
        gates = (await runtime.state(session)).gates
        for gate in gates.values():
            if gate.kind == "approval":
                await runtime.approve(gate.id, actor=OPERATOR)
            elif effects.has_happened(gate.shown["key"], trial.effects):
                await runtime.settle(gate.id, happened=True, value=truth_of(gate.step), actor=OPERATOR)
            else:
                await runtime.settle(gate.id, happened=False, actor=OPERATOR)
    return len(gates)


# --- what is left ---


async def look(trial: Trial, found: Found) -> None:
    """Count the effects, look for blind repeats in the journal, and read the record."""
    happened = effects.read(trial.effects)
    found.steps = Counter(effect.step for effect in happened)
    found.duplicates = len(happened) - len({effect.key for effect in happened})
    async with open_journal(trial.journal) as journal:
        (row,) = await journal.sessions(trial.name)
        events = [codec.decode(stored.data) for stored in await journal.read(trial.name, row.session_id)]
        assert sum(isinstance(event, e.SessionEnded) for event in events) == 1
        state = (await opening.restore(journal, trial.name, row.session_id)).state
        found.record = await read_record(journal, trial.name, state)
    if trial.declaration in ("nothing", "fenced"):
        found.blind_repeats = count_blind_repeats(events)


def count_blind_repeats(events: Sequence[e.Event]) -> int:
    """Attempts above read_only whose predecessor nobody has said not to have happened."""
    doubtful: set[str] = set()
    asked: dict[str, str] = {}
    blind = 0
    for event in events:
        match event:
            case e.Intent() if not event.tool.startswith(READ_ONLY):
                blind += event.step in doubtful
                doubtful.add(event.step)
            case e.Abort(outcome="not_done"):
                doubtful.discard(event.step)
            case e.GateOpened(kind="reconcile"):
                asked[event.gate] = event.step
            case e.GateAnswered(answer="did_not_happen"):
                doubtful.discard(asked[event.gate])
            case _:
                pass
    return blind


READ_ONLY = ("adp_orders.", "adp_policy.")


# --- records ---

_IDS_AND_HASHES = ("trace_id", "run_id", "context_hash", "decided_at")


def normalise(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without ids, times, durations, attempts, and hashes over them; results in the order of the steps."""
    plain = {key: value for key, value in record.items() if key not in _IDS_AND_HASHES}
    report = {key: value for key, value in record["report"].items() if key not in _IDS_AND_HASHES}
    scores = dict(report["score"]["scorecard"]["scores"])
    scores["latency"] = None  # it scores durations
    return {
        **plain,
        "report": {**report, "score": {**report["score"], "scorecard": scores}},
        "approvals": [
            {key: value for key, value in approval.items() if key not in ("decided_at", "digest")}
            for approval in record["approvals"]
        ],
        "transcript": sorted(
            (_entry(entry) for entry in record["transcript"] if entry["result"]["outcome"] == "done"),
            key=lambda entry: entry["call"]["step_id"],
        ),
    }


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    hidden = ("idempotency_key", "attempt", "started_at", "latency_ms")
    call, result = (
        {key: value for key, value in entry[part].items() if key not in hidden} for part in ("call", "result")
    )
    return {"call": call, "result": {**result, "value": _digested(result.get("value"))}}


def _digested(value: Any) -> Any:
    """A large value by its digest, as a record has it: where an operator said it, it stands there whole."""
    data = msgspec.json.encode(value)
    return {"$blob": hash_bytes(data)} if len(data) > LARGE else value
