"""Evidence that a run looks up."""
