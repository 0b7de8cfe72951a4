"""A runtime's connection to an MCP server: opened at the first call, checked against the pins, reopened after a loss.

The outcome of a call:

- before anything was sent (no server, no variable, changed definitions): `NotSent`;
- an answer: the result, which the gateway checks against its schema;
- an error answer: for a tool above read_only it is not known what its code did before it failed, so it is an exception
  like any other, *unknown*, unless the server states `_meta` `tercet/outcome: not_done`, or the pack says for this tool
  `error_means = "not_done"`;
- a lost connection, a protocol error, a malformed answer: an exception, and so *unknown* above read_only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from tercet.contracts.errors import GatewayError, NotDone, NotSent
from tercet.contracts.values.plain import storable
from tercet.tools.code import find_changed
from tercet.tools.mcp.link import Link
from tercet.tools.mcp.server import McpServer, compare
from tercet.tools.tool import Tool, ToolContext

OUTCOME = "tercet/outcome"
"""In the `_meta` of an error answer: `not_done` states that the effect did not happen."""


def read_result(answer: types.CallToolResult) -> Any:
    """Return the structured content; if there is none, the text, with the blocks if some are more than text."""
    if "structured_content" in answer.model_fields_set and answer.structured_content is not None:
        return answer.structured_content
    blocks = [
        block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
        for block in answer.content
    ]
    text = read_text(answer)
    return (
        {"text": text}
        if all(block["type"] == "text" for block in blocks)
        else {"text": text, "content": blocks}
    )


def read_text(answer: types.CallToolResult) -> str:
    """Return the text of an answer, one line per block."""
    return "\n".join(block.text for block in answer.content if isinstance(block, types.TextContent))


KEY = "tercet/idempotency-key"
CHANGED = "tool_definition_changed"
_MOST_CHANGES = 20
_SLACK_S = 0.05
"""Extra time for the opening to report its own, more precise timeout error."""


class McpToolError(GatewayError):
    """A tool of an MCP server answered with an error, or its connection broke during the call."""

    default_code = "mcp_tool_error"


class McpLine:
    """The connection of one runtime to one server."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._link: Link | None = None
        self._opening: asyncio.Task[Link] | None = None

    def call_of(self, tool: Tool) -> Callable[..., Any]:
        """Return the code of a tool, which takes the parameters by name. The name of the context is one that no server
        uses.
        """
        name = self._server.names[tool.name]

        async def call(tercet_call_context: ToolContext, **params: Any) -> Any:
            return await self._call(tool, name, params, tercet_call_context)

        return call

    async def find_changes(self) -> tuple[str, ...]:
        """Return the differences between the server's definitions and the pins."""
        try:
            link = await self._connected(self._server.spec.start_timeout_ms)
        except NotSent:
            return ()
        return self._changes(link)

    async def aclose(self) -> None:
        """Close the connection, and end the program behind it."""
        opening, self._opening = self._opening, None
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        link, self._link = self._link, None
        if link is not None:
            await link.aclose()

    # --- calls ---

    async def _call(self, tool: Tool, name: str, params: dict[str, Any], context: ToolContext) -> Any:
        # Connecting must fail before the gateway's own time is up, which would leave the outcome unknown.
        within = min(self._server.spec.start_timeout_ms, max(1, tool.timeout_ms * 3 // 4))
        link = await self._connected(within)
        if changes := self._changes(link):
            raise NotSent(
                "; ".join(changes),
                code=CHANGED,
                remedy="accept the new definitions with tercet tools pin",
                is_retriable=False,
            )

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, storable(link.secrets.hide(message or "")))

        try:
            answer = await link.call(name, params, meta=_meta(context), progress=tell)
        except NotSent:
            await link.aclose()
            raise
        except Exception as error:  # noqa: BLE001 - no exception of the SDK says whether the call happened
            is_answer = isinstance(error, MCPError) and error.code != CONNECTION_CLOSED
            if self._server.spec.url is not None or not is_answer:
                await link.aclose()  # a server that has lost its session answers with errors only
            told = f"{type(error).__name__}: {error}" if not isinstance(error, MCPError) else error.message
            notes = f" ({link.notes.text()})" if link.is_lost and link.notes.text() else ""
            raise McpToolError(storable(link.secrets.hide(f"{told}{notes}"))) from None
        if not answer.is_error:
            return link.secrets.hide_in(read_result(answer))
        told = storable(link.secrets.hide(read_text(answer))) or "it answered with an error without a message"
        if (answer.meta or {}).get(OUTCOME) == "not_done" or name in self._server.harmless_errors:
            raise NotDone(told, code=McpToolError.default_code)
        raise McpToolError(told)

    def _changes(self, link: Link) -> tuple[str, ...]:
        # Additional tools do not matter: no plan can name a tool that is not pinned.
        found = compare(self._server.pinned, link.definitions, with_new=False)
        told = [storable(change.sentence(self._server.spec.name)) for change in found[:_MOST_CHANGES]]
        more = [f"{self._server.spec.name}: {len(found) - _MOST_CHANGES} more changes"]
        return (*told, *(more if len(found) > _MOST_CHANGES else ()))

    # --- the connection ---

    async def _connected(self, within_ms: int) -> Link:
        """Return the connection, opened or checked again where needed; raise `NotSent`."""
        link = self._link if self._opening is None else None
        if link is not None and link.is_stale and not link.is_lost:
            await self._refresh(link, within_ms)
        if link is not None and not link.is_lost:
            return link
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open(within_ms))
            self._opening.add_done_callback(_take)
        opening = self._opening
        try:
            # The caller that began to open it may have a longer timeout than this one.
            async with asyncio.timeout(within_ms / 1000 + _SLACK_S):
                return await asyncio.shield(opening)
        except TimeoutError:
            told = f"the MCP server {self._server.spec.name} was not reached within {within_ms:,} ms"
            raise NotSent(told, code="mcp_unreachable") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if opening.cancelled() and task is not None and not task.cancelling():
                raise NotSent(
                    "the connection was closed while it was being opened", code="mcp_unreachable"
                ) from None
            raise

    async def _open(self, within_ms: int) -> Link:
        try:
            if self._link is not None:
                await self._link.aclose()
            if (name := find_changed(self._server.folder, self._server.files)) is not None:
                raise NotSent(
                    f"the server {self._server.spec.name} was not started: {name} has changed since the pack was loaded",
                    code="program_changed",
                    is_retriable=False,
                )
            # Stored before it is open, so that closing also waits for a half-opened connection.
            self._link = link = Link(self._server.spec, self._server.folder)
            await link.open(within_ms)
            return link
        finally:
            self._opening = None

    async def _refresh(self, link: Link, within_ms: int) -> None:
        """List the tools again after the server reported a change."""
        try:
            async with asyncio.timeout(within_ms / 1000):
                await link.list_tools()
        except Exception:  # noqa: BLE001 - a new connection will report the error
            await link.aclose()


def _meta(context: ToolContext) -> dict[str, Any]:
    """Return the metadata that is sent with a call."""
    told = {KEY: context.idempotency_key}
    return {**told, "traceparent": context.traceparent} if context.traceparent else told


def _take(opening: asyncio.Task[Link]) -> None:
    """Retrieve the error of an abandoned connection, so that asyncio does not warn about it."""
    if not opening.cancelled():
        opening.exception()
