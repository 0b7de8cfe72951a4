"""The console of a demo, as a process of its own.

    python -m tercet.cli.demo.site FOLDER PAGE [worker]

It prints a link that logs the approver in once and leads to a page, and ends when its stdin closes. It records answers,
and leaves the sessions to the demo's workers; with `worker` it carries them on itself.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tercet.cli.demo.folder import APPROVER, Folder
from tercet.cli.demo.process import end_with_parent, say
from tercet.cli.journals import TENANT
from tercet.console.site import ConsoleSite
from tercet.journal.opening import open_journal
from tercet.journal.protocol import SessionRow
from tercet.packs import Pack
from tercet.service.server import ServeSettings, listen, open_service, serve_until_stopped


class NoWorker:
    """Carries no session on: the demo starts its own workers, and kills one of them."""

    carried = running = waiting = 0

    def enqueue(self, row: SessionRow) -> None:
        """Leave a session alone."""

    def notice(self, row: SessionRow) -> None:
        """Leave a session alone."""

    def is_carrying(self, row: SessionRow) -> bool:  # noqa: ARG002 - of the protocol
        """Return whether this process carries a session on: never."""
        return False

    def live(self, tenant: str, session: str) -> None:
        """Return None: this process keeps no runs."""

    async def rest(self, tenant: str, session: str) -> None:
        """Return immediately: the demo's own workers continue the sessions."""


async def serve(folder: Folder, page: str, *, has_worker: bool) -> None:
    """Serve the console until a signal."""
    carrier = None if has_worker else NoWorker()
    site, settings = ConsoleSite(), ServeSettings(port=0, local=APPROVER, tenant=TENANT)
    async with (
        open_journal(folder.journal_url) as journal,
        open_service((Pack.load(folder.pack),), journal, settings, site=site, carrier=carrier) as running,
    ):
        bound = listen(settings.host, settings.port)
        path = await site.login_path(running.local_key, page)
        link = f"http://{settings.host}:{bound.getsockname()[1]}{path}"
        await serve_until_stopped(running, bound, lambda: say(link))


def main(words: Sequence[str]) -> None:
    """Serve with these arguments."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    root, page, *more = words
    asyncio.run(serve(Folder(root=Path(root)), page, has_worker="worker" in more))


if __name__ == "__main__":
    main(sys.argv[1:])
