"""The remedy of `unbound_argument` fits why the value has no permitted source."""

from __future__ import annotations

from typing import Any

import pytest

from critic.small_plans import (
    B1,
    BIND_WINDOW,
    FORM,
    TICKET,
    W1,
    W2,
    Doc,
    Example,
    as_case,
    known,
    look,
    note,
    pay,
)
from tercet.contracts.runs.behaviour import CURRENT, Behaviour
from tercet.contracts.verdict import Code, Refusal
from tercet.critic.verify import verify

EVERY_CAUSE = "take the value by reference from evidence that the step pins or from a trusted result, or let a person supply it"
SUM = "bank.pay", {"parameters": {"properties": {"amount": {"type": "string"}, "to": {}, "payment_id": {}}}}


def unbound(
    *steps: Doc,
    rules: tuple[int, ...] = CURRENT,
    tools: Doc | None = None,
    more: Doc | None = None,
    **spec: Any,
) -> list[Refusal]:
    """The refusals of values without a permitted source in a plan."""
    case = as_case(Example("", "", list(steps), spec, tools or {}, more or {}))
    judged = case._replace(ctx=case.ctx.model_copy(update={"behaviour": rules}))
    return [each for each in verify(*judged).refusals if each.code is Code.UNBOUND_ARGUMENT]


@pytest.mark.parametrize(
    ("steps", "more", "remedy"),
    [
        ([pay(to="strange")], {}, "take the value from the request"),
        ([pay(to=[])], {}, "leave it out"),
        ([pay(to="p6")], {}, "do not copy it from there"),
        ([pay(payment_id="p1")], {}, f"if {W1} is what the request is about, add it to the evidence_refs"),
        ([pay(payment_id="p1", pins=[W1, B1])], {}, "take it by reference from the one that is meant"),
        ([pay(amount=4, pins=[B1])], {"more": {"evidence": {B1: ("books_evidence", "trusted", {"row_id": 4})}}},
         "take a value of kind amount"),
        ([pay(payment_id="p2", pins=[W2])], {"bind": [BIND_WINDOW]}, "pin evidence that belongs to this request"),
        ([pay(payment_id={"$evidence": f"{W2}#/payment_id"})], {"bind": [BIND_WINDOW]}, "use evidence that belongs"),
        ([pay(payment_id={"$evidence": f"{FORM}#/payment_id"})], {}, "use trusted evidence"),
        ([pay(amount={"$evidence": f"{TICKET}#/customer_id"})], {}, "take a value of kind amount"),
        ([pay(to={"$from": "request#/note"})], {}, "take the field off the untrusted_inputs"),
        ([look(order_id="o1"), pay(to={"$from": "look#/note"})], {}, "does not mark as untrusted"),
        ([look(order_id="zz"), pay(to={"$from": "look#/id"})], {}, "call shop.look with a value of the request"),
        ([look(order_id="o1"), pay(to={"$from": "look#/id"})],
         {"tools": {"shop.look": {"trust": "untrusted"}}}, 'declare trust = "trusted"'),
        ([pay(to={"$cel": "'zz'"})], {}, "compute only with values"),
        ([look(order_id="o1"), pay(to={"$cel": "look.note"})], {}, "does not mark as untrusted"),
        ([look(order_id="o1"), pay(to={"$cel": "look.id + look.id"})], {"tools": dict([SUM])}, "refer to the value itself"),
        ([look(order_id="o1"), pay(to="o1", when="look.note == 'x'")], {}, "let the condition read only trusted values"),
        ([note(text={"$from": "request#/note"}), pay(to={"$from": "memo#/text"})], {}, "take the value from the request"),
        ([pay(to={"$from": "request#/task"})],
         {"more": {"input": {"task": "pay Bob"}}, "fields": [{"of": "request.task", "kind": "sentence"}]},
         "write out the one thing that the sentence names"),
        ([pay(to="x7")], {"more": known({"note": "x7"})}, "do not copy it from there"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_cause_has_its_own_remedy(steps: list[Doc], more: Doc, remedy: str) -> None:
    """Sessions under earlier rules keep the one remedy that they recorded, and the same reason."""
    found = unbound(*steps, **more)
    assert any(remedy in (each.remedy or "") for each in found), [
        (each.reason, each.remedy) for each in found
    ]
    assert not any(EVERY_CAUSE in (each.remedy or "") for each in found)
    earlier = tuple(number for number in CURRENT if number != Behaviour.CAUSES_NAMED)
    before = unbound(*steps, rules=earlier, **more)
    assert [each.reason for each in before] == [each.reason for each in found]
    assert any((each.remedy or "").startswith(EVERY_CAUSE) for each in before)
