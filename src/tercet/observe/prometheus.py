"""Metrics on a port for a Prometheus server, by default on this machine only. Needs the extra `telemetry`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from itertools import accumulate
from threading import Thread

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from tercet.contracts.errors import UsageError
from tercet.observe import instruments as i
from tercet.observe.tally import Tally

_POLL_S = 0.05
"""The poll interval of the server, and so the longest delay at its end."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class Endpoint:
    """A small HTTP server for the metrics."""

    def __init__(self, tally: Tally, own: Tally, *, host: str, port: int) -> None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(tally, own))
        kind = _ServerV6 if ":" in host else _Server
        try:
            self._server = kind((host, port), MetricsHandler.factory(registry))
        except OSError as error:
            raise UsageError(
                f"metrics cannot be served on {host}:{port}: {error.strerror or error}",
                code="port_unavailable",
                remedy="name another port, such as prometheus:9465, or 0 for any that is free",
            ) from error
        self._thread = Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="tercet-prometheus", daemon=True
        )
        self._thread.start()
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Collected:
    """The collector that a Prometheus registry asks for the metrics."""

    def __init__(self, tally: Tally, own: Tally) -> None:
        self._tally = tally
        self._own = own

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Yield every metric, in its order."""
        for instrument in i.COUNTED:
            yield _family(instrument, self._tally)
        for instrument in i.OWN:
            yield _family(instrument, self._own)
        yield _histogram(self._tally)


def _family(instrument: i.Instrument, tally: Tally) -> CounterMetricFamily:
    family = CounterMetricFamily(instrument.prometheus, instrument.text, labels=instrument.labels)
    for (name, labels), number in dict(tally.counts).items():
        if name == instrument.name:
            family.add_metric(labels, number)
    return family


def _histogram(tally: Tally) -> HistogramMetricFamily:
    family = HistogramMetricFamily(
        i.SAFE_COMPLETION_SECONDS, i.SAFE_COMPLETION_TEXT, labels=i.SAFE_COMPLETION_LABELS
    )
    bounds = (*map(str, i.BOUNDS_S), "+Inf")
    for labels, known in dict(tally.durations).items():
        buckets = list(zip(bounds, accumulate(known.within), strict=True))
        family.add_metric(labels, buckets=buckets, sum_value=known.total_ms / 1000)
    return family
