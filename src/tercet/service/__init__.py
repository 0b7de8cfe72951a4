"""The service: runs, gates and records over HTTP, for callers who prove who they are."""
