"""What a tool declares about itself: what it takes and gives, what it may touch, how it recovers, whom it believes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from tercet.contracts.budget import LaneBudget
from tercet.contracts.canonical import canonical, canonical_dump, hash_bytes
from tercet.contracts.mode import MODE_RANK, ApprovalMode, Reversibility, Trust
from tercet.contracts.plain import PlainObject
from tercet.contracts.plan import Compensation
from tercet.contracts.schema_tree import SchemaTree
from tercet.contracts.shape import Authored, as_list, as_object

AdapterKind = Literal["python", "mcp", "http", "command", "model", "lane"]

ALL_FIELDS = "*"
"""In `untrusted`: every field of the result can carry other people's words."""


Unbound = Literal["refuse", "ask", "allow"]
"""What follows from an authority value without a permitted source: refused, asked about at the `unbound_gate`, or used."""


class Limit(Authored):
    """A CEL condition on a call's arguments (`args`) that must hold, or the call is not permitted."""

    expression: str
    message: str = ""


class OncePer(Authored):
    """A call that the runs of a tenant may make only once in a period."""

    identity: tuple[str, ...] = ()
    """Parameters whose values make two calls the same; empty means the identity of the tool."""
    days: int = Field(ge=1, le=3650)
    """How long a call counts."""
    then: Literal["refuse", "ask"] = "refuse"
    """What becomes of the second call: it is refused, or waits for an approval that names the first."""
    gate: str | None = None
    """The gate that is asked, beside those of the tool."""

    @model_validator(mode="after")
    def _asks_at_its_gate(self) -> Self:
        if self.gate is not None and self.then != "ask":
            raise ValueError('a gate is only asked with then = "ask"')
        return self


class ToolTerms(Authored):
    """What an author may say about a tool, whichever adapter calls it."""

    description: str = ""
    reversibility: Reversibility | None = None
    """None means the careful assumption: pure if read_only, irreversible if destructive, else compensable."""
    gates: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    """Roles of which the owner of a run must hold one to see and use this tool; empty means anybody."""
    compensate: Compensation | None = None
    no_compensation: str = ""
    """The statement that there is no compensation, and why; the alternative to `compensate`."""
    authority: tuple[str, ...] | None = None
    """Parameters that carry authority: recipients, accounts, amounts, identities, commands.
    None means: all of them for a tool above local_write, none for the others."""
    kinds: dict[str, str] = {}
    """The kinds of parameters: `{"payment_id": "payment"}`. A parameter without one has the `format` of its schema."""
    result_kinds: dict[str, str] = {}
    """The kinds of result fields, by name or JSON Pointer (`*` for any item). A field without one has the `format` of its
    schema."""
    unbound: dict[str, Unbound] = {}
    """What follows from a value without a permitted source, by parameter. By default it is refused, or goes to the
    decision's `unbound_gate`."""
    identity: tuple[str, ...] | None = None
    """Parameters that say what the action is. None means: the authority parameters if one of them may be a number, else all
    parameters."""
    once_per: OncePer | None = None
    """How often the runs of a tenant may make the same call. None means: once in each run, unless the decision lists the
    tool in `repeatable`."""
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
    """Classes of evidence that its result may stand for: a plan can have it looked up as that, and as nothing else."""
    untrusted: tuple[str, ...] = ()
    """Result fields (names or JSON Pointers, `*` for any item) that can carry other people's words."""
    trust: Trust | None = None
    """What the result is worth. None means: trusted for Python tools, untrusted for all others."""
    endorses: bool = False
    """A trusted validator: its result is worth what it declares, whatever its inputs were worth."""
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
        """Whether an owner with these roles may use this tool."""
        return not self.roles or not set(self.roles).isdisjoint(roles)

    def serves(self, tenant: str) -> bool:
        """Whether runs of a tenant may use this tool."""
        return not self.tenants or tenant in self.tenants

    @cached_property
    def effective_reversibility(self) -> Reversibility:
        """The declared reversibility, or the careful assumption where there is none."""
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
    def has_authority_everywhere(self) -> bool:
        """Whether a parameter that the schema does not name carries authority as well."""
        return self.authority is None and MODE_RANK[self.mode] > MODE_RANK[ApprovalMode.LOCAL_WRITE]

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """The parameters that the schema names."""
        return tuple(as_object(self.parameters.get("properties")) or ())

    @cached_property
    def result_trust(self) -> Trust:
        """What the result is worth before its inputs are looked at."""
        if self.trust is not None:
            return self.trust
        return Trust.TRUSTED if self.adapter == "python" else Trust.UNTRUSTED

    @cached_property
    def is_trust_assumed(self) -> bool:
        """Whether the result counts as trusted although nothing declares so. One of listed words only needs no declaration."""
        is_declared = self.trust is not None or bool(self.untrusted) or self.endorses
        is_assumed = not is_declared and self.result_trust is Trust.TRUSTED
        return is_assumed and (self.result is None or not _is_enumerated(self.result, self.result, 0))

    @cached_property
    def has_formats(self) -> bool:
        """Whether a schema of the tool gives a `format` to anything."""
        return '"format"' in self.parameters_text or '"format"' in self.result_text

    @cached_property
    def parameters_schema(self) -> SchemaTree:
        """The parameters' schema, with what has been worked out about its parts."""
        return SchemaTree(self.parameters)

    @cached_property
    def may_have_defaults(self) -> bool:
        """Whether the parameters' schema may give a `default` to anything."""
        return "'default'" in repr(self.parameters)

    @cached_property
    def parameters_text(self) -> str:
        """The parameters' schema as text: the key under which its validator is kept."""
        return canonical(self.parameters).decode()

    @cached_property
    def result_text(self) -> str:
        """The result's schema as text, empty where there is none."""
        return "" if self.result is None else canonical(self.result).decode()

    @cached_property
    def known_keys(self) -> frozenset[str]:
        """Every property name that the parameters' schema mentions, at any depth."""
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
        """What this tool declares; an approval binds to it."""
        return hash_bytes(canonical_dump(self.model_dump(mode="json", exclude_defaults=True)))


_DEEPEST = 20
_WORDS = frozenset({"boolean", "null"})


def _is_enumerated(schema: Any, root: PlainObject, depth: int) -> bool:
    """Whether a schema allows nothing but words that it lists, booleans and null, also inside objects and lists."""
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
