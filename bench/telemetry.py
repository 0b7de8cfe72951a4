"""What telemetry costs: whole runs with it, beside the same runs without.

Every candidate makes runs of twelve no-op steps on SQLite, fifty at once. Candidates alternate in short slices of one
process, and each slice ends only when everything has been sent: whatever a thread does beside the runs counts as well.
What counts is the median difference of neighbouring slices in CPU time, which is all that telemetry takes from a run;
ratios of CPU time and of time on the wall are printed beside it. The collector is a real one as far as the sender can
tell: an HTTP server in another process that reads every request to its end.
Spans are those of the default sampling; the table says how many runs that were.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tercet.observe import Sampling, Telemetry, TelemetrySettings
from tercet.runtime import Runtime

from . import workload
from .measurement import ROOT, Target, show_targets

RUNS, CONCURRENT, ROUNDS = 300, 50, 25
OFF, ON, LOGGED = "off", "spans and metrics", "and the log"
CANDIDATES: tuple[str, ...] = (OFF, ON, LOGGED)
MOST = {ON: 25, LOGGED: 45}
"""How many microseconds of CPU time a step may cost beyond one without telemetry."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One slice."""

    wall: float
    cpu: float
    traced: int


# --- one slice ---


def settings_of(name: str, folder: Path) -> TelemetrySettings:
    """What is on."""
    if name == OFF:
        return TelemetrySettings()
    log = folder / "runs.jsonl" if name == LOGGED else None
    return TelemetrySettings(otlp=True, prometheus_port=0, log=log, flush_ms=20_000)


async def measure(name: str, folder: Path, runs: int) -> Sample:
    """How long so many runs took until everything was told, and what of them was traced."""
    settings = settings_of(name, folder)
    telemetry = Telemetry(settings)
    pack, plan, request = workload.pack_of(), workload.plan_of(), workload.request()
    left = iter(range(runs))
    async with AsyncExitStack() as stack:
        observers = [await stack.enter_async_context(telemetry)] if settings.is_on else []
        url = f"sqlite:///{folder / 'bench.db'}"
        runtime = await stack.enter_async_context(Runtime(pack, url, observers=observers))

        async def work() -> None:
            for _ in left:
                result = await runtime.run(request, plan=plan)
                assert result.status == "completed", result

        clock, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(work() for _ in range(CONCURRENT)))
    wall, used = time.perf_counter() - clock, time.process_time() - cpu
    assert not settings.is_on or telemetry.figures.commits == runs
    assert not telemetry.dropped, telemetry.dropped
    return Sample(wall=wall, cpu=used, traced=telemetry.traced[0])


# --- the collector ---


class Handler(BaseHTTPRequestHandler):
    """Reads everything, and thanks for it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take what is sent."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the server gives it
        """Say nothing."""


def collect() -> None:
    """Serve until killed; the first line says where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


# --- rounds ---


def rounds(count: int, runs: int) -> dict[str, list[Sample]]:
    """All candidates, one after the other, as often as there are rounds; a round before them warms up."""
    found: dict[str, list[Sample]] = {name: [] for name in CANDIDATES}
    for number in range(count + 1):
        for name in CANDIDATES if number % 2 else reversed(CANDIDATES):
            with tempfile.TemporaryDirectory() as folder:
                one = asyncio.run(measure(name, Path(folder), runs))
            if number:
                found[name].append(one)
    return found


def ratios(mine: list[Sample], others: list[Sample], key: str) -> list[float]:
    """How much less one candidate gets done than another, slice by slice, in time or in CPU time."""
    return sorted(getattr(other, key) / getattr(one, key) for one, other in zip(mine, others, strict=True))


def show(found: dict[str, list[Sample]], runs: int) -> list[str]:
    """Print the table; return the targets that were missed."""
    steps = runs * workload.STEPS
    print(f"Telemetry: {workload.STEPS} no-op steps a run, {CONCURRENT} runs at once; traced: {Sampling()}")
    print(f"{'':<18} {'steps/s':>8} {'CPU us':>7}   steps/s, it / off: min median max   by CPU   traced")
    for name, samples in found.items():
        by_time, by_cpu = (ratios(samples, found[OFF], key) for key in ("wall", "cpu"))
        left, middle = statistics.median(by_cpu), statistics.median(by_time)
        rate = steps / statistics.median(one.wall for one in samples)
        cpu = 1e6 * statistics.median(one.cpu for one in samples) / steps
        traced = f"{sum(one.traced for one in samples)} of {runs * len(samples):,} runs"
        shown = (
            ""
            if name == OFF
            else (f"{by_time[0]:>23.2f} {middle:>6.2f} {by_time[-1]:>5.2f}   {left:>6.2f}   {traced}")
        )
        print(f"{name:<18} {rate:>8,.0f} {cpu:>7,.0f}   {shown}")
    return show_targets(
        Target(name=f"CPU us a step for {name}", found=cost(found[name], found[OFF], steps), most=most)
        for name, most in MOST.items()
    )


def cost(mine: list[Sample], others: list[Sample], steps: int) -> float:
    """How much more CPU time a step took than in the neighbouring slices of another candidate, in microseconds."""
    return (
        1e6 * statistics.median(one.cpu - other.cpu for one, other in zip(mine, others, strict=True)) / steps
    )


def run(*, is_smoke: bool = False) -> list[str]:
    """Measure and print; return the targets that were missed."""
    runs, count = (4, 1) if is_smoke else (RUNS, ROUNDS)
    command = [sys.executable, "-m", "bench.telemetry"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as collector:
        assert collector.stdout is not None
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.stdout.readline().strip()
        try:
            return show(rounds(count, runs), runs)
        finally:
            del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
            collector.kill()


if __name__ == "__main__":
    collect()
