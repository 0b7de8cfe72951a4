"""To a collector: spans and metrics as OTLP over HTTP.

The exporters are those of OpenTelemetry, and read its variables; their retries and time limits are theirs. Its tracer is not
used: it draws ids by lot and tells the time itself, and both are known already. Nor is its meter: what is counted is
sent as it stands, once in a while. So there is one thread, and no hook that keeps a process from ending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from io import BytesIO
from time import time_ns
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from tercet.contracts.errors import UsageError
from tercet.core.state import State
from tercet.engine.observing import Tenure
from tercet.observe import instruments as i
from tercet.observe.outbox import Timer
from tercet.observe.spans import CALL, MODEL, RUN, Span, weave
from tercet.observe.tally import Tally

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

BATCH = 512
_NS = 1_000_000
SCOPE = "tercet"


class Collector:
    """What a collector is sent: the spans of runs that came to rest, and the metrics now and then."""

    def __init__(
        self,
        tally: Tally,
        own: Tally,
        *,
        wants: Callable[[State], bool],
        delay_ms: int,
        interval_ms: int,
    ) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - an optional dependency
            OTLPMetricExporter,
        )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an optional dependency
            OTLPSpanExporter,
        )

        self._tallies = (tally, own)
        self._own = own
        self._wants = wants
        self._waiting: list[Span] = []
        self._in_hand = 0
        """How many spans are being sent."""
        self._is_over = False
        self._soon, self._later = Timer(delay_ms / 1000), Timer(interval_ms / 1000)
        self._later.start()
        self._making = _Making()
        self._spans = OTLPSpanExporter(session=make_courier())
        self._metrics: Any = OTLPMetricExporter(session=make_courier())  # its types are not complete

    def take(self, item: Tenure) -> None:
        """Weave the spans of a session that came to rest."""
        self._waiting += weave(item, self._wants)
        self._soon.start()
        if len(self._waiting) >= BATCH:
            self._send_spans()

    def due(self) -> float | None:
        """In how many seconds something is to be sent."""
        return min((left for left in (self._soon.left, self._later.left) if left is not None), default=None)

    def send(self, *, is_last: bool) -> None:
        """Send the spans that have waited long enough, and the metrics if it is their time."""
        if is_last or self._soon.is_due:
            self._send_spans()
        if is_last or self._later.is_due:
            self._send_metrics()
        if is_last:
            self.abort()

    def abort(self) -> None:
        """Wait for no answer any more: what has had none is dropped."""
        self._is_over = True
        if left := self._in_hand + len(self._waiting):
            self._own.count(i.DROPPED, "spans", by=left)
        self._spans.shutdown()
        self._metrics.shutdown()

    def _send_spans(self) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - an optional dependency

        self._soon.stop()
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), BATCH):
            batch = waiting[start : start + BATCH]
            self._in_hand = len(waiting) - start
            result = self._spans.export([self._making.span(span) for span in batch])
            if self._is_over:
                return  # they are counted already
            if result is not SpanExportResult.SUCCESS:
                self._own.count(i.DROPPED, "spans", by=len(batch))
        self._in_hand = 0

    def _send_metrics(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415 - an optional dependency

        self._later.stop()
        self._later.start()
        result = self._metrics.export(self._making.metrics(*self._tallies))
        if result is not MetricExportResult.SUCCESS and not self._is_over:
            self._own.count(i.DROPPED, "metrics")


class _Making:
    """Makes what OpenTelemetry sends of what is known here."""

    def __init__(self) -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an optional dependency
        from opentelemetry.sdk.util.instrumentation import (  # noqa: PLC0415 - an optional dependency
            InstrumentationScope,
        )

        named = Resource.create({})
        is_unnamed = str(named.attributes.get("service.name", "")).startswith("unknown_service")
        self._resource = named.merge(Resource({"service.name": SCOPE})) if is_unnamed else named
        self._scope = InstrumentationScope(SCOPE)
        self._since = time_ns()

    def span(self, span: Span) -> ReadableSpan:
        """A span that has ended."""
        from opentelemetry.sdk.trace import Event, ReadableSpan  # noqa: PLC0415 - an optional dependency
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - an optional dependency

        is_remote = span.kind == RUN and bool(span.parent_id)
        outward = SpanKind.CLIENT if span.kind in (CALL, MODEL) else SpanKind.INTERNAL
        error = {"error.type": span.error} if span.error else {}
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=_context(span.trace_id, span.parent_id, is_remote=is_remote) if span.parent_id else None,
            resource=self._resource,
            attributes={**span.attributes, **error},
            events=[Event(each.name, each.attributes, each.at * _NS) for each in span.moments],
            kind=SpanKind.SERVER if is_remote else outward,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start * _NS,
            end_time=span.end * _NS,
            instrumentation_scope=self._scope,
        )

    def metrics(self, tally: Tally, own: Tally) -> MetricsData:
        """Everything that was counted until now."""
        from opentelemetry.sdk.metrics import export as sdk  # noqa: PLC0415 - an optional dependency

        now = time_ns()
        found = [
            *(self._sum(each, tally, now) for each in i.COUNTED),
            *(self._sum(each, own, now) for each in i.OWN),
            self._durations(tally, now),
        ]
        scoped = sdk.ScopeMetrics(self._scope, [metric for metric in found if metric is not None], "")
        return sdk.MetricsData([sdk.ResourceMetrics(self._resource, [scoped], "")])

    def _sum(self, instrument: i.Instrument, tally: Tally, now: int) -> Metric | None:
        from opentelemetry.sdk.metrics import export as sdk  # noqa: PLC0415 - an optional dependency

        points = [
            sdk.NumberDataPoint(_labelled(instrument.labels, labels), self._since, now, number)
            for (name, labels), number in dict(tally.counts).items()
            if name == instrument.name
        ]
        whole = sdk.Sum(points, sdk.AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return sdk.Metric(instrument.otlp, instrument.text, instrument.unit, whole) if points else None

    def _durations(self, tally: Tally, now: int) -> Metric | None:
        from opentelemetry.sdk.metrics import export as sdk  # noqa: PLC0415 - an optional dependency

        points = [
            sdk.HistogramDataPoint(
                attributes=_labelled(i.SAFE_COMPLETION_LABELS, labels),
                start_time_unix_nano=self._since,
                time_unix_nano=now,
                count=sum(known.within),
                sum=known.total_ms / 1000,
                bucket_counts=tuple(known.within),
                explicit_bounds=i.BOUNDS_S,
                min=known.least_ms / 1000,
                max=known.most_ms / 1000,
            )
            for labels, known in dict(tally.durations).items()
        ]
        whole = sdk.Histogram(points, sdk.AggregationTemporality.CUMULATIVE)
        return sdk.Metric(i.SAFE_COMPLETION, i.SAFE_COMPLETION_TEXT, "s", whole) if points else None


def _context(trace_id: str, span_id: str, *, is_remote: bool = False) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 - an optional dependency

    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED))


def _labelled(names: tuple[str, ...], values: tuple[str, ...]) -> Mapping[str, str]:
    return dict(zip(names, values, strict=True))


def collector_address(environment: Mapping[str, str]) -> str:
    """Where spans are sent, without whoever may sign in there; raises `UsageError` for what is no address."""
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
    # The words are not repeated: there may be a password in them.
    return UsageError(
        "OTEL_EXPORTER_OTLP_ENDPOINT is no address of a collector",
        code="wrong_telemetry",
        remedy="set it to an address such as http://localhost:4318",
    )


if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

MOST_READ = 4096
"""An answer of OTLP has a few bytes; one that is longer, or does not say how long it is, is not read."""
REFUSED = 400
"""What a redirect counts as: it is not tried again."""
_PROVIDER = "CREDENTIAL_PROVIDER"


def make_courier() -> Session | None:
    """Return a session for the exporters; None where a variable of OpenTelemetry names another one.

    A collector that answers without end would fill the memory, and one that redirects would get everything, with the keys
    in its headers, at another address. So a long answer is not read, and a redirect counts as a refusal.
    """
    if any(name.startswith("OTEL_PYTHON_") and name.endswith(_PROVIDER) for name in os.environ):
        return None
    from requests import Session  # noqa: PLC0415 - an optional dependency

    class Courier(Session):
        def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
            answered = super().send(request, **{**kwargs, "stream": True, "allow_redirects": False})
            return _cut(answered)

    return Courier()


def _cut(answered: Response) -> Response:
    """The same answer, with a body only where it is short."""
    from requests import Response  # noqa: PLC0415 - an optional dependency

    said = answered.headers.get("Content-Length", "")
    is_short = said.isdecimal() and int(said) <= MOST_READ
    cut = Response()
    is_elsewhere = 300 <= answered.status_code < 400  # which the exporters would take for a success
    cut.status_code, cut.reason = REFUSED if is_elsewhere else answered.status_code, answered.reason
    cut.headers, cut.url, cut.request = answered.headers, answered.url, answered.request
    cut.raw = BytesIO(answered.content if is_short else b"")
    answered.close()
    return cut
