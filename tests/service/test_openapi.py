"""What the OpenAPI document says is what the service does, tried by schemathesis and by random JSON-RPC bodies."""

from __future__ import annotations

import asyncio
import json
from itertools import product

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from service.desk import HOST, REFUND, Desk, open_desk
from service.drawn import draw_requests
from tercet.contracts.shape import as_list
from tercet.service.boundary import HEADERS, Limits

pytestmark = pytest.mark.slow


def check(response: httpx2.Response, sent: object) -> None:
    """Assert what holds for every response: no fault of ours, one shape of errors, and the headers."""
    assert response.status_code < 500, (sent, response.text)
    assert set(HEADERS) <= set(response.headers), sent
    if response.status_code >= 400:
        error = response.json()["error"]
        assert {"code", "message", "remedy"} <= set(error), (sent, error)


async def test_no_request_of_the_document_is_answered_with_a_fault() -> None:
    """Every path with every kind of parameter: a documented status, never a fault, always the headers."""
    async with open_desk(limits=Limits(calls_per_second=1e6, burst=10**6)) as desk, asyncio.timeout(120):
        started = await desk.rpc(desk.running.local_key, "invokeAgent", request=REFUND)
        document = (await desk.client.get("/openapi.json")).json()
        requests = await asyncio.to_thread(draw_requests, document)
        assert len(requests) > 100
        seen: set[str] = set()
        for case in requests:
            case.operation.base_url = HOST
            sent = case.as_transport_kwargs(base_url=HOST)
            drawn = {
                name: value for name, value in sent["headers"].items() if name.lower() != "authorization"
            }
            response = await desk.client.request(
                sent["method"],
                sent["url"],
                params=sent.get("params"),
                headers={**drawn, "authorization": f"Bearer {desk.running.local_key}"},
                timeout=20,
            )
            check(response, sent)
            responses = document["paths"][case.operation.path]["get"]["responses"]
            assert str(response.status_code) in responses, sent
            content = response.headers["content-type"].partition(";")[0]
            assert content in responses[str(response.status_code)]["content"], sent
            is_valid = case.meta.generation.mode is GenerationMode.POSITIVE
            assert not (is_valid and response.status_code == 422), (sent, response.text)
            seen.add(case.operation.path)
        assert seen == set(document["paths"])
        assert started["session"]["status"] == "awaiting_gate"


async def test_refusals_have_the_content_that_the_document_names() -> None:
    """Without a credential, every path that needs one returns a documented error."""
    async with open_desk() as desk:
        document = (await desk.client.get("/openapi.json")).json()
        refused: set[str] = set()
        for path, operations in document["paths"].items():
            response = await desk.client.get(path)
            content = operations["get"]["responses"][str(response.status_code)]["content"]
            assert {*content} == {response.headers["content-type"].partition(";")[0]}, path
            refused |= {path} if response.status_code == 401 else set()
            assert ("security" in operations["get"]) == (response.status_code == 401), path
        assert {*document["paths"]} - refused == {"/healthz", "/readyz"}


BODIES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "x"]) | st.text(max_size=5), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    bodies=st.lists(
        st.binary(max_size=200) | BODIES.map(lambda body: json.dumps(body).encode()), min_size=5, max_size=20
    )
)
def test_no_body_is_answered_with_a_fault(bodies: list[bytes]) -> None:
    """Whatever is sent to /rpc, the answer is JSON-RPC or an error in the one shape."""

    async def send() -> None:
        async with open_desk() as desk:
            for body in bodies:
                await _check_rpc(desk, body)

    asyncio.run(send())


async def _check_rpc(desk: Desk, body: bytes) -> None:
    response = await desk.post(desk.running.local_key, body)
    if response.status_code == 204:
        return
    assert response.status_code == 200, body
    assert set(HEADERS) <= set(response.headers)
    answers = response.json()
    for answer in as_list(answers) or [answers]:
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)


PATHS = ("/", "/nothing", "/rpc/x", "/v1/sessions/%00", "/v1/sessions/" + "x" * 3_000, "/%ff")
HTTP_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")


async def test_every_path_and_method_has_the_headers() -> None:
    """Also paths and methods that do not exist."""
    async with open_desk() as desk:
        for path, method in product(PATHS, HTTP_METHODS):
            response = await desk.client.request(method, path)
            assert response.status_code < 500, (method, path)
            assert set(HEADERS) <= set(response.headers), (method, path)
