"""Streams of the journal that belong to a tenant, a tool or a task, and not to one session."""
