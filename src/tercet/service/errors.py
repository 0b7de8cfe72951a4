"""Errors as callers see them: one JSON shape, with a code, a message and a remedy."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import InternalError, PackError, PlanError, TercetError, UsageError
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

    def __init__(self, message: str, *, code: str, remedy: str, status: int, rpc: int = REFUSED) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.status = status
        self.rpc = rpc


def not_found(what: str, name: str) -> ServiceError:
    """Return the refusal of an id that this tenant does not have: the same, whether another tenant has it or none."""
    return ServiceError(
        f"there is no {what} {name[:100]!r}",
        code="not_found",
        remedy="listSessions and listGates name what there is",
        status=404,
    )


def invalid_params(error: ValidationError) -> ServiceError:
    """Return the refusal of parameters that do not fit, which names the first field that is wrong."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"])) or "params"
    return ServiceError(
        f"{place}: {first['msg'][:300]}",
        code="invalid_params",
        remedy="GET /v1/methods lists each method with the JSON Schema of its parameters",
        status=422,
        rpc=INVALID_PARAMS,
    )


def understand(error: Exception) -> ServiceError:
    """Return the error that a caller gets for an exception. Unexpected ones are logged, and reported without details."""
    match error:
        case ServiceError():
            return error
        case ValidationError():
            return invalid_params(error)
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


def shape(error: ServiceError, cause: Exception | None = None) -> dict[str, Any]:
    """Return an error as JSON."""
    problems = cause.problems if isinstance(cause, PlanError | PackError) else ()
    return {
        "code": error.code,
        "message": error.message,
        "remedy": error.remedy or "",
        "problems": [problem.model_dump(mode="json") for problem in problems],
    }
