"""The official A2A client drives a refund to its gate, through it and to its end."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers import new_data_message
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)
from google.protobuf.json_format import MessageToDict

from service.desk import HOST, REFUND, Desk, open_desk, refunds
from service.streams import Stream
from tercet.executor.clock import SystemClock
from tercet.service.a2a import EXACT, whole_numbers


@asynccontextmanager
async def connect(desk: Desk, key: str, *, streaming: bool = False) -> AsyncGenerator[Client]:
    """An A2A client of the service with this key, made from its public card."""
    transport = httpx.ASGITransport(app=cast("Any", desk.running.app))
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers) as http:
        yield await create_client(HOST, ClientConfig(httpx_client=http, streaming=streaming))


async def send(client: Client, data: Any, task_id: str | None = None) -> list[Any]:
    """Send a data part; return what comes back."""
    message = new_data_message(data, task_id=task_id, role=Role.ROLE_USER)
    return [each async for each in client.send_message(SendMessageRequest(message=message))]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database of its own."""
    monkeypatch.setenv("TERCET_REFUNDS_DB", str(tmp_path / "refunds.db"))
    return tmp_path


async def test_an_a2a_client_drives_a_refund(shop: Path) -> None:
    """The task needs input at the gate, its own agent cannot give it, finance can, and the outputs come back."""
    async with open_desk() as desk:
        agent_key = await desk.key("agt_support")
        finance_key = await desk.key("user_finance_lead", roles=("finance_lead",))
        async with connect(desk, agent_key) as agent, connect(desk, finance_key) as finance:
            (answer,) = await send(agent, REFUND)
            task: Task = answer.task
            assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            (gate,) = MessageToDict(task.metadata)["gates"]
            approval = {"answer": "approve", "gate_id": gate}
            with pytest.raises(A2AError, match="cannot approve"):
                await send(agent, dict(approval), task.id)
            assert refunds(shop) == []
            await send(finance, dict(approval), task.id)
            await desk.until(agent_key, task.id)
            done = await agent.get_task(GetTaskRequest(id=task.id))
            assert done.status.state == TaskState.TASK_STATE_COMPLETED
            assert done.artifacts[0].name == "outputs"
            listed = await agent.list_tasks(ListTasksRequest())
            assert [(each.id, each.context_id) for each in listed.tasks] == [(task.id, task.context_id)]
            other = await agent.list_tasks(ListTasksRequest(context_id="another"))
            assert list(other.tasks) == []
    assert len(refunds(shop)) == 1


