"""The process of the local model: `python -m tercet.models.local.serve WEIGHTS`.

It reads its API key from its standard input, prints the address that it listens on, and ends when its input is closed:
the parent process holds the other end, which is closed when the parent dies.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

CONTEXT_TOKENS = 8_192
"""The context length of the model."""
_BATCH_TOKENS = 256
"""The batch size of prompt processing, after which the server checks for cancelled requests."""
_QUIET = -1
_MOST_THREADS = 4
"""The maximum number of threads; a small model gains nothing from more."""


def main() -> None:
    """Serve until the input ends."""
    key = sys.stdin.readline().strip()
    engine = _open(sys.argv[1], key)
    sys.stdout.write(f"{engine.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # The server's own shutdown waits for its threads, and sometimes hangs.
    os._exit(0)


def _open(weights: str, key: str) -> Any:
    xllamacpp: Any = import_module("xllamacpp")  # untyped and optional
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = CONTEXT_TOKENS
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    params.n_parallel = 1
    # It would cache old prompts in up to eight gigabytes; the last one is cached anyway.
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_gpu_layers = 0
    params.fit_params = False
    params.warmup = False
    params.verbosity = _QUIET
    return xllamacpp.Server(params)


def _threads() -> int:
    """Return half of the cores. The threads spin while waiting: on a busy machine all of them are slower than one."""
    return max(1, min(_MOST_THREADS, (os.cpu_count() or 1) // 2))


if __name__ == "__main__":
    main()
