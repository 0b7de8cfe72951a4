"""`tercet serve`, `tercet worker` and `tercet api-keys`: the service as a process, and who may call it."""
