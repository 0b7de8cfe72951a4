"""What callers send is never trusted: each mistake and each attack gets a typed error, and never a 5xx."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.desk import HOST, REFUND, REFUNDS, Desk, open_desk
from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.request import Actor
from tercet.core.state import State
from tercet.engine.session_reader import load_state
from tercet.engine.streams.audit import read_audit
from tercet.engine.streams.credentials import SCOPES, ApiKeys, NewKey
from tercet.executor.clock import SystemClock
from tercet.journal.memory import MemoryJournal
from tercet.journal.protocol import Stored
from tercet.packs.pack import Pack
from tercet.runtime import Runtime
from tercet.service.boundary import HEADERS, Limits
from tercet.service.errors import HELPFUL
from tercet.service.methods import METHODS
from tercet.service.params import ListSessions
from tercet.service.server import ServeSettings, require_authentication

MALFORMED: tuple[Any, ...] = (
    b"", b"{", b"\xff\xfe", b"null", b"1", b'"x"', b"[]", b"{}", b"[1]", b"[[]]",
    {"jsonrpc": "1.0", "id": 1, "method": "listGates"},
    {"jsonrpc": "2.0", "id": 1, "method": 7},
    {"jsonrpc": "2.0", "id": {}, "method": "listGates"},
    {"jsonrpc": "2.0", "id": True, "method": "listGates"},
    [{"jsonrpc": "2.0", "id": 1, "method": "listGates"}] * 21,
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "id": 1, "method": "listGates", "method": "listStops"}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "verifyPlan", "params": {"plan": {"steps": [], "steps": []}}}',
)  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: str(body)[:40])
async def test_what_is_not_a_call_is_answered_with_a_typed_error(body: Any) -> None:
    """A body that is not JSON-RPC gets an error with a code and a remedy."""
    async with open_desk() as desk:
        response = await desk.post(desk.running.local_key, body)
        assert response.status_code == 200
        sent: Any = response.json()
        answer = cast("dict[str, Any]", sent[0] if type(sent) is list else sent)
        assert (answer["error"]["data"]["code"], answer["id"]) == ("malformed_call", None)
        assert answer["error"]["code"] in (-32700, -32600)
        assert answer["error"]["data"]["remedy"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nothing", {}, "unknown_method"),
        ("__class__", {}, "unknown_method"),
        ("getSession", {}, "invalid_params"),
        ("getSession", [], "invalid_params"),
        ("getSession", "x", "invalid_params"),
        ("getSession", {"session_id": 7}, "invalid_params"),
        ("getSession", {"session_id": "a\0b"}, "not_found"),
        ("getSession", {"session_id": "x" * 513}, "invalid_params"),
        ("getGate", {"gate_id": "no gate"}, "not_found"),
        ("listSessions", {"limit": 0}, "invalid_params"),
        ("listSessions", {"cursor": "ses_unknown"}, "not_found"),
        ("invokeAgent", {"request": REFUND, "actor": {"id": "user_finance_lead"}}, "invalid_params"),
        ("invokeAgent", {"request": REFUND, "tenant": "other"}, "invalid_params"),
        ("invokeAgent", {"request": REFUND, "mode": "long_running"}, "too_short"),
        ("invokeAgent", {"request": REFUND, "pack": "nothing"}, "unknown_pack"),
        ("invokeAgent", {"request": REFUND, "plan": {"steps": 7}}, "plan_invalid"),
        ("approveGate", {"gate_id": "ses_0.g1", "actor": "user_finance_lead"}, "invalid_params"),
        ("emergencyStop", {"kind": "tool"}, "usage"),
        ("liftStop", {"kind": "tool", "name": "x.y"}, "not_stopped"),
    ],
)  # fmt: skip
async def test_wrong_calls_are_refused(shop: Path, method: str, params: Any, code: str) -> None:
    """Unknown methods, wrong types and identities in the body are refused by name; mutating calls are in the audit log."""
    async with open_desk() as desk:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        response = await desk.post(desk.running.local_key, body)
        error = response.json()["error"]
        assert (response.status_code, error["data"]["code"]) == (200, code)
        is_mutating = method in METHODS and METHODS[method].is_mutating
        entries = await read_audit(desk.journal, "default")
        assert [entry.outcome for _, entry in entries] == ([code] if is_mutating else [])


@pytest.mark.parametrize(
    ("params", "message", "places"),
    [
        ({"id": "x"}, "session_id is missing; there is no parameter id", ["/session_id", "/id"]),
        (["x"], "params must be an object", [""]),
        ({"session_id": 7}, "session_id: it should be text", ["/session_id"]),
    ],
)
async def test_all_that_is_wrong_with_parameters_is_named(
    params: Any, message: str, places: list[str]
) -> None:
    """In words of JSON: what is missing, what is unknown, and what must be an object."""
    async with open_desk() as desk:
        body = {"jsonrpc": "2.0", "id": 1, "method": "getSession", "params": params}
        error = (await desk.post(desk.running.local_key, body)).json()["error"]
    assert error["message"] == message
    assert [each["place"] for each in error["data"]["problems"]] == places


async def test_what_helps_after_a_refusal_is_named_as_a_method(shop: Path) -> None:
    """Remedies name commands for people at a terminal; callers of methods are told the methods, which exist."""
    async with open_desk() as desk:
        operator = await desk.key("olga", scopes=SCOPES)
        refused = await desk.rpc(operator, "liftStop", kind="tool", name="x.y")
        assert refused["methods"] == ["listStops"]
        started = await desk.rpc(operator, "invokeAgent", request=REFUND)
        refused = await desk.rpc(operator, "settleOutcome", gate_id=started["gates"][0], happened=True)
        assert (refused["code"], refused["methods"][0]) == ("wrong_answer", "getGate")
    assert {name for methods in HELPFUL.values() for name in methods} <= {*METHODS}


@pytest.mark.parametrize("protocol", ["rpc", "mcp"])
async def test_a_caller_lowers_the_safety_mode_and_never_raises_it(shop: Path, protocol: str) -> None:
    """A mode above the pack's is refused with a typed answer and starts nothing; one below it counts for the run."""
    pack = Pack.load(REFUNDS).model_copy(update={"safety_mode": ApprovalMode.NETWORK})
    async with open_desk(None, pack) as desk:
        key = await desk.key("agt_support")

        async def invoke(mode: str) -> Any:
            if protocol == "rpc":
                return await desk.rpc(key, "invokeAgent", request=REFUND, safety_mode=mode)
            called = {"name": "invoke", "arguments": {"request": REFUND, "safety_mode": mode}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
            headers = {
                "authorization": f"Bearer {key}",
                "accept": "application/json",
                "mcp-protocol-version": "2025-06-18",
            }
            answer = (await desk.client.post("/mcp", json=body, headers=headers)).json()
            return answer["result"]["structuredContent"]

        for higher in ("delegated", "destructive"):
            assert (await invoke(higher))["code"] == "safety_mode_raised"
        assert (await desk.rpc(key, "listSessions"))["sessions"] == []
        session = (await invoke("read_only"))["session"]["session_id"]
        state = await load_state(desk.journal, "default", session)
        assert state.start.safety_mode == "read_only"


async def test_a_body_that_is_too_large_is_refused() -> None:
    """The limit counts bytes as they come, whatever the header says."""
    async with open_desk(limits=Limits(body_bytes=1000)) as desk:
        response = await desk.post(desk.running.local_key, b"x" * 1001)
        assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    """A client that sends half of a body and no more is answered with 408."""
    async with open_desk(limits=Limits(body_s=0.05)) as desk:

        async def half() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        headers = {"authorization": f"Bearer {desk.running.local_key}"}
        response = await desk.client.post("/rpc", content=half(), headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (408, "timeout")


async def test_a_credential_that_calls_too_often_is_slowed_down() -> None:
    """A burst is allowed, the next call is refused, and another credential is not affected."""
    async with open_desk(limits=Limits(burst=3, calls_per_second=0.001)) as desk:
        first, second = await desk.key("ann"), await desk.key("bob")
        for _ in range(3):
            assert "gates" in await desk.rpc(first, "listGates")
        refused = await desk.post(first, {})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
        assert refused.headers["retry-after"] == "1000"
        assert "gates" in await desk.rpc(second, "listGates")


class CountingJournal(MemoryJournal):
    """A journal that notes which sessions are read."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    async def read(self, tenant: str, stream: str, *, after: int = 0, limit: int = 1000) -> list[Stored]:
        """Return events, and note whose they are."""
        self.seen |= {stream} if stream.startswith("ses_") else set()
        return await super().read(tenant, stream, after=after, limit=limit)


async def test_a_page_of_gates_reads_only_its_own_sessions(shop: Path) -> None:
    """Pages cover all gates once, oldest first, also if one that ended a page is answered; other tenants' places are not found."""
    journal = CountingJournal()
    async with open_desk(journal) as desk:
        agent, lead = (
            await desk.key("agt_support"),
            await desk.key("user_finance_lead", roles=("finance_lead",)),
        )
        started = [await desk.rpc(agent, "invokeAgent", request=REFUND) for _ in range(7)]
        expected = [each["gates"][0] for each in started]
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            journal.seen.clear()
            page = await desk.rpc(agent, "listGates", limit=2, **cursor)
            assert len(journal.seen) <= 4
            found += [each["id"] for each in page["gates"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
            if len(found) == 4:
                await desk.rpc(lead, "denyGate", gate_id=found[-1])
                await desk.until(agent, found[-1].rpartition(".")[0])
        assert found == expected
        other = await desk.key("ann", tenant="other")
        for place in (cursor["cursor"], "x", "17:ses_ffff.g1", "17:", "nothing:ses_ffff.g1"):
            assert (await desk.rpc(other, "listGates", cursor=place))["code"] == "not_found", place


async def test_one_tenant_does_not_take_every_place(shop: Path) -> None:
    """Calls that wait keep the tenant's places; another tenant is answered, and a call that has ended frees its place."""
    async with open_desk(limits=Limits(requests_at_once=4, tenant_requests=2)) as desk:
        agent, other = await desk.key("agt_support"), await desk.key("ann", tenant="other")
        started = await desk.rpc(agent, "invokeAgent", request=REFUND)
        path = f"/v1/sessions/{started['session']['session_id']}/progress"
        sent = {"authorization": f"Bearer {agent}"}
        following = [asyncio.create_task(desk.client.get(path, headers=sent)) for _ in range(2)]
        async with asyncio.timeout(300):
            while (refused := await desk.rpc(agent, "listGates")).get("code") != "overloaded":  # noqa: ASYNC110 - the streams have no event
                await asyncio.sleep(0.01)
        assert refused["message"] == "too many requests of this tenant at once"
        assert (await desk.rpc(other, "listGates"))["gates"] == []
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        assert "gates" in await desk.rpc(agent, "listGates")


async def test_a_budget_is_not_extended_beyond_what_json_can_say(shop: Path) -> None:
    """An extension that would make the session unreadable is refused, and the session is read as before."""
    async with open_desk() as desk:
        operator = await desk.key("olga", scopes=SCOPES)
        started = await desk.rpc(operator, "invokeAgent", request=REFUND)
        session = started["session"]["session_id"]
        for _ in range(3):
            refused = await desk.rpc(
                operator, "extendBudget", session_id=session, more={"tool_calls": 2**64 - 1}
            )
            assert refused["code"] == "wrong_extension"
        assert "session" in await desk.rpc(operator, "getSession", session_id=session)


async def test_an_escalation_opens_no_second_door_to_budgets_and_the_runs_of_others(shop: Path) -> None:
    """What `extendBudget` and `cancelSession` refuse without the scope `operate`, a decision at a gate refuses too."""
    async with open_desk() as desk:
        owner, stranger = await desk.key("agt_support"), await desk.key("ann")
        started = await desk.rpc(owner, "invokeAgent", request=REFUND)
        gate = started["gates"][0]
        more = {"tool_calls": 5}
        for key, decision in ((owner, "extend"), (stranger, "extend"), (stranger, "abandon")):
            refused = await desk.rpc(key, "decideEscalation", gate_id=gate, decision=decision, value=more)
            assert refused["code"] == "scope_missing", (decision, refused)
        allowed = await desk.rpc(owner, "decideEscalation", gate_id=gate, decision="abandon")
        assert allowed["code"] == "wrong_answer"  # the scope suffices; this gate asks about a call


async def test_every_call_of_a_batch_counts() -> None:
    """Twenty calls in one request are twenty calls: a batch over the limit is refused whole."""
    async with open_desk(limits=Limits(burst=25, calls_per_second=0.001)) as desk:
        key = await desk.key("ann")
        batch = [{"jsonrpc": "2.0", "id": number, "method": "listGates"} for number in range(20)]
        assert len((await desk.post(key, batch)).json()) == 20
        refused = await desk.post(key, batch)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")


async def test_expired_revoked_and_invented_keys_are_refused() -> None:
    """Each gets status 401 and the same message, and the revoked one at once."""
    async with open_desk() as desk:
        now = SystemClock().now()
        expired = await desk.key("ann", expires=now - 1)
        key, text = await desk.running.keys.create(NewKey(tenant="default", actor="bob", by="test"), now)
        assert "gates" in await desk.rpc(text, "listGates")
        await desk.running.keys.revoke(key.id, by="test", now=now)
        valid = await desk.key("cleo")
        identity, secret = valid[:16], valid[17:]  # tck_, twelve digits, _ and the secret
        guessed = (f"{identity}_", f"{identity}_{secret[::-1]}", f"{identity}_{secret[:-1]}", identity)
        wrong = (expired, text, *guessed, "tck_", "tck_0_0", "eyJ.e30.x", "", "\u00fc")
        for each in wrong:
            headers = {b"authorization": f"Bearer {each}".encode()}
            response = await desk.client.post("/rpc", content=b"{}", headers=headers)
            assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthenticated"), each
            assert response.headers["www-authenticate"] == "Bearer"


async def test_only_a_hash_of_a_key_is_kept() -> None:
    """Nothing in the journal contains the secret of a key."""
    async with open_desk() as desk:
        text = await desk.key("ann")
        secret = text.split("_", 2)[2]
        stored = await desk.journal.read("_service", "api_keys")
        assert len(stored) == 1
        assert not any(secret.encode() in each.data for each in stored)


async def test_a_missing_scope_names_a_key_that_keeps_what_the_present_one_has() -> None:
    """The command of the remedy makes a key with all scopes, roles and the tenant of the present one, and the missing one."""
    async with open_desk() as desk:
        key = await desk.key("fay", roles=("on call",), tenant="acme")
        refused = await desk.rpc(key, "emergencyStop", kind="tenant")
    where, _, line = refused["remedy"].partition(": ")
    assert where == "an administrator makes a key with it, on the machine that has the journal"
    words = "--scope read --scope run --scope answer --scope operate --tenant acme"
    assert line == f"tercet api-keys create fay --role 'on call' {words}"


async def test_a_scope_opens_only_its_own_methods() -> None:
    """A key that may only read starts nothing, answers nothing and stops nothing."""
    async with open_desk() as desk:
        reader = await desk.key("ann", scopes=("read",))
        for name, method in METHODS.items():
            if method.scope != "read":
                assert (await desk.rpc(reader, name))["code"] == "scope_missing", name


async def test_another_tenants_ids_are_not_found(shop: Path) -> None:
    """Every method answers an id of another tenant as it answers an id that does not exist."""
    async with open_desk() as desk:
        agent = await desk.key("agt_support")
        other = await desk.key("user_finance_lead", roles=("finance_lead",), tenant="other", scopes=SCOPES)
        started = await desk.rpc(agent, "invokeAgent", request=REFUND)
        session, gate = started["session"]["session_id"], started["gates"][0]
        for name, method in METHODS.items():
            fields = method.params.model_fields
            if not {"session_id", "gate_id"} & {*fields}:
                continue
            more: dict[str, Any] = {"more": {"tokens": 1}, "happened": True, "decision": "keep", "step": "s1"}
            given = {key: value for key, value in more.items() if key in fields}
            named = "session_id" if "session_id" in fields else "gate_id"
            real, unknown = (session, "ses_ffff") if named == "session_id" else (gate, "ses_ffff.g1")
            theirs = await desk.rpc(other, name, **{named: real}, **given)
            nobodys = await desk.rpc(other, name, **{named: unknown}, **given)
            assert theirs["code"] == "not_found", name
            assert json.dumps(theirs).replace(real, "ID") == json.dumps(nobodys).replace(unknown, "ID"), name
        assert (await desk.rpc(other, "listSessions"))["sessions"] == []
        assert (await desk.rpc(other, "listGates"))["gates"] == []
        assert (await desk.rpc(other, "listSessions", cursor=session))["code"] == "not_found"
        for path in (f"/v1/sessions/{session}", f"/v1/sessions/{session}/progress", f"/v1/gates/{gate}"):
            response = await desk.client.get(path, headers={"authorization": f"Bearer {other}"})
            assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found"), path
        entries = [entry for _, entry in await read_audit(desk.journal, "default")]
        assert {entry.actor for entry in entries} == {"agt_support"}


async def test_a_request_key_makes_a_call_once(shop: Path) -> None:
    """The second call with a key returns the first result, another body with it is refused, and another actor's key is theirs."""
    async with open_desk() as desk:
        agent, finance = (
            await desk.key("agt_support"),
            await desk.key("user_finance_lead", roles=("finance_lead",)),
        )
        asked = {**REFUND, "request_key": "order-881"}
        first = await desk.rpc(agent, "invokeAgent", request=asked)
        again = await desk.rpc(agent, "invokeAgent", request=asked)
        assert first["session"]["session_id"] == again["session"]["session_id"]
        gate = first["gates"][0]
        approved = await desk.rpc(finance, "approveGate", gate_id=gate, request_key="k")
        await desk.until(agent, first["session"]["session_id"])
        assert await desk.rpc(finance, "approveGate", gate_id=gate, request_key="k") == approved
        other = await desk.rpc(finance, "approveGate", gate_id=gate, request_key="k", note="x")
        assert other["code"] == "request_key_reused"
        assert (await desk.rpc(finance, "approveGate", gate_id=gate))["code"] == "session_over"
        assert (await desk.rpc(agent, "approveGate", gate_id=gate, request_key="k"))["code"] != "ok"


async def test_every_response_has_the_headers() -> None:
    """Also errors, unknown paths and `/` carry the policy and the other secure headers."""
    async with open_desk() as desk:
        for path, headers in (
            ("/", {}), ("/healthz", {}), ("/readyz", {}), ("/nothing", {}), ("/rpc", {}), ("/metrics", {}),
            ("/v1/sessions", {}), ("/openapi.json", {}), ("/", {"host": "evil.example"}), ("/", {"origin": "http://evil"}),
        ):  # fmt: skip
            response = await desk.client.get(path, headers=headers)
            for name, value in HEADERS.items():
                assert response.headers[name] == value, (path, name)
            assert "error" in response.json() or response.status_code == 200


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example"}, 421, "wrong_host"),
        ({"host": "127.0.0.1.evil.example:8700"}, 421, "wrong_host"),
        ({"host": ""}, 421, "wrong_host"),
        ({"origin": "http://evil.example"}, 403, "wrong_origin"),
        ({"origin": "null"}, 403, "wrong_origin"),
        ({"host": "localhost:8700", "origin": "http://localhost:8700"}, 200, None),
        ({"host": "[::1]:8700"}, 200, None),
        ({"host": "LocalHost"}, 200, None),
        ({"host": "localhost:80:80"}, 421, "wrong_host"),
    ],
)
async def test_only_this_machine_is_answered_on_loopback(
    headers: dict[str, str], status: int, code: str | None
) -> None:
    """A page of another origin, or a name that someone pointed at this machine, is refused."""
    async with open_desk() as desk:
        response = await desk.client.get("/", headers=headers)
        assert response.status_code == status
        assert response.json().get("error", {}).get("code") == code


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("tercet.example.com", "https://tercet.example.com", 200),
        ("tercet.example.com", "http://tercet.example.com", 403),
        ("Tercet.example.com", "http://Tercet.example.com", 403),
        ("tercet.example.com:8443", "https://tercet.example.com:8443", 200),
        ("tercet.example.com:8080", "http://tercet.example.com:8080", 403),
        ("localhost:8700", "http://localhost:8700", 200),
    ],
)
async def test_a_page_of_the_public_host_has_its_scheme(host: str, origin: str, status: int) -> None:
    """Whoever answers in clear under the name of the service is not the service; this machine itself may."""
    async with open_desk(
        allow_hosts=("tercet.example.com",), public_url="https://tercet.example.com/desk"
    ) as desk:
        response = await desk.client.get("/", headers={"host": host, "origin": origin})
    assert response.status_code == status


