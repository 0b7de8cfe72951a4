"""The error classes, grouped by who can fix the problem.

    TercetError
    ├── UsageError        the caller: a wrong argument, plan, pack or request
    │   ├── PlanError     a plan that does not parse; lists every problem with its place
    │   └── PackError     a pack that does not load; lists every problem with its file and place
    ├── LimitError        a limit was reached: which one, the value and the bound
    ├── GatewayError      the outside world: a tool or a service failed
    │   ├── NotDone       raised by a tool that knows its effect did not happen
    │   │   └── NotSent   raised if a call never left this process
    │   └── Unusable      raised by a tool that knows its effect happened but has no usable result
    ├── ReplayError       what was recorded and what was expected differ
    └── InternalError     a bug in Tercet, with what to report

Every error has a stable `code` for machines, a message for people, and a `remedy` that says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tercet.contracts.problem import Problem


class TercetError(Exception):
    """The base class of all errors that Tercet raises on purpose."""

    default_code: ClassVar[str] = "error"

    def __init__(self, message: str, *, code: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class UsageError(TercetError):
    """The caller asked for something impossible or wrong."""

    default_code = "usage"


class _ProblemsError(UsageError):
    """A usage error that lists all problems at once."""

    subject: ClassVar[str] = "input"

    def __init__(self, problems: Sequence[Problem]) -> None:
        count = len(problems)
        first = problems[0].line() if problems else "no details"
        more = f" (and {count - 1} more)" if count > 1 else ""
        super().__init__(f"the {self.subject} has {count} problem{'s' * (count != 1)}: {first}{more}")
        self.problems = tuple(problems)


class PlanError(_ProblemsError):
    """A plan that does not parse; `problems` lists each defect with its place in the document."""

    default_code = "plan_invalid"
    subject = "plan"


class PackError(_ProblemsError):
    """A pack that does not load; `problems` lists each defect with its file, place and remedy."""

    default_code = "pack_invalid"
    subject = "pack"


class LimitError(TercetError):
    """A limit was exceeded; `kind`, `value` and `limit` say which one and by how much."""

    default_code = "limit"

    def __init__(self, kind: str, value: float, limit: float, *, remedy: str | None = None) -> None:
        super().__init__(f"{kind} is {value}, over its limit of {limit}", code=kind, remedy=remedy)
        self.kind = kind
        self.value = value
        self.limit = limit


class GatewayError(TercetError):
    """A tool or an external service failed."""

    default_code = "gateway"


class LaneWaiting(GatewayError):  # noqa: N818 - named after what happened
    """A lane waits for a person: the call that started it is made again once they have answered."""

    default_code = "lane_waiting"

    def __init__(self, message: str, *, session: str) -> None:
        super().__init__(message)
        self.session = session
        """The session of the lane."""


class NotDone(GatewayError):  # noqa: N818 - named as the statement that a tool makes by raising it
    """Raised by a tool to state that its effect did not happen, so that a retry is safe.

    `is_retriable=False` states that a retry would fail again, `retry_after_ms` that it would fail before then.
    `is_attempt_only` is for a tool that knows about this attempt but not about earlier ones: if one of them may have
    happened, the outcome of the call stays unknown.
    """

    default_code = "not_done"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        remedy: str | None = None,
        is_retriable: bool = True,
        retry_after_ms: int = 0,
        is_attempt_only: bool = False,
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.is_retriable = is_retriable
        self.retry_after_ms = retry_after_ms
        self.is_attempt_only = is_attempt_only


class NotSent(NotDone):
    """Raised if a call never left this process: this attempt had no effect, but an earlier one may have."""

    default_code = "not_sent"

    def __init__(
        self, message: str, *, code: str | None = None, remedy: str | None = None, is_retriable: bool = True
    ) -> None:
        super().__init__(message, code=code, remedy=remedy, is_retriable=is_retriable, is_attempt_only=True)


class Unusable(GatewayError):  # noqa: N818 - named as a statement, like `NotDone`
    """Raised by a tool to state that its effect happened but its answer cannot be used, so that the call is not
    retried.
    """

    default_code = "unusable"


class ReplayError(TercetError):
    """What was recorded and what was expected differ."""

    default_code = "replay"

    def __init__(self, *, recorded: str, expected: str, check: str) -> None:
        super().__init__(f"recorded {recorded}, expected {expected}", remedy=check)
        self.recorded = recorded
        self.expected = expected


class InternalError(TercetError):
    """A bug in Tercet."""

    default_code = "internal"


def install_words(extra: str) -> str:
    """Return how to install an extra: not by the name alone, under which a package index may have another package."""
    return f"install the extra {extra} from where you have Tercet: pip install './tercet[{extra}]' beside a clone"


def extra_missing(what: str, library: str, extra: str) -> UsageError:
    """Return the error for a feature whose library is not installed."""
    return UsageError(
        f"{what} needs {library}, which is not installed", code="extra_missing", remedy=install_words(extra)
    )
