"""Telemetry: spans, metrics and logs of runs.

Everything here is made of the journal's events and their recorded times. The pure part (`spans`, `tally`, `figures`,
`sampling`, `lines`) reads no clock; the rest hands its results to a collector, a Prometheus server or a file, from a thread of
its own. It subscribes to a runtime and never steers one: a run that nobody watches is the same run.

`Telemetry` needs `pip install 'tercet[telemetry]'`; `figures` and the log need nothing.
"""

from tercet.observe.figures import Figures, Recorded, figures
from tercet.observe.settings import Sampling, TelemetrySettings
from tercet.observe.telemetry import Telemetry

__all__ = ["Figures", "Recorded", "Sampling", "Telemetry", "TelemetrySettings", "figures"]
