"""The process that the local model lives in: `python -m tercet.models.local.serve WEIGHTS`.

It reads the key that it shall ask for from its input, prints the address that it listens on, and ends when its input
does: whoever started it holds the other end, and a process that dies lets go of it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

CONTEXT_TOKENS = 8_192
"""How much the model can read and write together: as much as it was trained for."""
_BATCH_TOKENS = 256
"""How much of a prompt is read before the server looks whether anybody still waits for the answer."""
_QUIET = -1
_MOST_THREADS = 4
"""So small a model gains nothing from more."""


def main() -> None:
    """Serve until the input ends."""
    key = sys.stdin.readline().strip()
    engine = _open(sys.argv[1], key)
    sys.stdout.write(f"{engine.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # The server's own way to stop waits for its threads, and has been seen to wait for ever.
    os._exit(0)


def _open(weights: str, key: str) -> Any:
    xllamacpp: Any = import_module("xllamacpp")  # it has no types, and need not be installed
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
    # It would keep old prompts in up to eight gigabytes; the last one is kept anyway.
    params.cache_ram_mib = 0
    params.cache_idle_slots = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_gpu_layers = 0
    params.fit_params = False
    params.warmup = False
    params.verbosity = _QUIET
    return xllamacpp.Server(params)


def _threads() -> int:
    """Half of the cores. Its threads wait for each other by spinning: on a busy machine all of them are slower than one."""
    return max(1, min(_MOST_THREADS, (os.cpu_count() or 1) // 2))


if __name__ == "__main__":
    main()