@pytest.mark.parametrize("name", ["host", "origin", "authorization", "tercet-act-as"])
async def test_a_header_that_says_who_asks_is_sent_once(name: str) -> None:
    """A proxy might have looked at the other one; nothing is done, and the connection ends."""
    values = {"host": "127.0.0.1:8700", "origin": HOST}
    async with open_desk(is_dev=True) as desk:
        values["authorization"] = f"Bearer {desk.running.local_key}"
        sent = [*values.items(), (name, values.get(name, "olga")), (name, "another")]
        request = httpx2.Request("POST", f"{HOST}/rpc", headers=sent, json={})
        response = await desk.client.send(request)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "malformed_request")
        assert response.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("host", "called"),
    [
        ("::1", "[::1]:8700"),
        ("127.0.0.2", "127.0.0.2:8700"),
        ("2001:db8::1", "[2001:DB8::1]"),
        ("desk", "Desk:80"),
    ],
)
async def test_a_service_answers_to_the_address_that_it_listens_on(host: str, called: str) -> None:
    """Also an IPv6 address, which the header writes in brackets, and a name in capitals; others are refused."""
    journal = MemoryJournal()
    await ApiKeys(journal).create(NewKey(tenant="default", actor="ann", by="test"), SystemClock().now())
    async with open_desk(journal, host=host) as desk:
        for name, status in ((called, 200), ("[2001:db8::2]", 421)):
            response = await desk.client.get("/", headers={"host": name})
            assert response.status_code == status
            health = [await desk.client.get(path, headers={"host": name}) for path in ("/healthz", "/readyz")]
            assert [each.status_code for each in health] == [200, 200]


