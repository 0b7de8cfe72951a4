"""Builds a tool from an operation, and makes its call: fill the request, send it, and determine the outcome."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from tercet.contracts.errors import GatewayError, NotDone, NotSent, Unusable, install_words
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.tools.http.exchange import (
    AGAIN,
    REDIRECT_REFUSED,
    Answered,
    Bounds,
    Lost,
    Sending,
    exchange,
    outcome_of,
    read_retry_after,
    read_value,
)
from tercet.tools.http.service import Operation, Service, World, as_address, why_refused
from tercet.tools.openapi.document import Described, Document, OpenApiError
from tercet.tools.openapi.operations import Interface, Placed, read_interface
from tercet.tools.secrets import Redaction, read_secret
from tercet.tools.tool import Terms, Tool, ToolContext, one_line, uncalled

_JOINED = {"simple": ",", "form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


def make_call(
    service: Service, interface: Interface, said: Operation, tool: Tool, world: World
) -> Callable[..., Any]:
    """Return the function that carries out an operation."""
    bounds = Bounds(
        private=service.private_endpoints,
        max_answer_bytes=service.max_answer_bytes,
        # Resolving and connecting take at most three quarters of the time together: a failure before the request was
        # sent is then known as such, and not as a timeout of the call.
        connect_timeout_ms=min(service.connect_timeout_ms, max(1, tool.timeout_ms // 4)),
        resolve=world.resolve,
        tls=world.tls,
    )
    meaning = _Meaning(tool, said, world)

    async def call(_tercet_context: ToolContext, **params: Any) -> Any:
        demand_library(tool.name)
        secrets = [(auth, read_secret(world.environment, auth.env, tool.name)) for auth in service.auth]
        redaction = Redaction(value for _, value in secrets)
        headers = {auth.header: f"{auth.prefix}{value}" for auth, value in secrets}
        sending = _filled(
            service, interface, params, {**_own_headers(service, interface, _tercet_context), **headers}
        )
        return meaning.of(await _in_time(exchange(sending, bounds), tool), redaction)

    return call


async def _in_time(
    exchanging: Coroutine[Any, Any, Answered | Lost | Unusable], tool: Tool
) -> Answered | Lost | Unusable:
    """Wait for the end of an exchange within the tool's timeout, also without a gateway."""
    try:
        async with asyncio.timeout(tool.timeout_ms / 1_000):
            return await exchanging
    except TimeoutError:
        return Lost(was_sent=True, code="timeout", error=f"it did not answer within {tool.timeout_ms:,} ms")


def demand_library(tool: str) -> None:
    """Raise `NotSent` if the HTTP library is not installed."""
    if find_spec("httpx2") is None:
        raise NotSent(
            f"{tool} is not called: the HTTP library is not installed",
            code="http_unavailable",
            remedy=install_words("http"),
            is_retriable=False,
        )


def _own_headers(service: Service, interface: Interface, context: ToolContext) -> dict[str, str]:
    own = {
        "accept": "application/json, text/*;q=0.5",
        "accept-encoding": "identity",
        "user-agent": "tercet",
    }
    own |= service.headers
    if interface.method not in ("GET", "HEAD", "OPTIONS") and service.idempotency_header:
        own[service.idempotency_header] = context.idempotency_key
    if service.fencing_header:
        own[service.fencing_header] = str(context.fencing_token)
    if context.traceparent and not any(each.wire.lower() == "traceparent" for each in interface.placed):
        own["traceparent"] = context.traceparent
    return own


def _filled(
    service: Service, interface: Interface, params: dict[str, Any], headers: dict[str, str]
) -> Sending:
    """Return the request with a plan's parameters."""
    path, query, body = interface.path, list[str](), dict[str, Any]()
    content: bytes | None = None
    for each in interface.placed:
        if each.name not in params:
            continue
        value = params[each.name]
        match each.where:
            case "path":
                path = path.replace(f"{{{each.wire}}}", _segment(each, value))
            case "query":
                query += _pairs(each, value)
            case "header":
                headers[each.wire] = _header(each, value)
            case "body":
                body[each.wire] = value
            case "cookie":
                pass
            case "whole body":
                content = json.dumps(value).encode()
    needs_body = any(each.where == "body" and each.is_required for each in interface.placed)
    if body or needs_body:
        content = json.dumps(body).encode()
    if content is not None:
        headers["content-type"] = "application/json"
    target = f"{service.base_path}{path}"
    return Sending(
        method=interface.method,
        scheme=service.scheme,
        target=service.target,
        path=f"{target}?{'&'.join(query)}" if query else target,
        headers=headers,
        body=content,
    )


