"""Asking language models for a planner: reserve, record, ask, settle, try again, take another model.

A planner that thinks with models is a generator that yields questions. Each call of a model is two facts in the journal:
before it what is kept of the budget for it, after it what it answered and took. An answer that is there already, since
the process before this one died on the way to the plan, is not asked for again.

Models are opened by their names when they are first needed, and closed with the runtime that opened them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.plan import Plan
from tercet.contracts.prices import TokenPrices
from tercet.contracts.question import Inquiry, ModelFault, Question, Reply
from tercet.contracts.runs.invocation import Backoff
from tercet.contracts.runs.session import PLANNER_TIMEOUT_MS, RoleLimit
from tercet.contracts.values.canonical import canonical
from tercet.contracts.values.plain import storable
from tercet.core import budget
from tercet.core import commands as c
from tercet.core.answers import ModelReply, Now
from tercet.core.attempt import delay_ms
from tercet.core.config import RunConfig
from tercet.core.resolve.planning import OVERDRAWN
from tercet.core.state import State, Used
from tercet.engine.active_session import ActiveSession
from tercet.engine.control import Interrupted, unless_interrupted
from tercet.engine.models.planner import ModelPlanner
from tercet.engine.values import encode_json
from tercet.executor.clock import Clock
from tercet.journal.errors import JournalError
from tercet.models.model import Model
from tercet.packs.pack import Pack
from tercet.planner.sources import PlanningError
from tercet.quality.repair.mending import OTHER_MODEL

ResultT = TypeVar("ResultT")
AskingRole: TypeAlias = Literal["planner", "critic"]
"""Who asks a language model: each has its own limits."""

LONGEST = 4 * 1024 * 1024
"""An answer of more characters is no answer."""

LONGEST_WAIT_MS = 60_000
"""A model that asks to be left alone for longer is not asked again."""

INTERRUPTED = "stopped"
"""The code of a question that was given up because the session was let go of."""


class _Late(ModelFault):
    """A call that was given up while it was under way."""


class _Ended(NamedTuple, Generic[ResultT]):
    """An inquiry has come to its result."""

    result: ResultT


def _thought(go_on: Callable[[], Question]) -> Question | _Ended[Any]:
    try:
        return go_on()
    except StopIteration as ended:  # which no future can hold
        return _Ended(ended.value)


@runtime_checkable
class Inquirer(Protocol):
    """A planner that asks language models on its way to a plan. What it does between two questions is pure."""

    @property
    def name(self) -> str:
        """What journals call it."""
        ...

    @property
    def models(self) -> Sequence[Model]:
        """The model to ask, and those that are asked when it does not answer."""
        ...

    def inquire(self, config: RunConfig, state: State) -> Inquiry[Plan]:
        """The way to a plan: yields questions, is sent replies, and returns the plan.

        `ModelFault` is thrown in where no model answers. May raise `PlanningError`.
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
        """`threads` are for an inquiry that thinks long between two questions, and is pure; else it thinks in the loop."""
        self._threads = threads
        self._session = session
        self._models = models
        self._clock = clock
        self._draw = draw
        self._limit = limit
        self._role: AskingRole = role
        self._known = list(session.run.state.replies)
        """Answers that are there from before, in the order in which they came."""
        self.faults: dict[str, str] = {}
        """Why nobody answered a question, by its number in this interview."""

    async def conduct(self, inquiry: Inquiry[ResultT]) -> ResultT:
        """What an inquiry comes to. Raises what it raises, and `Interrupted`."""
        try:
            thought = await self._think(partial(next, inquiry))
            for number in count():
                if isinstance(thought, _Ended):
                    return thought.result
                try:
                    reply = await self._recorded(thought) or await self._ask(thought)
                except ModelFault as fault:
                    self.faults[str(number)] = storable(fault.message)
                    thought = await self._think(partial(inquiry.throw, fault))
                else:
                    thought = await self._think(partial(inquiry.send, reply))
        finally:
            with suppress(ValueError):  # one that still thinks cannot be closed, and is left behind
                inquiry.close()
        raise AssertionError  # an inquiry ends by returning

    async def _think(self, go_on: Callable[[], Question]) -> Question | _Ended[Any]:
        """What an inquiry asks next, or comes to. The loop goes on meanwhile: the lease is renewed, and who wants the
        session to stop is heard. Raises `Interrupted`."""
        if self._threads is None:
            return _thought(go_on)
        loop = asyncio.get_running_loop()
        return await unless_interrupted(
            self._session.control, loop.run_in_executor(self._threads, _thought, go_on)
        )

    async def _recorded(self, question: Question) -> Reply | None:
        """The answer to this question that was recorded before; none if nobody has answered it yet."""
        found = next((each for each in self._known if each.prompt == question.hash), None)
        if found is None:
            return None
        self._known.remove(found)
        text = (
            msgspec.json.decode(await self._session.values.read(found.blob)) if found.blob else found.answer
        )
        return found.as_reply(text)

    async def _ask(self, question: Question) -> Reply:
        """Ask one model after the other, each again while that may help and the retries last."""
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
        """Whether the same model is worth another call: one that was too late would be again, and one that wants to be
        left alone for long is not waited for."""
        has_retries = (
            self._session.run.state.used.retries < self._session.run.config.ctx.run_budget.max_retries
        )
        is_near = fault.wait_ms <= LONGEST_WAIT_MS
        return fault.is_retriable and fault.model_code != "model_timeout" and has_retries and is_near

    async def _pause(self, ms: int) -> None:
        await unless_interrupted(self._session.control, self._clock.sleep(ms))

    async def _call(self, model: Model, question: Question, attempt: int) -> Reply:
        """One call, with a fact before it and one behind it."""
        tokens, cost = question.reserved_tokens, max(0, model.price(question))
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
            self._unanswered(call, "the session was let go of before", INTERRUPTED, began)
            raise Interrupted
        try:
            reply = await self._answer(model, question, timeout_ms)
        except Interrupted:
            # It may be paid for all the same, so all that was kept for it counts.
            self._unanswered(call, "the session was let go of", INTERRUPTED, began, tokens=tokens, cost=cost)
            raise
        except ModelFault as fault:
            # One that is too late may be paid for all the same, as one that is let go of.
            kept = (tokens, cost) if isinstance(fault, _Late) else (0, 0)
            await self._failed(call, fault, began, *kept)
            raise
        if (fault := _unusable(model, reply)) is not None:
            await self._failed(call, fault, began, reply.tokens_in + reply.tokens_out, reply.cost_microcents)
            raise fault
        latency = await self._answered(call, reply, began)
        return reply.model_copy(update={"latency_ms": latency})

    async def _failed(self, call: int, fault: ModelFault, began: int, tokens: int, cost: int) -> None:
        self._unanswered(call, fault.message, fault.code, began, tokens=max(0, tokens), cost=max(0, cost))
        await self._session.flush()

    async def _answer(self, model: Model, question: Question, timeout_ms: int) -> Reply:
        """The model's answer in time, or a fault; whatever else a model's code raises is its fault too."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await unless_interrupted(self._session.control, model.ask(question))
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

    def _demand_budget(self, tokens: int, cost: int) -> None:
        """No call starts whose reservation exceeds what is left."""
        run = self._session.run
        short = shortage(run.state.used, run.config, self._role, self._limit, tokens, cost)
        if short is None:
            return
        told = f"a language model cannot be asked: {short}"
        if self._role == "critic":  # what cannot be asked is judged, and mended, as far as that goes without
            raise ModelFault(told, code="model_refused", remedy="extend the budget of the session")
        raise PlanningError(
            told,
            code=OVERDRAWN,
            remedy="extend the budget of the session, or let the planner show and ask for less",
        )

    async def _answered(self, call: int, reply: Reply, began: int) -> int:
        """Record an answer; how long it took."""
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

    def _unanswered(
        self, call: int, error: str, code: str, began: int, *, tokens: int = 0, cost: int = 0
    ) -> None:
        answer = ModelReply(at=self._clock.now(), error=error, code=code, tokens_in=tokens, cost=cost)
        self._session.record(c.AwaitModel(call=call, began=began), answer)


def time_for(limit: RoleLimit) -> int:
    """How long a model may take to answer, in milliseconds."""
    return limit.timeout_ms or PLANNER_TIMEOUT_MS


def shortage(
    used: Used, config: RunConfig, role: AskingRole, limit: RoleLimit, tokens: int, cost: int
) -> budget.Shortage | None:
    """Return what the budget has too little of for a call of a model that would reserve this much."""
    limits = budget.limits_of(config.ctx.run_budget, {role: limit.tokens})
    needs = {"tokens": tokens, role: tokens, "cost_microcents": cost, "wall_clock_ms": 1}
    return budget.find_shortage(used, limits, needs)


def _unusable(model: Model, reply: Reply) -> ModelFault | None:
    """What is wrong with a reply that is no answer; it is paid for all the same."""
    if len(reply.text) > LONGEST:
        return ModelFault(f"{model.name} answered {len(reply.text):,} characters", code="model_refused")
    if not reply.text.strip():
        return ModelFault(f"{model.name} answered nothing", code="model_empty")
    return None


MODEL = "model"
LOCAL = "local"
_LOCAL_READS = 5_000
_LOCAL_WRITES = 1_024
"""What the small model can take: it reads and writes some eight thousand tokens in all."""


class OpenModel(Protocol):
    """Opens a model by its name; raises `UsageError` where there is none, or where a library or a key is missing."""

    def __call__(self, name: str, *, prices: TokenPrices | None = None) -> Model:
        """The model by that name."""
        ...


class NamedModel:
    """A model by its name. A session that need not plan any more goes on without the key that asking would take."""

    def __init__(self, name: str, open_model: OpenModel, prices: TokenPrices | None) -> None:
        self.name = name
        self.given = name
        """The name that it can be opened by again; its full name is known once it was opened."""
        self._open = open_model
        self._prices = prices
        self._opened: Model | None = None

    def open(self) -> Model:
        """The model itself; raises `UsageError` if it cannot be opened."""
        if self._opened is None:
            self._opened = self._open(self.given, prices=self._prices)
            self.name = self._opened.name
        return self._opened

    def price(self, question: Question) -> int:
        """The most that asking can cost."""
        return self._reached().price(question)

    async def ask(self, question: Question) -> Reply:
        """Ask, and wait for the answer."""
        return await self._reached().ask(question)

    def _reached(self) -> Model:
        try:
            return self.open()
        except UsageError as error:
            raise ModelFault(error.message, code="model_refused", remedy=error.remedy) from error

    async def aclose(self) -> None:
        """Give up what the model holds, if it holds anything."""
        opened: Any = self._opened
        if opened is not None and hasattr(opened, "aclose"):
            await opened.aclose()


class NamedModels:
    """The models of one runtime."""

    def __init__(self, open_model: OpenModel) -> None:
        self._open = open_model
        self._models: dict[tuple[str, str], NamedModel] = {}

    def planner(self, pack: Pack, name: str, models: Sequence[str] = ()) -> ModelPlanner:
        """The planner that asks models by these names, else those of the pack; raises `UsageError` if there are none."""
        names = tuple(models) or ((LOCAL,) if name == LOCAL else pack.models.planner)
        if not names:
            raise UsageError(
                f"{pack.ref} does not say which language model plans for it",
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
        """Models by their names, at the prices of a pack."""
        return tuple(self._named(pack, name) for name in names)

    def _named(self, pack: Pack, name: str) -> NamedModel:
        key = (pack.hash, name)
        if key not in self._models:
            self._models[key] = NamedModel(name, self._open, pack.models.prices.get(name))
        return self._models[key]

    async def aclose(self) -> None:
        """Close those that were opened."""
        for model in self._models.values():
            await model.aclose()


def open_all(models: Iterable[Model]) -> None:
    """Open the models that are there by their names only; raises `UsageError` if one cannot be opened."""
    for model in models:
        if isinstance(model, NamedModel):
            model.open()


def names_of(models: Iterable[Model]) -> tuple[str, ...]:
    """The names by which models can be opened again."""
    return tuple(model.given if isinstance(model, NamedModel) else model.name for model in models)
