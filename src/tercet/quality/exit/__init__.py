"""Whether a run may commit its outputs: thresholds, confidence, and the decision."""
