"""Commands on recorded runs: replay, report, bundles, golden runs, feedback and tuning."""
