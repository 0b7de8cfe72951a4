"""The settings of telemetry: which outlets are on, and which runs are traced. By default everything is off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tercet.contracts.errors import UsageError, extra_missing
from tercet.contracts.runs.trace_context import read_traceparent
from tercet.core.state import State

LOOPBACK = "127.0.0.1"
PROMETHEUS_PORT = 9464
"""The port that exporters for Prometheus use by convention."""
STDERR = "-"
DEFAULT_RATE = 0.05
_SCALE = 2**64


@dataclass(frozen=True)
class Sampling:
    """A share of the runs between 0 and 1, and every failed, gated or escalated one.

    Every process makes the same choice for a run.
    """

    rate: float = DEFAULT_RATE

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise UsageError(
                f"the sample rate {self.rate} is not between 0 and 1",
                code="wrong_sampling",
                remedy="pass a number from 0 (only failed, gated and escalated runs) to 1 (all runs)",
            )

    def picks(self, run: str) -> bool:
        """Return whether a run is in the share, however it ends."""
        number = int.from_bytes(sha256(f"{run}/sample".encode()).digest()[:8], "big")
        return number < self.rate * _SCALE

    def wants(self, state: State) -> bool:
        """Return whether a released run is traced. A caller who traces its request gets the whole trace."""
        start = state.start
        if state.opened or state.ending or state.status in ("failed", "rejected", "expired", "cancelled"):
            return True
        asked: str = start.traceparent
        return self.picks(start.run) or (bool(asked) and read_traceparent(asked).is_sampled)

    def __str__(self) -> str:
        if self.rate == 1:
            return "every run"
        share = f"1 run in {1 / self.rate:,.4g}, and " if self.rate else ""
        return f"{share}every failed, gated or escalated one"


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """Where telemetry goes, and its limits. The collector's address and options are read from the
    variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT."""

    otlp: bool = False
    """Spans and metrics to a collector."""
    prometheus_port: int | None = None
    """The port for metrics; 0 for any free port, None for no metrics."""
    prometheus_host: str = LOOPBACK
    log: Path | None = None
    """A file that lines of JSON are appended to; `-` is stderr."""
    sampling: Sampling = field(default_factory=Sampling)
    most_waiting: int = 2_000
    """The number of runs and log entries that are queued before further ones are dropped and counted."""
    delay_ms: int = 1_000
    """How long spans are collected before they are sent."""
    interval_ms: int = 60_000
    """How often metrics are sent."""
    flush_ms: int = 2_000
    """How long closing waits for unsent telemetry."""

    def __post_init__(self) -> None:
        if self.prometheus_port is not None and not 0 <= self.prometheus_port <= 65_535:
            raise _wrong(f"prometheus:{self.prometheus_port}")

    @property
    def is_on(self) -> bool:
        """Whether telemetry goes anywhere."""
        return self.otlp or self.prometheus_port is not None or self.log is not None

    @property
    def needs_library(self) -> bool:
        """Whether an optional library is needed."""
        return self.otlp or self.prometheus_port is not None


def read_settings(words: Iterable[str], sampling: Sampling | None = None) -> TelemetrySettings:
    """Read settings as users type them: `otlp`, `prometheus[:[HOST:]PORT]`, `log[:FILE]`; raise `UsageError` for others."""
    found = TelemetrySettings(sampling=sampling or Sampling())
    for said in words:
        name, _, rest = said.partition(":")
        if name not in _READERS or (name == "otlp" and rest):
            raise _wrong(said)
        found = _READERS[name](found, rest)
    return found


def _read_prometheus(known: TelemetrySettings, rest: str) -> TelemetrySettings:
    host, _, port = rest.rpartition(":")
    if port and not (port.isascii() and port.isdecimal() and len(port) <= 5):
        raise _wrong(f"prometheus:{rest}")
    number = int(port) if port else PROMETHEUS_PORT
    return replace(known, prometheus_port=number, prometheus_host=host.strip("[]") or LOOPBACK)


_READERS: dict[str, Callable[[TelemetrySettings, str], TelemetrySettings]] = {
    "otlp": lambda known, _: replace(known, otlp=True),
    "prometheus": _read_prometheus,
    "log": lambda known, rest: replace(known, log=Path(rest or STDERR)),
}


def _wrong(said: str) -> UsageError:
    return UsageError(
        f"unknown telemetry setting '{said}'",
        code="wrong_telemetry",
        remedy="write otlp, prometheus, prometheus:PORT, log or log:FILE; OTEL_EXPORTER_OTLP_ENDPOINT is the collector's address",
    )


def demand_library() -> None:
    """Raise `UsageError` if the libraries for telemetry are not installed."""
    for name in ("opentelemetry", "prometheus_client"):
        if find_spec(name) is None:
            raise extra_missing("telemetry", name, "telemetry")


def collector_address(environment: Mapping[str, str]) -> str:
    """Return the collector's address without credentials; raise `UsageError` if it is malformed."""
    said = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environment.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    try:
        parts = urlsplit(said or "http://localhost:4318")
    except ValueError as error:
        raise _no_address() from error
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise _no_address()
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _no_address() -> UsageError:
    # The value is not repeated, since it may contain a password.
    return UsageError(
        "OTEL_EXPORTER_OTLP_ENDPOINT is not a valid URL",
        code="wrong_telemetry",
        remedy="set it to an address such as http://localhost:4318",
    )
