"""`tercet`, and `python -m tercet`: the command line, from its first import on.

The imports are inside the function, so that Ctrl-C during them does not print a traceback.
"""

import gc
import os

INTERRUPTED = 130
"""The exit code of a command that was interrupted before it began."""


def run() -> None:
    """The entry point of the console script."""
    gc.disable()  # until the command is imported: what imports make stays, and looking through it takes a fifth of the start
    try:
        from tercet.cli.main import run as command  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    run()
