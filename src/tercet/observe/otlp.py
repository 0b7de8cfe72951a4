"""Spans and metrics to a collector, as OTLP over HTTP. Needs the extra `telemetry`.

The exporters are those of OpenTelemetry, with its environment variables, retries and timeouts. Its tracer and meter are
not used, since they generate ids and read the clock, and both are already recorded. So there is one thread, and nothing
that keeps a process from ending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from io import BytesIO
from time import time_ns
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from requests import PreparedRequest, Response, Session

from tercet.core.state import State
from tercet.engine.subscription import ReleasedSession
from tercet.observe import instruments as i
from tercet.observe.outbox import Timer
from tercet.observe.spans import CALL, MODEL, RUN, Span, build_spans
from tercet.observe.tally import Tally

BATCH = 512
_NS = 1_000_000
SCOPE = "tercet"
_MAX_ANSWER = 4096
"""The largest answer that is read; an OTLP answer has a few bytes."""
_REFUSED = 400
"""The status that a redirect counts as, so that it is not retried."""
_PROVIDER = "CREDENTIAL_PROVIDER"


class Collector:
    """Sends the spans of released runs, and periodically the metrics, to a collector."""

    def __init__(
        self,
        tally: Tally,
        own: Tally,
        *,
        wants: Callable[[State], bool],
        delay_ms: int,
        interval_ms: int,
    ) -> None:
        self._tallies = (tally, own)
        self._own = own
        self._wants = wants
        self._waiting: list[Span] = []
        self._in_hand = 0
        """The number of spans that are being sent."""
        self._is_over = False
        self._soon, self._later = Timer(delay_ms / 1000), Timer(interval_ms / 1000)
        self._later.start()
        self._making = _Making()
        self._spans = OTLPSpanExporter(session=_open_session())
        self._metrics: Any = OTLPMetricExporter(session=_open_session())  # its types are not complete

    def take(self, item: ReleasedSession) -> None:
        """Build the spans of a released session."""
        self._waiting += build_spans(item, self._wants)
        self._soon.start()
        if len(self._waiting) >= BATCH:
            self._send_spans()

    def due(self) -> float | None:
        """Return the seconds until the next sending; None if nothing waits."""
        return min((left for left in (self._soon.left, self._later.left) if left is not None), default=None)

    def send(self, *, is_last: bool) -> None:
        """Send the spans and metrics that are due."""
        if is_last or self._soon.is_due:
            self._send_spans()
        if is_last or self._later.is_due:
            self._send_metrics()
        if is_last:
            self.abort()

    def abort(self) -> None:
        """Stop waiting for answers; what was not acknowledged is dropped."""
        self._is_over = True
        if left := self._in_hand + len(self._waiting):
            self._own.count(i.DROPPED, "spans", by=left)
        self._spans.shutdown()
        self._metrics.shutdown()

    def _send_spans(self) -> None:
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
        self._later.stop()
        self._later.start()
        result = self._metrics.export(self._making.metrics(*self._tallies))
        if result is not MetricExportResult.SUCCESS and not self._is_over:
            self._own.count(i.DROPPED, "metrics")


class _Making:
    """Converts spans and counters into the types of OpenTelemetry."""

    def __init__(self) -> None:
        named = Resource.create({})
        is_unnamed = str(named.attributes.get("service.name", "")).startswith("unknown_service")
        self._resource = named.merge(Resource({"service.name": SCOPE})) if is_unnamed else named
        self._scope = InstrumentationScope(SCOPE)
        self._since = time_ns()

    def span(self, span: Span) -> ReadableSpan:
        """Return an ended span."""
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
        """Return all counters."""
        now = time_ns()
        found = [
            *(self._sum(each, tally, now) for each in i.COUNTED),
            *(self._sum(each, own, now) for each in i.OWN),
            self._durations(tally, now),
        ]
        scoped = ScopeMetrics(self._scope, [metric for metric in found if metric is not None], "")
        return MetricsData([ResourceMetrics(self._resource, [scoped], "")])

    def _sum(self, instrument: i.Instrument, tally: Tally, now: int) -> Metric | None:
        points = [
            NumberDataPoint(_labelled(instrument.labels, labels), self._since, now, number)
            for (name, labels), number in dict(tally.counts).items()
            if name == instrument.name
        ]
        whole = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return Metric(instrument.otlp, instrument.text, instrument.unit, whole) if points else None

    def _durations(self, tally: Tally, now: int) -> Metric | None:
        points = [
            HistogramDataPoint(
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
        whole = Histogram(points, AggregationTemporality.CUMULATIVE)
        return Metric(i.SAFE_COMPLETION, i.SAFE_COMPLETION_TEXT, "s", whole) if points else None


def _context(trace_id: str, span_id: str, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED))


def _labelled(names: tuple[str, ...], values: tuple[str, ...]) -> Mapping[str, str]:
    return dict(zip(names, values, strict=True))


# --- the connection ---


class _CollectorSession(Session):
    """An HTTP session that reads only the status of a collector's answer.

    A long answer could fill the memory, and a redirect would send everything, with the keys in its headers, to another
    address. So a long answer is not read, and a redirect counts as a refusal.
    """

    def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
        answer = super().send(request, **{**kwargs, "stream": True, "allow_redirects": False})
        length = answer.headers.get("Content-Length", "")
        is_short = length.isdecimal() and int(length) <= _MAX_ANSWER
        cut = Response()
        is_redirect = 300 <= answer.status_code < 400  # the exporters would count it as a success
        cut.status_code, cut.reason = _REFUSED if is_redirect else answer.status_code, answer.reason
        cut.headers, cut.url, cut.request = answer.headers, answer.url, answer.request
        cut.raw = BytesIO(answer.content if is_short else b"")
        answer.close()
        return cut


def _open_session() -> Session | None:
    """Return a session for an exporter; None if a variable of OpenTelemetry names the user's own."""
    if any(name.startswith("OTEL_PYTHON_") and name.endswith(_PROVIDER) for name in os.environ):
        return None
    return _CollectorSession()
