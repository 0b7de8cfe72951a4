"""The client of a service, synchronous and asynchronous: both have the methods of `Api`, and differ in how they wait."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

import httpx2
import msgspec
from pydantic import ValidationError

from tercet.contracts.errors import TercetError
from tercet.contracts.request import Request
from tercet.contracts.runs.record import DecisionRecord
from tercet.contracts.runs.session import BackgroundSession, ProgressEnvelope
from tercet.contracts.shape import Shape, as_object
from tercet.contracts.verdict import Verdict, VerdictEnvelope
from tercet.core.state import TERMINAL
from tercet.engine.lists import ListedSession, PendingGate
from tercet.engine.streams.stops import StopKind
from tercet.view.run import ReplayReport

VARIABLE = "TERCET_API_KEY"
"""The variable of the environment that holds the key where none is given."""
TIMEOUT_S = 90.0


class SessionView(Shape):
    """A session of a service: its published row, how far it is, and why it waits or ended."""

    session: BackgroundSession
    progress: ProgressEnvelope
    verdict: VerdictEnvelope | None = None
    review: Verdict | None = None
    standing: str = ""
    """In one word: how far it is, or how it ended; `refused` where the critic refused its plan."""
    reason: str = ""
    code: str = ""
    gates: tuple[str, ...] = ()
    outputs: dict[str, Any] = {}
    record: str | None = None
    run_id: str = ""
    dev: bool = False

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.session.session_id

    @property
    def status(self) -> str:
        """The status of the session."""
        return self.session.status


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions, newest first."""

    sessions: tuple[ListedSession, ...]
    next_cursor: str | None = None
    """The cursor of the next page; None on the last one."""


class GatePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of open gates."""

    gates: tuple[PendingGate, ...]
    next_cursor: str | None = None
    """The cursor of the next page; None on the last one."""


class RemoteError(TercetError):
    """What a service refused, with its code and remedy; or that it could not be reached."""

    default_code = "service_unavailable"


ResultT = TypeVar("ResultT")
SessionT = TypeVar("SessionT")
ObjectT = TypeVar("ObjectT")
RecordT = TypeVar("RecordT")
ReplayT = TypeVar("ReplayT")
VerdictT = TypeVar("VerdictT")
SessionsT = TypeVar("SessionsT")
GatesT = TypeVar("GatesT")
GateT = TypeVar("GateT")


class Api(ABC, Generic[SessionT, ObjectT, RecordT, ReplayT, VerdictT, SessionsT, GatesT, GateT]):
    """The methods of a service. The type parameters are what they return: values, or awaitables of them."""

    @abstractmethod
    def _send(self, method: str, params: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        """Send a call, and read its result."""

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> ObjectT:
        """Call any method, and return its result as JSON."""
        return self._send(method, dict(params or {}), lambda result: result)

    def _session(self, method: str, **params: Any) -> SessionT:
        return self._send(method, _present(params), SessionView.model_validate)

    def invoke(
        self,
        request: Request | Mapping[str, Any],
        *,
        plan: Mapping[str, Any] | None = None,
        pack: str | None = None,
        mode: Literal["inline", "stream", "batch", "long_running"] = "inline",
        max_session_duration_ms: int | None = None,
        wait_ms: int | None = None,
    ) -> SessionT:
        """Start a run; `inline` waits until it has ended or waits for a person, for at most `wait_ms`."""
        asked = (
            request.model_dump(mode="json", exclude_none=True)
            if isinstance(request, Request)
            else dict(request)
        )
        runtime = (
            None if max_session_duration_ms is None else {"max_session_duration_ms": max_session_duration_ms}
        )
        return self._session(
            "invokeAgent", request=asked, plan=plan, pack=pack, mode=mode, runtime=runtime, wait_ms=wait_ms
        )

    def session(self, session_id: str) -> SessionT:
        """Return a session."""
        return self._session("getSession", session_id=session_id)

    def sessions(
        self, *, status: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> SessionsT:
        """Return a page of sessions and its `next_cursor`, newest first."""
        params = _present({"status": status, "cursor": cursor, "limit": limit})
        return self._send("listSessions", params, lambda r: msgspec.convert(r, SessionPage))

    def gates(self, *, cursor: str | None = None, limit: int | None = None) -> GatesT:
        """Return a page of open gates and its `next_cursor`."""
        params = _present({"cursor": cursor, "limit": limit})
        return self._send("listGates", params, lambda r: msgspec.convert(r, GatePage))

    def gate(self, gate_id: str) -> GateT:
        """Return an open gate with everything that its approver is shown."""
        return self._send("getGate", {"gate_id": gate_id}, lambda r: msgspec.convert(r["gate"], PendingGate))

    def approve(
        self, gate_id: str, *, digest: str | None = None, note: str = "", request_key: str | None = None
    ) -> SessionT:
        """Approve the call that a gate shows, or the one with this digest."""
        return self._session(
            "approveGate", gate_id=gate_id, digest=digest, note=note, request_key=request_key
        )

    def deny(self, gate_id: str, *, note: str = "", request_key: str | None = None) -> SessionT:
        """Deny the call: the run ends rejected."""
        return self._session("denyGate", gate_id=gate_id, note=note, request_key=request_key)

    def modify(
        self,
        gate_id: str,
        *,
        note: str,
        changes: Mapping[str, Any] | None = None,
        request_key: str | None = None,
    ) -> SessionT:
        """Set values in the call, or send it back to the planner with a note."""
        return self._session(
            "modifyGate", gate_id=gate_id, note=note, changes=changes, request_key=request_key
        )

    def withdraw(self, gate_id: str, *, note: str = "", request_key: str | None = None) -> SessionT:
        """Withdraw an approval of your own, as long as the call has not begun."""
        return self._session("withdrawApproval", gate_id=gate_id, note=note, request_key=request_key)

    def settle(
        self,
        gate_id: str,
        *,
        happened: bool,
        value: Any = None,
        note: str = "",
        request_key: str | None = None,
    ) -> SessionT:
        """Settle a call of unknown outcome: whether it happened, and its result."""
        return self._session(
            "settleOutcome",
            gate_id=gate_id,
            happened=happened,
            value=value,
            note=note,
            request_key=request_key,
        )

    def decide(
        self,
        gate_id: str,
        decision: Literal["extend", "replan", "accept_partial", "abandon", "compensate", "keep"],
        *,
        value: Any = None,
        note: str = "",
        request_key: str | None = None,
    ) -> SessionT:
        """Decide how an escalated run goes on, or whether the effects of a failed one are compensated."""
        return self._session(
            "decideEscalation",
            gate_id=gate_id,
            decision=decision,
            value=value,
            note=note,
            request_key=request_key,
        )

    def pause(self, session_id: str, *, note: str = "", request_key: str | None = None) -> SessionT:
        """Pause a session once the calls in progress have ended."""
        return self._session("pauseSession", session_id=session_id, note=note, request_key=request_key)

    def resume(self, session_id: str, *, request_key: str | None = None) -> SessionT:
        """Resume a paused session."""
        return self._session("resumeSession", session_id=session_id, request_key=request_key)

    def cancel(self, session_id: str, *, note: str = "", request_key: str | None = None) -> SessionT:
        """Cancel a run."""
        return self._session("cancelSession", session_id=session_id, note=note, request_key=request_key)

    def extend(self, session_id: str, more: Mapping[str, int], *, request_key: str | None = None) -> SessionT:
        """Add to the budget of a run."""
        return self._session("extendBudget", session_id=session_id, more=dict(more), request_key=request_key)

    def migrate(self, session_id: str, *, request_key: str | None = None) -> SessionT:
        """Move a session to the pack that is served, its newest snapshot and the current rules."""
        return self._session("migrateSession", session_id=session_id, request_key=request_key)

    def settle_rollback(
        self, session_id: str, step: str, *, note: str = "", request_key: str | None = None
    ) -> ObjectT:
        """Record that you have dealt with an effect that could not be compensated."""
        params = {"session_id": session_id, "step": step, "note": note, "request_key": request_key}
        return self.call("settleRollback", _present(params))

    def stops(self) -> ObjectT:
        """Return the emergency stops that have not been lifted, as `stops`."""
        return self.call("listStops")

    def stop(
        self, kind: StopKind, name: str = "", *, note: str = "", request_key: str | None = None
    ) -> ObjectT:
        """Stop a tool, a pack or the tenant: nothing that it names is called any more."""
        params = {"kind": kind, "name": name, "note": note, "request_key": request_key}
        return self.call("emergencyStop", _present(params))

    def lift(
        self, kind: StopKind, name: str = "", *, note: str = "", request_key: str | None = None
    ) -> ObjectT:
        """End an emergency stop, and resume the sessions that stops have paused."""
        params = {"kind": kind, "name": name, "note": note, "request_key": request_key}
        return self.call("liftStop", _present(params))

    def export(self, session_id: str) -> ObjectT:
        """Return a run as a bundle: `bundle` in base64, and its `seal`."""
        return self.call("exportRun", {"session_id": session_id})

    def erase(self, subject: str, *, force: bool = False, request_key: str | None = None) -> ObjectT:
        """Erase the personal values of a subject. This cannot be undone."""
        params = {"subject": subject, "force": force, "request_key": request_key}
        return self.call("eraseSubject", _present(params))

    def audit(self, *, after: int = 0, limit: int | None = None) -> ObjectT:
        """Return a page of the audit log: `entries`, and `next_cursor`, which the next page takes as `after`."""
        return self.call("listAudit", _present({"after": after, "limit": limit}))

    def record(self, session_id: str) -> RecordT:
        """Return the decision record of a session that has ended."""
        return self._send(
            "getRecord", {"session_id": session_id}, lambda r: DecisionRecord.model_validate(r["record"])
        )

    def replay(self, session_id: str) -> ReplayT:
        """Judge a recorded run again, on the service."""
        return self._send(
            "replayRun", {"session_id": session_id}, lambda r: ReplayReport.model_validate(r["replay"])
        )

    def verify(
        self,
        plan: Mapping[str, Any],
        *,
        request: Mapping[str, Any] | None = None,
        pack: str | None = None,
    ) -> VerdictT:
        """Return the critic's verdict on a plan; nothing is run."""
        params = _present({"plan": dict(plan), "request": request, "pack": pack})
        return self._send("verifyPlan", params, lambda r: Verdict.model_validate(r["verdict"]))