def test_an_open_address_needs_credentials() -> None:
    """Without a key only loopback is possible, and development mode never leaves it."""
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        require_authentication(ServeSettings(host=host, is_dev=True), has_credentials=False)
    require_authentication(ServeSettings(host="0.0.0.0"), has_credentials=True)  # noqa: S104 - nothing listens
    for settings in (ServeSettings(host="0.0.0.0"), ServeSettings(host="10.0.0.1")):  # noqa: S104 - nothing listens
        with pytest.raises(UsageError, match="no API key"):
            require_authentication(settings, has_credentials=False)
    with pytest.raises(UsageError, match="only for this machine"):
        require_authentication(ServeSettings(host="10.0.0.1", is_dev=True), has_credentials=True)


async def test_in_development_one_person_acts_as_several(shop: Path) -> None:
    """The printed key acts as the pack's people, recorded as simulated; other keys may not."""
    async with open_desk(is_dev=True) as desk:
        me, other = desk.running.local_key, await desk.key("ann")
        started = await desk.rpc(me, "invokeAgent", _as="agt_support", request=REFUND)
        assert started["dev"] is True
        gate = started["gates"][0]
        assert (await desk.rpc(me, "approveGate", _as="agt_support", gate_id=gate))["code"] == "own_gate"
        assert (await desk.rpc(me, "approveGate", _as="nobody", gate_id=gate))["code"] == "unknown_actor"
        for method, more in (
            ("listGates", {}),
            ("eraseSubject", {"subject": "x"}),
            ("emergencyStop", {"kind": "tenant"}),
        ):
            assert (await desk.rpc(me, method, _as="nobody", **more))["code"] == "unknown_actor"
        tool = {"kind": "tool", "name": "no.such"}
        for method in ("emergencyStop", "liftStop"):
            stop = (await desk.rpc(me, method, _as="user_finance_lead", **tool))["stop"]
            assert (stop["by"], stop["simulated_by"]) == ("user_finance_lead", "olga")
        refused = await desk.rpc(other, "approveGate", _as="user_finance_lead", gate_id=gate)
        assert refused["code"] == "simulation_refused"
        await desk.rpc(me, "approveGate", _as="user_finance_lead", gate_id=gate)
        done = await desk.until(me, started["session"]["session_id"])
        assert done["session"]["status"] == "completed"
        record = (await desk.rpc(me, "getRecord", session_id=started["session"]["session_id"]))["record"]
        assert record["approvals"][0]["auth"] == "simulated"
        entries = [each for _, each in await read_audit(desk.journal, "default")]
        (entry,) = [each for each in entries if (each.method, each.outcome) == ("approveGate", "ok")]
        assert (entry.actor, entry.simulated_by) == ("user_finance_lead", "olga")
    async with open_desk() as desk:
        refused = await desk.rpc(desk.running.local_key, "listGates", _as="agt_support")
        assert refused["code"] == "simulation_refused"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
) | st.integers(60, 1100).map("nested {}".format)


