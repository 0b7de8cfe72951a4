"""Workers that start together on a database that nobody has used before."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tercet.database.postgres import connect
from tercet.journal.opening import open_journal


def test_many_may_open_a_new_database_at_once(postgres_url: str, tmp_path: Path) -> None:
    """One of them makes the tables, the others wait for it and find them."""
    name = tmp_path.name.replace("-", "_").lower()

    async def story() -> None:
        server = await connect(postgres_url, settings={})
        await server.execute(f'CREATE DATABASE "{name}"')
        await server.close()
        url = urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        async with AsyncExitStack() as stack:
            journals = await asyncio.gather(*(open_journal(url) for _ in range(6)))
            for journal in journals:
                stack.push_async_callback(journal.close)
            assert [await journal.sessions("anybody") for journal in journals] == [[]] * 6

    asyncio.run(story())
