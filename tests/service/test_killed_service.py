"""The refund story over HTTP while the service is killed at one crash point after the other: nothing is lost, nothing done
twice.

Every third point is tried, and all of them in a campaign: `TERCET_CAMPAIGN=1 pytest tests/service/test_killed_service.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.desk import ENDED, REFUND, REFUNDS, refunds
from service.issuer import AUDIENCE, Issuer, serving
from tercet.engine.session_reader import load_state
from tercet.engine.streams.credentials import SCOPES, ApiKeys, NewKey
from tercet.engine.streams.stops import STREAM
from tercet.executor.clock import SystemClock
from tercet.journal.opening import open_journal

pytestmark = pytest.mark.slow
PARTS = 6
ANSWERED = ("already_approved", "gate_not_open", "session_over")
"""What an approval is told that was given, though its caller never heard so."""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer that answers."""
    with serving(Issuer()) as running:
        yield running


class Services:
    """Services one after the other, of which the first dies at a crash point."""

    def __init__(self, forking: asyncio.subprocess.Process, **words: Any) -> None:
        self._forking = forking
        self._words = words
        self._pid = 0
        self._client = httpx2.AsyncClient(timeout=60)
        self.deaths = 0

    async def _read(self) -> dict[str, Any]:
        assert self._forking.stdout is not None
        return json.loads(await self._forking.stdout.readline())

    async def start(self, last: int) -> None:
        """Start a service that dies at a crash point, also if it does so before it listens."""
        assert self._forking.stdin is not None
        self._forking.stdin.write(json.dumps({**self._words, "last": last}).encode() + b"\n")
        told = await self._read()
        if "ended" in told:
            self.deaths += 1
            assert told["ended"] == -signal.SIGKILL
            await self.start(0)
            return
        self._pid, port = told["pid"], told["port"]
        self._client.base_url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        """Stop the last one as an operator would."""
        os.kill(self._pid, signal.SIGTERM)
        ended = (await self._read())["ended"]
        assert ended in (0, -signal.SIGKILL)  # it may die at its crash point after the last answer, too
        self.deaths += ended != 0
        await self._client.aclose()

    async def rpc(self, credential: str, method: str, **params: Any) -> Any:
        """Return the result of a call or the data of its error; it is sent again to the next service if this one dies."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        while True:
            try:
                headers = {"authorization": f"Bearer {credential}"}
                answer = (await self._client.post("/rpc", json=body, headers=headers)).json()
            except httpx2.TransportError:
                assert (await self._read())["ended"] == -signal.SIGKILL
                self.deaths += 1
                await self.start(0)
                continue
            return answer["result"] if "result" in answer else answer["error"]["data"]

    async def until(self, credential: str, session: str, *statuses: str) -> dict[str, Any]:
        """Return a session once it has one of these statuses."""
        while True:
            found = await self.rpc(credential, "getSession", session_id=session)
            if found["session"]["status"] in statuses:
                return found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def forking() -> AsyncGenerator[asyncio.subprocess.Process]:
    """What forks services."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "service.killed", cwd=Path(__file__).parents[1],
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def key_of(url: str, actor: str, *roles: str) -> str:
    """Make an API key."""
    async with open_journal(url) as journal:
        wanted = NewKey(tenant="default", actor=actor, roles=roles, by="test")
        return (await ApiKeys(journal).create(wanted, SystemClock().now()))[1]


async def tell(services: Services, agent: str, approvers: dict[str, str]) -> None:
    """The story: the agent starts a refund and may not approve it, each approver approves it, and it is paid."""
    asked = {"request": {**REFUND, "request_key": "order-881"}}
    session = (await services.rpc(agent, "invokeAgent", **asked))["session"]["session_id"]
    waiting = await services.until(agent, session, "awaiting_gate", *ENDED)
    (gate,) = waiting["gates"]
    assert (await services.rpc(agent, "approveGate", gate_id=gate))["code"] == "own_gate"
    for name, credential in approvers.items():
        answer = await services.rpc(credential, "approveGate", gate_id=gate, request_key=f"approve-{name}")
        assert "session" in answer or answer["code"] in ANSWERED, answer
    done = await services.until(agent, session, *ENDED)
    assert done["session"]["status"] == "completed"
    record = (await services.rpc(agent, "getRecord", session_id=session))["record"]
    assert {each["approver"] for each in record["approvals"]} == {*approvers}
    assert (await services.rpc(agent, "replayRun", session_id=session))["replay"]["outcome"] == "replay_equal"
    assert len((await services.rpc(agent, "listSessions"))["sessions"]) == 1


