"""The service as an A2A agent: tasks are sessions, and a task that waits at a gate needs input.

The agent card is at /.well-known/agent-card.json, and /a2a takes the JSON-RPC binding of A2A 1.0. The journal is the
only store: a task is read from it each time, so it outlives this process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, NoReturn

from a2a.helpers import get_data_parts, new_data_artifact, new_text_message
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTasksRequest,
    ListTasksResponse,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    StringList,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH, PROTOCOL_VERSION_CURRENT
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, request_response

from tercet import __version__
from tercet.contracts.shape import as_list, as_object
from tercet.service.app import is_still_valid, until_closing
from tercet.service.boundary import Accept, Authenticated, refuse_unread
from tercet.service.calls import call, log_refused
from tercet.service.errors import ServiceError, shape
from tercet.service.identity import Caller
from tercet.service.methods import Service
from tercet.service.params import WAIT_MS
from tercet.service.worker import wait_for_rest

STATES = {
    "in_progress": TaskState.TASK_STATE_WORKING,
    "awaiting_gate": TaskState.TASK_STATE_INPUT_REQUIRED,
    "paused": TaskState.TASK_STATE_WORKING,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "expired": TaskState.TASK_STATE_FAILED,
    "rejected": TaskState.TASK_STATE_REJECTED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
"""The state of a task for the status of its session."""
ANSWERS = {"approve": "approveGate", "deny": "denyGate"}
EXACT = 2**53
"""A2A carries numbers as floating point, which holds whole numbers exactly up to here."""


def a2a_routes(service: Service, accept: Accept, public_url: str = "") -> list[BaseRoute]:
    """Return the routes of the agent; everything but its public card needs a credential. The card names the public URL, or
    without one the address at which it was asked for."""
    dispatcher = JsonRpcDispatcher(A2aHandler(service), context_builder=_Context(public_url))

    async def answer(request: Request) -> Response:
        if (refusal := refuse_unread(await request.body())) is not None:
            return JSONResponse(refusal)
        return await dispatcher.handle_requests(request)

    endpoint = Authenticated(request_response(answer), accept)

    async def card(request: Request) -> JSONResponse:
        return JSONResponse(agent_card_to_dict(public_card(public_url or str(request.base_url))))

    return [Route(AGENT_CARD_WELL_KNOWN_PATH, card), Route("/a2a", endpoint, methods=["POST"])]


class _Context(ServerCallContextBuilder):
    """Hands the authenticated caller to the handler."""

    def __init__(self, public_url: str) -> None:
        self._public_url = public_url

    def build(self, request: Request) -> ServerCallContext:
        """Return the context of a request."""
        return ServerCallContext(
            state={
                "caller": request.state.caller,
                "request": request,
                "url": self._public_url or str(request.base_url),
                "headers": dict(request.headers),
            }
        )


def public_card(url: str) -> AgentCard:
    """Return what callers may know before they authenticate: how to call the agent, and not what it can do."""
    bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
    return AgentCard(
        name="Tercet",
        description="Runs plans that a critic has reviewed. A task that waits for a person's approval needs input.",
        version=__version__,
        supported_interfaces=[
            AgentInterface(
                url=f"{url.rstrip('/')}/a2a",
                protocol_binding="JSONRPC",
                protocol_version=PROTOCOL_VERSION_CURRENT,
            )
        ],
        capabilities=AgentCapabilities(streaming=True, extended_agent_card=True),
        security_schemes={"bearer": bearer},
        security_requirements=[SecurityRequirement(schemes={"bearer": StringList()})],
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
        skills=[
            AgentSkill(
                id="run",
                name="Run a request",
                description='Send a data part {"intent": …, "input": {…}}.',
                tags=["run"],
            )
        ],
    )


class A2aHandler(RequestHandler):
    """Answers A2A requests with the methods of the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        """Start a run, or answer the gate of a task; return the task once it is over or needs input."""
        return await self._send(params, context, mode="inline")

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Start a run, or answer a gate, and yield the task and each of its states until it is over or needs input."""
        async for event in self._follow(await self._send(params, context, mode="stream"), context):
            yield event

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        """Yield a task and each of its states until it is over or needs input."""
        async for event in self._follow(await self._task(params.id, context), context):
            yield event

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """Return a task."""
        return await self._task(params.id, context)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """Return a page of the tenant's tasks, newest first."""
        asked: dict[str, Any] = {
            "limit": min(params.page_size or 50, 100),
            "cursor": params.page_token or None,
        }
        found = await self._call(context, "listSessions", asked)
        tasks = [
            Task(
                id=row["session_id"],
                context_id=row["session_id"],
                status=TaskStatus(state=STATES[row["status"]]),
            )
            for row in found["sessions"]
            if params.context_id in ("", row["session_id"])
        ]
        return ListTasksResponse(
            tasks=tasks,
            next_page_token=found["next_cursor"] or "",
            page_size=len(tasks),
            total_size=len(tasks),
        )

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """Cancel a session, whose effects are compensated as its pack says."""
        return task_of(await self._call(context, "cancelSession", {"session_id": params.id}))

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Return the card with a skill for each decision of the packs that are served."""
        _ = params
        card = public_card(context.state["url"])
        for pack in (newest for newest, *_ in self._service.hub.packs.values()):
            for spec in pack.decisions:
                name = (spec.intents or (spec.id,))[0]
                card.skills.append(
                    AgentSkill(id=f"{pack.name}:{spec.id}", name=name, description=pack.ref, tags=[pack.name])
                )
        return card

    async def on_create_task_push_notification_config(
        self,
        params: Any,  # noqa: ARG002 - the name in the base class
        context: ServerCallContext,  # noqa: ARG002 - the name in the base class
    ) -> NoReturn:
        """Refuse: targets of notifications are set by operators, never by callers."""
        raise PushNotificationNotSupportedError

    on_get_task_push_notification_config = on_create_task_push_notification_config
    on_list_task_push_notification_configs = on_create_task_push_notification_config
    on_delete_task_push_notification_config = on_create_task_push_notification_config

    async def _send(self, params: SendMessageRequest, context: ServerCallContext, *, mode: str) -> Task:
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        message = params.message
        sent = [whole_numbers(part) for part in get_data_parts(message.parts)]
        if len(sent) != 1 or (data := as_object(sent[0])) is None:
            raise InvalidParamsError('a message holds one data part, such as {"intent": …, "input": {…}}')
        if not message.task_id:
            data.setdefault("request_key", f"a2a:{message.message_id}")
            return task_of(await self._call(context, "invokeAgent", {"request": data, "mode": mode}))
        method = ANSWERS.get(str(data.pop("answer", "")))
        if method is None or not str(data.get("gate_id", "")).startswith(f"{message.task_id}."):
            await log_refused(self._service, _caller(context), "message/send", "invalid_params")
            raise InvalidParamsError(
                'answer a gate of this task: {"answer": "approve" or "deny", "gate_id": …}'
            )
        data.setdefault("request_key", f"a2a:{message.message_id}")
        task = task_of(await self._call(context, method, data))
        if mode != "inline":
            return task
        runtime = await self._service.hub.of_session(_caller(context).tenant, task.id)
        service = self._service
        await wait_for_rest(service.worker, runtime, task.id, wait_ms=WAIT_MS, closing=service.is_closing)
        return await self._task(task.id, context)

    async def _task(self, session: str, context: ServerCallContext) -> Task:
        return task_of(await self._call(context, "getSession", {"session_id": session}))

    async def _follow(self, task: Task, context: ServerCallContext) -> AsyncGenerator[Event]:
        yield task
        if task.status.state != TaskState.TASK_STATE_WORKING:
            return
        runtime = await self._service.hub.of_session(_caller(context).tenant, task.id)
        request: Request = context.state["request"]
        async for envelope in until_closing(runtime.watch(task.id), request.app.state.http.is_closing):
            if not await is_still_valid(request):
                return
            if envelope is not None and envelope.awaiting_gate:
                break
        task = await self._task(task.id, context)
        for artifact in task.artifacts:
            yield TaskArtifactUpdateEvent(
                task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True
            )
        yield TaskStatusUpdateEvent(
            task_id=task.id, context_id=task.context_id, status=task.status, metadata=task.metadata
        )

    async def _call(self, context: ServerCallContext, method: str, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return await call(self._service, _caller(context), method, params)
        except ServiceError as error:
            kind = _ERRORS.get(error.code, InvalidParamsError)
            raise kind(error.message, data=shape(error)) from None


_ERRORS: dict[str, Callable[..., Exception]] = {
    "not_found": TaskNotFoundError,
    "session_over": TaskNotCancelableError,
}


def _caller(context: ServerCallContext) -> Caller:
    return context.state["caller"]


def task_of(view: dict[str, Any]) -> Task:
    """Return a session as a task, in a context of its own: its outputs as an artifact, its gates and verdict as metadata."""
    row, gates = view["session"], view["gates"]
    session = row["session_id"]
    text = f"waits for approval of {', '.join(gates)}" if gates else view["reason"] or row["status"]
    status = TaskStatus(
        state=STATES[row["status"]], message=new_text_message(text, context_id=session, task_id=session)
    )
    task = Task(id=session, context_id=session, status=status)
    if row["status"] == "completed" and view["outputs"]:
        task.artifacts.append(new_data_artifact("outputs", view["outputs"], artifact_id=f"{session}.outputs"))
    task.metadata.update({"gates": gates, "status": row["status"], "verdict": view["verdict"]})
    return task


def whole_numbers(value: Any) -> Any:
    """Return data with its whole numbers as integers; raises `InvalidParamsError` for those that are not exact."""
    if isinstance(value, float) and value.is_integer():
        if abs(value) > EXACT:
            raise InvalidParamsError(f"{value:.0f} is not exact in A2A: send numbers over 2^53 as text")
        return int(value)
    if (fields := as_object(value)) is not None:
        return {name: whole_numbers(each) for name, each in fields.items()}
    if (items := as_list(value)) is not None:
        return [whole_numbers(each) for each in items]
    return value