def _encode(call: Any) -> bytes:
    """Return a call as JSON, with lists where it says `nested N`: Python writes none that nest so deeply."""

    def lists(found: re.Match[bytes]) -> bytes:
        return b"[" * int(found[1]) + b"]" * int(found[1])

    return re.sub(rb'"nested (\d+)"', lists, json.dumps(call).encode())


@pytest.mark.slow
@given(
    calls=st.lists(
        st.tuples(
            st.sampled_from([*METHODS, "x"]),
            st.dictionaries(
                st.sampled_from(
                    sorted({name for each in METHODS.values() for name in each.params.model_fields})
                ),
                JSON,
            )
            | JSON,
        ),
        max_size=5,
    )
)
def test_no_call_is_answered_with_a_bug(calls: list[tuple[str, Any]]) -> None:
    """Whatever the parameters are, the answer is a result or a typed error that is not ours."""

    async def send() -> None:
        async with open_desk() as desk:
            for method, params in calls:
                sent = _encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                response = await desk.post(desk.running.local_key, sent)
                answer = response.json()
                assert response.status_code == 200
                code = answer.get("error", {}).get("data", {}).get("code")
                assert code not in ("internal", "timeout"), (method, params)

    asyncio.run(send())


async def test_reading_needs_no_json_rpc(shop: Path) -> None:
    """REST returns what the methods return, page by page, and the OpenAPI document names its paths."""
    async with open_desk() as desk:
        headers = {"authorization": f"Bearer {await desk.key('agt_support')}"}
        started = [await _invoke(desk, headers) for _ in range(3)]
        first = (await desk.client.get("/v1/sessions?limit=2", headers=headers)).json()
        rest = (await desk.client.get(f"/v1/sessions?cursor={first['next_cursor']}", headers=headers)).json()
        found = [each["session_id"] for each in (*first["sessions"], *rest["sessions"])]
        assert (sorted(found), rest["next_cursor"]) == (sorted(started), None)
        gates = (await desk.client.get("/v1/gates?limit=2", headers=headers)).json()
        more = (await desk.client.get(f"/v1/gates?cursor={gates['next_cursor']}", headers=headers)).json()
        assert len({each["id"] for each in (*gates["gates"], *more["gates"])}) == 3
        assert (await desk.client.get(f"/v1/sessions/{started[0]}", headers=headers)).json()["gates"]
        document = (await desk.client.get("/openapi.json")).json()
        assert {"/v1/sessions", "/v1/gates/{gate_id}", "/healthz"} <= {*document["paths"]}
        operation = document["paths"]["/v1/sessions"]["get"]
        assert operation["security"] == [{"HTTPBearer": []}]
        assert {each["name"] for each in operation["parameters"]} == {*ListSessions.model_fields}
        for owner, number in (("agt_support", 3), ("nobody", 0)):
            of_owner = (await desk.client.get(f"/v1/sessions?owner={owner}", headers=headers)).json()
            assert len(of_owner["sessions"]) == number
        wrong = await desk.client.get("/v1/sessions?limit=x&onwer=nobody", headers=headers)
        error = wrong.json()["error"]
        assert (wrong.status_code, error["code"]) == (422, "invalid_params")
        assert [each["place"] for each in error["problems"]] == ["/limit", "/onwer"]


