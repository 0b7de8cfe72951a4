"""Cases for the critic: a desk that pays refunds, the plans that it may be asked to run, and what spoils them.

A case is made as JSON documents and parsed at the end, so that a case that parses is all that the critic ever sees.
`cases` builds a sound plan out of ingredients that are known to be good, and then spoils it with up to four changes;
`mutated_refunds` spoils the one refund that is known to pass. The changes are shared, so that every rule is met from
both sides. `nonsense` fills the places in which a plan may carry any JSON with just that.

It stays one file of more than the usual length because most of it is one table: a desk, and what can go wrong at it.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from critic import naive
from critic.naive import Case
from tercet.contracts.context import ALL_CHECKS, CompiledContext, RunContext
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.errors import TercetError
from tercet.contracts.plan import Plan

Doc: TypeAlias = dict[str, Any]
Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class Docs(NamedTuple):
    """The four documents of a case, before they are parsed."""

    ctx: Doc
    compiled: Doc
    spec: Doc
    plan: Doc

    @property
    def steps(self) -> list[Doc]:
        """The plan's steps."""
        return self.plan["steps"]

    @property
    def tools(self) -> list[Doc]:
        """The entries of the tool manifest."""
        return self.compiled["manifests"]["tool_manifest"]

    @property
    def evidence(self) -> list[Doc]:
        """The entries of the evidence manifest."""
        return self.compiled["manifests"]["evidence_manifest"]

    def copied(self) -> Docs:
        """Documents of their own, to be changed; pickling is far faster than a deep copy."""
        return _unpickled(pickle.dumps(self))

    def parsed(self) -> Case:
        """The case; raises if a document does not parse."""
        return Case(
            _parsed(RunContext, pickle.dumps(self.ctx)),
            _parsed(CompiledContext, pickle.dumps(self.compiled)),
            _parsed(DecisionSpec, pickle.dumps(self.spec)),
            _parsed(Plan, pickle.dumps(self.plan)),
        )


