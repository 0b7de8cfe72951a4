"""The vault of a pack: seals marked values where they enter a run, and reveals them to the tools that may see them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import msgspec

from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import NotSent, UsageError
from tercet.contracts.evidence import Evidence
from tercet.contracts.personal import (
    TOKEN,
    PersonalCall,
    PersonalMarks,
    blank_field,
    find_keys,
    find_other,
    find_tokens,
    map_field,
    map_texts,
    map_values,
    read_field,
)
from tercet.contracts.plan import EvidenceQuery, Plan
from tercet.contracts.request import Request
from tercet.contracts.shape import JsonObject
from tercet.core import events as e
from tercet.core.answers import Done, Ended
from tercet.core.messages import Message, Reply
from tercet.core.state import State
from tercet.engine.evidence.library import Library, LibraryEvidence
from tercet.engine.personal.keys import SubjectKey, find_key_by_id, use_key
from tercet.engine.personal.known import Known, read_marks
from tercet.engine.personal.sealing import demand_cryptography, replace_texts, seal, unseal_all, with_encoded
from tercet.evidence.store import Fact
from tercet.journal.protocol import Journal

ERASED_CODE = "subject_erased"
FOREIGN_CODE = "personal_token"

_MOST_KNOWN = 256
"""The number of sessions whose tokens a vault remembers; those of others are read again."""


@dataclass(frozen=True, kw_only=True)
class SealedRequest:
    """A request without its personal values, and the tokens in their place."""

    request: Request
    plan: Plan | None
    subject: str = ""
    key: str = ""
    """The id of the subject's key; empty if the request names no subject."""


class Vault:
    """Seals the values that a pack marks as personal."""

    def __init__(self, journal: Journal, tenant: str, marks: PersonalMarks) -> None:
        self.journal = journal
        self.tenant = tenant
        self.marks = marks
        self._known: OrderedDict[str, Known] = OrderedDict()

    async def seal_request(self, request: Request, plan: Plan | None) -> SealedRequest:
        """Return a request and the caller's plan with tokens in place of personal values. Raises `UsageError`."""
        demand_cryptography()
        if any(find_tokens(request.input)) or (
            plan is not None and any(find_tokens(plan.model_dump(mode="json")))
        ):
            raise UsageError(
                "a request cannot hold the token of a personal value",
                code="personal_token",
                remedy="send the value itself",
            )
        subject = _name_subject(request.input, self.marks.subject)
        if not subject:
            self._demand_no_values(request)
            return SealedRequest(request=request, plan=plan)
        key = await use_key(self.journal, self.tenant, subject)
        tokens: dict[str, str] = {}
        given: Any = request.input
        for path in self.marks.request:
            if (other := find_other(given, path)) is not None:
                raise UsageError(
                    f"the personal field {path} holds {type(other).__name__} {other}, which is not a text",
                    code="personal_not_text",
                    remedy="send it as a text",
                )
            given = map_field(given, path, self.sealing(key, tokens))
        # The same values elsewhere in the request, and in the caller's plan, are the same personal values.
        _demand_plain_keys(given, tokens)
        given = replace_texts(given, tokens)
        if plan is not None:
            written = plan.model_dump(mode="json", exclude_defaults=True)
            _demand_plain_keys(written, tokens, names=_plan_names)
            plan = Plan.model_validate(map_values(written, lambda text: replace_texts(text, tokens)))
        return SealedRequest(
            request=request.model_copy(update={"input": given}),
            plan=plan,
            subject=subject,
            key=key.id,
        )

    def _demand_no_values(self, request: Request) -> None:
        found: list[str] = []
        for path in self.marks.request:
            map_field(request.input, path, found.append)
        if found:
            raise UsageError(
                f"the request has personal values, and {self.marks.subject} does not say whose they are",
                code="subject_missing",
                remedy=f"send {self.marks.subject} in the input",
            )

    def sealing(self, key: SubjectKey, tokens: dict[str, str]) -> Callable[[str], str]:
        """Return the function that seals a text, and adds its token to `tokens`."""

        def change(text: str) -> str:
            token = seal(key, self.tenant, text)
            if text and token != text:
                tokens[text] = token
            return token

        return change

    async def enrol(self, sealed: SealedRequest, session: str) -> None:
        """Note a session with the key of its subject. Raises `UsageError` if the subject was erased since it was sealed."""
        if (
            sealed.subject
            and (await use_key(self.journal, self.tenant, sealed.subject, session)).id != sealed.key
        ):
            raise UsageError(
                "the subject of this request was erased while it began",
                code=ERASED_CODE,
                remedy="send the request again",
            )

    async def seal_evidence(self, facts: Iterable[Evidence]) -> tuple[Evidence, ...]:
        """Return facts with tokens in place of personal values, each under the key of its own subject."""
        keys: dict[str, SubjectKey] = {}
        sealed: list[Evidence] = []
        for fact in facts:
            marks = self.marks.evidence.get(fact.classification)
            if marks is None:
                sealed.append(fact)
                continue
            subject = _name_subject(fact.content, marks.subject)
            if not subject:
                raise UsageError(
                    f"the fact {fact.id} has no {marks.subject}, which names the subject of its personal values",
                    code="subject_missing",
                    remedy=f"add {marks.subject} to the fact",
                )
            if subject not in keys:
                demand_cryptography()
                keys[subject] = await use_key(self.journal, self.tenant, subject)
            content: Any = fact.content
            tokens: dict[str, str] = {}
            for path in marks.fields:
                content = map_field(content, path, self.sealing(keys[subject], tokens))
            content = replace_texts(content, tokens)
            sealed.append(Evidence.model_validate({**fact.model_dump(mode="json"), "content": content}))
        return tuple(sealed)

    async def seal_facts(self, facts: Iterable[Fact]) -> list[Fact]:
        """Return facts of a library with tokens in place of personal values."""
        found = list(facts)
        evidence = await self.seal_evidence(fact.evidence for fact in found)
        return [
            fact if sealed is fact.evidence else cite_sealed(fact, sealed)
            for fact, sealed in zip(found, evidence, strict=True)
        ]

    def guard(self, start: e.SessionStarted, tool: str) -> CallGuard:
        """Return the guard of a call to a tool."""
        return CallGuard(self, start, tool)

    async def known(self, session: str) -> Known:
        """Return the tokens of the personal values that a session has recorded so far."""
        known = self._known.setdefault(session, Known())
        self._known.move_to_end(session)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        await known.refresh(self.journal, self.tenant, session)
        return known


