"""Compiles a pack, a request and the frame of a run into the context of planner and critic.

This package is pure: it reads no clock and no file, and the same inputs always give the same context.
"""

from tercet.context.compiler import (
    compile,  # noqa: A004 - the name that the design gives it
    measure,
)

__all__ = ["compile", "measure"]