async def test_the_card_names_the_public_address() -> None:
    async with open_desk(public_url="https://tercet.example.com") as desk:
        card = (await desk.client.get("/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"] == "https://tercet.example.com/a2a"


async def test_a_stream_ends_where_input_is_needed(shop: Path) -> None:
    """A streaming client gets the task, and then the state in which it waits."""
    async with open_desk() as desk, connect(desk, await desk.key("agt"), streaming=True) as agent:
        events = await send(agent, REFUND)
        last = events[-1]
        status = last.status_update.status if last.HasField("status_update") else last.task.status
        assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_answer_is_followed_to_the_outputs(shop: Path, streaming: bool) -> None:
    """A message that answers a gate brings the task with its outputs, and counts once if it is sent again."""
    async with open_desk() as desk:
        started = await desk.rpc(await desk.key("agt_support"), "invokeAgent", request=REFUND)
        session, (gate,) = started["session"]["session_id"], started["gates"]
        lead = await desk.key("user_finance_lead", roles=("finance_lead",))
        data = {"answer": "approve", "gate_id": gate}
        message = new_data_message(data, task_id=session, role=Role.ROLE_USER)
        async with connect(desk, lead, streaming=streaming) as finance:
            for _ in range(2):
                found = [e async for e in finance.send_message(SendMessageRequest(message=message))]
                tasks = [each.task for each in found if each.HasField("task")]
                parts = [each.artifact_update.artifact for each in found if each.HasField("artifact_update")]
                assert [part.name for part in (*parts, *tasks[-1].artifacts)] == ["outputs"]
    assert len(refunds(shop)) == 1


async def test_a_stream_ends_with_its_key(shop: Path) -> None:
    """A task's stream whose key was revoked meanwhile does not say how the task ended."""
    async with open_desk() as desk, asyncio.timeout(300):
        agent, reader = desk.running.local_key, await desk.key("ann", scopes=("read",))
        await desk.rpc(agent, "emergencyStop", kind="tenant")
        stopped = await desk.rpc(agent, "invokeAgent", request=REFUND)
        session = stopped["session"]["session_id"]
        assert stopped["session"]["status"] == "paused"
        asked = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": session}}
        sent: dict[str, Any] = {"body": json.dumps(asked).encode(), "a2a-version": "1.0"}
        streams = [Stream(desk, key, "/a2a", **sent) for key in (agent, reader)]
        for each in streams:
            await each.has_begun.wait()
        await desk.running.keys.revoke(reader.split("_")[1], by="test", now=SystemClock().now())
        await desk.rpc(agent, "cancelSession", session_id=session)
        mine, revoked = [re.findall(r"TASK_STATE_\w+", "".join(await each.end())) for each in streams]
        assert mine == ["TASK_STATE_WORKING", "TASK_STATE_CANCELED"]
        assert revoked == ["TASK_STATE_WORKING"]


async def test_a_message_that_is_sent_again_starts_one_run(shop: Path) -> None:
    """The id of a message is its request key."""
    async with open_desk() as desk, connect(desk, await desk.key("agt")) as agent:
        request = SendMessageRequest(message=new_data_message(REFUND, role=Role.ROLE_USER))
        tasks = [each.task.id for _ in range(2) async for each in agent.send_message(request)]
        assert len(tasks) == 2
        assert len(set(tasks)) == 1


async def test_callers_do_not_say_where_notifications_go(shop: Path) -> None:
    """A message that names an address for push notifications starts nothing."""
    async with open_desk() as desk:
        key = await desk.key("agt")
        async with connect(desk, key) as agent:
            target = TaskPushNotificationConfig(url="https://hooks.example.com")
            request = SendMessageRequest(
                message=new_data_message(REFUND, role=Role.ROLE_USER),
                configuration=SendMessageConfiguration(task_push_notification_config=target),
            )
            with pytest.raises(PushNotificationNotSupportedError):
                [each async for each in agent.send_message(request)]
        assert (await desk.rpc(key, "listSessions"))["sessions"] == []


async def test_cancelling_ends_the_task(shop: Path) -> None:
    """A task that waits can be cancelled by its owner."""
    async with open_desk() as desk:
        key = await desk.key("agt")
        async with connect(desk, key) as agent:
            (answer,) = await send(agent, REFUND)
            await agent.cancel_task(CancelTaskRequest(id=answer.task.id))
            await desk.until(key, answer.task.id, "cancelled")
            task = await agent.get_task(GetTaskRequest(id=answer.task.id))
            assert task.status.state == TaskState.TASK_STATE_CANCELED


async def test_other_tenants_and_strangers_see_nothing(shop: Path) -> None:
    """Without a credential only the public card is there, and it names no pack; another tenant's task is not found."""
    async with open_desk() as desk:
        key = await desk.key("agt")
        other_key = await desk.key("agt", tenant="other")
        async with connect(desk, key) as agent, connect(desk, other_key) as other:
            (answer,) = await send(agent, REFUND)
            with pytest.raises(TaskNotFoundError):
                await other.get_task(GetTaskRequest(id=answer.task.id))
            card = await agent.get_extended_agent_card(GetExtendedAgentCardRequest())
            assert "support.refund" in {skill.name for skill in card.skills}
        public = await desk.client.get("/.well-known/agent-card.json")
        assert "refund" not in public.text
        assert (await desk.client.post("/a2a", json={})).status_code == 401


async def test_messages_that_do_not_fit_are_refused(shop: Path) -> None:
    """Text without data, two parts, and answers to a gate of another task get a typed error."""
    async with open_desk() as desk, connect(desk, await desk.key("agt")) as agent:
        (answer,) = await send(agent, REFUND)
        for data, task in (
            ("refund please", None),
            ([REFUND], None),
            ({"intent": "unheard.of"}, None),
            ({"answer": "approve", "gate_id": "ses_other.g1"}, answer.task.id),
            ({"answer": "maybe", "gate_id": f"{answer.task.id}.g1"}, answer.task.id),
        ):
            with pytest.raises(InvalidParamsError):
                await send(agent, data, task)


@pytest.mark.parametrize("body", ['{"id": "\\ud800"}', "[" * 5_000, '{"id": NaN}', "\xff", ""])
async def test_a_body_that_is_not_json_is_a_parse_error(shop: Path, body: str) -> None:
    """Lone surrogates, deep nesting and NaN get a JSON-RPC error, and never a 5xx."""
    async with open_desk() as desk:
        headers = {"authorization": f"Bearer {await desk.key('agt')}", "a2a-version": "1.0"}
        response = await desk.client.post("/a2a", content=body.encode("latin-1"), headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (200, -32700)


def test_whole_numbers_stay_integers() -> None:
    """A2A carries every number as floating point; amounts come out exact or are refused."""
    assert whole_numbers({"cents": 9900.0, "list": [1.0, 1.5]}) == {"cents": 9900, "list": [1, 1.5]}
    assert isinstance(whole_numbers(9900.0), int)
    with pytest.raises(InvalidParamsError, match="not exact"):
        whole_numbers([float(EXACT * 4)])
