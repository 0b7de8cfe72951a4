"""The view of a run as a self-contained HTML page, without script, that needs no network."""
