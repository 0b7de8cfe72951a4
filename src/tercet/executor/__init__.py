"""Tool calls: the gateway that makes every call, clocks, threads, timers and circuit breakers."""