async def kill_at_every_point(
    folders: Path, points: range, approvers: dict[str, str], **settings: Any
) -> int:
    """Tell the story again and again, each time with a service that dies one point later; return where none died.

    `approvers` names the role that each gets with an API key; with an issuer, tokens are given instead of keys.
    """
    issuer: Issuer | None = settings.pop("issuer", None)
    oidc = None if issuer is None else {"issuer": issuer.url, "audience": AUDIENCE}
    async with forking() as process:
        for last in points:
            folder = folders / str(last)
            folder.mkdir()

            async def credential(actor: str, *roles: str, place: Path = folder) -> str:
                if issuer is not None:
                    return issuer.token(now_s=SystemClock().now() // 1000, sub=actor, roles=list(roles))
                return await key_of(f"sqlite:///{place / 'runs.db'}", actor, *roles)

            services = Services(
                process, pack=str(REFUNDS), folder=str(folder), oidc=oidc, quorum=len(approvers)
            )
            agent = await credential("agt_support")
            answering = {name: await credential(name, role) for name, role in approvers.items()}
            await services.start(last)
            async with asyncio.timeout(300):
                await tell(services, agent, answering)
            await services.stop()
            assert len(refunds(folder)) == 1
            assert services.deaths <= 1
            if not services.deaths:
                return last
    raise AssertionError("the service died at every point that was tried")


STOPPED = {"kind": "tool", "name": "adp_payments.issue_refund"}


async def steer(services: Services, operator: str) -> None:
    """What operators do: each call has a request key, and returns also if the service died in the middle of it."""
    asked = {"request": {**REFUND, "request_key": "order-881"}, "mode": "batch"}
    session = (await services.rpc(operator, "invokeAgent", **asked))["session"]["session_id"]
    await services.until(operator, session, "awaiting_gate", *ENDED)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("extendBudget", {"session_id": session, "more": {"tool_calls": 5}}),
        ("emergencyStop", STOPPED),
        ("liftStop", STOPPED),
        ("cancelSession", {"session_id": session}),
    ]
    for number, (method, params) in enumerate(calls):
        answer = await services.rpc(operator, method, **params, request_key=f"k{number}")
        assert answer.keys() & {"session", "stop"}, (method, answer)
    entries = (await services.rpc(operator, "listAudit"))["entries"]
    assert {entry["method"] for entry in entries} >= {method for method, _ in calls}


async def test_what_operators_do_survives_a_crash_and_takes_effect_once(tmp_path: Path) -> None:
    """Killed at every sixth point of an extension, an emergency stop, its end and a cancellation."""
    async with forking() as process:
        for last in range(1, 1_000, 1 if os.environ.get("TERCET_CAMPAIGN") else 6):
            folder = tmp_path / str(last)
            folder.mkdir()
            url = f"sqlite:///{folder / 'runs.db'}"
            services = Services(process, pack=str(REFUNDS), folder=str(folder), oidc=None, quorum=1)
            async with open_journal(url) as journal:
                wanted = NewKey(tenant="default", actor="ops", by="test", scopes=SCOPES)
                operator = (await ApiKeys(journal).create(wanted, SystemClock().now()))[1]
            await services.start(last)
            async with asyncio.timeout(300):
                await steer(services, operator)
            await services.stop()
            async with open_journal(url) as journal:
                (row,) = await journal.sessions("default")
                state = await load_state(journal, "default", row.session_id)
                messages = await journal.head("default", f"inbox:{row.session_id}")
                stops = await journal.head("default", STREAM)
            assert state.extended == {"tool_calls": 5}
            assert (messages.seq, stops.seq) == (2, 2)
            assert services.deaths <= 1
            if not services.deaths:
                assert last > 20
                return
    raise AssertionError("the service died at every point that was tried")


@pytest.mark.parametrize("part", range(PARTS if os.environ.get("TERCET_CAMPAIGN") else 2))
async def test_a_killed_service_loses_nothing_and_pays_once(tmp_path: Path, part: int) -> None:
    """With three credentials: at crash points from the first call to the end, until a story passes all of them."""
    points = range(1 + part, 1_000, PARTS)
    assert await kill_at_every_point(tmp_path, points, {"user_finance_lead": "finance_lead"}) > 20


async def test_two_approvals_by_tokens_survive_a_crash(tmp_path: Path, issuer: Issuer) -> None:
    """With two approvers by OpenID Connect, at every fifth crash point: each counts once, and the record names both."""
    approvers = {"rosa": "finance_lead", "carl": "finance_lead"}
    assert await kill_at_every_point(tmp_path, range(1, 1_000, 5), approvers, issuer=issuer) > 20
