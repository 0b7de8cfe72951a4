"""A pytest plugin that hears Ctrl-C, also where a shell started the tests in the background.

Such a shell has SIGINT ignored, every process below it inherits that, and a test that interrupts one would wait in vain.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
