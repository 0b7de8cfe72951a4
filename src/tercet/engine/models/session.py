"""Language model calls of planners and critics: reserve, record, ask, settle, retry, fall back to another model.

A planner that asks models is a generator that yields questions. Each model call is recorded as two events: before it the
reserved budget, after it the answer and its cost. An answer that was recorded before a crash is not requested again.

Models are opened by name when they are first needed, and closed with the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import MOST_COST, Inquiry, ModelFault, Question, Reply
from tercet.contracts.runs.invocation import Backoff
from tercet.contracts.runs.session import PLANNER_TIMEOUT_MS, RoleLimit
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import storable
from tercet.core import budget
from tercet.core import commands as c
from tercet.core.answers import ModelReply, Now, delay_ms
from tercet.core.config import RunConfig
from tercet.core.resolve.planning import OVERDRAWN
from tercet.core.state import State, Used
from tercet.engine.control import ActiveSession, Interrupted, unless_interrupted
from tercet.engine.models.planner import ModelPlanner
from tercet.engine.values import encode_json
from tercet.executor.clock import Clock
from tercet.journal.errors import JournalError
from tercet.models.model import Model
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.quality.repair.phase import OTHER_MODEL

ResultT = TypeVar("ResultT")
AskingRole: TypeAlias = Literal["planner", "critic"]
"""The role of a model call; each role has its own limits."""

LONGEST = 4 * 1024 * 1024
"""Answers with more characters are refused."""

LONGEST_WAIT_MS = 60_000
"""A model that asks for a longer pause is not asked again."""

INTERRUPTED = "stopped"
"""The code of a question that was cancelled because the session was released."""


class _Late(ModelFault):
    """A call that was cancelled while it was in progress."""


class _Ended(NamedTuple, Generic[ResultT]):
    """The result of an inquiry that has ended."""

    result: ResultT


def _advance(go_on: Callable[[], Question]) -> Question | _Ended[Any]:
    try:
        return go_on()
    except StopIteration as ended:  # which no future can hold
        return _Ended(ended.value)


@runtime_checkable
class Inquirer(Protocol):
    """A planner that asks language models. The code between two questions must be pure."""

    @property
    def name(self) -> str:
        """The name recorded in the journal."""
        ...

    @property
    def models(self) -> Sequence[Model]:
        """The preferred model, then its fallbacks."""
        ...

    def inquire(self, config: RunConfig, state: State) -> Inquiry[Plan]:
        """Yield questions, receive their replies, and return the plan.

        `ModelFault` is thrown into the generator if no model answers. May raise `PlanningError`.
        """
        ...


class ModelSession:
    """Asks the models of one planner in one session."""

    def __init__(
        self,
        session: ActiveSession,
        models: Sequence[Model],
        *,
        clock: Clock,
        draw: Callable[[], float],
        limit: RoleLimit,
        role: AskingRole = "planner",
        threads: Executor | None = None,
    ) -> None:
        """With `threads`, a pure inquiry that computes long between two questions runs outside the event loop."""
        self._threads = threads
        self._session = session
        self._models = models
        self._clock = clock
        self._draw = draw
        self._limit = limit
        self._role: AskingRole = role
        self._known = list(session.run.state.replies)
        """Answers recorded before this process took over, in order."""
        self.faults: dict[str, str] = {}
        """Why no model answered, by the question's number."""

    async def conduct(self, inquiry: Inquiry[ResultT]) -> ResultT:
        """Run an inquiry and return its result. Raises its errors, and `Interrupted`."""
        try:
            thought = await self._think(partial(next, inquiry))
            for number in count():
                if isinstance(thought, _Ended):
                    return thought.result
                try:
                    reply = await self._take_recorded(thought) or await self._ask(thought)
                except ModelFault as fault:
                    self.faults[str(number)] = storable(fault.message)
                    thought = await self._think(partial(inquiry.throw, fault))
                else:
                    thought = await self._think(partial(inquiry.send, reply))
        finally:
            with suppress(ValueError):  # a generator that is running cannot be closed, and is abandoned
                inquiry.close()
        raise AssertionError  # an inquiry ends by returning

    async def _think(self, go_on: Callable[[], Question]) -> Question | _Ended[Any]:
        """Return the next question of an inquiry, or its result. In a thread, so that the event loop can renew the lease
        and handle stop requests. Raises `Interrupted`."""
        if self._threads is None:
            return _advance(go_on)
        loop = asyncio.get_running_loop()
        return await unless_interrupted(
            self._session.control, loop.run_in_executor(self._threads, _advance, go_on)
        )

    async def _take_recorded(self, question: Question) -> Reply | None:
        """Return the recorded answer to this question; None if there is none yet."""
        found = next((each for each in self._known if each.prompt == question.hash), None)
        if found is None:
            return None
        self._known.remove(found)
        text = (
            msgspec.json.decode(await self._session.values.read(found.blob)) if found.blob else found.answer
        )
        return found.as_reply(text)

    async def _ask(self, question: Question) -> Reply:
        """Ask one model after another, each again while a retry may help and retries are left."""
        faults: list[str] = []
        fault = ModelFault("there is no model to ask", code="model_refused")
        is_other_wanted = question.purpose == OTHER_MODEL and len(self._models) > 1
        for model in self._models[1:] if is_other_wanted else self._models:
            for retry in range(self._session.run.config.ctx.run_budget.max_step_retries + 1):
                if retry:
                    await self._pause(max(fault.wait_ms, delay_ms(Backoff(), retry - 1, self._draw)))
                attempt = len(faults) + 1
                try:
                    return await self._call(model, question, attempt)
                except ModelFault as found:
                    fault = found
                    is_named = model.name in found.message
                    faults.append(found.message if is_named else f"{model.name}: {found.message}")
                if not self._may_ask_again(fault):
                    break
        causes = tuple(dict.fromkeys(faults))
        if len(causes) < 2:
            raise fault
        raise ModelFault("; ".join(causes), code=fault.model_code, remedy=fault.remedy)

    def _may_ask_again(self, fault: ModelFault) -> bool:
        """Return whether to retry the same model: not after a timeout, and not if it asks for a long pause."""
        has_retries = (
            self._session.run.state.used.retries < self._session.run.config.ctx.run_budget.max_retries
        )
        is_near = fault.wait_ms <= LONGEST_WAIT_MS
        return fault.is_retriable and fault.model_code != "model_timeout" and has_retries and is_near

    async def _pause(self, ms: int) -> None:
        await unless_interrupted(self._session.control, self._clock.sleep(ms))

    async def _call(self, model: Model, question: Question, attempt: int) -> Reply:
        """Make one call, with an event before and after it."""
        tokens, cost = question.reserved_tokens, _price(model, question)
        self._demand_budget(tokens, cost)
        timeout_ms = time_for(self._limit)
        call, began = self._session.run.state.asked + 1, self._clock.now()
        asking = c.AskModel(
            purpose=question.purpose,
            model=model.name,
            prompt=question.hash,
            attempt=attempt,
            tokens=tokens,
            cost=cost,
            timeout_ms=timeout_ms,
            question=canonical(question),
        )
        self._session.record(asking, Now(at=began))
        await self._session.flush()
        if self._session.control.is_stopping:
            self._record_no_answer(call, "the session was let go of before", INTERRUPTED, began)
            raise Interrupted
        try:
            reply = await self._answer(model, question, timeout_ms)
        except Interrupted:
            # The provider may charge for it anyway, so the whole reservation counts.
            self._record_no_answer(
                call, "the session was let go of", INTERRUPTED, began, tokens=tokens, cost=cost
            )
            raise
        except ModelFault as fault:
            # The provider may charge for a timed-out call as well.
            kept = (tokens, cost) if isinstance(fault, _Late) else (0, 0)
            await self._record_fault(call, fault, began, *kept)
            raise
        if (fault := _find_fault(model, reply)) is not None:
            await self._record_fault(
                call, fault, began, reply.tokens_in + reply.tokens_out, reply.cost_microcents
            )
            raise fault
        latency = await self._record_answer(call, reply, began)
        return reply.model_copy(update={"latency_ms": latency})

    async def _record_fault(self, call: int, fault: ModelFault, began: int, tokens: int, cost: int) -> None:
        self._record_no_answer(
            call, fault.message, fault.code, began, tokens=max(0, tokens), cost=max(0, cost)
        )
        await self._session.flush()

    async def _answer(self, model: Model, question: Question, timeout_ms: int) -> Reply:
        """Return the model's answer; raises `ModelFault` for a timeout and for every exception of the model's code."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                reply = cast("object", await unless_interrupted(self._session.control, model.ask(question)))
        except TimeoutError as error:
            raise _Late(
                f"{model.name} took longer than {timeout_ms:,} ms",
                code="model_timeout",
                remedy=f"raise limits.{self._role}.timeout_ms in the pack, or take a faster model",
            ) from error
        except (ModelFault, Interrupted, JournalError):
            raise
        except Exception as error:
            raise ModelFault(f"{model.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(reply, Reply):
            raise ModelFault(
                f"{model.name} returned a {type(reply).__name__} (expected: Reply)", code="model_refused"
            )
        return reply

    def _demand_budget(self, tokens: int, cost: int) -> None:
        """Raise if the reservation of a call exceeds the remaining budget."""
        run = self._session.run
        short = shortage(run.state.used, run.config, self._role, self._limit, tokens, cost)
        if short is None:
            return
        told = f"a language model cannot be asked: {short}"
        if self._role == "critic":  # outputs are then judged and repaired without a model
            raise ModelFault(told, code="model_refused", remedy="extend the budget of the session")
        raise PlanningError(
            told,
            code=OVERDRAWN,
            remedy="extend the budget of the session, or let the planner show and ask for less",
        )

    async def _record_answer(self, call: int, reply: Reply, began: int) -> int:
        """Record an answer, and return how long it took."""
        data, blob = encode_json(storable(reply.text))
        now = self._clock.now()
        answer = ModelReply(
            at=now,
            text=reply.text,
            data=data,
            blob=blob,
            model=reply.model,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            cost=reply.cost_microcents,
            cut=reply.is_cut,
            logprob=reply.logprob,
        )
        self._session.record(c.AwaitModel(call=call, began=began), answer)
        await self._session.flush()
        return max(0, now - began)

    def _record_no_answer(
        self, call: int, error: str, code: str, began: int, *, tokens: int = 0, cost: int = 0
    ) -> None:
        answer = ModelReply(at=self._clock.now(), error=error, code=code, tokens_in=tokens, cost=cost)
        self._session.record(c.AwaitModel(call=call, began=began), answer)


def time_for(limit: RoleLimit) -> int:
    """Return the timeout of a model call in milliseconds."""
    return limit.timeout_ms or PLANNER_TIMEOUT_MS


def shortage(
    used: Used, config: RunConfig, role: AskingRole, limit: RoleLimit, tokens: int, cost: int
) -> budget.Shortage | None:
    """Return the budget shortage for a model call with this reservation; None if it fits."""
    limits = budget.limits_of(config.ctx.run_budget, {role: limit.tokens})
    needs = {"tokens": tokens, role: tokens, "cost_microcents": cost, "wall_clock_ms": 1}
    return budget.find_shortage(used, limits, needs)


def _price(model: Model, question: Question) -> int:
    """Return what a call may cost at most; raises `ModelFault` where the model does not say it in whole micro-cents."""
    price = cast("object", model.price(question))
    if type(price) is not int or price > MOST_COST:
        raise ModelFault(
            f"the price of {model.name} is {price!r} (expected: micro-cents)", code="model_refused"
        )
    return max(0, price)


def _find_fault(model: Model, reply: Reply) -> ModelFault | None:
    """Return the fault of an unusable reply, which is charged all the same; None if it can be used."""
    if len(reply.text) > LONGEST:
        return ModelFault(f"{model.name} answered {len(reply.text):,} characters", code="model_refused")
    if not reply.text.strip():
        return ModelFault(f"{model.name} answered nothing", code="model_empty")
    return None


MODEL = "model"
LOCAL = "local"
_LOCAL_READS = 5_000
_LOCAL_WRITES = 1_024
"""The limits of the small local model, whose context holds about eight thousand tokens."""


class OpenModel(Protocol):
    """Opens a model by name; raises `UsageError` if it is unknown, or if a library or a key is missing."""

    def __call__(self, name: str, *, prices: TokenPrices | None = None) -> Model:
        """Return the model with this name."""
        ...


class NamedModel:
    """A model that is opened on first use, so that a session that no longer plans can continue without an API key."""

    def __init__(self, name: str, open_model: OpenModel, prices: TokenPrices | None) -> None:
        self.name = name
        self.given = name
        """The name to open it by; its full name is known once it is open."""
        self._open = open_model
        self._prices = prices
        self._opened: Model | None = None

    def open(self) -> Model:
        """Return the opened model; raises `UsageError` if it cannot be opened."""
        if self._opened is None:
            self._opened = self._open(self.given, prices=self._prices)
            self.name = self._opened.name
        return self._opened

    def price(self, question: Question) -> int:
        """Return the highest possible cost of a question."""
        return self._open_model().price(question)

    async def ask(self, question: Question) -> Reply:
        """Ask a question, and return the reply."""
        return await self._open_model().ask(question)

    def _open_model(self) -> Model:
        try:
            return self.open()
        except UsageError as error:
            raise ModelFault(error.message, code="model_refused", remedy=error.remedy) from error

    async def aclose(self) -> None:
        """Close the model if it was opened."""
        opened: Any = self._opened
        if opened is not None and hasattr(opened, "aclose"):
            await opened.aclose()


class NamedModels:
    """The models of one runtime."""

    def __init__(self, open_model: OpenModel) -> None:
        self._open = open_model
        self._models: dict[tuple[str, str], NamedModel] = {}

    def planner(self, pack: Pack, name: str, models: Sequence[str] = ()) -> ModelPlanner:
        """Return the planner that asks the named models, by default the pack's; raises `UsageError` if there are none."""
        names = tuple(models) or ((LOCAL,) if name == LOCAL else pack.models.planner)
        if not names:
            raise UsageError(
                f"{pack.ref} names no language model for planning",
                code="no_model",
                remedy='name one, as in --model openai:gpt-5, or in pack.toml: [models] planner = ["openai:gpt-5"]',
            )
        is_small = any(each.partition(":")[0] == LOCAL for each in names)
        reads, writes = pack.models.max_prompt_tokens, pack.models.max_tokens
        return ModelPlanner(
            [self._named(pack, each) for each in names],
            name=name,
            max_prompt_tokens=min(reads, _LOCAL_READS) if is_small else reads,
            max_tokens=min(writes, _LOCAL_WRITES) if is_small else writes,
        )

    def named(self, pack: Pack, names: Sequence[str]) -> tuple[NamedModel, ...]:
        """Return models by name, with the prices of a pack."""
        return tuple(self._named(pack, name) for name in names)

    def _named(self, pack: Pack, name: str) -> NamedModel:
        key = (pack.hash, name)
        if key not in self._models:
            self._models[key] = NamedModel(name, self._open, pack.models.prices.get(name))
        return self._models[key]

    async def aclose(self) -> None:
        """Close the models that were opened."""
        for model in self._models.values():
            await model.aclose()


def open_all(models: Iterable[Model]) -> None:
    """Open the models that are not open yet; raises `UsageError` if one cannot be opened."""
    for model in models:
        if isinstance(model, NamedModel):
            model.open()


def names_of(models: Iterable[Model]) -> tuple[str, ...]:
    """Return the names by which models can be opened again."""
    return tuple(model.given if isinstance(model, NamedModel) else model.name for model in models)
