"""One trial: a session whose worker processes are killed again and again, until one of them brings it to its end.

The campaign's approver stands beside it, a process of its own that may be killed as well: it approves what waits for
approval, as somebody else than the run's owner, and answers from the database of effects whether a call of unknown
outcome happened.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tercet.contracts.plan import compensated_step
from tercet.contracts.values.canonical import hash_bytes
from tercet.core import codec
from tercet.core import events as e
from tercet.core.effects import rollback
from tercet.core.resolve.sessions import find_expired
from tercet.core.state import TERMINAL, State
from tercet.engine import inbox
from tercet.engine.session_reader import load_state, read_record
from tercet.engine.values import LARGE
from tercet.journal.opening import open_journal
from tercet.replay.replay import replay
from tercet.testing import crash_points

from . import approver, clocks, effects, worker
from .acting import HANG, run_of
from .nursery import Worker
from .sagas import ENDINGS

LEASE_MS = 500
PATIENCE_S = 60
MOST_WORKERS = 40
RANDOM = "random"
"""Instead of a crash point: the campaign kills the process at an instant of its own choice."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What carries the sessions: by default, each worker carries one by itself."""

    main: Callable[[Sequence[str], worker.Say], None] = worker.main
    """What a worker does."""
    told: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its environment says besides."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is to be run, and how often and where its processes are to be killed."""

    name: str
    journal: str
    scene: str
    kills: Sequence[str] = ()
    """One for each of the first workers: `point:n`, or `random`."""
    undo_kills: Sequence[str] = ()
    """The same for the first workers that find the run failed, and take its effects back."""
    spoken_kills: Sequence[str] = ()
    """The same for the first approvers."""
    hang: str = ""
    """The step whose first attempt outlives its time after its effect."""
    clocks: Sequence[str] = ()
    """The clocks of its processes, one after the other and from the first again; all are right if there are none."""
    folder: Path
    seed: int = 0
    engine: Engine = Engine()

    def clock(self, number: int) -> str:
        """What the environment of the process with this number says about its clock."""
        return self.clocks[number % len(self.clocks)] if self.clocks else ""

    @property
    def effects(self) -> Path:
        """The database of what happened."""
        return self.folder / f"{self.name}.effects.db"

    @property
    def pack(self) -> str:
        """What is run."""
        return self.scene.partition(":")[0]

    @property
    def declaration(self) -> str:
        """How the tools recover."""
        return self.scene.partition(":")[2]


