"""Telemetry: spans, metrics and logs of runs.

Telemetry is computed from the journal's events and their recorded times. `spans` and `tally` are pure; the
other modules send the results to a collector, a Prometheus server or a file, from a thread of their own. Telemetry
observes a runtime and never changes what a run does.

`Telemetry` needs `pip install './tercet[telemetry]'`; `figures` and the log need nothing.
"""

from tercet.observe.settings import Sampling, TelemetrySettings
from tercet.observe.tally import Figures, Recorded, figures
from tercet.observe.telemetry import Telemetry

__all__ = ["Figures", "Recorded", "Sampling", "Telemetry", "TelemetrySettings", "figures"]
