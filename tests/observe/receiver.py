"""A collector on the loopback that reads what it is sent: OTLP over HTTP, as protobuf."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent


@dataclass
class Receiver:
    """What came in. `status` is what it answers with; while `is_stuck`, it does not answer at all."""

    url: str = ""
    spans: list[Sent] = field(default_factory=list[Sent])
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    """The last state of each metric by name."""
    resources: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    raw: list[bytes] = field(default_factory=list[bytes])
    status: int = 200
    is_stuck: bool = False
    free: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, body: bytes) -> None:
        """Read one request."""
        self.raw.append(body)
        if path == "/v1/traces":
            told = ExportTraceServiceRequest.FromString(body)
            for each in told.resource_spans:
                self.resources.append({kv.key: kv.value.string_value for kv in each.resource.attributes})
                self.spans += [span for scope in each.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {m.name: m for scope in each.scope_metrics for m in scope.metrics}
        else:
            raise AssertionError(path)

    def named(self, name: str) -> list[Sent]:
        """The spans of a name, by their start."""
        return sorted((s for s in self.spans if s.name == name), key=lambda s: s.start_time_unix_nano)

    def sums(self, name: str, *labels: str) -> dict[tuple[str, ...], int]:
        """The values of a counter by some of its labels."""
        found: dict[tuple[str, ...], int] = {}
        for point in self.metrics[name].sum.data_points if name in self.metrics else ():
            said = {kv.key: kv.value.string_value for kv in point.attributes}
            key = tuple(said[label] for label in labels)
            found[key] = found.get(key, 0) + (point.as_int or int(point.as_double))
        return found


def attributes_of(span: Sent) -> dict[str, Any]:
    """The attributes of a span as plain values."""
    return {kv.key: _plain(kv.value) for kv in span.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_plain(each) for each in found.values] if kind == "array_value" else found


def read_page(address: str) -> str:
    """A page, as a Prometheus server reads it."""
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - a loopback address of our own
        return answer.read().decode()


@contextmanager
def receiving() -> Generator[Receiver]:
    """A receiver at work."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if receiver.is_stuck:
                receiver.free.wait(60)
            receiver.take(self.path, body)
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the server gives it
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        receiver.free.set()
        server.shutdown()
        server.server_close()
        thread.join()