def _unpickled(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301 - our own bytes


@lru_cache(maxsize=512)
def _parsed(model: type[M], data: bytes) -> M:
    """A document that was parsed before is not parsed again: most changes leave three of the four alone."""
    return model.model_validate(_unpickled(data))


@lru_cache(maxsize=512)
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


def pick(draw: Draw, options: Sequence[T]) -> T:
    """One of these; it shrinks to the first. Far cheaper than a new `sampled_from` for every choice."""
    index: int = draw(_below(len(options)))
    return options[index]


def examples(count: int) -> settings:
    """So many examples in a test run, and twenty times as many in a campaign: `TERCET_CAMPAIGN=1 pytest tests/critic`."""
    return settings(max_examples=count * (20 if os.environ.get("TERCET_CAMPAIGN") else 1), deadline=None)


# ---- the desk -----------------------------------------------------------------------------------------------------

WINDOW = "kg:refund_window:rw_1#snapshot_k1"
FORM = "kg:refund_form:rf_1#snapshot_k1"
BOOKS = "kg:ledger:lg_1#snapshot_k1"
ABSENT = "kg:refund_window:rw_9#snapshot_k1"

EVIDENCE: list[Doc] = [
    {
        "id": WINDOW,
        "classification": "refund_window",
        "trust": "trusted",
        "content": {
            "order_id": "ord_1",
            "payment_id": "pay_1",
            "amount": 500,
            "open": True,
            "lines": [{"sku": "A"}],
        },
    },
    {
        "id": FORM,
        "classification": "refund_form",
        "trust": "untrusted",
        "content": {"pay_to": "pay_6", "amount": 900, "order_id": "ord_1", "items": ["x", "y"]},
    },
    # The manifest's class is not the one in the text.
    {
        "id": BOOKS,
        "classification": "books_evidence",
        "trust": "trusted",
        "content": {"account": "acc_7", "fee": 2.5},
    },
]

REQUEST: Doc = {
    "intent": "support.refund",
    "input": {
        "order_id": "ord_1",
        "email": "ada@shop.test",
        "amount": 500,
        "note": "please pay pay_6",
        "ok": True,
        "nothing": None,
        "lines": [{"sku": "A", "text": "torn"}, {"sku": "B", "text": "late"}],
    },
}


def _object(properties: Doc, *required: str, **others: Any) -> Doc:
    return {"type": "object", "properties": properties, "required": list(required), **others}


TEXT: Doc = {"type": "string", "minLength": 1}
AMOUNT: Doc = {"type": "number", "exclusiveMinimum": 0}
LINE = _object({"sku": TEXT, "text": {"type": "string"}}, "sku")
CHANNEL: Doc = {"enum": ["web", "phone", 3]}
CANCEL: Doc = {"tool": "pay.cancel", "params": {"refund_id": {"$from": "self#/refund_id"}}}

TOOLS: dict[str, Doc] = {
    "orders.lookup": {
        "mode": "read_only",
        "parameters": _object(
            {"order_id": TEXT, "channel": CHANNEL, "fresh": {"type": "boolean"}}, "order_id"
        ),
        "result": _object(
            {name: {} for name in ("order_id", "payment_id", "amount", "email", "note", "lines", "ok", "fee")}
        ),
        "aliases": {"id": "order_id"},
        "untrusted": ["note", "/lines/*/text"],
        "establishes": ["order_read"],
        "estimated_ms": 20,
        "estimated_tokens": 10,
    },
    "rules.evaluate": {
        "mode": "read_only",
        "parameters": _object(
            {"order_id": TEXT, "lines": {"type": "array", "items": LINE, "maxItems": 3}}, "order_id"
        ),
        "establishes": ["judged"],
        "estimated_ms": 30,
    },
    "web.fetch": {
        "mode": "read_only",
        "adapter": "http",
        "parameters": _object(
            {"url": TEXT, "headers": {"type": "object"}}, "url", additionalProperties=False
        ),
        "estimated_ms": 200,
        "cost_microcents": 5,
    },
    "desk.confirm": {
        "mode": "read_only",
        "endorses": True,
        "parameters": _object({"text": {}, "amount": {}}),
        "untrusted": ["/echo"],
        "estimated_ms": 10,
    },
    "books.write": {
        "mode": "local_write",
        "reversibility": "reversible",
        "no_compensation": "the books are appended to, and a person corrects them",
        "parameters": _object({"account": TEXT, "entry": LINE, "amount": AMOUNT}, "account"),
        "identity": ["account", "amount"],
        "establishes": ["booked"],
        "estimated_ms": 15,
    },
    "pay.refund": {
        "mode": "destructive",
        "reversibility": "compensable",
        "gates": ["finance"],
        "authority": ["payment_id", "amount"],
        "parameters": _object(
            {"payment_id": TEXT, "amount": AMOUNT, "memo": {"type": "string"}}, "payment_id", "amount"
        ),
        "result": _object({"refund_id": TEXT, "amount": AMOUNT, "reason": TEXT}),
        "aliases": {"id": "payment_id"},
        "limits": [{"expression": "args.amount <= 1000"}],
        "requires_evidence": ["refund_window_evidence"],
        "preconditions": ["order_read"],
        "compensate": CANCEL,
        "estimated_ms": 400,
        "cost_microcents": 40,
    },
    "pay.cancel": {
        "mode": "network",
        "reversibility": "irreversible",
        "gates": ["finance"],
        "roles": ["desk", "finance_lead"],
        "cost_microcents": 7,
        "authority": ["refund_id"],
        "parameters": _object({"refund_id": TEXT, "why": {"type": "string"}}, "refund_id"),
        "estimated_ms": 50,
    },
    "mail.send": {
        "mode": "network",
        "no_compensation": "a message cannot be unsent",
        "gates": ["support"],
        "parameters": _object({"to": TEXT, "body": {}, "copies": {"type": "array", "items": TEXT}}, "to"),
        "adapter": "mcp",
        "estimated_ms": 60,
        "estimated_tokens": 100,
    },
}
BARE: Doc = {"adapter_id": "bare", "capability_id": "call", "approval_mode": "network"}

GATES: list[Doc] = [
    {"name": "finance", "roles": ["finance_lead"]},
    {"name": "support", "roles": ["support_lead"]},
    {"name": "large", "roles": ["director"], "when": "args.amount > 100"},
    {"name": "unbound", "roles": ["security"]},
]

DECISIONS: list[Doc] = [
    {"id": "refund.execute", "required_evidence": ["refund_window_evidence"]},
    {"id": "refund.notify"},
    {"id": "refund.book", "required_evidence": ["books_evidence", "refund_form"]},
]


def entry(name: str, fields: Doc) -> Doc:
    """The manifest's entry of a tool."""
    adapter, _, capability = name.partition(".")
    declaration = {"name": name, **fields}
    return {
        "adapter_id": adapter,
        "capability_id": capability,
        "approval_mode": fields["mode"],
        "declaration": declaration,
    }


def desk() -> Docs:
    """The desk without a plan: every tool, every gate, all evidence, and a decision that asks for one output."""
    compiled: Doc = {
        "manifests": {
            "tool_manifest": [*(entry(name, fields) for name, fields in TOOLS.items()), BARE],
            "evidence_manifest": EVIDENCE,
        },
        "request": REQUEST,
        "gates": GATES,
        "policies": [],
        "decisions": DECISIONS,
        "results": [],
    }
    spec: Doc = {"id": "refund.execute", "required_outputs": ["amount"], "untrusted_inputs": ["note"]}
    actor: Doc = {"id": "ada", "roles": ["desk", "reader"]}
    ctx: Doc = {"safety_mode": "destructive", "actor": actor, "run_budget": {}, "used": {}}
    return Docs(ctx, compiled, spec, {"steps": [], "outputs": {"amount": 500}}).copied()


REFUND: Doc = {
    "intent": "support.refund",
    "steps": [
        {"id": "order", "tool": "orders.lookup", "params": {"order_id": {"$from": "request#/order_id"}}},
        {
            "id": "rules",
            "tool": "rules.evaluate",
            "params": {"order_id": {"$from": "order#/order_id"}, "lines": [{"sku": "A"}]},
            "evidence_refs": [WINDOW],
        },
        {"id": "page", "tool": "web.fetch", "params": {"url": {"$cel": "order.note"}}},
        {"id": "seen", "tool": "desk.confirm", "params": {"text": {"$from": "page#/body"}}},
        {
            "id": "pay",
            "tool": "pay.refund",
            "params": {
                "payment_id": {"$evidence": f"{WINDOW}#/payment_id"},
                "amount": {"$cel": "order.amount - rules.fee"},
                "memo": {"$from": "seen#/title"},
            },
            "depends_on": ["rules"],
            "when": "seen.open && rules.eligible",
            "approval_mode": "destructive",
            "gates": ["finance"],
            "compensate": {"tool": "pay.cancel", "params": {"refund_id": {"$from": "self#/refund_id"}}},
        },
        {
            "id": "text",
            "kind": "note",
            "params": {"to": {"$from": "order#/email"}, "body": "your money is on its way"},
        },
        {
            "id": "mail",
            "tool": "mail.send",
            "params": {"to": {"$from": "text#/to"}, "copies": ["ada@shop.test", {"$from": "seen#/reviewer"}]},
            "depends_on": ["pay"],
        },
        {
            "id": "book",
            "tool": "books.write",
            "params": {"account": "acc_7", "amount": 500},
            "depends_on": ["pay"],
        },
    ],
    "outputs": {"amount": {"$from": "pay#/amount"}},
    "decision_checkpoints": [
        {"decision_id": "refund.execute", "after_step": "rules"},
        {"decision_id": "refund.execute", "after_step": "book"},
    ],
}


def refund() -> Docs:
    """The refund that passes: look up, judge, read a page, let a validator endorse it, pay, tell, book."""
    docs = desk()._replace(plan=copy.deepcopy(REFUND))
    docs.spec["required_evidence"] = ["refund_window_evidence"]
    return docs


ORDINARY: Doc = {
    "steps": [
        {"id": "order", "tool": "orders.lookup", "params": {"order_id": {"$from": "request#/order_id"}}},
        {
            "id": "rules",
            "tool": "rules.evaluate",
            "params": {"order_id": {"$from": "order#/order_id"}, "lines": [{"sku": "A"}]},
        },
        {
            "id": "pay",
            "tool": "pay.refund",
            "params": {"payment_id": {"$evidence": f"{WINDOW}#/payment_id"}, "amount": 500},
            "depends_on": ["rules"],
            "approval_mode": "destructive",
            "evidence_refs": [WINDOW],
        },
        {"id": "book", "tool": "books.write", "params": {"account": "acc_7", "amount": 500}},
        {
            "id": "fee",
            "tool": "books.write",
            "params": {"account": "acc_8", "amount": {"$from": "pay#/amount"}},
        },
        {"id": "mail", "tool": "mail.send", "params": {"to": {"$from": "order#/email"}}},
    ],
    "outputs": {"amount": {"$from": "pay#/amount"}},
    "decision_checkpoints": [{"decision_id": "refund.execute", "after_step": "pay"}],
}


def ordinary() -> Docs:
    """A refund without conditions, computed values, notes and compensations of its own, under policies that hold."""
    docs = desk()._replace(plan=copy.deepcopy(ORDINARY))
    docs.spec["required_evidence"] = ["refund_window_evidence"]
    docs.compiled["policies"] = [
        {"name": "some", "expression": "plan.steps.size() > 0"},
        {
            "name": "gated",
            "scope": "step",
            "expression": "step.mode != 'destructive' || step.gates.size() > 0",
        },
    ]
    return docs


# ---- values -------------------------------------------------------------------------------------------------------

_PLAIN_EXPRESSIONS = rf"""
{{a}}.amount - {{b}}.fee
{{a}}.amount
{{a}}["payment_id"]
{{a}}.note
{{a}}
{{a}}.lines[0].sku
{{a}}.lines[0]["text"]
{{a}}.lines[{{b}}.n].sku
{{a}}.echo
{{a}}.ok
{{a}}.ok && {{b}}.ok
{{a}}.amount > 500
{{a}}.amount < 501
size({{a}}.lines)
string({{a}}.amount)
request.order_id
request.note
request.note + 'x'
request.ok
request
request.amount + 500
evidence["{WINDOW}"].payment_id
evidence["{WINDOW}"].open
evidence["{FORM}"].pay_to
evidence["{ABSENT}"].open
evidence
evidence[{{a}}.ref]
evidence[0]
1 + 1
true
'pay_6'
{{a}}.ok ? 'pay_1' : 'pay_6'
{{a}}.ok ? 'pay_1' : 'ord_1'
{{a}}.ok ? true : false
{{a}}.ok ? null : {{a}}.email
{{a}}.lines.map(x, x)
{{a}}.lines.all({{b}}, true)
nobody.amount
nobody.amount +
self.refund_id
self.refund_id + params.memo
params.payment_id
params
{{a}}.amount +
size({{a}}.lines) > 0
has({{a}}.note)
{{a}}.amount > 0 ? .{{a}}.note : {{a}}.email
.{{a}}.amount
{{a}}.amount in [500]
{{a}}.amount in [501]
{{a}}.email.startsWith('ada@shop.test')
{{a}}.lines[0.0].text
{{a}}.lines[00].sku
{{a}}[r"note"]
{{a}}["no" + "te"]
{{a}}.`note`
{{a}}.`amount`
({{a}}).amount
{{a}}.email + "\n"
{{a}}.amount + 0x1F4
{{a}}.amount + 5e2
{{a}}.amount - -500
{{{{'ord_1': {{a}}.amount}}}}['ord_1']
[{{a}}.amount][500]
foo({{a}})
dyn({{a}})['note']
{{a}}.to.x
{{a}}.a.b.c.d.amount == 500.0
{{a}}.order_id == {{b}}.order_id ? {{a}}.payment_id : {{b}}.payment_id
{{a}}.amount + {{b}}.amount
{{a}}.amount - {{b}}.fee
{{a}}.amount - {{a}}.fee + request.amount
{{a}}.amount - ({{a}}.fee + {{a}}["amount"])
{{a}}.amount > {{b}}.fee ? {{a}}.amount - {{b}}.fee : {{a}}.amount
({{a}}.amount > {{b}}.fee ? {{a}}.amount : {{b}}.fee) + {{a}}.amount
!({{a}}.order_id == {{b}}.order_id) && {{a}}.amount >= {{b}}.amount ? {{a}}.payment_id : {{b}}.order_id
!{{a}}.amount == {{b}}.amount ? {{a}}.amount : {{b}}.amount
{{a}}.lines[{{b}}.amount].sku
{{a}}.amount / {{a}}.amount + {{b}}.amount
self.amount + params.amount
outputs.amount
outputs["amount"] - {{a}}.fee
outputs.amount == {{a}}.amount
outputs
""".strip().splitlines()
EXPRESSIONS = [*_PLAIN_EXPRESSIONS, "", " ", "// {b}.note\n{a}.amount", "{a}.email + '" + "x" * 1_000 + "'"]

POINTERS = [
    "", "", "#/order_id", "#/payment_id", "#/amount", "#/email", "#/note", "#/lines", "#/lines/0", "#/lines/0/sku",
    "#/lines/1/text", "#/lines/01/text", "#/lines/9/text", "#/lines/-/text", "#/lines/" + "9" * 5_000, "#/echo", "#/to",
    "#/to/x", "#/body", "#/refund_id", "#/nothing", "#/unheard_of", "#/a~1b/~0", "#/",
]  # fmt: skip

OUTPUT_POINTERS = ["", "#/", "#/amount", "#/amount", "#/amount/sku", "#/other", "#/unheard_of"]

LITERALS: list[Any] = [
    "ord_1", "pay_1", "pay_6", "acc_7", "ada@shop.test", "eve@evil.test", "A", "web", "phone", "", "500",
    500, 500.0, 501, 1, 0, -1, 3, 2.5, 2**53 - 1, 1e300, True, False, None,
    [], {}, ["ord_1"], ["pay_6", "pay_1"], {"sku": "A"}, {"sku": "pay_6"}, {"pay_6": "ord_1"}, {"ord_1": "ord_1"},
    {"$literal": {"$from": "ord_1"}}, {"$literal": "pay_1"}, {"$literal": ["pay_1", {"sku": "pay_6"}]},
]  # fmt: skip


def _id(draw: Draw, docs: Docs) -> str:
    return pick(draw, [step["id"] for step in docs.steps] or ["s0"])


def _expression(draw: Draw, docs: Docs) -> str:
    text = pick(draw, EXPRESSIONS)
    first, second = _id(draw, docs), _id(draw, docs)
    return text.format(a=first, b=second)


def _value(draw: Draw, docs: Docs) -> Any:
    match draw(st.integers(0, 8)):
        case 0 | 1:
            return copy.deepcopy(pick(draw, LITERALS))
        case 2 | 3:
            return {"$from": _id(draw, docs) + pick(draw, POINTERS)}
        case 4:
            target = pick(
                draw, ["request", "request", "self", "params", "nobody", "evidence", "outputs", "outputs"]
            )
            return {"$from": target + pick(draw, OUTPUT_POINTERS if target == "outputs" else POINTERS)}
        case 5:
            ref = pick(draw, [WINDOW, WINDOW, FORM, BOOKS, ABSENT, "junk"])
            ways = [
                "",
                "#/payment_id",
                "#/amount",
                "#/pay_to",
                "#/lines/0/sku",
                "#/items/01",
                "#/account",
                "#/none",
            ]
            return {"$evidence": ref + pick(draw, ways)}
        case 6:
            return {"sku": _value(draw, docs), "text": _value(draw, docs)}
        case 7:
            return [_value(draw, docs)]
        case _:
            return {"$cel": _expression(draw, docs)}


# ---- sound plans --------------------------------------------------------------------------------------------------


class _Sources(NamedTuple):
    """The steps so far that a sound value may come from."""

    lookups: list[str]
    notes: list[str]
    refunds: list[str]
    endorsed: list[str]

    def texts(self, field: str, literal: str) -> list[Any]:
        """Trusted places that hold this field."""
        return [
            literal,
            {"$literal": literal},
            *({"$from": f"{step}#/{field}"} for step in [*self.lookups, *self.notes]),
            *({"$cel": f'{step}["{field}"]'} for step in self.lookups),
            *({"$from": f"{step}#/text"} for step in self.endorsed),
        ]

    def amounts(self) -> list[Any]:
        """Trusted places that hold an amount."""
        return [
            500,
            500.0,
            {"$from": "request#/amount"},
            {"$from": "outputs#/amount"},
            {"$evidence": f"{WINDOW}#/amount"},
            *({"$from": f"{step}#/amount"} for step in [*self.lookups, *self.refunds, *self.notes]),
            *({"$cel": f"{step}.amount - {step}.fee"} for step in self.lookups),
        ]


def _sound_step(draw: Draw, step_id: str, sources: _Sources) -> Doc:
    def one(options: list[Any]) -> Any:
        return pick(draw, options)

    orders = [
        *sources.texts("order_id", "ord_1"),
        {"$from": "request#/order_id"},
        {"$cel": "request.order_id"},
    ]
    payments = [*sources.texts("payment_id", "pay_1"), {"$evidence": f"{WINDOW}#/payment_id"}]
    emails = [*sources.texts("email", "ada@shop.test"), {"$from": "request#/email"}]
    kinds = ["lookup", "evaluate", "fetch", "confirm", "write", "mail", "note", "bare"]
    match one([*kinds, *(["refund"] * 3 if sources.lookups else ["lookup"])]):
        case "lookup":
            sources.lookups.append(step_id)
            extra = one([{}, {"channel": "web"}, {"channel": 3}, {"fresh": True}])
            return {"tool": "orders.lookup", "params": {one(["order_id", "id"]): one(orders), **extra}}
        case "evaluate":
            options: list[Any] = [[{"sku": "A"}], {"$from": "request#/lines"}]
            options += [[{"$from": f"{step}#/lines/0"}, {"sku": "A"}] for step in sources.lookups]
            lines = one([{}, *({"lines": given} for given in options)])
            return {"tool": "rules.evaluate", "params": {"order_id": one(orders), **lines}}
        case "fetch":
            headers = one([{}, {"headers": {"x": "y"}}])
            return {"tool": "web.fetch", "params": {"url": one([*orders, "https://evil.test"]), **headers}}
        case "confirm":
            sources.endorsed.append(step_id)
            seen = one([*orders, "whatever", {"$evidence": f"{FORM}#/pay_to"}])
            return {"tool": "desk.confirm", "params": {"text": seen}}
        case "write":
            account = one(["acc_7", f"acc_{step_id}", {"$evidence": f"{BOOKS}#/account"}])
            return {"tool": "books.write", "params": {"account": account, "amount": one(sources.amounts())}}
        case "refund":
            return _sound_refund(one, step_id, sources, payments)
        case "mail":
            body = one([{}, {"body": "ord_1"}, {"copies": []}, {"copies": [one(emails)]}])
            return {"tool": "mail.send", "params": {"to": one(emails), **body}}
        case "note":
            sources.notes.append(step_id)
            fields = {"order_id": one(orders), "payment_id": one(payments), "email": one(emails)}
            return {"kind": "note", "params": {**fields, "amount": one(sources.amounts())}}
        case _:
            return {
                "tool": "bare.call",
                "gates": ["support"],
                "params": {"x": one(orders)},
                "compensate": CANCEL,
            }


def _sound_refund(
    one: Callable[[list[Any]], Any], step_id: str, sources: _Sources, payments: list[Any]
) -> Doc:
    before = sources.lookups[-1:]
    sources.refunds.append(step_id)
    return {
        "tool": "pay.refund",
        "params": {one(["payment_id", "id"]): one(payments), "amount": one(sources.amounts())},
        "depends_on": before,
        "preconditions": one([[], ["order_read"]]),
        "evidence_refs": one([[WINDOW], [WINDOW], [WINDOW, FORM]]),
        "when": one([None, None, "request.ok", "1 < 2", *(f"{step}.ok" for step in before)]),
        "compensate": one([None, None, CANCEL, {"tool": "pay.cancel", "params": {"refund_id": "pay_1"}}]),
    }


def _sound_plan(draw: Draw) -> Doc:
    sources = _Sources([], [], [], [])
    count = draw(st.integers(1, 6))
    steps = [{"id": f"s{index}", **_sound_step(draw, f"s{index}", sources)} for index in range(count)]
    output = pick(draw, [500, {"$from": "request#/amount"}, {"$from": "s0"}, {"$cel": "s0.amount"}])
    return {"steps": steps, "outputs": {"amount": output}}


# ---- changes ------------------------------------------------------------------------------------------------------

Change: TypeAlias = Callable[[Draw, Docs], None]

MODES = ["read_only", "local_write", "network", "delegated", "destructive"]
CLASSES = [
    "refund_window_evidence",
    "refund_window",
    "books",
    "books_evidence",
    "ledger",
    "refund_form",
    "kyc",
]
CONDITIONS = ["order_read", "judged", "booked", "unheard_of"]
MARKS = [
    "note",
    "/note",
    "/lines",
    "/lines/0",
    "/lines/*/text",
    "/lines/*",
    "*",
    "/*",
    "/email",
    "/amount/x",
    "/a~1b/~0",
]
GATE_NAMES = ["finance", "support", "large", "unbound", "nobody"]
CONDITION_TEXTS = [
    "true",
    "false",
    "args.amount <= 500",
    "args.amount < 500",
    "args.payment_id == 'pay_1'",
    "size(args) < 3",
    "size(args)",
    "!has(args.memo)",
    "args.",
    "args.amount + 1",
    "request.ok && context.tenant == 'default'",
    "decision.risk_tier == 'high' && context.safety_mode == 'destructive'",
]
POLICIES: list[Doc] = [
    {"expression": "plan.steps.size() < 5"},
    {"expression": "plan.steps.size() > 0"},
    {"expression": "plan.steps.all(s, s.tool != 'pay.refund' || s.params.amount <= 500)"},
    {"expression": "plan.steps.exists(s, s.tool == 'orders.lookup')"},
    {"expression": "plan.steps.filter(s, s.tool == 'pay.refund').size() <= 1"},
    {"expression": "plan.steps.all(s, s.index >= 0 || s.mode != 'destructive' || s.evidence.size() == 0)"},
    {
        "expression": "plan.steps.all(s, s.index < 0 || plan.steps.exists(t, t.id == 'order' && t.index < s.index))"
    },
    {
        "expression": "plan.steps.all(s, s.tool != 'pay.refund'"
        " || plan.steps.exists(t, t.tool == 'orders.lookup' && t.id in s.before))"
    },
    {"expression": "plan.steps.all(s, s.tool != 'mail.send' || s.after.size() == 0)"},
    {"expression": "plan.steps.all(s, s.tool != 'pay.refund' || 'orders.lookup' in s.before_tools)"},
    {"expression": "plan.steps.all(s, !s.optional && s.when == '' || s.after_tools.size() == 0)"},
    {"expression": "'amount' in plan.outputs && plan.intent != 'x'"},
    {"expression": "plan."},
    {"expression": "plan.steps[7].id == 's7'"},
    {"expression": "request.amount == 500"},
    {"expression": "plan.steps.size()"},
    {"scope": "step", "expression": "step.mode != 'destructive' || step.gates.size() > 0"},
    {"scope": "step", "expression": "step.reversibility != 'irreversible'"},
    {"scope": "step", "expression": "step.tool != 'pay.refund' || step.params.amount < 500"},
    {"scope": "step", "expression": "step.kind == 'tool'"},
    {"scope": "step", "expression": "step.index < 4 || step.evidence.size() == 0"},
    {"scope": "step", "expression": "step.tool != 'pay.refund' || 'orders.lookup' in step.before_tools"},
    {"scope": "step", "expression": "step.tool != 'orders.lookup' || !('mail.send' in step.after_tools)"},
    {"scope": "step", "expression": "step.optional || step.before.size() < 3 && step.when == ''"},
    {"scope": "step", "expression": "size(step.params) < 3"},
    {"scope": "step", "expression": "step.params.order_id == 'ord_1'"},
]
GRANTS: list[Doc] = [
    {"scope": "step", "expression": "step.mode == 'network'"},
    {"scope": "step", "expression": "step.tool == 'mail.send' && step.params.to == 'ada@shop.test'"},
    {"scope": "step", "expression": "'desk' in context.roles && step.index > 0"},
    {"scope": "step", "expression": "step.params.amount <= 500"},
    {"scope": "step", "expression": "size(step.params) < 3 && plan.intent == ''"},
    {"scope": "step", "expression": "'orders.lookup' in step.before_tools"},
    {"scope": "step", "expression": "step.after.size() < 2"},
    {"scope": "step", "expression": "false"},
    {"scope": "step", "expression": "step."},
    {"scope": "step", "expression": "true", "gate": "finance"},
    {"scope": "plan", "expression": "true"},
]
COMPENSATIONS: list[Doc | None] = [
    None,
    CANCEL,
    {"tool": "pay.cancel", "params": {"refund_id": {"$from": "params#/payment_id"}}},
    {"tool": "pay.cancel", "params": {"refund_id": {"$cel": "params.id"}}},
    {"tool": "pay.cancel", "params": {"refund_id": {"$cel": "self.refund_id + params.memo"}}},
    {"tool": "pay.cancel", "params": {"refund_id": "pay_6"}},
    {"tool": "pay.cancel", "params": {"refund_id": 7}},
    {"tool": "pay.cancel", "params": {}},
    {"tool": "books.write", "params": {"account": "x", "entry": {"$from": "self"}}},
    {"tool": "pay.refund", "params": {"payment_id": "pay_1", "amount": 5}},
    {"tool": "pay.refund", "params": {"payment_id": {"$from": "params#/payment_id"}, "amount": 100_001}},
    {"tool": "pay.cancel", "params": {"refund_id": {"$cel": "self.refund_id + s1.note"}}},
    {"tool": "pay.cancel", "params": {"refund_id": {"$from": "s2#/note"}}},
    {"tool": "mail.send", "params": {"to": {"$from": "request#/note"}}},
    {"tool": "mail.send", "params": {"to": {"$evidence": f"{ABSENT}#/x"}}},
    {"tool": "nobody.home", "params": {}},
    {"tool": "orders.lookup", "params": {"order_id": "ord_1"}},
]


def _step(draw: Draw, docs: Docs) -> Doc:
    nothing: list[Doc] = [{}]
    steps = docs.steps or nothing
    position: int = draw(st.integers(0, len(steps) - 1))
    return steps[position]


def _setting(name: str, *options: Any) -> Change:
    """Sets one field of a step to one of these."""

    def change(draw: Draw, docs: Docs) -> None:
        _step(draw, docs)[name] = copy.deepcopy(pick(draw, options))

    return change


def _setting_in(which: str, name: str, *options: Any) -> Change:
    """Sets one field of the run's frame, of the budget, of the context or of the decision to one of these."""

    def change(draw: Draw, docs: Docs) -> None:
        targets = {"ctx": docs.ctx, "compiled": docs.compiled, "spec": docs.spec, "plan": docs.plan}
        targets |= {"budget": docs.ctx["run_budget"], "used": docs.ctx["used"]}
        targets[which][name] = copy.deepcopy(pick(draw, options))

    return change


def _declaring(name: str, *options: Any) -> Change:
    """Sets one field of a tool's declaration to one of these."""

    def change(draw: Draw, docs: Docs) -> None:
        called = {step.get("tool") for step in docs.steps}
        entries = [e for e in docs.tools if e.get("declaration") and e["declaration"]["name"] in called]
        if entries:
            chosen = pick(draw, entries)
            chosen["declaration"][name] = copy.deepcopy(pick(draw, options))
            chosen["approval_mode"] = chosen["declaration"]["mode"]

    return change


def _change_param(draw: Draw, docs: Docs) -> None:
    params = _step(draw, docs).setdefault("params", {})
    named = [
        "order_id",
        "id",
        "payment_id",
        "amount",
        "to",
        "text",
        "url",
        "lines",
        "memo",
        "x",
        "channel",
        "body",
    ]
    params[pick(draw, [*params, *params, *named])] = _value(draw, docs)


def _drop_param(draw: Draw, docs: Docs) -> None:
    params = _step(draw, docs).get("params", {})
    if params:
        del params[pick(draw, sorted(params))]


def _change_tool(draw: Draw, docs: Docs) -> None:
    step = _step(draw, docs)
    if step.get("kind", "tool") == "tool":
        step["tool"] = pick(draw, [*TOOLS, "bare.call", "nobody.home"])


def _change_kind(draw: Draw, docs: Docs) -> None:
    step = _step(draw, docs)
    step["kind"] = pick(draw, ["note", "lane"])
    step.pop("tool", None)


def _change_output(draw: Draw, docs: Docs) -> None:
    docs.plan["outputs"][pick(draw, ["amount", "other"])] = _value(draw, docs)


def _drop_outputs(draw: Draw, docs: Docs) -> None:
    docs.plan["outputs"] = {}
    docs.plan["declared_outputs"] = pick(draw, [[], ["amount"], ["other"]])


def _depend(draw: Draw, docs: Docs) -> None:
    step = _step(draw, docs)
    others = [*(step["id"] for step in docs.steps), "nobody", "request"]
    step["depends_on"] = [*step.get("depends_on", []), pick(draw, others)]


def _condition(draw: Draw, docs: Docs) -> None:
    _step(draw, docs)["when"] = _expression(draw, docs)


def _shift_modes(draw: Draw, docs: Docs) -> None:
    docs.ctx["safety_mode"] = pick(draw, MODES)
    _step(draw, docs)["approval_mode"] = pick(draw, MODES)


def _repeat_step(draw: Draw, docs: Docs) -> None:
    if docs.steps:
        step = _step(draw, docs)
        params = {name: float(x) if type(x) is int else x for name, x in step.get("params", {}).items()}
        again = {**copy.deepcopy(step), "params": params, "id": f"again{len(docs.steps)}"}
        docs.steps.insert(draw(st.integers(0, len(docs.steps))), again)
        if draw(st.booleans()):
            docs.spec["repeatable"] = [step.get("tool", "")]


def _drop_step(draw: Draw, docs: Docs) -> None:
    if docs.steps:
        docs.steps.pop(draw(st.integers(0, len(docs.steps) - 1)))


def _swap_steps(draw: Draw, docs: Docs) -> None:
    docs.steps.reverse()


def _clear_steps(draw: Draw, docs: Docs) -> None:
    docs.steps.clear()


def _drop_tool(draw: Draw, docs: Docs) -> None:
    docs.tools.pop(draw(st.integers(0, len(docs.tools) - 1)))


def _drop_declaration(draw: Draw, docs: Docs) -> None:
    pick(draw, docs.tools).pop("declaration", None)


def _change_evidence(draw: Draw, docs: Docs) -> None:
    if docs.evidence:
        fields = [
            {"trust": "untrusted"},
            {"trust": "trusted"},
            {"classification": "refund_window"},
            {"content": None},
        ]
        pick(draw, docs.evidence).update(pick(draw, fields))


def _drop_evidence(draw: Draw, docs: Docs) -> None:
    if docs.evidence:
        docs.evidence.pop(draw(st.integers(0, len(docs.evidence) - 1)))


def _drop_gate(draw: Draw, docs: Docs) -> None:
    if docs.compiled["gates"]:
        docs.compiled["gates"].pop(draw(st.integers(0, len(docs.compiled["gates"]) - 1)))


def _make_gate_conditional(draw: Draw, docs: Docs) -> None:
    if docs.compiled["gates"]:
        pick(draw, docs.compiled["gates"])["when"] = pick(draw, CONDITION_TEXTS)


def _add_policy(draw: Draw, docs: Docs) -> None:
    policy = dict(pick(draw, POLICIES))
    if draw(st.booleans()):
        policy |= {"effect": "gate", "gate": pick(draw, GATE_NAMES)}
    policies = docs.compiled["policies"]
    policies.append({"name": f"policy{len(policies)}", **policy})


def _add_grant(draw: Draw, docs: Docs) -> None:
    policies = docs.compiled["policies"]
    policies.append({"name": f"policy{len(policies)}", "effect": "grant", **pick(draw, GRANTS)})


def _have_done(draw: Draw, docs: Docs) -> None:
    params = {"amount": 500, "order_id": "o_1", "to": "eve@evil.test"}
    literals = {name: {"$literal": value} for name, value in params.items() if draw(st.booleans())}
    tool = pick(draw, ["orders.lookup", "pay.refund", "rules.evaluate", "web.fetch", "gone.tool"])
    made = {"id": pick(draw, ["order", "s9"]), "tool": tool, "params": literals, "evidence_refs": [WINDOW]}
    docs.ctx.setdefault("earlier", []).append({"step": made, "place": pick(draw, [0, 1, None])})


def _change_owner(draw: Draw, docs: Docs) -> None:
    docs.ctx["actor"]["roles"] = pick(draw, [[], ["reader"], ["finance_lead"], ["desk"]])


def _add_checkpoint(draw: Draw, docs: Docs) -> None:
    decision = pick(draw, ["refund.execute", "refund.notify", "refund.book", "nobody"])
    step = pick(draw, [*(step["id"] for step in docs.steps), "nobody"])
    docs.plan.setdefault("decision_checkpoints", []).append({"decision_id": decision, "after_step": step})


def _choose_evidence(draw: Draw, docs: Docs) -> None:
    """Lets the input choose a piece of evidence, through a template or through the words of a search."""
    if draw(st.booleans()):
        docs.plan["untrusted_refs"] = [pick(draw, [WINDOW, FORM, BOOKS, ABSENT])]
        return
    words = pick(draw, ["PLEASE", "refund windows", "pays, please!", "torn", "the Ledger", "ord 1"])
    _step(draw, docs)["evidence_queries"] = [{"classification": "refund_window", "query": words}]


def _set_tiers(draw: Draw, docs: Docs) -> None:
    tier = pick(draw, ["low", "medium", "high", "critical"])
    docs.spec["risk_tier"] = tier
    checks = ["preconditions", "compensation", "latency", "concurrency", "checkpoints", "duplicates"]
    if draw(st.booleans()):
        left = pick(draw, checks)
        docs.compiled["risk_tiers"] = {tier: [check for check in checks if check != left]}


def _know_result(draw: Draw, docs: Docs) -> None:
    value = pick(draw, ["pay_6", 501, {"to": ["eve@evil.test", True]}, None, 7])
    result = {"step_id": "s9", "tool": "orders.lookup", "value": value}
    docs.compiled["results"].append({**result, "trust": pick(draw, ["trusted", "untrusted"])})


def _approve(draw: Draw, docs: Docs) -> None:
    params = pick(draw, [{"to": "eve@evil.test"}, {"amount": 501, "x": [{"y": "pay_6"}]}, {"a": False}])
    step = pick(
        draw, [{"kind": "note"}, {"tool": "mail.send"}, {"tool": "pay.refund"}, {"tool": "bare.call"}]
    )
    docs.compiled["approved_plan"] = {"steps": [{"id": "s1", "params": params, **step}]}


def _set_value(draw: Draw, docs: Docs) -> None:
    """Lets an approver have set a value, mostly one that the plan has."""
    step = _step(draw, docs)
    name = pick(draw, sorted(step.get("params") or {}) or ["to"])
    params: Doc = step.get("params") or {}
    written: Any = copy.deepcopy(params.get(name))
    value: Any = written if draw(st.integers(0, 3)) else pick(draw, LITERALS)
    changed = {"step_id": step.get("id", "s1"), "tool": step.get("tool") or "mail.send", "by": "gil"}
    place = pick(draw, [f"/{name}", f"/{name}", f"/{name}/0", "/to"])
    docs.compiled.setdefault("changed", []).append({**changed, "place": place, "value": value})


def _ask_otherwise(draw: Draw, docs: Docs) -> None:
    given = docs.compiled.get("request")
    if given and draw(st.booleans()):
        given["input"][pick(draw, sorted(given["input"]) or ["x"])] = pick(draw, LITERALS)
    else:
        docs.compiled["request"] = None


def _nest(draw: Draw, docs: Docs) -> None:
    """Lets steps decide on each other, one after the other in the plan's order."""
    chosen = sorted(draw(st.sets(_below(max(1, len(docs.steps))), min_size=1, max_size=6)))
    for before, index in pairwise(chosen):
        docs.steps[index]["when"] = f"{docs.steps[before]['id']}.ok"


def _fit_budget(draw: Draw, docs: Docs) -> None:
    """Leaves exactly what the plan needs of something, or one more, or one less."""
    case = docs.parsed()
    if not case.plan.steps or naive.on_a_cycle(case):
        return
    needs = {
        "max_steps": len(docs.steps),
        "bucket_tokens": sum(step.estimated_tokens for step in case.plan.steps),
        "tool_calls": naive.calls_needed(case),
        "tokens": sum(naive.tokens_of(case, step) for step in case.plan.steps),
        "cost_microcents": naive.cost_needed(case),
        "wall_clock_ms": max(end for _, end in naive.spans(case, 0)),
        "max_parallel": naive.width(case),
    }
    name = pick(draw, [*sorted(needs), "wall_clock_ms", "max_parallel"])
    used = pick(draw, (0, 0, 3))
    is_counted = name in ("tool_calls", "tokens", "cost_microcents", "wall_clock_ms")
    docs.ctx["run_budget"][name] = max(
        0, needs[name] + pick(draw, (-1, -1, 0, 1)) + (used if is_counted else 0)
    )
    if is_counted:
        docs.ctx["used"][name] = used


SMALL = (0, 1, 2, 5, 30, 100, 450, 2_000)

PLAN_CHANGES: list[Change] = [
    *[_change_param] * 8,
    _drop_param,
    _change_tool,
    *[_change_kind] * 2,
    _change_output,
    _drop_outputs,
    _depend,
    _depend,
    *[_condition] * 4,
    _nest,
    *[_repeat_step] * 2,
    _drop_step,
    _swap_steps,
    _clear_steps,
    *[_add_checkpoint] * 2,
    *[_choose_evidence] * 2,
    *[_setting("approval_mode", "read_only", "local_write", *MODES)] * 3,
    _setting("gates", None, [], ["finance"], ["nobody"], ["large"], ["large", "support"]),
    _setting("requires_evidence", *([name] for name in CLASSES)),
    _setting("evidence_refs", [], [WINDOW], [ABSENT], [FORM, BOOKS], ["junk"], ["kg:kyc:1#snapshot_k1"]),
    _setting("preconditions", *([name] for name in CONDITIONS)),
    _setting("reversibility", None, "pure", "reversible", "compensable", "irreversible"),
    *[_setting("compensate", *COMPENSATIONS)] * 2,
    _setting("estimated_tokens", 0, 1, 100, 8_000, 8_001, 10**12),
    _setting("estimated_ms", None, *SMALL),
]

FRAME_CHANGES: list[Change] = [
    _drop_tool,
    _drop_declaration,
    _change_evidence,
    _change_evidence,
    _drop_evidence,
    _drop_gate,
    _make_gate_conditional,
    *[_add_policy] * 4,
    _add_grant,
    *[_change_owner] * 2,
    *[_fit_budget] * 16,
    _set_tiers,
    _set_tiers,
    *[_know_result] * 2,
    _approve,
    *[_set_value] * 2,
    *[_have_done] * 4,
    _ask_otherwise,
    _declaring("mode", *MODES),
    _declaring("trust", None, "trusted", "untrusted"),
    _declaring("adapter", "python", "mcp", "http", "command", "model"),
    _declaring("endorses", True, False),
    _declaring("untrusted", *([mark] for mark in MARKS), ["note", "/lines/1"]),
    _declaring("authority", None, [], ["order_id"], ["payment_id"], ["amount", "to"], ["x", "text"]),
    _declaring("identity", None, [], ["amount"], ["order_id", "to"]),
    _declaring("aliases", {}, {"id": "amount"}, {"x": "to", "id": "order_id"}),
    *[_declaring("limits", *([{"expression": text}] for text in CONDITION_TEXTS))] * 4,
    _declaring("gates", [], ["finance"], ["large"], ["nobody"]),
    *[_declaring("roles", [], ["reader"], ["finance_lead"], ["nobody", "desk"], ["nobody"])] * 2,
    _declaring("requires_evidence", *([name] for name in CLASSES)),
    _declaring("preconditions", *([name] for name in CONDITIONS)),
    _declaring("establishes", [], CONDITIONS[:3], ["unheard_of"]),
    *[_declaring("revokes", *([name] for name in CONDITIONS), CONDITIONS)] * 2,
    _declaring("reversibility", None, "pure", "reversible", "compensable", "irreversible"),
    _declaring("compensate", None, CANCEL),
    _declaring("no_compensation", "", "nothing to take back"),
    _declaring(
        "result", None, {}, _object({"amount": {}}), _object({"lines": {"items": LINE}, "order_id": {}})
    ),
    _declaring("parameters", {}, {"type": 5}, {"maximum": 2**63}, _object({}, additionalProperties=False)),
    _declaring("estimated_ms", *SMALL),
    _declaring("estimated_tokens", *SMALL),
    _declaring("cost_microcents", *SMALL),
    *[_shift_modes] * 2,
    _setting_in("ctx", "plan_origin", "caller", "planner"),
    _setting_in("budget", "max_steps", *SMALL),
    _setting_in("budget", "bucket_tokens", *SMALL),
    _setting_in("budget", "tokens", None, *SMALL),
    _setting_in("budget", "max_replans", 0, 1, 2),
    _setting_in("budget", "max_branch_depth", 0, 1, 2),
    _setting_in("used", "replans", 0, 1, 2, 3),
    _setting_in("spec", "required_outputs", [], ["amount"], ["amount", "other"]),
    _setting_in("spec", "required_evidence", *([name] for name in CLASSES)),
    _setting_in("spec", "untrusted_evidence", *([name] for name in CLASSES)),
    _setting_in("spec", "gates", ["finance"], ["large"], ["nobody"]),
    _setting_in("spec", "repeatable", ["pay.refund", "mail.send"], ["books.write"]),
    _setting_in("spec", "conditions", CONDITIONS[:1], CONDITIONS),
    _setting_in("spec", "untrusted_inputs", [], *([mark] for mark in MARKS)),
    _setting_in("spec", "unbound_gate", None, "unbound", "unbound", "large", "nobody"),
]


def _spoil(draw: Draw, docs: Docs, changes: list[list[Change]]) -> Docs:
    """The documents after one change out of each list; a change after which nothing would parse is left out."""
    for options in changes:
        changed = docs.copied()
        pick(draw, options)(draw, changed)
        if _is_parsed(changed):
            docs = changed
    return docs


def _changes(draw: Draw, counts: tuple[int, ...]) -> list[list[Change]]:
    return [pick(draw, (PLAN_CHANGES, FRAME_CHANGES)) for _ in range(pick(draw, counts))]


def _is_parsed(docs: Docs) -> bool:
    try:
        docs.parsed()
    except (ValidationError, TercetError):
        return False
    return True


@st.composite
def cases(draw: Draw) -> Case:
    """A plan out of sound parts for the desk, with up to four changes to plan, frame or both."""
    docs = desk()
    docs.plan.update(_sound_plan(draw))
    return _spoil(draw, docs, _changes(draw, (0, 1, 1, 2, 3, 4))).parsed()


@st.composite
def continued_cases(draw: Draw) -> Case:
    """A plan out of sound parts for a run that has done something before, under policies that look at the whole of it."""
    docs = desk()
    docs.plan.update(_sound_plan(draw))
    needing = [_declaring(name, *([each] for each in CONDITIONS)) for name in ("establishes", "revokes")]
    changes = [[_add_policy], [_have_done], [_have_done, *needing], [_have_done, *PLAN_CHANGES]]
    return _spoil(draw, docs, changes).parsed()


@st.composite
def mutated_refunds(draw: Draw) -> Case:
    """The refund that passes, with one to three changes."""
    return _spoil(draw, refund(), _changes(draw, (1, 1, 2, 2, 3))).parsed()


@st.composite
def ordinary_cases(draw: Draw) -> Case:
    """The ordinary refund, with up to two changes."""
    return _spoil(draw, ordinary(), _changes(draw, (0, 1, 1, 1, 2))).parsed()


@st.composite
def cyclic_cases(draw: Draw) -> Case:
    """A plan in which some steps wait for each other in a ring; perhaps with more faults than a verdict keeps."""
    docs = _spoil(draw, refund(), _changes(draw, (0, 1, 2)))
    docs.steps.extend({"id": f"x{index}", "tool": "nobody.home"} for index in range(pick(draw, [1, 60])))
    ring: list[Doc] = draw(
        st.lists(st.sampled_from(docs.steps), min_size=1, max_size=4, unique_by=lambda s: s["id"])
    )
    for step, after in zip(ring, [*ring[1:], ring[0]], strict=True):
        step["depends_on"] = [*step.get("depends_on", []), after["id"]]
    return docs.parsed()


@st.composite
def granting_cases(draw: Draw) -> tuple[Case, str, Doc]:
    """A plan with policies that grant, one of its steps, and parameters that the step might run with."""
    docs = desk()
    docs.plan.update(_sound_plan(draw))
    for _ in range(pick(draw, (1, 2, 3))):
        _add_grant(draw, docs)
    docs = _spoil(draw, docs, _changes(draw, (0, 1, 2)))
    reaching = [step for step in docs.steps if step.get("tool") in ("mail.send", "bare.call")]
    step = _step(draw, docs) if not reaching else pick(draw, reaching)
    values = [value for value in LITERALS if value != 1e300]  # no plan could hold it
    params = {name: pick(draw, values) for name in pick(draw, ([], ["to"], ["to", "amount"]))}
    return docs.parsed(), step.get("id", "nobody"), {"to": "ada@shop.test", "amount": 5, **params}


# ---- single faults ------------------------------------------------------------------------------------------------


def _tool(docs: Docs, name: str) -> Doc:
    return next(e["declaration"] for e in docs.tools if e.get("declaration", {}).get("name") == name)


def _exceed(name: str) -> Callable[[Docs], None]:
    """Leaves next to nothing of a budget."""

    def fault(docs: Docs) -> None:
        docs.steps[0]["estimated_tokens"] = 2
        docs.ctx["run_budget"][name] = 1

    return fault


def _in_step(position: int, **fields: Any) -> Callable[[Docs], None]:
    """Sets fields of one step of the refund."""
    return lambda docs: docs.steps[position].update(fields)


def _in_tool(name: str, **fields: Any) -> Callable[[Docs], None]:
    """Sets fields of one declaration."""
    return lambda docs: _tool(docs, name).update(fields)


def _and_step(position: int, **fields: Any) -> Callable[[Docs], None]:
    """Adds a step that is like another one, but for these fields."""
    return lambda docs: docs.steps.append({**docs.steps[position], "id": f"like{len(docs.steps)}", **fields})


def _say_harmless(name: str, position: int, **fields: Any) -> Callable[[Docs], None]:
    """Weakens a tool's declaration while the step claims to be pure."""

    def fault(docs: Docs) -> None:
        _tool(docs, name).update(fields)
        docs.steps[position]["reversibility"] = "pure"

    return fault


def _decide_early(docs: Docs) -> None:
    early = [("nobody", "order"), ("refund.notify", "nobody"), ("refund.book", "order")]
    docs.plan["decision_checkpoints"] = [{"decision_id": name, "after_step": step} for name, step in early]


def _copy_params(position: int, **params: Any) -> Callable[[Docs], None]:
    return lambda docs: docs.steps[position].update(params={**docs.steps[position]["params"], **params})


FAULTS: list[tuple[str, Callable[[Docs], None]]] = [
    ("output_not_declared", lambda docs: docs.plan.update(outputs={})),
    ("tool_not_surfaced", _and_step(2, tool="nobody.home")),
    ("mode_exceeded", lambda docs: docs.ctx.update(safety_mode="delegated")),
    ("evidence_not_pinned", _in_step(1, requires_evidence=["kyc"])),
    ("evidence_unresolved", _in_step(2, evidence_refs=[ABSENT])),
    ("too_many_steps", _exceed("max_steps")),
    ("tokens_exceeded", _exceed("bucket_tokens")),
    ("kind_unavailable", lambda docs: docs.steps.append({"id": "lane", "kind": "lane"})),
    ("cyclic_dependency", _in_step(0, depends_on=["order"])),
    ("unresolved_reference", _in_step(2, depends_on=["nobody"])),
    ("expression_invalid", _in_step(3, when="size(order.lines)")),
    ("argument_invalid", _copy_params(0, channel="fax")),
    (
        "argument_not_permitted",
        _in_tool("orders.lookup", limits=[{"expression": "size(args.order_id) < 3"}]),
    ),
    ("mode_understated", _in_step(6, approval_mode="read_only")),
    ("authorization_required", _in_tool("books.write", roles=["finance_lead"])),
    ("unbound_argument", _copy_params(6, copies=["eve@evil.test"])),
    ("gate_unknown", _in_step(0, gates=["nobody"])),
    ("gate_missing", _say_harmless("mail.send", 6, reversibility="irreversible", gates=[])),
    ("compensation_missing", _say_harmless("books.write", 7, no_compensation="")),
    (
        "argument_invalid",
        _in_step(4, compensate={"tool": "pay.cancel", "params": {"why": {"$from": "self"}}}),
    ),
    ("unmet_precondition", _in_step(2, preconditions=["unheard_of"])),
    ("threatened_condition", _in_tool("web.fetch", revokes=["order_read"])),
    ("tool_calls_exceeded", _exceed("tool_calls")),
    ("tokens_exceeded", _exceed("tokens")),
    ("cost_exceeded", _exceed("cost_microcents")),
    ("latency_exceeded", _exceed("wall_clock_ms")),
    ("concurrency_exceeded", _exceed("max_parallel")),
    ("branches_exceeded", lambda docs: docs.ctx["run_budget"].update(max_branch_depth=0)),
    (
        "policy_invariant",
        lambda docs: docs.compiled["policies"].append({"name": "p", "expression": "plan.steps.size()"}),
    ),
    ("checkpoint_unbound", _decide_early),
    ("duplicate_action", _and_step(7, params={"account": "acc_7", "amount": 500.0})),
]
"""One fault for nearly every code, in the order of the page; each can be added to the refund with any others."""


@st.composite
def faulty_refunds(draw: Draw) -> tuple[Case, list[str]]:
    """The refund with some of these faults, and their codes in the order of the page."""
    positions = draw(st.sets(_below(len(FAULTS)), min_size=1, max_size=5))
    docs = refund()
    for position in sorted(positions):
        FAULTS[position][1](docs)
    return docs.parsed(), [FAULTS[position][0] for position in sorted(positions)]


OVERLOOKED = (
    "unmet_precondition",
    "threatened_condition",
    "compensation_missing",
    "latency_exceeded",
    "concurrency_exceeded",
    "checkpoint_unbound",
    "duplicate_action",
)


@st.composite
def lax_cases(draw: Draw) -> Case:
    """The refund with some of the faults that a risk tier may overlook."""
    docs = refund()
    chosen = draw(st.sets(st.sampled_from(OVERLOOKED), min_size=1))
    for code, fault in FAULTS:
        if code in chosen:
            fault(docs)
    docs.spec["risk_tier"] = pick(draw, ["high", "critical"])
    return docs.parsed()


def without_check(case: Case, check: str) -> Case:
    """The case under a table in which its tier leaves one check out."""
    table = {case.spec.risk_tier: [name for name in ALL_CHECKS if name != check]}
    return case._replace(compiled=case.compiled.model_copy(update={"risk_tiers": table}))


# ---- nonsense -----------------------------------------------------------------------------------------------------

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(1 - 2**53, 2**53 - 1),
    st.sampled_from([2**53, 2**64, -(10**400)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


WILD = JSON | st.sampled_from([_nested(20), _nested(60), {"$literal": _nested(50)}])


@st.composite
def nonsense(draw: Draw) -> Case:
    """A case whose parameters, outputs, conditions, contents and inputs are anything that parses."""
    docs = desk()
    docs.plan.update(_sound_plan(draw))
    spots = draw(st.integers(0, 3))
    return _spoil(draw, docs, [*[SPOTS] * spots, *_changes(draw, (0, 1, 2))]).parsed()


def _wild_param(draw: Draw, docs: Docs) -> None:
    params = _step(draw, docs).setdefault("params", {})
    params[pick(draw, [*params, "x", "", "é", "a/b~"])] = draw(WILD)


def _wild_output(draw: Draw, docs: Docs) -> None:
    docs.plan["outputs"][pick(draw, ["amount", "", "\u2028"])] = draw(WILD)


def _wild_input(draw: Draw, docs: Docs) -> None:
    given = docs.compiled["request"]["input"]
    given[pick(draw, [*sorted(given), ""])] = draw(WILD)


def _wild_content(draw: Draw, docs: Docs) -> None:
    pick(draw, docs.evidence)["content"] = draw(WILD)


def _wild_condition(draw: Draw, docs: Docs) -> None:
    marks = st.text("s0.()[]\"'+-<>=!&|? 1eru{}", max_size=20)
    _step(draw, docs)["when"] = draw(st.text(max_size=20) | marks)


SPOTS: list[Change] = [_wild_param, _wild_output, _wild_input, _wild_content, _wild_condition]
