"""`@tool` derives what annotations say, takes what is declared, and refuses wrong use by name."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import ApprovalMode, Reversibility, Trust
from tercet.contracts.plan import Compensation
from tercet.contracts.tool import Limit
from tercet.tools import Tool, ToolContext, tool
from tercet.tools.decorator import SignatureError
from tercet.tools.tool import Happened

if TYPE_CHECKING:
    from decimal import Decimal


class Money(BaseModel):
    amount: int
    currency: str = "INR"


@dataclass
class Refund:
    refund_id: str
    paid: Money


class Row(TypedDict):
    total: int


def test_parameters_come_from_the_annotations() -> None:
    """Types become a closed schema, defaults make a parameter optional, and the context is no parameter."""

    @tool("pay.refund", mode="destructive")
    async def refund(
        ctx: ToolContext, payment_id: str, amount: Annotated[int, Field(ge=1)], note: str | None = None
    ) -> Refund:
        """Pays an amount back.

        Only once.
        """
        return Refund(refund_id=f"{ctx.run_id}:{payment_id}:{note}", paid=Money(amount=amount))

    assert isinstance(refund, Tool)
    assert inspect.iscoroutinefunction(refund.call)
    assert refund.description == "Pays an amount back.\n\nOnly once."
    assert refund.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "payment_id": {"type": "string"},
            "amount": {"type": "integer", "minimum": 1},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["payment_id", "amount"],
    }


def returns_model() -> Money: ...
def returns_dataclass() -> Refund: ...
def returns_typed_dict() -> Row: ...
def returns_list() -> list[int]: ...
def returns_text() -> str: ...
def returns_none() -> None: ...
def returns_any() -> Any: ...
def returns_unsaid(): ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (returns_model, {"amount", "currency"}),
        (returns_dataclass, {"refund_id", "paid"}),
        (returns_typed_dict, {"total"}),
        (returns_list, {"type": "array", "items": {"type": "integer"}}),
        (returns_text, {"type": "string"}),
        (returns_none, None),
        (returns_any, None),
        (returns_unsaid, None),
    ],
)
def test_the_result_comes_from_the_return_annotation(function: Callable[..., Any], expected: Any) -> None:
    """Models, dataclasses, typed dicts and plain types have a result schema; None, Any and silence have none."""
    result = tool("a.b", mode="read_only")(function).result
    assert (set(result["properties"]) if isinstance(expected, set) and result else result) == expected


def test_a_parameter_may_have_the_name_of_a_model_method() -> None:
    """Names that mean something to the library behind the schemas mean nothing special here."""

    @tool("a.b", mode="read_only")
    def function(schema: str, copy: int, model_config: bool, json: str = "x") -> None: ...

    assert function.parameter_names == ("schema", "copy", "model_config", "json")


def test_what_is_declared_reaches_the_spec() -> None:
    """Words, lists, tuples and dicts are taken as their types, and a limit may be a string."""

    @tool(
        "a.b",
        mode="network",
        reversibility="compensable",
        gates=["G"],
        roles=["clerk"],
        tenants=["north"],
        authority=("x",),
        identity=["x"],
        aliases={"ex": "x"},
        limits=["args.x > 0", Limit(expression="args.x < 9", message="small ones only")],
        compensate={"tool": "a.undo", "params": {"x": {"$from": "params#/x"}}},
        requires_evidence=["e"],
        preconditions=["p"],
        establishes=["q"],
        untrusted=["note"],
        trust="untrusted",
        endorses=True,
        idempotent=True,
        reconcile=returns_text,
        settle_after_ms=1,
        timeout_ms=2,
        estimated_ms=1,
        estimated_tokens=4,
        cost_microcents=5,
        description="Does b.",
    )
    def function(x: int) -> None: ...

    spec = function.spec
    assert (spec.mode, spec.reversibility, spec.trust) == (
        ApprovalMode.NETWORK, Reversibility.COMPENSABLE, Trust.UNTRUSTED,
    )  # fmt: skip
    assert (spec.gates, spec.roles, spec.tenants, spec.aliases) == (
        ("G",),
        ("clerk",),
        ("north",),
        {"ex": "x"},
    )
    assert (spec.authority, spec.identity) == (("x",), ("x",))
    assert [limit.expression for limit in spec.limits] == ["args.x > 0", "args.x < 9"]
    assert spec.compensate == Compensation(tool="a.undo", params={"x": {"$from": "params#/x"}})
    assert (spec.requires_evidence, spec.preconditions, spec.establishes) == (("e",), ("p",), ("q",))
    assert (spec.untrusted, spec.endorses, spec.idempotent, spec.reconciles) == (("/note",), True, True, True)
    assert (spec.settle_after_ms, spec.timeout_ms, spec.estimated_ms) == (1, 2, 1)
    assert (spec.estimated_tokens, spec.cost_microcents, spec.description) == (4, 5, "Does b.")


def test_silence_leaves_the_defaults() -> None:
    """A tool that declares a mode alone is the spec that declares a mode alone."""

    @tool("a.b", mode="read_only", description="")
    def function() -> None: ...

    assert function.model_dump(exclude_defaults=True) == {
        "name": "a.b",
        "mode": ApprovalMode.READ_ONLY,
        "parameters": {"type": "object", "additionalProperties": False, "properties": {}},
    }


def test_schemas_may_be_given_instead_of_derived() -> None:
    """A given schema wins, and then the parameters need no annotations."""
    parameters = {"type": "object", "properties": {"x": {"type": "integer"}}}

    @tool("a.b", mode="read_only", parameters=parameters, result={"type": "string"})
    def function(**anything: object): ...

    assert (function.parameters, function.result) == (parameters, {"type": "string"})


def test_a_callable_object_can_be_a_tool() -> None:
    """An object that carries its own connections is annotated on its `__call__`."""

    class Lookup:
        """Looks things up."""

        def __call__(self, order_id: str) -> int:
            return len(order_id)

    looked_up = tool("a.b", mode="read_only")(Lookup())
    assert looked_up.parameter_names == ("order_id",)
    assert looked_up.call(order_id="four") == 4


class Opaque: ...


class TypingDict(typing.TypedDict):
    bed: str


def unannotated(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__annotations__.clear()
    return function


def takes_args(*args: int) -> None: ...
def takes_kwargs(**kwargs: int) -> None: ...
@unannotated
def takes_unannotated(order_id: str) -> None: ...
def takes_by_position(order_id: str, /) -> None: ...
def takes_opaque(thing: Opaque) -> None: ...
def gives_opaque() -> Opaque: ...
def takes_typing_dict(bed: TypingDict) -> None: ...
def takes_unimported(amount: Decimal) -> None: ...
def takes_maybe_context(ctx: ToolContext | None = None) -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (takes_args, r"takes \*args .*name each parameter"),
        (takes_kwargs, r"takes \*\*kwargs .*name each parameter"),
        (takes_unannotated, r"does not say what order_id is .*order_id: str"),
        (takes_by_position, r"order_id by position only .*drop the '/'"),
        (takes_opaque, r"a type for a parameter that JSON Schema cannot describe"),
        (gives_opaque, r"a type for the result that JSON Schema cannot describe"),
        pytest.param(
            takes_typing_dict,
            r"from typing_extensions import TypedDict",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="Pydantic takes it from 3.12 on"),
        ),
        (takes_unimported, r"'Decimal' is not defined .*at the top of the module"),
        (takes_maybe_context, r"annotate it as ctx: ToolContext"),
    ],
)
def test_a_signature_that_cannot_be_a_tool_is_refused_by_name(
    function: Callable[..., Any], said: str
) -> None:
    """The error names the function, what is wrong with it, and what to do."""
    with pytest.raises(UsageError, match=f"{function.__name__}.*{said}") as caught:
        tool("a.b", mode="read_only")(function)
    assert caught.value.code == "tool_signature"
    assert caught.value.remedy


def test_a_partial_cannot_be_a_tool() -> None:
    """What a partial has bound would be a default that a plan could replace."""
    with pytest.raises(UsageError, match="partial"):
        tool("a.b", mode="read_only")(partial(returns_text))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"name": "lookup"}, "adapter.capability"),
        ({"mode": "dangerous"}, "choose one of read_only"),
        ({"reversibility": "maybe"}, "choose one of pure"),
        ({"gates": "GATE_A"}, "write gates as a list"),
        ({"limits": "args.x > 0"}, "write limits as a list"),
        ({"timeout_ms": 0}, "at least 1"),
        ({"compensate": {"tol": "a.b"}}, "compensate.tol"),
        ({"reconcile": "a.b"}, "callable"),
    ],
)
def test_a_wrong_declaration_is_refused_by_name(declared: dict[str, Any], said: str) -> None:
    """The error names the function and the field, and says which values there are."""
    fields: dict[str, Any] = {"name": "a.b", "mode": "read_only", **declared}
    with pytest.raises(UsageError, match="returns_text") as caught:
        tool(**fields)(returns_text)
    assert said in str(caught.value)
    assert caught.value.code == "tool_declaration"


def test_all_faults_of_a_declaration_are_told_at_once() -> None:
    """One error lists the wrong name and the wrong mode."""
    fields: dict[str, Any] = {"name": "lookup", "mode": "dangerous"}
    with pytest.raises(UsageError, match="name: 'lookup' does not fit; mode: 'dangerous' does not fit"):
        tool(**fields)(returns_text)


def test_a_look_up_has_the_signature_of_its_tool() -> None:
    """Its parameters are made of JSON as the tool's are, and it may name fewer of them, but no others."""

    def find(ctx: ToolContext, when: date) -> Happened:
        return Happened(when.isoformat())

    def find_another(payment: str) -> Happened:
        return Happened(payment)

    @tool("a.b", mode="network", reconcile=find)
    def book(ctx: ToolContext, when: date, seats: int) -> str: ...

    assert book.reconcile is not None
    assert book.reconcile(ctx=None, when="2026-05-09") == Happened("2026-05-09")
    with pytest.raises(SignatureError, match="takes payment, which its tool does not"):

        @tool("a.b", mode="network", reconcile=find_another)
        def pay(amount: int) -> str: ...