@dataclass(kw_only=True)
class Found:
    """What became of a trial."""

    trial: Trial
    kills: int = 0
    """Workers that were killed while steps were carried out."""
    undo_kills: int = 0
    """Workers that were killed while effects were taken back."""
    spoken_kills: int = 0
    """Approvers that were killed."""
    workers: int = 0
    status: str = "not started"
    gates: int = 0
    effects: int = 0
    undone: int = 0
    """How many effects were taken back."""
    unapproved: int = 0
    """Effects that no approval in the journal had allowed when they happened."""
    duplicates: int = 0
    """Effects beyond the first of their key."""
    blind_repeats: int = 0
    """Attempts that followed one of unknown outcome without an operator's word, for tools that declare nothing."""
    steps: Counter[str] = field(default_factory=Counter[str])
    left: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the run left behind, without what may differ."""
    died: Counter[str] = field(default_factory=Counter[str])
    """How many processes died while doing what, and where."""
    alerts: list[str] = field(default_factory=list[str])
    """The ways back of which a worker that lived to tell said that they failed."""
    replayed: str = ""
    """Where the journal does not come out the same when it is judged again; empty if it does."""
    errors: list[str] = field(default_factory=list[str])
    """How processes ended that neither were killed nor came to a result."""

    @property
    def is_lost(self) -> bool:
        """Whether the run did not come to its end."""
        return self.status != ENDINGS.get(self.trial.pack, "completed")


async def run_trial(trial: Trial) -> Found:
    """Kill its workers and approvers as told, then let it come to its end, and look at what is left."""
    found = Found(trial=trial)
    effects.create(trial.effects)
    draw = random.Random(trial.seed)  # noqa: S311 - instants, not secrets
    acting, undoing, spoken = list(trial.kills), list(trial.undo_kills), list(trial.spoken_kills)
    while found.workers < MOST_WORKERS and found.status not in TERMINAL:
        is_ending = trial.pack in ENDINGS and await _is_ending(trial)
        kills = undoing if is_ending else acting
        found.workers += 1
        kill = kills[0] if kills else ""
        code, told = await work(trial, kill, draw, trial.clock(found.workers - 1))
        if _is_killed(code, told):
            found.undo_kills += is_ending
            found.kills += not is_ending
            found.died[death("undoing" if is_ending else "acting", kill)] += 1
            del kills[:1]
        found.status = told.get("status", told.get("error", f"exit {code}"))
        found.alerts += told.get("alerts", ())
        _note_error(found, code, told, "status")
        if found.status in ("awaiting_gate", "paused"):
            await operate(trial, found, spoken, draw)
    await look(trial, found)
    return found


def death(doing: str, kill: str) -> str:
    """The name of a death: what the process did, and the point."""
    return f"{doing}: {kill.partition(':')[0]}"


def _is_killed(code: int, told: Mapping[str, Any]) -> bool:
    return code == -signal.SIGKILL and not told


def _note_error(found: Found, code: int, told: Mapping[str, Any], wanted: str) -> None:
    if wanted not in told and code != -signal.SIGKILL:
        found.errors.append(f"exit {code}: {told.get('reason', 'it said nothing')}")


async def _is_ending(trial: Trial) -> bool:
    """Whether the next worker will find that the run has failed, and that only its effects are left to settle."""
    async with open_journal(trial.journal) as journal:
        row = run_of(await journal.sessions(trial.name))
        if row is None:
            return False
        state = await load_state(journal, trial.name, row.session_id)
        now = int(time.time() * 1000)
        letters = await inbox.read_unread(journal, trial.name, state)
        for _, after in inbox.apply_messages(state, letters, now, outside=True):
            state = after
        return bool(state.ending) or find_expired(state, now) is not None


async def state_of(trial: Trial) -> State | None:
    """How the session of a trial stands; None before it has begun."""
    async with open_journal(trial.journal) as journal:
        row = run_of(await journal.sessions(trial.name))
        return await load_state(journal, trial.name, row.session_id) if row else None


# --- workers ---


async def work(trial: Trial, kill: str, draw: random.Random, clock: str = "") -> tuple[int, dict[str, Any]]:
    """One worker, killed or not: its exit code, and what it said at its end."""
    return await live(start(trial, "" if kill == RANDOM else kill, clock=clock), kill, draw)


async def live(
    process: Worker, kill: str, draw: random.Random, patience_s: float = PATIENCE_S
) -> tuple[int, dict[str, Any]]:
    """The life of a process, which the campaign may end at a random instant."""
    try:
        async with asyncio.timeout(patience_s):
            if kill == RANDOM:
                await process.said()
                await asyncio.sleep(0.25 * draw.random() ** 2)  # more often early: most runs are short
                process.kill()
            return await process.ended()
    except TimeoutError:
        return 0, {"error": "hung", "reason": f"it did not end within {patience_s} s"}
    finally:
        process.kill()


async def watch(process: Worker) -> tuple[int, dict[str, Any]]:
    """The life of a process that nobody kills: its exit code, and what it said at its end."""
    return await live(process, "", random.Random(0))  # noqa: S311 - nothing is drawn


def start(
    trial: Trial,
    crash: str = "",
    main: Callable[[Sequence[str], worker.Say], None] | None = None,
    *,
    clock: str = "",
    more: Mapping[str, str] | None = None,
) -> Worker:
    """Start a process, told by its environment where to die, what to hang at, and `more`."""
    told = {
        "TERCET_REFUNDS_DB": str(trial.folder / f"{trial.name}.refunds.db"),
        effects.VARIABLE: str(trial.effects),
        crash_points.VARIABLE: crash,
        HANG: trial.hang,
        clocks.VARIABLE: clock,
        **trial.engine.told,
        **(more or {}),
    }
    return Worker((trial.journal, trial.name, trial.scene, str(LEASE_MS)), told, main or trial.engine.main)


# --- the approver ---


async def operate(trial: Trial, found: Found, kills: list[str], draw: random.Random) -> None:
    """Let an approver answer every open gate, or be killed over it; every other gate that is to expire is left alone."""
    if trial.pack == "expired" and trial.seed % 2 and await _has_let_expire(trial):
        return
    kill = kills[0] if kills else ""
    process = start(trial, "" if kill == RANDOM else kill, approver.main, clock=trial.clock(found.workers))
    code, told = await live(process, kill, draw)
    if _is_killed(code, told):
        found.spoken_kills += 1
        found.died[death("answering", kill)] += 1
    del kills[:1]
    _note_error(found, code, told, "answered")
    found.gates += told.get("answered", 0)


async def _has_let_expire(trial: Trial) -> bool:
    """Wait until the gate that nobody is to answer has expired; False if another one waits."""
    state = await state_of(trial)
    expiring = [gate for gate in state.gates.values() if "GATE_SHIPPING" in gate.names] if state else []
    for gate in expiring:
        await asyncio.sleep(max(0, gate.expires / 1000 - time.time()))
    return bool(expiring)


# --- what is left ---


def count_effects(trial: Trial) -> Counter[str]:
    """How often each step had its effect."""
    return Counter(effect.step for effect in effects.read(trial.effects))


async def look(trial: Trial, found: Found) -> None:
    """Count the effects; where the run came to its end, look for blind repeats in the journal, and read the record."""
    happened = effects.read(trial.effects)
    found.steps = Counter(effect.step for effect in happened)
    found.effects = sum(not compensated_step(effect.step) for effect in happened)
    found.undone = len({effect.step for effect in happened if compensated_step(effect.step)})
    found.unapproved = sum(not effect.warrant for effect in happened)
    found.duplicates = len(happened) - len({effect.key for effect in happened})
    if found.is_lost:
        return
    async with open_journal(trial.journal) as journal:
        rows = await journal.sessions(trial.name)
        row = run_of(rows)
        assert row is not None
        events = [codec.decode(stored.data) for stored in await journal.read(trial.name, row.session_id)]
        assert sum(isinstance(event, e.SessionEnded) for event in events) == 1
        state = await load_state(journal, trial.name, row.session_id)
        record = await read_record(journal, trial.name, state)
        replayed = await replay(journal, row.session_id, tenant=trial.name)
    found.replayed = "" if replayed.difference is None else str(replayed.difference)
    taken_back = rollback(state)
    found.left = {
        "status": state.status,
        "record": normalise(record),
        "rollback": taken_back.model_dump(mode="json") if taken_back else None,
        "lanes": [each.status for each in rows if each is not row],
    }
    if trial.declaration in ("nothing", "fenced"):
        found.blind_repeats = count_blind_repeats(events)


def count_blind_repeats(events: Sequence[e.Event]) -> int:
    """Attempts at tools that declare nothing whose predecessor nobody has said not to have happened."""
    doubtful: set[str] = set()
    asked: dict[str, str] = {}
    blind = 0
    for event in events:
        match event:
            case e.Intent() if not event.tool.startswith(RECOVERING):
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


RECOVERING = ("adp_orders.", "adp_policy.", "book.reserve", "book.ship", "lane.")
"""The tools that recover by themselves in every scene."""


# --- records ---

_IDS_AND_HASHES = ("trace_id", "run_id", "context_hash", "decided_at")


def normalise(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without ids, times, durations, attempts, and hashes over them; results in the order of the steps."""
    plain = {key: value for key, value in record.items() if key not in _IDS_AND_HASHES}
    report = {key: value for key, value in record["report"].items() if key not in _IDS_AND_HASHES}
    if report.get("score") is not None:
        scores = {**report["score"]["scorecard"]["scores"], "latency": None}  # it scores durations
        report["score"] = {**report["score"], "scorecard": scores}
    return {
        **plain,
        "report": report,
        "run_verdict": _verdict(record.get("run_verdict")),
        "decisions": [{**decision, "decided_at": None} for decision in record.get("decisions", ())],
        "approvals": [
            {key: value for key, value in approval.items() if key not in ("decided_at", "digest")}
            for approval in record["approvals"]
        ],
        "transcript": sorted(
            (_entry(entry) for entry in record["transcript"] if entry["result"]["outcome"] == "done"),
            key=lambda entry: entry["call"]["step_id"],
        ),
    }


def _verdict(verdict: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    steps: list[dict[str, Any]] = sorted(verdict["step_scores"], key=lambda step: step["step_id"])
    scores = [{**step, "scores": {**step["scores"], "latency": None}} for step in steps]
    return {**verdict, "run_id": None, "step_scores": scores}


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    hidden = ("idempotency_key", "attempt", "started_at", "latency_ms")
    call, result = (
        {key: value for key, value in entry[part].items() if key not in hidden} for part in ("call", "result")
    )
    value: Any = result.get("value")
    if call["tool"].startswith("lane."):
        value = {name: each for name, each in value.items() if name not in ("session_id", "used")}
    return {"call": call, "result": {**result, "value": _digested(value)}}


def _digested(value: Any) -> Any:
    """A large value by its digest, as a record has it: where an operator said it, it stands there whole."""
    data = msgspec.json.encode(value)
    return {"$blob": hash_bytes(data)} if len(data) > LARGE else value