def _segment(each: Placed, value: Any) -> str:
    """Return a value as a segment of a path: fully encoded, and never one that leads up."""
    texts = _texts(each, value)
    joined = ",".join(quote(text, safe="") for text in texts)
    steps = ",".join(texts).replace("\\", "/").split("/")
    if not joined or any(step in (".", "..") for step in steps):
        raise _wrong(each, "it cannot be used in a path")
    return joined


def _pairs(each: Placed, value: Any) -> list[str]:
    name, texts = quote(each.wire, safe=""), [quote(text, safe="") for text in _texts(each, value)]
    if each.explode:
        return [f"{name}={text}" for text in texts]
    return [f"{name}={_JOINED[each.style].join(texts)}"] if texts else []


def _header(each: Placed, value: Any) -> str:
    text = ",".join(_texts(each, value))
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise _wrong(each, "it cannot be used in a header")
    return text


def _texts(each: Placed, value: Any) -> list[str]:
    """Return the scalars of a value as they are sent."""
    items = as_list(value)
    return [_text(each, item) for item in ([value] if items is None else items) if item is not None]


def _text(each: Placed, value: Any) -> str:
    if as_object(value) is not None or as_list(value) is not None:
        raise _wrong(each, f"a {each.where} holds scalars and lists of them")
    return value if isinstance(value, str) else json.dumps(value)


def _wrong(each: Placed, why: str) -> NotSent:
    return NotSent(
        f"the parameter {each.name} is not sent: {why}",
        code="argument_unsendable",
        is_retriable=False,
    )


class _Meaning:
    """Interprets the end of an exchange for the tool that made it; its messages are free of secrets."""

    def __init__(self, tool: Tool, said: Operation, world: World) -> None:
        self._tool = tool
        self._is_read = tool.mode is ApprovalMode.READ_ONLY
        self._not_done, self._unknown = frozenset(said.not_done), frozenset(said.unknown)
        self._world = world

    def of(self, told: Answered | Lost | Unusable, redaction: Redaction) -> Any:
        """Return the value, or raise the error that states the outcome of the call."""
        match told:
            case Lost():
                raise self._lost(told, redaction.text(told.error))
            case Unusable():
                raise self._unusable(told, redaction)
            case Answered():
                return self._answered(told, redaction)

    def _answered(self, told: Answered, redaction: Redaction) -> Any:
        outcome = outcome_of(told.status, not_done=self._not_done, unknown=self._unknown)
        if outcome != "done":
            raise self._refused(told, redaction, is_known=outcome == "not_done")
        try:
            return redaction.value(read_value(told.body, told.headers.get("content-type", "")))
        except Unusable as error:
            unusable = error
        raise self._unusable(unusable, redaction)

    def _lost(self, told: Lost, words: str) -> GatewayError:
        message = f"{self._tool.name}: {words}"
        if not told.was_sent:
            return NotSent(message, code=told.code)
        if told.code == REDIRECT_REFUSED and self._is_read:
            return NotDone(message, code=told.code, is_retriable=False, is_attempt_only=True)
        return GatewayError(message, code=told.code)

    def _unusable(self, told: Unusable, redaction: Redaction) -> GatewayError:
        return Unusable(f"{self._tool.name}: {redaction.text(told.message)}", code=told.code)

    def _refused(self, told: Answered, redaction: Redaction, *, is_known: bool) -> GatewayError:
        said = one_line(redaction.text(told.body.decode("utf-8", "replace")))
        said = f"{said[:200]}…" if len(said) > 200 else said
        message = f"{self._tool.name}: the service answered {told.status}{f': {said}' if said else ''}"
        code = f"http_{told.status}"
        if not is_known:
            return GatewayError(message, code=code)
        after = read_retry_after(told.headers.get("retry-after", ""), self._world.now())
        return NotDone(
            message,
            code=code,
            is_retriable=told.status in AGAIN or told.status in self._not_done,
            retry_after_ms=after if told.status in AGAIN else 0,
            is_attempt_only=True,
        )


