"""Questions to a language model, and its replies. Pure code yields the question; the shell asks the model.

    def inquire(...) -> Inquiry[Plan]:
        reply = yield Question(purpose="plan", system=..., messages=(...,), answer_schema=...)
        return read(reply.text)

Such a generator is deterministic: the same replies lead to the same questions. So after a crash and in a replay the
recorded reply takes the place of the model, and no question is asked or paid for twice.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

from pydantic import Field

from tercet.contracts.errors import GatewayError
from tercet.contracts.shape import Authored, Shape
from tercet.contracts.values.canonical import canonical, digest
from tercet.contracts.values.plain import PlainObject

ResultT = TypeVar("ResultT")


class Message(Authored):
    """One turn of a conversation."""

    role: Literal["user", "assistant"] = "user"
    text: str


class Question(Authored):
    """One call of a language model."""

    purpose: str = "plan"
    """The purpose, as one word for ledgers and telemetry."""
    system: str = ""
    messages: tuple[Message, ...] = ()
    answer_schema: PlainObject | None = None
    """The JSON Schema of the answer; None for free text."""
    max_tokens: int = Field(default=1_024, ge=1)
    """The maximum length of the answer, in tokens."""
    temperature: float = Field(default=0.0, ge=0)
    seed: int | None = None

    @cached_property
    def hash(self) -> str:
        """The hash of everything that is sent to the model."""
        return digest(self)

    @property
    def reserved_tokens(self) -> int:
        """The tokens to reserve for the call: the prompt, the schema and the longest answer.

        Four bytes per token are usual; two are assumed here, so that a call rarely exceeds its reservation.
        """
        schema = b"" if self.answer_schema is None else canonical(self.answer_schema)
        sent = len(self.system.encode()) + sum(len(message.text.encode()) for message in self.messages)
        return (sent + len(schema)) // 2 + 1 + self.max_tokens


MOST_TOKENS = 2**31
"""More tokens than any model takes or returns in one call."""
MOST_COST = 2**53
"""The highest cost of one call, in micro-cents: the largest integer that canonical JSON takes."""


class Reply(Shape):
    """The answer of a model."""

    text: str
    model: str
    """The full name of the model that answered."""
    tokens_in: int = Field(default=0, le=MOST_TOKENS)
    tokens_out: int = Field(default=0, le=MOST_TOKENS)
    cost_microcents: int = Field(default=0, le=MOST_COST)
    is_cut: bool = False
    """Whether the answer was cut off at its maximum length."""
    latency_ms: int = 0
    """The recorded duration."""
    logprob: float | None = None
    """The mean log-probability of its tokens; None if the model does not report it."""


ModelFaultCode = Literal[
    "model_unavailable",  # down, unreachable, or an internal error of the provider
    "model_quota",  # over its quota or rate limit
    "model_timeout",  # timeout
    "model_refused",  # rejected by the provider: a wrong key, an unknown model, a filter
    "model_empty",  # no answer at all
]

_LASTING: frozenset[ModelFaultCode] = frozenset({"model_refused"})


class ModelFault(GatewayError):  # noqa: N818 - named after what happened
    """A model did not answer. `is_retriable` says whether a retry may help; another model may help in any case."""

    default_code = "model_unavailable"

    def __init__(
        self,
        message: str,
        *,
        code: ModelFaultCode = "model_unavailable",
        remedy: str | None = None,
        wait_ms: int = 0,
    ) -> None:
        super().__init__(message, code=code, remedy=remedy)
        self.wait_ms = wait_ms
        """How long the provider asks to wait before a retry."""
        self.model_code: ModelFaultCode = code
        self.is_retriable = code not in _LASTING


Inquiry: TypeAlias = Generator[Question, Reply, ResultT]
"""Pure code that asks models on its way to a result. `ModelFault` is thrown into it if no model answers."""
