"""The refund desk with a console, visited over ASGI: browsers with cookies, logins, and forms read from pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, cast

import httpx2

from service.desk import HOST, REFUND, REFUNDS, Desk
from tercet.console.site import ConsoleSite
from tercet.contracts.request import Actor
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Journal
from tercet.packs.pack import Pack
from tercet.runtime import RuntimeOptions
from tercet.service.server import ServeSettings, open_service

__all__ = ("HOST", "REFUND", "Browser", "ConsoleDesk", "open_console", "read_forms")


@dataclass
class Form:
    """A form of a page, with the values that a browser would send if nothing is typed."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict[str, str])


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(given.get("action", ""), given.get("method", "get")))
        elif tag in ("input", "textarea") and self.found and given.get("name"):
            self.found[-1].fields[given["name"]] = given.get("value", "")


def read_forms(page: str) -> dict[str, Form]:
    """Return the forms of a page by their address."""
    parser = _Forms()
    parser.feed(page)
    return {form.action: form for form in parser.found}


@dataclass
class Browser:
    """A browser without script: it keeps cookies, follows redirects, and sends forms."""

    client: httpx2.AsyncClient

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        """Visit a page."""
        return await self.client.get(path, headers={"accept": "text/html"}, follow_redirects=True, **more)

    async def send(self, page: httpx2.Response, action: str, **fields: str) -> httpx2.Response:
        """Send a form of a page with some fields filled in."""
        form = read_forms(page.text)[action]
        headers = {"origin": HOST, "sec-fetch-site": "same-origin"}
        return await self.client.post(
            action, data={**form.fields, **fields}, headers=headers, follow_redirects=True
        )

    async def log_in(self, key: str) -> httpx2.Response:
        """Log in with an API key."""
        return await self.send(await self.get("/console/login"), "/console/login", key=key)


@dataclass(frozen=True, kw_only=True)
class ConsoleDesk(Desk):
    """The desk, its console, and a new browser for every person."""

    site: ConsoleSite

    def browser(self) -> Browser:
        """Return a browser without cookies."""
        transport = httpx2.ASGITransport(app=cast("Any", self.running.app))
        return Browser(httpx2.AsyncClient(transport=transport, base_url=HOST))

    async def person(self, actor: str, **more: Any) -> Browser:
        """Return the browser of a person who is logged in with a key of their own."""
        browser = self.browser()
        page = await browser.log_in(await self.key(actor, **more))
        assert page.status_code == 200, page.text
        return browser

    async def waiting_gate(self, key: str = "", **request: Any) -> str:
        """Start a refund, and return the gate that it waits at."""
        key = key or await self.key("agt_support")
        found = await self.rpc(key, "invokeAgent", request={**REFUND, **request})
        return found["gates"][0]

    async def next_gate(self, key: str, session: str, before: str) -> str:
        """Return the gate that follows another one."""
        async with asyncio.timeout(300):
            while True:
                found = await self.rpc(key, "getSession", session_id=session)
                if found["gates"] not in ([], [before]):
                    return found["gates"][0]
                await asyncio.sleep(0.02)


@asynccontextmanager
async def open_console(
    journal: Journal | None = None, *packs: Pack, **settings: Any
) -> AsyncGenerator[ConsoleDesk]:
    """A service with the refund desk, or other packs, and its console."""
    journal = journal or MemoryJournal()
    settings.setdefault("local", Actor(id="olga", os_user="olga"))
    served = packs or (Pack.load(REFUNDS),)
    options: RuntimeOptions | None = settings.pop("options", None)
    site = ConsoleSite(settings.get("oidc"))
    async with open_service(
        served, journal, ServeSettings(**settings), options=options, site=site
    ) as running:
        transport = httpx2.ASGITransport(app=cast("Any", running.app))
        async with httpx2.AsyncClient(transport=transport, base_url=HOST) as client:
            yield ConsoleDesk(running=running, client=client, journal=journal, site=site)