USUAL_MODE: Mapping[str, ApprovalMode] = {
    "get": ApprovalMode.READ_ONLY,
    "head": ApprovalMode.READ_ONLY,
    "options": ApprovalMode.READ_ONLY,
}
"""The default mode of each HTTP method; every other method is destructive."""


def openapi_tools(
    service: Service,
    document: Document,
    operations: Iterable[Mapping[str, Any]] = (),
    *,
    world: World | None = None,
) -> list[Tool]:
    """Return the tools of a service: the listed operations, or all if the service says so; raise `OpenApiError`."""
    demand_egress(service)
    listed = [Operation.model_validate(table) for table in operations]
    described = [find_operation(document, said.operation) for said in listed]
    if service.operations == "all":
        others = [each for each in document.operations() if each not in described]
        listed += [Operation(operation=each.id) for each in others]
        described += others
    return [
        make_tool(service, document, each, said, world=world)
        for each, said in zip(described, listed, strict=True)
    ]


def demand_egress(service: Service) -> None:
    """Raise `OpenApiError` unless calls to the service are allowed."""
    if str(service.target) not in service.egress:
        raise OpenApiError(
            f"{service.target} is not among the hosts that may be called",
            code="egress_missing",
            remedy=f'list it: egress = ["{service.target}"]',
        )


def demand_callable(service: Service) -> None:
    """Raise `OpenApiError` for a service whose address every call would refuse."""
    demand_egress(service)
    address = as_address(service.target.host)
    why = None if address is None else why_refused(address)
    if why is not None and service.target not in service.private_endpoints:
        raise OpenApiError(
            f"{service.target} will not be called: it is {why}",
            code="private_address",
            remedy=f'list it if it is meant: private = ["{service.target}"]',
        )


def find_operation(document: Document, name: str) -> Described:
    """Return the operation that a pack names, by its id or by method and path; raise `OpenApiError`."""
    known = document.operations()
    found = [each for each in known if name in (each.id, f"{each.method.upper()} {each.path}")]
    if len(found) == 1:
        return found[0]
    near = get_close_matches(name, [each.id for each in known], n=1)
    listed = f"there are {', '.join(each.id for each in known[:20]) or 'none'}"
    raise OpenApiError(
        f"{len(found)} operations are called {name!r}" if found else f"no operation is called {name!r}",
        code="operation_unknown",
        place="/paths",
        remedy=f"did you mean {near[0]}?" if near and not found else listed,
    )


def tool_name(service: Service, operation: Described, said: Operation) -> str:
    """Return `<service>.<operation>`, in the characters that a tool's name may have."""
    if "." in said.name:
        return said.name
    own = said.name or re.sub(r"[^A-Za-z0-9_\-]+", "_", operation.id).strip("_") or "operation"
    return f"{service.name}.{own}"


def make_tool(
    service: Service, document: Document, operation: Described, said: Operation, *, world: World | None = None
) -> Tool:
    """Return the tool for an operation; raise `OpenApiError`."""
    interface = read_interface(document, operation, service, said)
    fields: dict[str, Any] = {
        "mode": USUAL_MODE.get(operation.method, ApprovalMode.DESTRUCTIVE),
        "description": interface.description,
        **said.declared,
        "name": tool_name(service, operation, said),
        "parameters": interface.parameters,
        "result": interface.result,
        "adapter": "http",
    }
    made = Tool.model_validate({**fields, "call": uncalled})
    call = make_call(service, interface, said, made, world or World())
    return made.model_copy(update={"call": call, "definition": _define(service, interface, said)})


def _define(service: Service, interface: Interface, said: Operation) -> JsonObject:
    """Return what a call requests, for the hash of a pack; of a secret, the name of its variable."""
    placed = [
        [each.name, each.where, each.wire, each.style, each.explode, each.is_required]
        for each in interface.placed
    ]
    return {
        "service": service.model_dump(mode="json", exclude_defaults=True),
        "operation": said.model_dump(mode="json", exclude_defaults=True, exclude={*Terms.model_fields}),
        "request": [interface.method, interface.path, placed],
    }
