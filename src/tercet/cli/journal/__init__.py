"""Commands about a whole journal: its integrity, its figures, and the telemetry of runs."""
