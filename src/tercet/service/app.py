"""The HTTP application: JSON-RPC for everything, REST for reading, server-sent events for progress, and health checks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from fastapi import Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

from tercet import __version__
from tercet.contracts.shape import as_list, as_object
from tercet.service.boundary import (
    App,
    Boundary,
    Limits,
    Places,
    Rate,
    Receive,
    Scope,
    Send,
    count_calls,
    read_body,
    read_json,
)
from tercet.service.calls import call, log_refused
from tercet.service.errors import ServiceError, invalid_params, malformed, rpc_body, shape, understand
from tercet.service.identity import DEFAULT_TENANT, Authenticator, Caller, authenticate
from tercet.service.methods import METHODS, Service
from tercet.service.metrics import Counts, render_calls, render_notifications, render_process
from tercet.service.notifier import Notifier
from tercet.service.params import ListAudit, ListSessions, Page

READY_S = 5.0
"""How long the journal may take to answer before the service counts as not ready."""
ACT_AS = "tercet-act-as"
"""The header that names the actor to act as, in development mode."""
MOST_ID = 2**53
"""Larger numbers, which are read as floating point, could not be returned as they were sent."""
MOST_CALLS = 20
"""How many calls one batch of JSON-RPC may hold."""


@dataclass(frozen=True, kw_only=True)
class Http:
    """What the application needs."""

    service: Service
    authenticators: Sequence[Authenticator]
    rate: Rate
    places: Places
    limits: Limits = field(default_factory=Limits)
    logged: Rate = field(default_factory=lambda: Rate(Limits(calls_per_second=1 / 60, burst=1)))
    """How often refusals of requests that were not read are written into the audit log."""
    hosts: frozenset[str] | None = None
    counts: Counts = field(default_factory=Counts)
    routes: Sequence[BaseRoute] = ()
    """Further paths: MCP, A2A and the console."""
    home: str = ""
    """Where browsers are sent that ask for `/`."""
    tenant: str = DEFAULT_TENANT
    """Whose operators see figures of the whole process."""
    public_url: str = ""
    """The address under which the service is reached; empty if it is not known."""
    notifier: Notifier | None = None
    """What delivers notifications in this process, if anything does."""

    @property
    def is_closing(self) -> asyncio.Event:
        """Set when the service stops."""
        return self.service.is_closing


class ErrorBody(BaseModel):
    """What is wrong, and what to do about it."""

    code: str
    message: str
    remedy: str
    methods: list[str] = []
    """The methods of /rpc that help, where the remedy names commands."""
    problems: list[Any] = []


class ErrorAnswer(BaseModel):
    """The body of every response with an error."""

    error: ErrorBody


_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": meaning}
    for status, meaning in {
        401: "No valid credential was sent",
        403: "The credential does not allow this",
        404: "There is no such thing, or it belongs to another tenant",
        409: "It cannot be done in this state",
        421: "The service is not called by this name",
        422: "A parameter is wrong",
        429: "The credential makes too many calls",
        503: "Too much at once",
    }.items()
}


def build_app(http: Http) -> App:
    """Return the application."""
    app = FastAPI(
        title="Tercet",
        version=__version__,
        description="Runs, gates and records. POST /rpc takes every method; these paths only read.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        responses=_RESPONSES,
    )
    app.state.http = http
    _add_rpc(app, http)
    _add_reads(app, http)
    _add_progress(app, http)
    _add_health(app, http)
    _add_errors(app)
    app.router.routes.extend(http.routes)
    return Boundary(app, http.limits, http.hosts, http.places, http.public_url)


async def identify(request: Request) -> Caller:
    """Return who sends a request, by its credential."""
    http: Http = request.app.state.http
    header = request.headers.get("authorization", "")
    try:
        caller = await authenticate(header, http.authenticators)
    except ServiceError as error:
        http.counts.unauthenticated += 1
        http.rate.take(f"unauthenticated:{request.client.host if request.client else ''}")
        token = header.partition(" ")[2].strip()
        for each in http.authenticators:
            if token and (former := await each.find_former(token)) is not None:
                await _log_refused(http, request, former, error.code)
        raise
    async with _logging_refusals(http, request, caller):
        return _admit(http, request, caller)


async def accept(request: Request) -> tuple[Caller, bytes]:
    """Return who sends a request, and its body."""
    http: Http = request.app.state.http
    caller = await identify(request)
    async with _logging_refusals(http, request, caller):
        return caller, await read_body(request, http.limits)


@asynccontextmanager
async def _logging_refusals(http: Http, request: Request, caller: Caller) -> AsyncGenerator[None]:
    """Write a refusal of a request whose calls were not carried out into the audit log."""
    try:
        yield
    except ServiceError as error:
        await _log_refused(http, request, caller, error.code)
        raise


def _admit(http: Http, request: Request, caller: Caller) -> Caller:
    """Count a request, and return the actor that its caller acts as."""
    http.rate.take(caller.credential, count_calls(request, http.limits))
    http.places.take(request.scope, caller.tenant)
    name = request.headers.get(ACT_AS)
    return caller.acting_as(name) if name else caller


async def _log_refused(http: Http, request: Request, caller: Caller, code: str) -> None:
    """Write a request that could have changed something, and was refused as a whole, into the audit log: once a minute for
    each credential and reason, so that a flood does not fill it."""
    if request.method != "POST":
        return
    try:
        http.logged.take(f"{caller.credential} {code}")
    except ServiceError:
        return
    await log_refused(http.service, caller, f"POST {request.url.path}", code)


async def is_still_valid(request: Request) -> bool:
    """Return whether the credential of a request that is still being answered counts: it may have ended meanwhile."""
    http: Http = request.app.state.http
    try:
        await authenticate(request.headers.get("authorization", ""), http.authenticators)
    except ServiceError:
        return False
    return True


_BEARER = HTTPBearer(description="An API key, or a token of the issuer", auto_error=False)


async def _identify_as_documented(request: Request, _: Annotated[object, Depends(_BEARER)]) -> Caller:
    return await identify(request)


Who = Annotated[Caller, Depends(_identify_as_documented)]


def _error_response(error: Exception) -> JSONResponse:
    refusal = understand(error)
    return JSONResponse({"error": shape(refusal, error)}, refusal.status, refusal.headers)


def _add_errors(app: FastAPI) -> None:
    async def refuse(_: Request, error: Exception) -> Response:
        return _error_response(error)

    async def refuse_http(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message, code, remedy = f"HTTP status {status}", "wrong_request", "GET /openapi.json lists the paths"
        headers = dict((isinstance(error, HTTPException) and error.headers) or {})
        if status == 404:
            message, code = "there is nothing here", "not_found"
        elif status == 405:
            headers["allow"] = allowed = ", ".join(_allowed(app, request))
            message, remedy = f"{request.method} is not possible here", f"this path takes {allowed}"
        response = _error_response(ServiceError(message, code=code, remedy=remedy, status=status))
        response.headers.update(headers)
        return response

    async def refuse_fields(_: Request, error: Exception) -> Response:
        found: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else []
        named = [{**each, "loc": each["loc"][1:]} for each in found]  # without "query"
        return _error_response(invalid_params(named, "GET /openapi.json says what is expected"))

    app.add_exception_handler(Exception, refuse)
    app.add_exception_handler(ServiceError, refuse)
    app.add_exception_handler(HTTPException, refuse_http)
    app.add_exception_handler(RequestValidationError, refuse_fields)


def _allowed(app: FastAPI, request: Request) -> list[str]:
    """Return the HTTP methods that a path takes."""
    found = [each for each in app.router.routes if isinstance(each, Route)]
    return sorted(
        {
            name
            for each in found
            if each.matches(request.scope)[0] != Match.NONE
            for name in each.methods or ()
        }
    )


# --- JSON-RPC ---


def _add_rpc(app: FastAPI, http: Http) -> None:
    async def rpc(request: Request) -> Response:
        caller, body = await accept(request)
        try:
            sent: Any = read_json(body)
        except ServiceError as error:
            return _json(rpc_body(None, error))
        calls = as_list(sent)
        if calls is None:
            answer = await _answer(http, caller, sent)
            return Response(status_code=204) if answer is None else _json(answer)
        if not calls or len(calls) > MOST_CALLS:
            return _json(rpc_body(None, malformed(f"a batch holds 1 to {MOST_CALLS} calls")))
        async with _logging_refusals(http, request, caller):
            http.rate.take(caller.credential, len(calls) - 1)  # the request itself was counted as one
        answers = [await _answer(http, caller, each) for each in calls]
        told = [answer for answer in answers if answer is not None]
        return _json(told) if told else Response(status_code=204)

    # Nothing of it is declared to FastAPI, which would only make it slower.
    app.router.routes.append(Route("/rpc", rpc, methods=["POST"]))


async def _answer(http: Http, caller: Caller, sent: Any) -> dict[str, Any] | None:
    """Return the answer to one call; None for a notification."""
    fields = as_object(sent) or {}
    method = fields.get("method")
    if fields.get("jsonrpc") != "2.0" or not isinstance(method, str):
        problem = 'a call is {"jsonrpc": "2.0", "id": …, "method": "…", "params": {…}}'
        return rpc_body(None, malformed(problem))
    number = fields.get("id")
    if number is not None and (isinstance(number, bool) or not isinstance(number, str | int | float)):
        return rpc_body(None, malformed("id is neither a string nor a number"))
    if isinstance(number, float) and abs(number) > MOST_ID:
        return rpc_body(None, malformed("id is a number that cannot be returned exactly"))
    known = method if method in METHODS else "unknown"
    try:
        result = await call(http.service, caller, method, fields.get("params"))
    except Exception as error:  # noqa: BLE001 - the answers to the other calls of a batch are not lost
        refusal = understand(error)
        http.counts.calls[caller.tenant, known, refusal.code] += 1
        return None if "id" not in fields else rpc_body(number, refusal)
    http.counts.calls[caller.tenant, known, "ok"] += 1
    return None if "id" not in fields else {"jsonrpc": "2.0", "id": number, "result": result}


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value, default=str), media_type="application/json")


# --- REST ---


def _add_reads(app: FastAPI, http: Http) -> None:
    async def read(caller: Caller, method: str, **params: Any) -> Response:
        return _json(await call(http.service, caller, method, params))

    @app.get("/v1/methods", summary="The methods of /rpc, with the JSON Schema of their parameters")
    async def methods(_: Who) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {
            name: {
                "scope": each.scope,
                "is_mutating": each.is_mutating,
                "summary": (each.call.__doc__ or "").strip(),
                "params": each.params.model_json_schema(),
            }
            for name, each in METHODS.items()
        }

    @app.get("/v1/sessions", summary="A page of sessions, newest first")
    async def sessions(  # pyright: ignore[reportUnusedFunction]
        caller: Who, page: Annotated[ListSessions, Query()]
    ) -> Any:
        return await read(caller, "listSessions", **page.model_dump(exclude_unset=True))

    @app.get("/v1/sessions/{session_id}", summary="A session")
    async def session(session_id: str, caller: Who) -> Any:  # pyright: ignore[reportUnusedFunction]
        return await read(caller, "getSession", session_id=session_id)

    @app.get("/v1/sessions/{session_id}/record", summary="The decision record of a session that has ended")
    async def record(session_id: str, caller: Who) -> Any:  # pyright: ignore[reportUnusedFunction]
        return await read(caller, "getRecord", session_id=session_id)

    @app.get("/v1/gates", summary="A page of open gates")
    async def gates(  # pyright: ignore[reportUnusedFunction]
        caller: Who, page: Annotated[Page, Query()]
    ) -> Any:
        return await read(caller, "listGates", **page.model_dump(exclude_unset=True))

    @app.get("/v1/gates/{gate_id}", summary="An open gate, with what its approver is shown")
    async def gate(gate_id: str, caller: Who) -> Any:  # pyright: ignore[reportUnusedFunction]
        return await read(caller, "getGate", gate_id=gate_id)

    @app.get("/v1/stops", summary="The emergency stops that have not been lifted")
    async def stops(caller: Who) -> Any:  # pyright: ignore[reportUnusedFunction]
        return await read(caller, "listStops")

    @app.get("/v1/audit", summary="Entries of the audit log, oldest first")
    async def audit_log(  # pyright: ignore[reportUnusedFunction]
        caller: Who, page: Annotated[ListAudit, Query()]
    ) -> Any:
        return await read(caller, "listAudit", **page.model_dump(exclude_unset=True))


# --- progress ---


def _add_progress(app: FastAPI, http: Http) -> None:
    streams: Counter[str] = Counter()

    @app.get(
        "/v1/sessions/{session_id}/progress",
        summary="The progress of a session as server-sent events, until it is over",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def progress(  # pyright: ignore[reportUnusedFunction]
        session_id: str,
        request: Request,
        caller: Who,
        last_event_id: Annotated[str, Header(description="The last event that the client has")] = "",
    ) -> Response:
        caller.demand("read")
        _demand_open(http)
        runtime = await http.service.hub.of_session(caller.tenant, session_id)
        limits = http.limits
        if streams[caller.tenant] >= limits.tenant_streams or streams.total() >= limits.streams:
            raise ServiceError(
                "too many progress streams are open", code="overloaded", remedy="close some", status=503
            )

        async def events() -> AsyncIterator[bytes]:
            async for envelope in until_closing(runtime.watch(session_id), http.is_closing):
                if not await is_still_valid(request):
                    return
                if envelope is None:
                    yield b": still here\n\n"
                elif envelope.progress_id != last_event_id:
                    data = envelope.model_dump_json().encode()
                    yield b"event: progress\nid: %s\ndata: %s\n\n" % (envelope.progress_id.encode(), data)

        return _CountedStream(events(), streams, caller.tenant)


def _demand_open(http: Http) -> None:
    """Raise `ServiceError` once the service stops."""
    if http.is_closing.is_set():
        raise ServiceError("the service is stopping", code="stopping", remedy="use another", status=503)


class _CountedStream(StreamingResponse):
    """A stream that is no longer counted once it has ended, also if its client went away before it began."""

    def __init__(self, content: AsyncIterator[bytes], streams: Counter[str], tenant: str) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._streams = streams
        self._tenant = tenant
        streams[tenant] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._tenant] -= 1


KEEP_ALIVE_S = 15.0


async def until_closing(source: AsyncIterator[Any], is_closing: asyncio.Event) -> AsyncIterator[Any]:
    """Yield what a source yields, and None after a while without anything, until it ends or the service stops."""
    closing = asyncio.ensure_future(is_closing.wait())
    following: asyncio.Future[Any] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(source, _END))
            await asyncio.wait(
                (following, closing), timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED
            )
            if following.done():
                value, following = following.result(), None
                if value is _END:
                    return
                yield value
            elif closing.done():
                return
            else:
                yield None
    finally:
        closing.cancel()
        if following is not None:
            following.cancel()


_END = object()


# --- health ---


def _add_health(app: FastAPI, http: Http) -> None:
    @app.get("/", include_in_schema=False)
    async def root(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        if http.home and "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(http.home, 303)
        return JSONResponse(
            {"name": "tercet", "version": __version__, "rpc": "/rpc", "openapi": "/openapi.json"}
        )

    app.add_api_route("/", root, methods=["HEAD"], include_in_schema=False)

    @app.get("/healthz", summary="Whether the process answers; needs no credential")
    async def healthz() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return {"status": "ok"}

    app.add_api_route("/healthz", healthz, methods=["HEAD"], include_in_schema=False)

    @app.get(
        "/readyz", summary="Whether the journal answers and the service takes calls; needs no credential"
    )
    async def readyz() -> Response:  # pyright: ignore[reportUnusedFunction]
        _demand_open(http)
        try:
            async with asyncio.timeout(READY_S):
                await http.service.hub.journal.change_count("_service")
        except TimeoutError:
            raise ServiceError(
                f"the journal has not answered for {READY_S:g} seconds",
                code="journal_unavailable",
                remedy="see that its server runs",
                status=503,
            ) from None
        return JSONResponse({"status": "ready"})

    app.add_api_route("/readyz", readyz, methods=["HEAD"], include_in_schema=False)

    @app.get(
        "/metrics",
        summary="Figures of this process for Prometheus, or of the caller's tenant; needs the scope operate",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}},
    )
    async def metrics(caller: Who) -> Response:  # pyright: ignore[reportUnusedFunction]
        caller.demand("operate")
        is_own = caller.tenant == http.tenant
        text = render_calls(http.counts, None if is_own else caller.tenant)
        if is_own:
            text += render_process(http.counts, http.service.worker)
        if is_own and http.notifier is not None:
            text += render_notifications(http.notifier.counts, await http.notifier.pending())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
