"""A tool that ends its process. It has a module of its own, so that every process knows it by the same name."""

from __future__ import annotations

import os

VARIABLE = "TERCET_TEST_VANISH"


def vanish() -> int:
    """End the process at once, unless it is told to behave."""
    if os.environ.get(VARIABLE):
        os._exit(9)
    return 1
