"""The telemetry options of commands that run sessions."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, TypeAlias

from tercet.cli.options import option
from tercet.observe.settings import (
    DEFAULT_RATE,
    STDERR,
    Sampling,
    TelemetrySettings,
    collector_address,
    demand_library,
    read_settings,
)
from tercet.observe.telemetry import Telemetry
from tercet.view.terminal.text import printable

VARIABLE = "TERCET_TELEMETRY"
SAMPLE_VARIABLE = "TERCET_SAMPLE"

TelemetryWords: TypeAlias = Annotated[
    list[str] | None,
    option(
        "WHAT",
        f"Export telemetry: otlp (a collector, see OTEL_EXPORTER_OTLP_ENDPOINT), prometheus[:PORT] or log[:FILE]; may be given several times. By default {VARIABLE}, else nothing.",
        "--telemetry",
        envvar=VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]
SampleRate: TypeAlias = Annotated[
    float,
    option(
        "RATE",
        f"The share of the runs to trace, from 0 to 1, besides every failed, gated or escalated one: by default {SAMPLE_VARIABLE}, else {DEFAULT_RATE}.",
        "--sample",
        envvar=SAMPLE_VARIABLE,
        show_default=False,
        show_envvar=False,
    ),
]


def settings_of(words: Sequence[str] | None, rate: float) -> TelemetrySettings:
    """Return the settings that the options name; raise `UsageError` if one is invalid."""
    settings = read_settings(words or (), Sampling(rate))
    if settings.needs_library:
        demand_library()
    return settings


@asynccontextmanager
async def open_telemetry(
    settings: TelemetrySettings, say: Callable[[str], None], undelivered: dict[str, int]
) -> AsyncGenerator[tuple[Telemetry, ...]]:
    """Open the observers that settings name; report where they send to, and at the end what was not delivered."""
    if not settings.is_on:
        yield ()
        return
    # What a collector does not accept is reported once below; the exporters would repeat it.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    async with Telemetry(settings) as telemetry:
        say(f"· telemetry: {'; '.join(_ways(telemetry))}")
        yield (telemetry,)
    undelivered.update(telemetry.dropped)
    if telemetry.dropped:
        lost = ", ".join(f"{number:,} {what}" for what, number in telemetry.dropped.items())
        say(f"· telemetry: not delivered: {lost}")


def _ways(telemetry: Telemetry) -> list[str]:
    settings, found = telemetry.settings, list[str]()
    if settings.otlp:
        found.append(f"spans of {settings.sampling} to {printable(collector_address(os.environ), 200)}")
    if telemetry.metrics_address:
        found.append(f"metrics on {telemetry.metrics_address}")
    if settings.log is not None:
        found.append(
            f"a log {'on stderr' if str(settings.log) == STDERR else f'in {printable(str(settings.log), 200)}'}"
        )
    return found
