"""Records the unfinished sessions with the installed version."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.workshop import Workshop
from upgrade.sessions import SESSIONS


def main() -> None:
    """Record every session into one journal, and print their ids."""
    url = f"sqlite:///{Path(sys.argv[1]).resolve()}"
    workshop = Workshop()

    async def record() -> None:
        async with workshop.journal(url) as journal:
            for name, play in SESSIONS.items():
                workshop.tools.clear()
                sys.stdout.write(f"{name} {await play(workshop, journal)}\n")

    workshop.run(record())


if __name__ == "__main__":
    main()
