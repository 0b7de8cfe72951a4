"""`tercet`, and `python -m tercet`: the command line, from its first import on.

What it needs is imported here and not above: whoever presses Ctrl-C while that takes its time gets no traceback.
"""

import os

INTERRUPTED = 130
"""The exit code of a command that was interrupted before it began."""


def run() -> None:
    """The entry point of the console script."""
    try:
        from tercet.cli.main import run as command  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    run()
