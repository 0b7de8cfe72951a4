"""The declaration of a tool: parameters and result, mode, recovery, and trust."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from tercet.contracts.mode import MODE_RANK, ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.runs.budget import LaneBudget
from tercet.contracts.shape import Authored, as_list, as_object
from tercet.contracts.values import pointer
from tercet.contracts.values.canonical import canonical, canonical_dump, hash_bytes
from tercet.contracts.values.plain import PlainObject
from tercet.contracts.values.schema_tree import SchemaTree

AdapterKind = Literal["python", "mcp", "http", "command", "model", "lane"]

ALL_FIELDS = "*"
"""In `untrusted`: every field of the result may contain untrusted text."""


Unbound = Literal["refuse", "ask", "allow"]
"""How an authority value without a permitted source is handled: refused, sent to the `unbound_gate`, or used."""


class Limit(Authored):
    """A CEL condition on a call's arguments (`args`) without which the call is not permitted."""

    expression: str
    message: str = ""


class OncePer(Authored):
    """A call that a tenant's runs may make only once in a period."""

    identity: tuple[str, ...] = ()
    """Parameters that identify a call; empty means the identity of the tool."""
    days: int = Field(ge=1, le=3650)
    """How long a call counts."""
    then: Literal["refuse", "ask"] = "refuse"
    """How a second call is handled: it is refused, or waits for an approval that names the first."""
    gate: str | None = None
    """The gate for a second call, in addition to those of the tool."""

    @model_validator(mode="after")
    def _asks_at_its_gate(self) -> Self:
        if self.gate is not None and self.then != "ask":
            raise ValueError('a gate is only asked with then = "ask"')
        return self


class ToolTerms(Authored):
    """What an author may declare about a tool of any adapter."""

    description: str = ""
    reversibility: Reversibility | None = None
    """None means the cautious default: pure if read_only, irreversible if destructive, else compensable."""
    gates: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    """The owner of a run needs one of these roles to see and use this tool; empty means anyone."""
    compensate: Compensation | None = None
    no_compensation: str = ""
    """Why there is no compensation; the alternative to `compensate`."""
    authority: tuple[str, ...] | None = None
    """Parameters that carry authority: recipients, accounts, amounts, identities, commands. None means all parameters
    of a tool above local_write, and none of other tools."""
    kinds: dict[str, str] = {}
    """The kinds of parameters: `{"payment_id": "payment"}`. A parameter without one has the `format` of its schema."""
    result_kinds: dict[str, str] = {}
    """The kinds of result fields, by name or JSON Pointer (`*` for any item). A field without one has the `format` of its
    schema."""
    unbound: dict[str, Unbound] = {}
    """How a value without a permitted source is handled, by parameter. By default it is refused, or sent to the
    decision's `unbound_gate`."""
    identity: tuple[str, ...] | None = None
    """Parameters that identify the action. None means the authority parameters if one of them may be a number, else all
    parameters."""
    once_per: OncePer | None = None
    """How often a tenant's runs may make the same call. None means once in each run, unless the decision lists the tool
    in `repeatable`."""
    aliases: dict[str, str] = {}
    """Other spellings of a parameter that a plan may use."""
    limits: tuple[Limit, ...] = ()
    requires_evidence: tuple[str, ...] = ()
    preconditions: tuple[str, ...] = ()
    establishes: tuple[str, ...] = ()
    """Conditions that hold once this tool has completed."""
    revokes: tuple[str, ...] = ()
    """Conditions that no longer hold once this tool has completed."""
    attests: tuple[str, ...] = ()
    """Classes of evidence that its result may serve as: a plan can look it up as one of these only."""
    untrusted: tuple[str, ...] = ()
    """Result fields (names or JSON Pointers, `*` for any item) that may contain untrusted text."""
    trust: Trust | None = None
    """The trust of the result. None means trusted for Python tools, untrusted for all others."""
    endorses: bool = False
    """A trusted validator: its result has the declared trust, whatever the trust of its inputs."""
    idempotent: bool = False
    settle_after_ms: int = Field(default=0, ge=0)
    timeout_ms: int = Field(default=30_000, ge=1)
    estimated_ms: int = Field(default=0, ge=0)
    estimated_tokens: int = Field(default=0, ge=0)
    cost_microcents: int = Field(default=0, ge=0)


