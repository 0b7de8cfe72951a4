"""What looking back costs, as ratios: judging a recorded run again against parsing its journal, and on all cores.

Parsing is what every reader of a journal does: follow the chain over the stored bytes, decode the events, fold them.
Replay does the same and derives every judgement again: contexts, reviews, calls with their keys, verdicts, scores, the
record. Both begin with the bytes in memory. Candidates alternate inside each round, so that a noisy machine is noisy for
both; process CPU time is measured for the first ratio, and wall time for the second. There a few runs are judged as well
as many, and the difference counts: starting processes takes the same time for any number of runs. Wall time says little
where others use the cores too, so the share of the CPU time that one process must spend alone is measured besides.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import statistics
import time

from tercet import Request, Runtime
from tercet.core import codec
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.journal.chain import START, follow
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Stored
from tercet.replay.recording import Recording, load
from tercet.replay.replay import replay_many, replay_recording
from tercet.replay.rules import RuleSource

from .measurement import Target, cpu_seconds, show_targets
from .workload import INTENT, STEPS, pack_of, plan_of

ROUNDS = 400
"""How often each candidate goes, one after the other."""
MOST = 6.0
FEW, MANY = 100, 3_000
"""How many runs are judged again for the second ratio."""
MOST_ALONE = 0.1
"""The share of the work that may stay with one process: it decides how many cores can help, on a busy machine too."""


async def record() -> tuple[Recording, list[Stored]]:
    """A run of twelve steps, as it was recorded."""
    journal = MemoryJournal()
    async with Runtime(pack_of(), journal) as runtime:
        result = await runtime.run(Request(intent=INTENT, input={}), plan=plan_of())
        assert result.status == "completed"
        stored = await journal.read("default", result.session_id)
        return await load(journal, "default", result.session_id), stored


def parse(stored: list[Stored]) -> State:
    """From the stored bytes to the state that they come to."""
    follow(START, stored, stream="bench")
    state = State()
    for each in stored:
        state = fold_event(state, codec.decode(each.data))
    return state


def costs(recording: Recording, stored: list[Stored], rounds: int) -> tuple[float, float]:
    """How much replay costs against parsing, and against nothing but decoding the events."""
    rulebook = RuleSource()

    def replay() -> None:
        follow(START, stored, stream="bench")
        assert replay_recording(recording, rulebook).is_equal

    def decode() -> None:
        for each in stored:
            codec.decode(each.data)

    replay()
    gc.collect()
    taken = [
        (cpu_seconds(replay), cpu_seconds(lambda: parse(stored)), cpu_seconds(decode)) for _ in range(rounds)
    ]
    whole, parsed, decoded = (statistics.median(column) for column in zip(*taken, strict=True))
    return whole / parsed, whole / decoded


def scaling(recording: Recording, workers: int, *, few: int, many: int, rounds: int) -> tuple[float, float]:
    """How much sooner many runs are judged on all cores, and the share of the work that only one process can do."""
    walls: dict[tuple[int, int], list[float]] = {
        (number, runs): [] for runs in (few, many) for number in (1, workers)
    }
    shares: list[float] = []
    for _ in range(rounds):
        for (number, runs), taken in walls.items():
            wall, share = judged(recording, runs, number)
            taken.append(wall)
            if (number, runs) == (workers, many):
                shares.append(share)
    alone, together = (min(walls[n, many]) - min(walls[n, few]) for n in (1, workers))
    return alone / together, min(shares)


def judged(recording: Recording, runs: int, workers: int) -> tuple[float, float]:
    """The wall time of judging so many runs, and this process's share of the CPU time."""
    began, own, theirs = time.perf_counter(), time.process_time(), _children()
    assert all(report.is_equal for report in replay_many([recording] * runs, workers=workers))
    wall, own, theirs = time.perf_counter() - began, time.process_time() - own, _children() - theirs
    return wall, own / (own + theirs)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*, is_smoke: bool = False) -> list[str]:
    """Print both ratios; return those that are over their limits."""
    rounds, few, many, repeats = (2, 2, 10, 1) if is_smoke else (ROUNDS, FEW, MANY, 3)
    recording, stored = asyncio.run(record())
    against_parsing, against_decoding = costs(recording, stored, rounds)
    print(f"replay of {STEPS} steps / decoding its events alone: {against_decoding:.2f}")
    targets = [
        Target(name=f"replay of {STEPS} steps / parsing its journal", found=against_parsing, most=MOST)
    ]
    cores = os.cpu_count() or 1
    if cores > 1:
        sooner, share = scaling(recording, cores, few=few, many=many, rounds=repeats)
        print(f"{many:,} runs on one core / on {cores}: {sooner:.2f}")
        targets.append(Target(name="share of the work of one process", found=share, most=MOST_ALONE))
    return show_targets(targets)
