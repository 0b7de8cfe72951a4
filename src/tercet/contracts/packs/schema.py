"""The JSON Schema of every public type."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, TypeAdapter

from tercet.contracts import (
    buckets,
    context,
    control,
    decision,
    documents,
    evidence,
    gate,
    lane,
    loop,
    mode,
    plan,
    policy,
    problem,
    request,
    tasks,
    tool,
    verdict,
)
from tercet.contracts.errors import UsageError
from tercet.contracts.outputs import exit as exits
from tercet.contracts.outputs import quality, repair, rubric
from tercet.contracts.runs import budget, invocation, record, run, saga, scorecard, session
from tercet.contracts.shape import TYPE_VERSION

_ROOMS = (
    plan, tool, mode, evidence, decision, gate, policy, budget, request, context, verdict, scorecard, run, record,
    session, loop, quality, saga, invocation, problem, tasks,
    buckets, control, rubric, repair, exits, documents, lane,
)  # fmt: skip

PUBLIC_TYPES: dict[str, Any] = {
    name: thing
    for room in _ROOMS
    for name, thing in vars(room).items()
    if isinstance(thing, type)
    and issubclass(thing, BaseModel | Enum)
    and thing.__module__ == room.__name__
    and name[0] != "_"
} | {"VerifyVerdict": verdict.VerifyVerdict}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a public type, with its version."""
    if name not in PUBLIC_TYPES:
        raise UsageError(
            f"unknown public type {name!r}",
            code="unknown_type",
            remedy=f"choose one of {', '.join(sorted(PUBLIC_TYPES))}",
        )
    schema = TypeAdapter[Any](PUBLIC_TYPES[name]).json_schema()
    return {"$id": f"urn:tercet:schema:{name}:{TYPE_VERSION}", **schema}
