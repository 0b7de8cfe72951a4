"""Errors as callers see them: one JSON shape, with a code, a message and a remedy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import InternalError, PackError, PlanError, TercetError, UsageError
from tercet.contracts.problem import Problem, words_for
from tercet.contracts.values import pointer
from tercet.contracts.values.plain import is_too_deep
from tercet.contracts.values.references import MAX_DEPTH
from tercet.journal.errors import JournalError

_log = logging.getLogger("tercet.service")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
REFUSED = -32000
UNAVAILABLE = -32001


class ServiceError(TercetError):
    """A call that is refused before it reaches a run."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        remedy: str,
        status: int,
        rpc: int = REFUSED,
        problems: Sequence[Problem] = (),
        retry_s: int = 1,
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.status = status
        self.rpc = rpc
        self.problems = tuple(problems)
        self._retry_s = retry_s

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a response with this error."""
        if self.status == 401:
            return {"www-authenticate": "Bearer"}
        return {"retry-after": str(self._retry_s)} if self.status in (429, 503) else {}


MOVE = 'an operator moves it to the version that is served, with migrateSession; or, if its pack says resume = "pinned", serve that version too'
"""How a session goes on that is pinned to a pack version which the service does not serve."""
_PINNED = ("pack_version_mismatch", "snapshot_version_mismatch")
NAMED_BY_LISTS = "listSessions and listGates name what there is"
SCHEMAS = "GET /v1/methods lists each method with the JSON Schema of its parameters"


def not_found(what: str, name: str, remedy: str = NAMED_BY_LISTS) -> ServiceError:
    """Return the refusal of an id that this tenant does not have: the same, whether another tenant has it or none."""
    return ServiceError(
        f"there is no {what} {name[:100]!r}",
        code="not_found",
        remedy=remedy,
        status=404,
    )


def malformed(message: str, rpc: int = INVALID_REQUEST) -> ServiceError:
    """Return the refusal of a body that is not a call of JSON-RPC."""
    remedy = "send one JSON-RPC 2.0 call, or a list of them"
    return ServiceError(message, code="malformed_call", remedy=remedy, status=400, rpc=rpc)


def demand_flat(params: Any, most: int = MAX_DEPTH) -> None:
    """Raise `ServiceError` for parameters that nest so deeply that some reader of them would fail."""
    if is_too_deep(params, most):
        raise ServiceError(
            f"params nest deeper than {MAX_DEPTH} levels",
            code="invalid_params",
            remedy="write the values flatter",
            status=422,
            rpc=INVALID_PARAMS,
        )


def invalid_params(found: Sequence[Any], remedy: str = SCHEMAS) -> ServiceError:
    """Return the refusal of parameters that do not fit, with all the errors that Pydantic found in them."""
    problems = [_problem(each) for each in found]
    more = f"; and {len(problems) - _MOST_NAMED} more" if len(problems) > _MOST_NAMED else ""
    return ServiceError(
        "; ".join(each.message for each in problems[:_MOST_NAMED]) + more,
        code="invalid_params",
        remedy=remedy,
        status=422,
        rpc=INVALID_PARAMS,
        problems=problems[:_MOST_PROBLEMS],
    )


_MOST_NAMED, _MOST_PROBLEMS = 3, 100


def _problem(detail: Any) -> Problem:
    place = ".".join(map(str, detail["loc"])) or "params"
    words = words_for(detail)
    match detail["type"]:
        case "missing":
            message = f"{place} is missing"
        case "extra_forbidden":
            message = f"there is no parameter {place[:100]}"
        case "dict_type" | "model_type" | "model_attributes_type":
            message = f"{place} must be an object"
        case _:
            message = (
                f"{place}: {words.fault if words else detail['msg'].removeprefix('Value error, ')[:300]}"
            )
    return Problem(code="invalid_params", message=message, place=pointer.join(detail["loc"]))


def understand(error: Exception) -> ServiceError:
    """Return the error that a caller gets for an exception. Unexpected ones are logged, and reported without details."""
    match error:
        case ServiceError():
            return error
        case ValidationError():
            return invalid_params(error.errors(include_url=False))
        case InternalError():
            pass
        case JournalError():
            remedy = error.remedy or "try again"
            return ServiceError(error.message, code=error.code, remedy=remedy, status=503, rpc=UNAVAILABLE)
        case TimeoutError():
            return ServiceError(
                "the call took too long, and may still take effect",
                code="timeout",
                remedy="look at the session before you send it again, or send it with the same request_key",
                status=504,
                rpc=UNAVAILABLE,
            )
        case UsageError() if error.code in _PINNED:
            # The engine names commands for a machine that has the folder of the pack.
            return ServiceError(error.message, code=error.code, remedy=MOVE, status=409)
        case UsageError():
            return ServiceError(error.message, code=error.code, remedy=error.remedy or "", status=409)
        case TercetError():
            return ServiceError(error.message, code=error.code, remedy=error.remedy or "", status=409)
        case _:
            pass
    _log.exception("unexpected %s", type(error).__name__, exc_info=error)
    return ServiceError(
        "this is a bug in Tercet, not in what you sent",
        code="internal",
        remedy="the log of the service says where; please report it",
        status=500,
        rpc=INTERNAL,
    )


HELPFUL: dict[str, tuple[str, ...]] = {
    "wrong_answer": ("getGate", "approveGate", "denyGate", "modifyGate", "settleOutcome", "decideEscalation"),
    "wrong_digest": ("getGate",),
    "evidence_expired": ("denyGate", "getGate"),
    **dict.fromkeys(("gate_not_open", "unknown_gate", "lane_gate"), ("getGate", "listGates")),
    **dict.fromkeys(
        ("gate_expired", "session_ending", "outdated_rules", "change_pending", "unsettled"),
        ("resumeSession",),
    ),
    **dict.fromkeys(("session_over", "already_settled"), ("getSession",)),
    "session_not_over": ("getSession", "getGate"),
    **dict.fromkeys(_PINNED, ("migrateSession", "cancelSession")),
    "not_stopped": ("listStops",),
}
"""The methods that help after a refusal, for remedies that name commands."""


def shape(error: ServiceError, cause: Exception | None = None) -> dict[str, Any]:
    """Return an error as JSON."""
    problems = cause.problems if isinstance(cause, PlanError | PackError) else error.problems
    return {
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy or "",
        "methods": list(HELPFUL.get(error.code, ())),
        "problems": [problem.model_dump(mode="json") for problem in problems],
    }


def rpc_body(number: Any, error: ServiceError) -> dict[str, Any]:
    """Return an error as the answer to a call of JSON-RPC."""
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else None
    told = {"code": error.rpc, "message": error.message, "data": shape(error, cause)}
    return {"jsonrpc": "2.0", "id": number, "error": told}