def _demand_plain_keys(
    value: Any, tokens: Mapping[str, str], names: Callable[[], frozenset[str]] = frozenset
) -> None:
    """Raise `UsageError` if a key holds a known value: it names a field, so no token can take its place."""
    for key in find_keys(value) if tokens else ():
        if replace_texts(key, tokens) != key and key not in names():
            raise UsageError(
                "the request uses a personal value as the name of a field",
                code="personal_key",
                remedy="send it as the value of a field",
            )


@cache
def _plan_names() -> frozenset[str]:
    """Return the names of the fields of plans, which are no one's values."""
    return frozenset(key for key in find_keys(Plan.model_json_schema()))


def cite_sealed(fact: Fact, sealed: Evidence) -> Fact:
    """Return a fact with other evidence, and a citation of that."""
    citation = fact.citation.model_copy(update={"content_hash": sealed.hash})
    return Fact(evidence=sealed, citation=citation)


def _name_subject(value: Any, path: str | None) -> str:
    found = None if path is None else read_field(value, path)
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


class CallGuard:
    """Reveals the parameters of one call, and seals what comes back."""

    def __init__(self, vault: Vault, start: e.SessionStarted, tool: str) -> None:
        self._vault = vault
        self._start = start
        self._tool = tool
        self._marks = vault.marks.tools.get(tool, PersonalCall())
        self._key: SubjectKey | None = None
        self._tokens: dict[str, str] = {}
        """The tokens of the values that the tool may know, by value."""

    async def open(self, params: JsonObject) -> JsonObject:
        """Return the parameters with their personal values. Raises `NotSent` if the tool may not see them, or they were erased."""
        rest: Any = params
        for path in self._marks.params:
            rest = blank_field(rest, path)
        if any(find_tokens(rest)):
            raise NotSent(
                f"{self._tool} would receive a personal value in a parameter that is not marked",
                code="personal_not_marked",
                remedy=f"list the parameter in pack.toml, under [personal.tools.{self._tool!r}]",
                is_retriable=False,
            )
        vault, asked = self._vault, list(find_tokens(params))
        around: tuple[str, ...] = ()
        if asked or self._start.personal:
            known = await vault.known(self._start.session)
            around = known.own(self._start) if self._start.personal else ()
            if not all(known.is_own(self._start, token) for token in asked):
                raise NotSent(
                    f"{self._tool} would receive a personal value that is not of this session",
                    code=FOREIGN_CODE,
                    remedy="refer to values of the request, of evidence and of results",
                    is_retriable=False,
                )
        texts = await unseal_all(vault.journal, vault.tenant, (*asked, *around))
        if any(texts[token] is None for token in asked):
            raise self._erased()
        self._tokens = {text: token for token, text in texts.items() if text}
        if self._marks.result:
            self._key = await find_key_by_id(vault.journal, vault.tenant, self._start.personal or "-")
            if self._key is None:
                raise self._erased()
        return map_texts(params, lambda text: TOKEN.sub(lambda found: texts[found.group()] or "", text))

    def _erased(self) -> NotSent:
        if not self._start.personal and self._marks.result:
            return NotSent(
                f"{self._tool} returns personal values, and the request does not say whose they are",
                code="subject_missing",
                remedy=f"send {self._vault.marks.subject} in the input",
                is_retriable=False,
            )
        return NotSent(
            f"a personal value that {self._tool} needs was erased",
            code=ERASED_CODE,
            remedy="the subject's data was erased: end the session",
            is_retriable=False,
        )

    def close(self, ended: Ended) -> Ended:
        """Return how a call ended, with tokens in place of personal values."""
        error = replace_texts(ended.error, with_encoded(self._tokens))
        if not isinstance(ended, Done):
            return msgspec.structs.replace(ended, error=error)
        value = ended.value
        if any(find_tokens(value)):
            return Done(
                error=f"{self._tool} returned the token of a personal value", latency_ms=ended.latency_ms
            )
        for path in self._marks.result:
            if self._key is None or find_other(value, path) is not None:
                error = f"{self._tool} returned a personal field {path} that is not a text"
                return Done(error=error, latency_ms=ended.latency_ms)
            value = map_field(value, path, self._vault.sealing(self._key, self._tokens))
        return msgspec.structs.replace(
            ended, value=replace_texts(value, with_encoded(self._tokens)), error=error
        )


