"""Showing personal values: a token is opened only in what is shown of a session that it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from tercet.contracts.errors import TercetError
from tercet.contracts.personal import ERASED, SEALED, TOKEN, find_tokens, map_texts
from tercet.engine.personal.keys import STOP_NOTES, SubjectKey, find_key_by_id
from tercet.engine.personal.known import Known, read_marks
from tercet.engine.personal.sealing import MARK, Keyless, demand_cryptography, unseal
from tercet.engine.session_reader import load_state
from tercet.journal.protocol import Journal

_T = TypeVar("_T", bound=msgspec.Struct)


class Revealer:
    """Puts personal values in the place of their tokens in what is shown of one session.

    A session may show the values of its own subject, those of the evidence that it was given, and the note of the stop that
    paused it. Every other token stays as it is: the caller who put it there may not know what it stands for.
    """

    def __init__(self, journal: Journal, tenant: str, session: str) -> None:
        self._journal = journal
        self._tenant = tenant
        self._session = session
        self._keys: dict[str, SubjectKey | None] = {}
        self._from_evidence: frozenset[str] | None = None
        self._shown: dict[str, str] = {}

    async def reveal(self, value: Any) -> Any:
        """Return a JSON value with its tokens replaced by their texts, or by `erased` if the key was destroyed."""
        tokens = dict.fromkeys(find_tokens(value))
        if not tokens:
            return value
        await self._look_up(tokens.keys() - self._shown.keys())
        return map_texts(value, lambda text: TOKEN.sub(lambda found: self._shown[found.group()], text))

    async def reveal_struct(self, struct: _T) -> _T:
        """Return a struct, such as a state or an event, with its personal values: only to show it, never to judge it."""
        packed = msgspec.msgpack.encode(struct)
        if MARK not in packed:
            return struct
        shown = await self.reveal(msgspec.msgpack.decode(packed))
        return msgspec.msgpack.decode(msgspec.msgpack.encode(shown), type=type(struct))

    async def _look_up(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            self._shown[token] = SEALED if isinstance(self._journal, Keyless) else await self._open(token)

    async def _open(self, token: str) -> str:
        found = TOKEN.fullmatch(token)
        key_id = "" if found is None else found.group(1)
        if key_id not in self._keys:
            demand_cryptography()
            self._keys[key_id] = await find_key_by_id(self._journal, self._tenant, key_id)
        key = self._keys[key_id]
        if key is None:
            return ERASED
        is_own = self._session in key.sessions or STOP_NOTES in key.sessions
        if not is_own and token not in await self._evidence():
            return token
        return unseal(key, self._tenant, token) or ERASED

    async def _evidence(self) -> frozenset[str]:
        """Return the tokens in the evidence that the session was given: its pack has sealed them."""
        if self._from_evidence is None:
            known = Known()
            with suppress(
                TercetError
            ):  # a session that cannot be read opens nothing, and may stand in a list
                state = await load_state(self._journal, self._tenant, self._session)
                if (await read_marks(self._journal, self._tenant, state)).evidence:
                    await known.refresh(self._journal, self._tenant, self._session)
            self._from_evidence = frozenset(known.from_evidence)
        return self._from_evidence
