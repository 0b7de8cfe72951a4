"""Compiling: pack, request and the frame of a run become what planner and critic may know.

This room is pure: it reads no clock and no file, and the same inputs always give the same context.
"""

from tercet.context.compiler import (
    compile,  # noqa: A004 - the name that the design gives it
    measure,
)

__all__ = ["compile", "measure"]
