"""Parameters that fit their JSON Schema, and values at its edges, on every store: the answer is never a fault of ours."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from service.desk import REFUND, Desk, open_desk
from service.drawn import draw_requests
from tercet.contracts.shape import as_object
from tercet.engine.streams.credentials import SCOPES
from tercet.journal.opening import open_journal
from tercet.service.boundary import Limits
from tercet.service.methods import METHODS

FAULTS = ("internal", "timeout", "journal_unavailable", "journal_busy")
UNLIMITED = Limits(calls_per_second=1e6, burst=10**6)
TEXTS = ("\0", "\u202e\U0001f600", "%_\\' --", "é" * 200, "_service")
NUMBERS = (2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -1)
OBJECTS: tuple[Any, ...] = ({"\0": "\0"}, {"tokens": 2**63}, {"intent": "\0"}, [2**63, "\0"], ["\0"])


@asynccontextmanager
async def desk_on(kind: str, folder: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Desk]:
    """A service on a store of this kind."""
    url = f"sqlite:///{folder / 'runs.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    async with open_journal(url) as journal, open_desk(journal, limits=UNLIMITED) as desk:
        yield desk


async def waiting(desk: Desk) -> tuple[str, dict[str, Any]]:
    """Return a key that may do everything, and valid parameters for most methods: those of a session that waits."""
    key = await desk.key("ops", tenant=f"t_{os.urandom(4).hex()}", scopes=SCOPES)
    session = (await desk.rpc(key, "invokeAgent", request=REFUND))["session"]["session_id"]
    return key, {
        "session_id": session, "gate_id": f"{session}.g1", "request": {"intent": "none"}, "plan": {"steps": []}, "happened": True,
        "more": {"tokens": 1}, "decision": "keep", "step": "s1", "kind": "tool", "subject": "cus_7", "name": session,
    }  # fmt: skip


def _calls(method: str, valid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Calls of a method with one hostile value each; `readJournal` for each thing that it reads."""
    fields = METHODS[method].params.model_fields
    needed = {name: valid[name] for name, each in fields.items() if each.is_required() and name in valid}
    what = get_args(fields["what"].annotation) if "what" in fields else ()
    kinds: tuple[str | None, ...] = what or (None,)
    for kind in kinds:
        more: dict[str, Any] = {} if kind is None else {"what": kind, "name": valid["session_id"]}
        for name, each in fields.items():
            words = set(re.findall(r"\w+", str(each.annotation)))
            values = [*TEXTS] * ("str" in words) + [*NUMBERS] * ("int" in words)
            yield from ({**needed, **more, name: value} for value in values or OBJECTS)


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_value_of_any_parameter_is_answered_with_a_fault(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    """Each parameter of each method with values that databases dislike: a result, or a refusal that is not ours."""
    async with desk_on(kind, tmp_path, request) as desk, asyncio.timeout(300):
        key, valid = await waiting(desk)
        for method in METHODS:
            for params in _calls(method, valid):
                answer = await desk.rpc(key, method, **params)
                assert answer.get("code") not in FAULTS, (method, params, answer)


@pytest.mark.slow
@pytest.mark.usefixtures("shop")
async def test_no_parameters_that_fit_are_answered_with_a_fault() -> None:
    """What schemathesis makes of the JSON Schema of each method, with the ids of a session that exists."""
    async with open_desk(limits=UNLIMITED) as desk, asyncio.timeout(300):
        key, valid = await waiting(desk)
        requests = await asyncio.to_thread(draw_requests, _document(), 6)
        seen = set[str]()
        for number, case in enumerate(requests):
            method = case.operation.path[1:]
            params = as_object(case.body)
            if params is None:
                continue
            if number % 2:
                params |= {name: valid[name] for name in ("session_id", "gate_id") if name in params}
            answer = await desk.rpc(key, method, **params)
            assert answer.get("code") not in FAULTS, (method, params, answer)
            if answer.get("code") != "invalid_params":
                seen.add(method)
        assert seen >= {*METHODS} - {"invokeAgent"}
        assert (await desk.rpc(key, "getSession", session_id=valid["session_id"]))["session"]


def _document() -> dict[str, Any]:
    """The methods as an OpenAPI document: each is a path that takes its parameters as the body."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for name, method in METHODS.items():
        schema = method.params.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        content = {"application/json": {"schema": schema}}
        paths[f"/{name}"] = {
            "post": {
                "requestBody": {"required": True, "content": content},
                "responses": {"200": {"description": "."}},
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "methods", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
