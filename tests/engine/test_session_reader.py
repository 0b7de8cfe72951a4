"""Reading a session: what every reader of the journal gets, and what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tercet.contracts.errors import UsageError
from tercet.core import events as e
from tercet.core.fold.apply import fold_event
from tercet.core.state import State
from tercet.engine import session_reader
from tercet.engine.session_reader import load_history, load_state, restore
from tercet.journal.errors import JournalCorrupt
from tercet.journal.protocol import Journal, Stored

from .workshop import ADA, ASK, Workshop, plan, step

TWO = plan(step("a"), step("b", depends_on=["a"]))


async def test_a_history_leads_to_the_state(workshop: Workshop, url: str) -> None:
    """Folding every event gives what the newest fold and its tail give, and so does reading on from anywhere between."""
    workshop.tool("do.it")

    async with (
        workshop.journal(url) as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
    ):
        session = (await runtime.run(ASK, plan=TWO, actor=ADA)).session_id
        history = await load_history(journal, "default", session)
        assert history.state == await load_state(journal, "default", session)
        assert [state.position for state in history.states] == [*range(len(history.events) + 1)]
        middle = history.states[5]
        rest = await load_history(journal, "default", session, after=middle)
        assert rest.events == history.events[5:]
        assert rest.state == history.state
        known = await restore(journal, "default", session)
        assert await restore(journal, "default", session, known=known) == known
        end = await load_history(journal, "default", session, after=history.state)
        assert (end.events, end.state) == ((), history.state)


class Ahead:
    """A journal whose checkpoints are read after more events were appended than the reader has seen."""

    def __init__(self, journal: Journal, end: int) -> None:
        self._journal = journal
        self._end = end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def head(self, tenant: str, stream: str) -> Any:
        """Return the end before the last append."""
        (last,) = await self._journal.read(tenant, stream, after=self._end - 1, limit=1)
        return msgspec.structs.replace(
            await self._journal.head(tenant, stream), seq=last.seq, chain=last.chain
        )

    async def read(self, tenant: str, stream: str, **named: Any) -> list[Stored]:
        """Return the events before the last append."""
        page = await self._journal.read(tenant, stream, **named)
        return [each for each in page if each.seq <= self._end]


async def test_checkpoints_of_later_events_are_left_out(workshop: Workshop) -> None:
    """Events and checkpoints are two reads; what was appended between them is in neither."""
    workshop.tool("do.it")

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
    ):
        session = (await runtime.run(ASK, plan=TWO, actor=ADA)).session_id
        whole = await load_history(journal, "default", session, has_checkpoints=True)
        ahead: Any = Ahead(journal, len(whole.events) - 1)
        cut = await load_history(ahead, "default", session, has_checkpoints=True)
        assert len(cut.events) == len(whole.events) - 1
        assert whole.checkpoints[-1].seq == len(whole.events)
        assert cut.checkpoints == tuple(each for each in whole.checkpoints if each.seq < len(whole.events))
        assert (await load_history(journal, "default", session)).checkpoints == ()


async def test_an_unknown_session_is_a_typed_answer(workshop: Workshop) -> None:
    """Both readers say so in the same words."""

    async with workshop.journal("memory:") as journal:
        for read in (load_state, load_history):
            with pytest.raises(UsageError) as caught:
                await read(journal, "default", "ses_none")
            assert caught.value.code == "unknown_session"


async def test_an_event_that_cannot_be_applied_is_named(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fold that fails on the content of an event means damage, and not an error of the program."""
    workshop.tool("do.it")

    def fold(state: State, event: e.Event) -> State:
        return fold_event(state, event) if state.position < 3 else state.steps["nowhere"]  # pyright: ignore[reportReturnType]

    async with (
        workshop.journal("memory:") as journal,
        workshop.runtime(workshop.pack(), journal) as runtime,
    ):
        session = (await runtime.run(ASK, plan=TWO, actor=ADA)).session_id
        with monkeypatch.context() as patched:
            patched.setattr(session_reader, "fold_event", fold)
            with pytest.raises(JournalCorrupt) as caught:
                await load_state(journal, "default", session)
        assert caught.value.place == f"event 4 of stream {session}"