class Client(
    Api[
        SessionView,
        dict[str, Any],
        DecisionRecord,
        ReplayReport,
        Verdict,
        SessionPage,
        GatePage,
        PendingGate,
    ]
):
    """A synchronous client: `with Client("http://127.0.0.1:8700", key) as client`."""

    def __init__(
        self, url: str, api_key: str | None = None, *, act_as: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        """`api_key` is the variable TERCET_API_KEY of the environment where none is given; `act_as` is for `--dev`."""
        self._http = httpx2.Client(base_url=url, headers=_headers(api_key, act_as), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, method: str, params: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            response = self._http.post("/rpc", json=_payload(method, params))
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error
        return _read(response, read)

    def watch(self, session_id: str, *, last_event_id: str = "") -> Iterator[ProgressEnvelope]:
        """Yield the progress of a session, now and after each change until it is over; raises `RemoteError` if the service
        stops or the credential ends before that."""
        while True:
            first = last_event_id
            for envelope in self._follow(session_id, last_event_id):
                last_event_id = envelope.progress_id
                yield envelope
            if _is_end(self.session(session_id), first, last_event_id):
                return

    def _follow(self, session_id: str, last_event_id: str) -> Iterator[ProgressEnvelope]:
        """Yield the progress of a session until the stream ends, which a service that stops may do at any moment."""
        headers = {"last-event-id": last_event_id} if last_event_id else {}
        try:
            with self._http.stream("GET", f"/v1/sessions/{session_id}/progress", headers=headers) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refusal(response)
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        yield ProgressEnvelope.model_validate_json(line[6:])
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error


class AsyncClient(
    Api[
        Awaitable[SessionView],
        Awaitable[dict[str, Any]],
        Awaitable[DecisionRecord],
        Awaitable[ReplayReport],
        Awaitable[Verdict],
        Awaitable[SessionPage],
        Awaitable[GatePage],
        Awaitable[PendingGate],
    ]
):
    """An asynchronous client: `async with AsyncClient("http://127.0.0.1:8700", key) as client`."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        act_as: str = "",
        timeout_s: float = TIMEOUT_S,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`api_key` is the variable TERCET_API_KEY of the environment where none is given; `act_as` is for `--dev`."""
        self._http = httpx2.AsyncClient(
            base_url=url, headers=_headers(api_key, act_as), timeout=timeout_s, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, method: str, params: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
        try:
            response = await self._http.post("/rpc", json=_payload(method, params))
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error
        return _read(response, read)

    async def watch(self, session_id: str, *, last_event_id: str = "") -> AsyncIterator[ProgressEnvelope]:
        """Yield the progress of a session, now and after each change until it is over; raises `RemoteError` if the service
        stops or the credential ends before that."""
        while True:
            first = last_event_id
            async for envelope in self._follow(session_id, last_event_id):
                last_event_id = envelope.progress_id
                yield envelope
            if _is_end(await self.session(session_id), first, last_event_id):
                return

    async def _follow(self, session_id: str, last_event_id: str) -> AsyncIterator[ProgressEnvelope]:
        """Yield the progress of a session until the stream ends, which a service that stops may do at any moment."""
        headers = {"last-event-id": last_event_id} if last_event_id else {}
        path = f"/v1/sessions/{session_id}/progress"
        try:
            async with self._http.stream("GET", path, headers=headers) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise _refusal(response)
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        yield ProgressEnvelope.model_validate_json(line[6:])
        except httpx2.HTTPError as error:
            raise _unreachable(error) from error


def _is_end(found: SessionView, first: str, last: str) -> bool:
    """Return whether a stream that ended has brought the last progress of a session; it began behind `first`."""
    return found.status in TERMINAL and last in (first, found.progress.progress_id)


def _present(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _headers(api_key: str | None, act_as: str) -> dict[str, str]:
    key = os.environ.get(VARIABLE, "") if api_key is None else api_key
    fields = {"authorization": f"Bearer {key}" if key else "", "tercet-act-as": act_as}
    return {name: value for name, value in fields.items() if value}


def _payload(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _read(response: httpx2.Response, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
    answer = _json(response)
    result = as_object(answer.get("result"))
    if result is None:
        raise _refusal(response)
    try:
        return read(result)
    except (ValidationError, msgspec.ValidationError, KeyError) as error:
        raise RemoteError(
            "the service answered in a shape that this version does not know",
            code="answer_unreadable",
            remedy="use the same version of Tercet on both sides",
        ) from error


def _json(response: httpx2.Response) -> dict[str, Any]:
    try:
        return as_object(json.loads(response.content)) or {}
    except ValueError:
        return {}


def _refusal(response: httpx2.Response) -> RemoteError:
    error = as_object(_json(response).get("error")) or {}
    told = as_object(error.get("data")) or error
    code = str(told["code"]) if isinstance(told.get("code"), str) else None
    remedy = str(told.get("remedy") or "") or None
    if response.status_code == 401:
        remedy = f"set {VARIABLE} to an API key of the service that was not revoked and has not expired, or pass api_key in Python"
    return RemoteError(
        str(told.get("message") or f"the service answered with HTTP status {response.status_code}"),
        code=code,
        remedy=remedy,
    )


def _unreachable(error: httpx2.HTTPError) -> RemoteError:
    reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or "no answer"
    return RemoteError(
        f"the service cannot be reached: {_place_of(error)}{reason}",
        remedy="check its address, and that it runs: tercet serve",
    )


def _place_of(error: httpx2.HTTPError) -> str:
    """Return the address that a request was sent to, as the beginning of a message; empty if it never got so far."""
    try:
        url = error.request.url if isinstance(error, httpx2.RequestError) else None
    except RuntimeError:  # the error belongs to no request
        url = None
    return f"{url.host}{f':{url.port}' if url.port else ''}: " if url is not None else ""