@dataclass(frozen=True)
class SealedLibrary(Library):
    """A library whose facts have tokens in place of personal values."""

    vault: Vault = field(kw_only=True)

    async def select_evidence(
        self, tenant: str, spec: DecisionSpec, request: Request, now: int
    ) -> LibraryEvidence:
        """Return the evidence that a run starts with."""
        found = await super().select_evidence(tenant, spec, request, now)
        return replace(found, facts=await self.vault.seal_evidence(found.facts))

    async def read(
        self, tenant: str, snapshot: str, pinned: str, refs: Iterable[str], now: int
    ) -> list[Fact]:
        """Return the facts of the pinned snapshot with these ids."""
        return await self.vault.seal_facts(await super().read(tenant, snapshot, pinned, refs, now))

    async def find(
        self, tenant: str, snapshot: str, pinned: str, queries: Iterable[EvidenceQuery], now: int
    ) -> list[Fact]:
        """Return the facts that answer these queries."""
        return await self.vault.seal_facts(await super().find(tenant, snapshot, pinned, list(queries), now))


async def seal_message(journal: Journal, tenant: str, message: Message, state: State) -> Message:
    """Return a message to a session with tokens in place of the personal values that a person wrote into it.

    Values that the session knows are found wherever they are; others only in parameters and results that are marked.
    """
    start = state.start
    written = set(find_tokens(msgspec.to_builtins(message)))
    has_marks = bool(start.personal) or (written and (await read_marks(journal, tenant, state)).has_marks)
    if not has_marks:
        return message
    known = Known()
    await known.refresh(journal, tenant, start.session)
    own = known.own(start)
    if not written.issubset(own):
        raise UsageError(
            "an answer cannot hold the token of a personal value that is not of this session",
            code=FOREIGN_CODE,
            remedy="write the value itself",
        )
    if not start.personal:
        return message
    texts = await unseal_all(journal, tenant, own)
    tokens = {text: token for token, text in texts.items() if text}
    if isinstance(message, Reply) and (message.changes or message.value is not None):
        message = await _seal_reply(journal, tenant, message, state, tokens)
    fields = msgspec.structs.asdict(message)
    changed = {
        name: replace_texts(fields[name], tokens) for name in ("note", "value", "changes") if name in fields
    }
    return msgspec.structs.replace(message, **changed)


async def _seal_reply(
    journal: Journal, tenant: str, reply: Reply, state: State, tokens: dict[str, str]
) -> Reply:
    key = await find_key_by_id(journal, tenant, state.start.personal)
    gate = state.gates.get(reply.gate) or state.approved.get(reply.gate)
    tool = str(gate.shown.get("tool", "")) if gate is not None else ""
    marks = (await read_marks(journal, tenant, state)).tools.get(tool, PersonalCall())
    if key is None or not (marks.params or marks.result):
        return reply
    vault = Vault(journal, tenant, PersonalMarks())
    opened = {token: text for text, token in tokens.items()}
    seal_text = vault.sealing(key, tokens)

    def sealing(text: str) -> str:
        # A token inside of a text is opened first: one that was sealed again would reach the tool as a token.
        return (
            text if TOKEN.fullmatch(text) else seal_text(TOKEN.sub(lambda found: _open(opened, found), text))
        )

    changes = {
        where: map_values(value, sealing) if _is_marked(where, marks.params) else value
        for where, value in reply.changes.items()
    }
    value = reply.value
    for path in marks.result:
        value = map_field(value, path, sealing)
    return msgspec.structs.replace(reply, changes=changes, value=value)


def _open(texts: Mapping[str, str], found: re.Match[str]) -> str:
    if (text := texts.get(found.group())) is None:
        raise UsageError(
            "an answer refers to a personal value that was erased",
            code=ERASED_CODE,
            remedy="write the value itself",
        )
    return text


def _is_marked(where: str, paths: Iterable[str]) -> bool:
    named = ".".join(part for part in where.strip("/").split("/") if not part.isdecimal())
    return any(f"{named}.".startswith(f"{path}.") or f"{path}.".startswith(f"{named}.") for path in paths)