class ToolSpec(ToolTerms):
    """A tool without its code: everything that the critic, an approver and the executor need to know."""

    name: str = Field(pattern=r"^[A-Za-z0-9_\-]+\.[A-Za-z0-9_.\-/]+$", max_length=200)
    parameters: PlainObject = {"type": "object"}
    result: PlainObject | None = None
    mode: ApprovalMode
    tenants: tuple[str, ...] = ()
    """The tenants whose runs may see and use this tool; empty means all."""
    reconciles: bool = False
    adapter: AdapterKind = "python"
    reserves: LaneBudget | None = None
    """What a lane reserves from the run that starts it; None for a tool."""

    @field_validator("untrusted")
    @classmethod
    def _as_pointers(cls, fields: tuple[str, ...]) -> tuple[str, ...]:
        if dotted := next((f for f in fields if "." in f and not f.startswith("/")), None):
            raise ValueError(
                f"{dotted} would mark one field with dots in its name: write {pointer.join(dotted.split('.'))}"
                f" for a field of a field, or {pointer.join([dotted])} for that one"
            )
        return tuple(f if f == ALL_FIELDS or f.startswith("/") else f"/{f}" for f in fields)

    @property
    def adapter_id(self) -> str:
        """The part of the name before the first dot."""
        return self.name.partition(".")[0]

    @property
    def capability_id(self) -> str:
        """The part of the name after the first dot."""
        return self.name.partition(".")[2]

    def is_open_to(self, roles: Iterable[str]) -> bool:
        """Return whether an owner with these roles may use this tool."""
        return not self.roles or not set(self.roles).isdisjoint(roles)

    def serves(self, tenant: str) -> bool:
        """Return whether runs of a tenant may use this tool."""
        return not self.tenants or tenant in self.tenants

    @cached_property
    def effective_reversibility(self) -> Reversibility:
        """The declared reversibility, or the cautious default."""
        if self.reversibility is not None:
            return self.reversibility
        careful = {
            ApprovalMode.READ_ONLY: Reversibility.PURE,
            ApprovalMode.DESTRUCTIVE: Reversibility.IRREVERSIBLE,
        }
        return careful.get(self.mode, Reversibility.COMPENSABLE)

    @cached_property
    def authority_parameters(self) -> frozenset[str]:
        """The parameters whose values must come from a trusted source."""
        if self.authority is not None:
            return frozenset(self.authority)
        is_weak = MODE_RANK[self.mode] <= MODE_RANK[ApprovalMode.LOCAL_WRITE]
        return frozenset() if is_weak else frozenset(self.parameter_names)

    @cached_property
    def marked_parameters(self) -> tuple[str, ...]:
        """The parameters by which people recognise a call of another run; the first one tells similar calls apart."""
        declared = (self.once_per.identity if self.once_per else ()) or self.identity or self.authority
        return declared or tuple(sorted(self.authority_parameters))

    @cached_property
    def has_authority_everywhere(self) -> bool:
        """Whether parameters that the schema does not name carry authority as well."""
        return self.authority is None and MODE_RANK[self.mode] > MODE_RANK[ApprovalMode.LOCAL_WRITE]

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters that the schema names."""
        return tuple(as_object(self.parameters.get("properties")) or ())

    @cached_property
    def result_trust(self) -> Trust:
        """The trust of the result before its inputs are considered."""
        if self.trust is not None:
            return self.trust
        return Trust.TRUSTED if self.adapter == "python" else Trust.UNTRUSTED

    @cached_property
    def is_trust_assumed(self) -> bool:
        """Whether the result is trusted without a declaration. A result of enumerated words only needs no declaration."""
        is_declared = self.trust is not None or bool(self.untrusted) or self.endorses
        is_assumed = not is_declared and self.result_trust is Trust.TRUSTED
        return is_assumed and (self.result is None or not _is_enumerated(self.result, self.result, 0))

    @cached_property
    def has_formats(self) -> bool:
        """Whether a schema of the tool declares a `format`."""
        return '"format"' in self.parameters_text or '"format"' in self.result_text

    @cached_property
    def parameters_schema(self) -> SchemaTree:
        """The schema of the parameters, prepared for reading."""
        return SchemaTree(self.parameters)

    @cached_property
    def may_have_defaults(self) -> bool:
        """Whether the schema of the parameters may declare a `default`."""
        return "'default'" in repr(self.parameters)

    @cached_property
    def parameters_text(self) -> str:
        """The schema of the parameters as text, the key of its cached validator."""
        return canonical(self.parameters).decode()

    @cached_property
    def result_text(self) -> str:
        """The schema of the result as text; empty if there is none."""
        return "" if self.result is None else canonical(self.result).decode()

    @cached_property
    def known_keys(self) -> frozenset[str]:
        """All property names in the schema of the parameters, at any depth."""
        found: set[str] = set()
        stack: list[Any] = [self.parameters]
        while stack:
            item = stack.pop()
            if (members := as_object(item)) is not None:
                found.update(as_object(members.get("properties")) or ())
                stack.extend(members.values())
            elif (items := as_list(item)) is not None:
                stack.extend(items)
        return frozenset(found)

    @cached_property
    def hash(self) -> str:
        """The hash of the declaration, which an approval pins."""
        return hash_bytes(canonical_dump(self.model_dump(mode="json", exclude_defaults=True)))


_DEEPEST = 20
_WORDS = frozenset({"boolean", "null"})


def _is_enumerated(schema: Any, root: PlainObject, depth: int) -> bool:
    """Return whether a schema allows only enumerated words, booleans and null, also inside objects and lists."""
    members = as_object(schema)
    if members is None or depth > _DEEPEST:
        return False
    if "enum" in members or "const" in members or members.get("type") in _WORDS:
        return True
    if isinstance(ref := members.get("$ref"), str):
        inner = (as_object(root.get("$defs")) or {}).get(ref.removeprefix("#/$defs/"))
        return _is_enumerated(inner, root, depth + 1)
    if (options := as_list(members.get("anyOf"))) is not None:
        return all(_is_enumerated(option, root, depth + 1) for option in options)
    if members.get("type") == "array":
        return _is_enumerated(members.get("items"), root, depth + 1)
    fields = as_object(members.get("properties"))
    is_closed = members.get("type") == "object" and members.get("additionalProperties") in (None, False)
    return (
        is_closed
        and bool(fields)
        and all(_is_enumerated(f, root, depth + 1) for f in (fields or {}).values())
    )
