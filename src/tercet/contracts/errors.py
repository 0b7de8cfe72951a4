"""One tree of errors, split by whose move it is.

    TercetError
    ├── UsageError        the caller's: a wrong argument, plan, pack or request
    │   ├── PlanError     a plan that does not parse; carries every problem with its place
    │   └── PackError     a pack that does not load; carries every problem with its file and place
    ├── LimitError        a limit's: carries which limit, the value and the bound
    ├── GatewayError      the outside world's: a tool or a service did not do its part
    │   ├── NotDone       raised by a tool that knows its effect did not happen
    │   │   └── NotSent   raised where a call never left this process
    │   └── Unusable      raised by a tool that knows its effect happened, and has no result to show for it
    ├── ReplayError       history's: what was recorded and what was expected differ
    └── InternalError     ours: a bug, with what to report

Every error has a stable `code` for machines, a sentence for people, and a `remedy` that says what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tercet.contracts.problem import Problem


class TercetError(Exception):
    """The base of everything that Tercet raises on purpose."""

    default_code: ClassVar[str] = "error"

    def __init__(self, message: str, *, code: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class UsageError(TercetError):
    """The caller asked for something that cannot be done as asked."""

    default_code = "usage"


class _ProblemsError(UsageError):
    """A usage error that lists every problem at once."""

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
    """A limit was reached; `kind`, `value` and `limit` say which and by how much."""

    default_code = "limit"

    def __init__(self, kind: str, value: float, limit: float, *, remedy: str | None = None) -> None:
        super().__init__(f"{kind} is {value}, over its limit of {limit}", code=kind, remedy=remedy)
        self.kind = kind
        self.value = value
        self.limit = limit


class GatewayError(TercetError):
    """A tool or a service outside did not do its part."""

    default_code = "gateway"


class NotDone(GatewayError):  # noqa: N818 - a tool's author raises it as a statement: the effect was not done
    """Raised by a tool to state that its effect did not happen, so that a retry is safe.

    `is_retriable=False` states that trying again would fail again, `retry_after_ms` that it would before then.
    `is_attempt_only` is for a tool that knows about this attempt and nothing of those before it: where one of them
    may have happened, that stays open.
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
    """Raised where a call never left this process: nothing happened now, and an attempt before may have."""

    default_code = "not_sent"

    def __init__(
        self, message: str, *, code: str | None = None, remedy: str | None = None, is_retriable: bool = True
    ) -> None:
        super().__init__(message, code=code, remedy=remedy, is_retriable=is_retriable, is_attempt_only=True)


class Unusable(GatewayError):  # noqa: N818 - a statement as well: it was done, and the answer is of no use
    """Raised by a tool to state that its effect happened and its answer cannot be used, so that nobody calls it again."""

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
    """The command that installs an extra."""
    return f"pip install 'tercet[{extra}]'"


def extra_missing(what: str, library: str, extra: str) -> UsageError:
    """The answer to whoever asks for `what` where its library is not installed."""
    return UsageError(
        f"{what} needs {library}, which is not installed", code="extra_missing", remedy=install_words(extra)
    )
