"""The service as an MCP server at /mcp: agents of other frameworks start runs, look at them and answer gates.

Its tools are methods of the service under names that a model understands. Each request carries a credential, and has the
authority of that credential and no other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import orjson
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, TextContent, Tool
from starlette.requests import Request
from starlette.responses import JSONResponse

from tercet import __version__
from tercet.service.boundary import (
    Accept,
    App,
    Authenticated,
    Receive,
    Scope,
    Send,
    received,
    refuse_unread,
    respond,
)
from tercet.service.calls import call
from tercet.service.errors import PARSE_ERROR, ServiceError, shape
from tercet.service.identity import Caller
from tercet.service.methods import METHODS, Service

TOOLS = {
    "invoke": ("invokeAgent", "Start a run of a pack. It may be refused, or wait at a gate for a person."),
    "status": ("getSession", "Return how far a session is: its status, open gates, progress and verdict."),
    "list_gates": ("listGates", "List the gates that wait for a person."),
    "get_gate": ("getGate", "Return the call that a gate shows, with its digest."),
    "approve": ("approveGate", "Approve the call that a gate shows, if your credential may."),
    "deny": ("denyGate", "Deny the call that a gate shows: the run ends rejected."),
}
"""The tools by name: the method that each one calls, and its description."""


@asynccontextmanager
async def open_mcp(service: Service, accept: Accept) -> AsyncGenerator[App]:
    """The application behind /mcp."""
    server: Server[Any] = Server(
        "tercet",
        version=__version__,
        instructions="Runs are reviewed before anything happens. A run that waits at a gate needs a person's approval.",
        on_list_tools=_list_tools,
        on_call_tool=_tool_calls(service),
    )
    # The service checks Host and Origin itself, for all of its paths. Without sessions, no request depends on an earlier one.
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    try:
        async with manager.run():
            yield Authenticated(_json_only(manager.handle_request), accept)
    except BaseExceptionGroup as group:
        # The manager's task group wraps whatever ends the service, such as an error of the journal.
        sole = _sole_error(group)
        raise sole from sole.__cause__


def _sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only error in a group, however deep, or the innermost group with several."""
    errors = list(group.exceptions)
    while len(errors) == 1:
        error = errors[0]
        if not isinstance(error, BaseExceptionGroup):
            return error
        group = cast("BaseExceptionGroup[BaseException]", error)
        errors = list(group.exceptions)
    return group


def _json_only(app: App) -> App:
    """Return an application that answers other content than JSON, and what nests too deeply, with an error of the usual shape."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        sent = Request(scope).headers.get("content-type", "").partition(";")[0].strip().lower()
        if sent == "application/json":
            body = await Request(scope, receive).body()
            if (refusal := refuse_unread(body)) is None:
                await app(scope, received(body, receive), send)
            else:
                status = 400 if refusal["error"]["code"] == PARSE_ERROR else 200
                await JSONResponse(refusal, status)(scope, receive, send)
            return
        message = f"content of type {sent[:100]!r} is not taken here"
        remedy = "send JSON with Content-Type: application/json"
        await respond(send, ServiceError(message, code="wrong_content", remedy=remedy, status=415))

    return answer


async def _list_tools(_: Any, __: Any) -> ListToolsResult:
    return ListToolsResult(
        tools=[
            Tool(name=name, description=description, input_schema=METHODS[method].params.model_json_schema())
            for name, (method, description) in TOOLS.items()
        ]
    )


def _tool_calls(service: Service) -> Callable[[Any, CallToolRequestParams], Awaitable[CallToolResult]]:
    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        caller: Caller = context.request.state.caller
        method, _ = TOOLS.get(params.name, (f"tool {params.name}", ""))
        try:
            found = await call(service, caller, method, params.arguments)
        except ServiceError as error:
            return _result(shape(error), is_error=True)
        return _result(found)

    return call_tool


def _result(value: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = orjson.dumps(value, default=str)
    return CallToolResult(
        content=[TextContent(type="text", text=text.decode())],
        structured_content=orjson.loads(text),
        is_error=is_error,
    )