async def _invoke(desk: Desk, headers: dict[str, str]) -> str:
    body = {"jsonrpc": "2.0", "id": 1, "method": "invokeAgent", "params": {"request": REFUND}}
    answer = (await desk.client.post("/rpc", json=body, headers=headers)).json()
    return answer["result"]["session"]["session_id"]


async def test_a_session_that_moves_while_it_is_read_is_shown_as_of_one_moment(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status and gates come from one state: a caller that is shown a waiting session is also shown its gate."""
    async with open_desk() as desk:
        agent = await desk.key("agt_support")
        session = (await desk.rpc(agent, "invokeAgent", request=REFUND))["session"]["session_id"]
        assert (await desk.until(agent, session, "awaiting_gate"))["gates"]
        read, moved = Runtime.state, list[str]()

        async def read_and_move(runtime: Runtime, session_id: str) -> State:
            state = await read(runtime, session_id)
            if not moved:
                moved.append(session_id)
                await runtime.cancel(session_id, actor=Actor(id="agt_support"))
            return state

        monkeypatch.setattr(Runtime, "state", read_and_move)
        found = await desk.rpc(agent, "getSession", session_id=session)
        assert moved == [session]
        assert (found["session"]["status"], len(found["gates"])) == ("awaiting_gate", 1)


async def test_answers_have_one_shape_whatever_is_asked() -> None:
    """HEAD answers where GET does, 405 names the methods, and content that is not JSON gets the usual error."""
    async with open_desk() as desk:
        for path in ("/", "/healthz", "/readyz"):
            response = await desk.client.head(path)
            assert (response.status_code, response.content) == (200, b"")
        for path, allowed in (("/healthz", "GET, HEAD"), ("/mcp", "POST"), ("/v1/gates", "GET")):
            response = await desk.client.delete(path)
            error = response.json()["error"]
            assert (response.status_code, response.headers["allow"]) == (405, allowed)
            assert (error["message"], error["remedy"]) == (
                "DELETE is not possible here",
                f"this path takes {allowed}",
            )
        headers = {"authorization": f"Bearer {desk.running.local_key}", "content-type": "text/plain"}
        response = await desk.client.post("/mcp", content=b"{}", headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (415, "wrong_content")
        sent = b'{"jsonrpc": "2.0", "id": %d, "method": "getCaller"}'
        for number, is_taken in ((2**53, True), (2**70, False)):
            answer = (await desk.post(desk.running.local_key, sent % number)).json()
            assert ("result" in answer, answer["id"]) == (is_taken, number if is_taken else None)
