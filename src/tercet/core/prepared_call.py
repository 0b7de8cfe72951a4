"""Prepared calls: resolved parameters, with the idempotency key, the loop guard's hash and the marks derived from them.

A plan with literal parameters caches its prepared calls.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode
from tercet.contracts.steps.effective import EffectiveStep
from tercet.contracts.tool import ToolSpec
from tercet.contracts.values.canonical import canonical_dump, hash_bytes
from tercet.core import events as e
from tercet.policy.call_params import canonical_params, identity_params, repeat_params

_READ_ONLY = ApprovalMode.READ_ONLY


class PreparedCall:
    """A call with its resolved parameters; what only an INTENT needs is computed on first use."""

    __slots__ = (
        "_compared",
        "_earlier_identities",
        "_hash",
        "_identity",
        "_is_strict",
        "_marks",
        "_tool",
        "call",
        "params",
    )

    def __init__(
        self, call: EffectiveStep, params: dict[str, Any], *, is_strict: bool, reads_all: bool = True
    ) -> None:
        """`is_strict` and `reads_all`: rule 5 and rule 22 apply."""
        self.call = call
        self.params = params
        self._is_strict = is_strict
        tool = call.tool
        self._tool = tool.name
        compared = canonical_params(tool, params, reads_all=reads_all) if is_strict else params
        identity = identity_params(tool, compared, is_strict=is_strict)
        earlier = identity_params(tool, params, is_strict=False)
        is_same = compared is params and identity.keys() == earlier.keys()
        self._compared = compared
        self._identity = print_identity(identity)
        self._earlier_identities = () if is_same else self._print_earlier(earlier, is_strict=is_strict)
        self._hash = ""
        self._marks: e.CallMarks | None = None

    def _print_earlier(self, earlier: dict[str, Any], *, is_strict: bool) -> tuple[bytes, ...]:
        """Return the identities that the call had under earlier rules."""
        tool = self.call.tool
        before = canonical_params(tool, self.params, reads_all=False) if is_strict else self.params
        found = (identity_params(tool, before, is_strict=is_strict), earlier)
        return tuple(printed for each in found if (printed := print_identity(each)) != self._identity)

    def keys(self, tenant: str, session: str, occurrence: int) -> tuple[str, ...]:
        """Return the key of this action, and those that it had under earlier rules: a session may have been migrated."""
        if not self._earlier_identities:
            return (idempotency_key(tenant, session, self._tool, self._identity, occurrence),)
        identities = dict.fromkeys((self._identity, *self._earlier_identities))
        return tuple(
            idempotency_key(tenant, session, self._tool, identity, occurrence) for identity in identities
        )

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing."""
        return self.call.mode is _READ_ONLY

    @property
    def hash(self) -> str:
        """The hash of tool and parameters, which the loop guard compares."""
        if not self._hash:
            self._hash = call_hash(self._tool, self._compared)
        return self._hash

    @property
    def marks(self) -> e.CallMarks | None:
        """The marks by which other runs recognise the call; None if it only reads, and under earlier rules."""
        if self._marks is None and self._is_strict and not self.only_reads:
            self._marks = marks_of(self.call.tool, self._compared, self._identity)
        return self._marks


# --- keys and hashes ---


def idempotency_key(tenant: str, session: str, tool: str, identity: bytes, occurrence: int) -> str:
    """Return the idempotency key of an action: what it is, in which session, and its occurrence; never its place in a plan.

    It is the hash of the canonical JSON of these five in a list. `identity` is printed already, by `print_identity`.
    """
    return hash_bytes(b"%b,%b,%b,%d]" % (_print_scope(tenant, session), _print(tool), identity, occurrence))


@lru_cache(maxsize=256)
def _print_scope(tenant: str, session: str) -> bytes:
    """Return the common prefix of the keys of one session."""
    return canonical_dump([tenant, session])[:-1]


@lru_cache(maxsize=1024)
def _print(name: str) -> bytes:
    return canonical_dump(name)


def print_identity(identity: dict[str, Any]) -> bytes:
    """Return the `identity_params` of a call as bytes. Give those of `canonical_params`, so that one action has one key
    however it is written."""
    try:
        return canonical_dump(identity)  # parameters of a call are built-in types only
    except UsageError:
        # An integer that canonical JSON does not have. Sorted JSON still says the same thing the same way.
        return _sorted(identity)


def params_digest(tool: str, params: dict[str, Any]) -> str:
    """Return the digest of a tool's name with some of its parameters: equal calls of any session have the same."""
    return _digest(tool, print_identity(params))


def _digest(tool: str, printed: bytes) -> str:
    return hash_bytes(b"[%b,%b]" % (_print(tool), printed))


def call_hash(tool: str, params: dict[str, Any]) -> str:
    """Return the hash of a call for the loop guard; within one run, sorted JSON is enough."""
    return hash_bytes(_sorted([tool, params]))


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)


# --- marks ---


def marks_of(tool: ToolSpec, compared: dict[str, Any], identity: bytes) -> e.CallMarks:
    """Return the marks of a call with these `canonical_params`; `identity` are those that identify it, printed."""
    names, once = tool.marked_parameters, tool.once_per
    repeated = print_identity(repeat_params(tool, compared)) if once is not None else identity
    same = _short(tool, repeated)
    like = _short(tool, print_identity({names[0]: compared.get(names[0])})) if names else same
    return e.CallMarks(same=same, like=like, names=names)


def _short(tool: ToolSpec, printed: bytes) -> str:
    return _digest(tool.name, printed).removeprefix("sha256:")[:32]
