"""From an operation to a tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tercet.contracts.mode import ApprovalMode
from tercet.contracts.shape import JsonObject
from tercet.tools.declaration import split, with_trust
from tercet.tools.http.resolution import World
from tercet.tools.http.service import Operation, Service
from tercet.tools.openapi.calling import make_call
from tercet.tools.openapi.document import Described, Document, OpenApiError
from tercet.tools.openapi.operations import Interface, read_interface
from tercet.tools.tool import Tool

USUAL_MODE: Mapping[str, ApprovalMode] = {
    "get": ApprovalMode.READ_ONLY,
    "head": ApprovalMode.READ_ONLY,
    "options": ApprovalMode.READ_ONLY,
}
"""What a method may do unless the pack says otherwise; every other one is destructive."""


def openapi_tools(
    service: Service,
    document: Document,
    operations: Iterable[Mapping[str, Any]] = (),
    *,
    world: World | None = None,
) -> list[Tool]:
    """The tools of a service: the listed operations, and all others where the service says so; raises `OpenApiError`."""
    demand_egress(service)
    listed = [read_operation(table) for table in operations]
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
    """Raises `OpenApiError` unless the service is where calls may go."""
    if str(service.target) not in service.egress:
        raise OpenApiError(
            f"{service.target} is not among the hosts that may be called",
            code="egress_missing",
            remedy=f'list it: egress = ["{service.target}"]',
        )


def read_operation(table: Mapping[str, Any]) -> Operation:
    """What a table says about an operation, and about the tool that it becomes."""
    about_tool, own = split(table)
    return Operation.model_validate({**own, "tool": about_tool})


def find_operation(document: Document, name: str) -> Described:
    """The operation that a pack names, by its id or by method and path; raises `OpenApiError`."""
    known = document.operations()
    found = [each for each in known if name in (each.id, f"{each.method.upper()} {each.path}")]
    if len(found) == 1:
        return found[0]
    raise OpenApiError(
        f"{len(found) or 'none'} of the operations is {name!r}",
        code="operation_unknown",
        place="/paths",
        remedy=f"there are {', '.join(each.id for each in known[:20]) or 'none'}",
    )


def tool_name(service: Service, operation: Described, said: Operation) -> str:
    """`<service>.<operation>`, in the letters that a tool's name may have."""
    if "." in said.name:
        return said.name
    own = said.name or re.sub(r"[^A-Za-z0-9_\-]+", "_", operation.id).strip("_") or "operation"
    return f"{service.name}.{own}"


def make_tool(
    service: Service, document: Document, operation: Described, said: Operation, *, world: World | None = None
) -> Tool:
    """The tool that an operation becomes; raises `OpenApiError`."""
    interface = read_interface(document, operation, service, said)
    fields: dict[str, Any] = {
        "mode": USUAL_MODE.get(operation.method, ApprovalMode.DESTRUCTIVE),
        "description": interface.description,
        **with_trust(said.tool),
        "name": tool_name(service, operation, said),
        "parameters": interface.parameters,
        "result": interface.result,
        "adapter": "http",
    }
    made = Tool.model_validate({**fields, "call": _uncalled})
    call = make_call(service, interface, said, made, world or World())
    return made.model_copy(update={"call": call, "definition": _define(service, interface, said)})


def _define(service: Service, interface: Interface, said: Operation) -> JsonObject:
    """Return what is requested by a call, as the hash of a pack has it; of a secret, the name of its variable."""
    placed = [
        [each.name, each.where, each.wire, each.style, each.explode, each.is_required]
        for each in interface.placed
    ]
    return {
        "service": service.model_dump(mode="json", exclude_defaults=True),
        "operation": said.model_dump(mode="json", exclude_defaults=True),
        "request": [interface.method, interface.path, placed],
    }


def _uncalled() -> None:
    """Stands in for the call until the tool that it belongs to is known."""
