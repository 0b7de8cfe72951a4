"""What a language model is asked, and what it answers. Asking is the shell's: pure code only says what to ask.

    def inquire(...) -> Inquiry[Plan]:
        reply = yield Question(purpose="plan", system=..., messages=(...,), answer_schema=...)
        return read(reply.text)

Such a generator is deterministic: the same replies lead to the same questions. So a reply that was recorded stands in
for the model after a crash and in a replay, and nobody is asked, or paid, twice.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

from pydantic import Field

from tercet.contracts.canonical import canonical, digest
from tercet.contracts.errors import GatewayError
from tercet.contracts.plain import PlainObject
from tercet.contracts.shape import Authored, Shape

ResultT = TypeVar("ResultT")


class Message(Authored):
    """One turn of a conversation."""

    role: Literal["user", "assistant"] = "user"
    text: str


class Question(Authored):
    """One call of a language model."""

    purpose: str = "plan"
    """What it is asked for: a word for ledgers and telemetry."""
    system: str = ""
    messages: tuple[Message, ...] = ()
    answer_schema: PlainObject | None = None
    """The JSON Schema of the answer; None lets the model answer in words."""
    max_tokens: int = Field(default=1_024, ge=1)
    """How long the answer may become."""
    temperature: float = Field(default=0.0, ge=0)
    seed: int | None = None

    @cached_property
    def hash(self) -> str:
        """The hash of all that the model is told."""
        return digest(self)

    @property
    def reserved_tokens(self) -> int:
        """The tokens that are kept for the call: what is sent, the schema included, and the longest answer.

        Four bytes to a token is usual; two is what is reserved, so that a call rarely takes more than was kept for it.
        """
        schema = b"" if self.answer_schema is None else canonical(self.answer_schema)
        sent = len(self.system.encode()) + sum(len(message.text.encode()) for message in self.messages)
        return (sent + len(schema)) // 2 + 1 + self.max_tokens


class Reply(Shape):
    """What a model answered."""

    text: str
    model: str
    """The model that answered, by its full name."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost_microcents: int = 0
    is_cut: bool = False
    """Whether the answer ended because it became too long."""
    latency_ms: int = 0
    """How long it took, as it was recorded."""
    logprob: float | None = None
    """The mean log-probability of its tokens; None where the model does not say."""


ModelFaultCode = Literal[
    "model_unavailable",  # down, unreachable, an error of the provider's
    "model_quota",  # over its quota, or asked too often
    "model_timeout",  # too late
    "model_refused",  # the provider does not take this request: a wrong key, an unknown model, a filter
    "model_empty",  # no answer at all
]

_LASTING: frozenset[ModelFaultCode] = frozenset({"model_refused"})


class ModelFault(GatewayError):  # noqa: N818 - what happened is named: the model is at fault
    """A model did not answer. `is_retriable` says whether asking it again may help; another model may in any case."""

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
        """How long the provider asks to be left alone."""
        self.model_code: ModelFaultCode = code
        self.is_retriable = code not in _LASTING


Inquiry: TypeAlias = Generator[Question, Reply, ResultT]
"""Pure code that asks models on its way to a result. `ModelFault` is thrown into it where none of them answers."""
