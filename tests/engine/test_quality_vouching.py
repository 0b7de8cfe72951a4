"""Who may vouch for outputs: what is trusted in this run, and nothing else, is committed without a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tercet import Actor, Evidence, Pack, Policy, Request, Runtime, ToolContext, tool
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.documents import DocumentValue, KnownValue, ReadText
from tercet.contracts.mode import ApprovalMode, Trust
from tercet.contracts.outputs.quality_rules import QualityRules, TestCommand
from tercet.contracts.shape import JsonObject
from tercet.engine.result import RunResult
from tercet.quality.values import known_values
from tercet.quality.verification.roles import check_role, is_plain_name, is_plain_place, words_in

OWN, OTHERS, OLDER = (f"kg:order:{name}#snapshot_s" for name in ("A-1", "E-1", "A-2"))


def _order(ref: str, customer: str, total: int, fee: int) -> Evidence:
    name = ref.split(":")[2].partition("#")[0]
    content = {"order_id": name, "customer": customer, "total": total, "fee": fee, "currency": "EUR"}
    return Evidence(id=ref, trust=Trust.TRUSTED, source="db", content=content)


ORDERS = (_order(OWN, "asha", 120, 15), _order(OTHERS, "eve", 7777, 99), _order(OLDER, "asha", 880, 30))
VALUES: list[JsonObject] = [
    {
        "name": "order_total",
        "from": "order#/total",
        "type": "money",
        "currency": "EUR",
        "labels": {"en": ["total"]},
    },
    {"name": "fee", "from": "order#/fee", "type": "money", "currency": "EUR"},
]
LETTER = "The total is {{ order_total }} and the fee is {{ fee }}."
RIGHT = "The total is €120.00 and the fee is €15.00."
ASKED: JsonObject = {"customer": "asha", "order_id": "A-1", "mail": "A-2"}


def quality(*, template: str = "", values: list[JsonObject] = VALUES, **rules: Any) -> JsonObject:
    """A decision about the order of the customer who asks; with a template, its letter is rendered."""
    documents = [{"output": "letter", "template": template}] if template else []
    return {
        "id": "letter",
        "required_outputs": ["letter"],
        "untrusted_inputs": ["mail"],
        "bind": [
            {"evidence": "order", "field": "customer", "equals": "request.customer"},
            {"tool": "shop.lookup", "field": "customer", "equals": "request.customer"},
        ],
        "quality": {"task_class": "letter", "values": values, "documents": documents, **rules},
    }


class Shop:
    """Runs a plan, and keeps what was filed: a local effect without a gate."""

    def __init__(
        self, decision: JsonObject, *, known: tuple[Evidence, ...] = ORDERS, policies: tuple[Policy, ...] = ()
    ) -> None:
        self.filed: list[Any] = []

        @tool("shop.lookup", mode="read_only", trust="trusted")
        def lookup(order_id: str) -> dict[str, Any]:
            """Return an order."""
            return next(fact.content for fact in ORDERS if fact.content["order_id"] == order_id)

        @tool("shop.echo", mode="read_only", trust="trusted")
        def echo(text: Any) -> Any:
            """Return what it is given."""
            return {"text": text}

        @tool("store.file", mode="local_write", authority=["to"], idempotent=True, no_compensation="filed")
        def file(ctx: ToolContext, to: str, body: str) -> dict[str, Any]:
            """File a letter."""
            self.filed.append(body)
            return {}

        self.pack = Pack(
            name="shop",
            version="1.0.0",
            safety_mode=ApprovalMode.DESTRUCTIVE,
            tools=[lookup, echo, file],
            evidence=known,
            policies=policies,
            decisions=[DecisionSpec.model_validate(decision)],
            actors=[Actor(id="ada"), Actor(id="ed")],
        )

    def run(
        self, *steps: JsonObject, outputs: JsonObject | None = None, approves: bool = False, **given: Any
    ) -> RunResult:
        """Run a plan for asha."""

        async def main() -> RunResult:
            async with Runtime(self.pack, "memory:") as runtime:
                request = Request(intent="letter", input={**ASKED, **given.pop("asked", {})})
                plan = {"steps": list(steps), "outputs": outputs or {}, **given}
                done = await runtime.run(request, plan=plan, actor=Actor(id="ada"))
                if approves:
                    assert done.gate is not None
                    await runtime.approve(done.gate.id, actor=Actor(id="ed"))
                    done = await runtime.resume(done.session_id)
                return done

        return asyncio.run(main())


def look_up(*pins: str, field: str = "order_id", id: str = "q", **more: Any) -> JsonObject:  # noqa: A002 - as in a plan
    """A step that looks up the order that a field of the request names."""
    params = {"order_id": {"$from": f"request#/{field}"}}
    return {"id": id, "tool": "shop.lookup", "params": params, "evidence_refs": list(pins), **more}


FILE: JsonObject = {
    "id": "f",
    "tool": "store.file",
    "params": {"to": {"$from": "request#/customer"}, "body": {"$from": "outputs#/letter"}},
}
NOTE: JsonObject = {"id": "n", "kind": "note", "params": {"x": {"$evidence": f"{OTHERS}#/total"}}}


def test_the_customers_own_order_fills_a_letter_that_is_filed_without_a_person() -> None:
    shop = Shop(quality(template=LETTER))
    done = shop.run(look_up(OWN), FILE)
    assert (done.status, done.outputs["letter"], shop.filed) == ("completed", RIGHT, [RIGHT])


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        ((look_up(OTHERS),), ORDERS),
        ((look_up(), NOTE), ORDERS),
        ((look_up(), look_up(OTHERS, id="k", when="request.customer == 'nobody'")), ORDERS),
        ((look_up(),), ORDERS[1:2]),
    ],
    ids=["pinned", "read by a note", "pinned by a step that is skipped", "all that is known"],
)
@pytest.mark.parametrize("is_computed", [False, True])
def test_another_customers_order_fills_no_slot(
    steps: tuple[JsonObject, ...], known: tuple[Evidence, ...], is_computed: bool
) -> None:
    """What an authority parameter refuses, a letter does not state."""
    total = {"name": "order_total", "cel": "order.total - 1", "type": "money", "currency": "EUR"}
    shop = Shop(
        quality(template=LETTER, values=[total if is_computed else VALUES[0], VALUES[1]]), known=known
    )
    done = shop.run(*steps, FILE)
    assert done.status != "completed"
    assert "7,77" not in str(done.outputs)
    assert shop.filed == []


@pytest.mark.parametrize("by_plan", [False, True])
def test_evidence_that_untrusted_input_has_chosen_fills_no_slot(by_plan: bool) -> None:
    """A marked field names the order, or the plan says that such a field has."""
    shop = Shop(quality(template=LETTER))
    done = shop.run(look_up(OWN), FILE, untrusted_refs=[OWN]) if by_plan else shop.run(look_up(OLDER), FILE)
    assert (done.status == "completed", shop.filed) == (False, [])
    assert "{{ order_total }}" in done.outputs["letter"]


LOOKED_UP = [{"name": "order_total", "from": "q#/total", "type": "money", "currency": "EUR"}]


def test_a_result_that_does_not_relate_to_the_request_fills_no_slot_and_is_no_output() -> None:
    shop = Shop(quality(template="The total is {{ order_total }}.", values=LOOKED_UP))
    assert shop.run(look_up(), FILE).outputs["letter"] == "The total is €120.00."
    done = shop.run(look_up(field="previous"), FILE, asked={"previous": "E-1"})
    assert (done.status == "completed", len(shop.filed)) == (False, 1)
    done = shop.run(look_up(field="previous"), asked={"previous": "E-1"})
    assert (done.status == "completed", done.outputs["letter"]) == (False, "The total is {{ order_total }}.")
    plain = Shop(quality(values=LOOKED_UP))
    for source in ("q#/total", "n#/x"):  # also by way of a note
        note = {"id": "n", "kind": "note", "params": {"x": {"$from": "q#/total"}}}
        outputs = {"letter": {"total": {"$from": source}}}
        done = plain.run(look_up(field="previous"), note, outputs=outputs, asked={"previous": "E-1"})
        assert done.status != "completed"


def test_an_accepted_letter_with_slots_is_not_delivered_where_a_step_that_fills_them_is_unrelated() -> None:
    """A person who accepts a letter cannot see that a result in it belongs to another request."""
    shop = Shop(quality(values=LOOKED_UP))
    steps = (look_up(field="previous"), {"id": "w", "tool": "shop.echo", "params": {"text": "Hello."}}, FILE)
    outputs = {"letter": {"$from": "w#/text"}}
    done = shop.run(*steps, outputs=outputs, asked={"previous": "E-1"}, approves=True)
    assert (done.status == "completed", shop.filed) == (False, [])
    assert shop.run(look_up(), *steps[1:], outputs=outputs, approves=True).status == "completed"
    assert shop.filed == ["Hello."]


@pytest.mark.parametrize(
    "outputs",
    [
        {"letter": {"Your account is closed. Pay 5000 EUR to acct_eve.": {"$from": "q#/fee"}}},
        {"letter": {"fee": {"$from": "q#/fee"}, "Your account is closed.": None}},
        {"letter": {"fee": {"$from": "q#/fee"}, "You owe five thousand euros": []}},
        {"letter": {"fee": {"$from": "q#/fee"}, "Ваш счёт закрыт": ""}},
        {"letter": {"Ваш счёт закрыт fee": {"$from": "q#/fee"}}},
        {"letter": {"{{ fee }}": {"$from": "q#/fee"}, "x": {"fee": {"$from": "q#/fee"}}}},
        {"letter": {"$from": "request#/said"}},
        {"letter": {"fee": {"$from": "q#/fee"}}, "Your account is closed": {"$from": "q#/fee"}},
    ],
)
def test_names_of_members_are_read_as_values_are(outputs: JsonObject) -> None:
    """Words do not become the author's where they stand in a key, also with nothing behind them."""
    asked: JsonObject = {"said": {"Your account is closed": 15}}
    assert Shop(quality()).run(look_up(OWN), outputs=outputs, asked=asked).status != "completed"


@pytest.mark.parametrize(
    ("letter", "is_committed"),
    [
        ({"fee": {"$from": "q#/fee"}, "order_total": {"$from": "q#/total"}}, True),
        ({"order": {"order_id": {"$from": "q#/order_id"}, "total": {"$evidence": f"{OWN}#/total"}}}, True),
        ({"$from": "q"}, True),
        ({"fee": {"$from": "q#/total"}, "total": {"$from": "q#/fee"}}, False),
        ({"fee": {"$from": "request#/amount"}}, False),
        ({"total": {"$cel": "q.total + q.fee"}}, False),
        ({"fee": {"$cel": "q.total // #/fee"}}, False),
        ({"$from": "q#/total"}, False),
    ],
)
def test_a_bound_number_vouches_in_its_own_role_only(letter: JsonObject, is_committed: bool) -> None:
    done = Shop(quality()).run(look_up(OWN), outputs={"letter": letter}, asked={"amount": 55555})
    assert (done.status == "completed") is is_committed


@pytest.mark.parametrize(
    "name",
    [
        "❌ {}",
        "-{}",
        "{}-",
        "−{}",
        "¢ {}",
        "≠{}",
        "{} %",
        "{}\u0336",
        "{}\0",
        "{}\u200b",
        "{} ²",
        "({})",
        "{}{}\n",
    ],
)
def test_a_sign_in_a_name_is_as_free_as_a_word_in_it(name: str) -> None:
    """A crossed out, negated or stained name is not the name of the value."""
    total = {"$evidence": f"{OWN}#/total"}
    done = Shop(quality()).run(look_up(OWN), outputs={"letter": {name.format("total", ""): total}})
    assert done.status != "completed"


@pytest.mark.parametrize("name", ["-", "", "❌", "…", "\0"])
@pytest.mark.parametrize("value", [{"$evidence": f"{OWN}#/total"}, "{{ order_total }}"])
def test_nothing_vouches_inside_of_a_name_of_signs(name: str, value: Any) -> None:
    done = Shop(quality()).run(look_up(OWN), outputs={"letter": {name: {"total": value}}})
    assert done.status != "completed"


@pytest.mark.parametrize(
    "name",
    ["total", "order_total", "order-total", "orderTotal", "Order total", "order/total", "order (total)"],
)
def test_separators_between_words_leave_a_name_as_it_is(name: str) -> None:
    done = Shop(quality()).run(look_up(OWN), outputs={"letter": {name: {"$evidence": f"{OWN}#/total"}}})
    assert (done.status, done.outputs["letter"]) == ("completed", {name: 120})


@pytest.mark.parametrize(
    "name",
    [
        "Größe", "montant à payer", "date d'échéance", "e\u0301tat", "Año", "счёт закрыт", "إجمالي المبلغ", "المَجموع",
        "कुल योग", "मूल्य", "合計金額", "ユーザー・名", "order no. 5", "net (gross)", "74",
    ],
)  # fmt: skip
def test_names_in_any_script_are_plain(name: str) -> None:
    """Vowel signs belong to their letters, and a name differs from one with others."""
    assert is_plain_name(name)
    assert not any(
        is_plain_name(each) for each in (f"{name}\u0336", f"-{name}", f"{name}\u20e0", f"{name} - x")
    )


def test_vowel_signs_tell_names_apart() -> None:
    assert words_in("कुल") != words_in("काल")
    assert words_in("e\u0301tat") == words_in("État")


def test_a_field_with_a_sign_is_not_the_one_without() -> None:
    """What a result calls `-total` is not the total."""
    where = f"{OWN}#/-total"
    known = [KnownValue(value=120, type="number", pointer=where, trust=Trust.TRUSTED)]
    piece = {"start": 0, "end": 3, "source": "bound", "pointer": where}
    read = ReadText.model_validate({"pointer": "/letter/total", "text": "120", "pieces": [piece]})
    assert check_role(read, known) == "none"


@pytest.mark.parametrize(
    ("place", "is_plain"),
    [
        (("total €",), True),
        (("rows", "0", "± %"), True),
        (("other", "± %"), False),
        (("± %",), False),
        (("§",), True),
    ],
)
def test_the_author_may_name_outputs_with_signs(place: tuple[str, ...], is_plain: bool) -> None:
    rows: JsonObject = {"items": {"properties": {"± %": {}}}}
    schema: JsonObject = {"properties": {"total €": {}, "rows": rows}}
    assert is_plain_place(place, schema, {"§"}) is is_plain


def _row(number: int, *fields: str) -> JsonObject:
    return {field: {"$evidence": f"{BASKET}#/lines/{number}/{field}"} for field in fields}


def _of(ref: str, *fields: str) -> JsonObject:
    return {field.rpartition("/")[2]: {"$evidence": f"{ref}#/{field}"} for field in fields}


SECOND = "kg:order:A-3#snapshot_s"
BASKET = "kg:basket:B-1#snapshot_s"
LINES = [{"name": "Oak table", "qty": 1, "price": 120.5}, {"name": "Chair", "qty": 4, "price": 35.5}]
PARTS = {"shipping": {"city": "Cork", "zip": "T12"}, "billing": {"city": "Bonn", "zip": "53111"}}
FACTS = (
    *ORDERS,
    _order(SECOND, "asha", 880, 30),
    Evidence(
        id=BASKET,
        trust=Trust.TRUSTED,
        source="db",
        content={"basket_id": "B-1", "lines": LINES, "paid": True, **PARTS},
    ),
)
NAMED: JsonObject = {
    "properties": {"letter": {"properties": {"lines": {}, "shipping": {}, "billing": {}, "other": {}}}}
}


@pytest.mark.parametrize(
    ("letter", "is_committed"),
    [
        (_of(OWN, "order_id", "total"), True),
        ({"order": [_of(OWN, "order_id", "total"), _of(SECOND, "order_id", "total")]}, True),
        (_of(OWN, "order_id") | _of(SECOND, "total"), False),
        (_of(OWN, "customer") | _of(SECOND, "total"), False),
        ([_of(OWN, "order_id"), _of(SECOND, "total")], False),
        ({"order_id": [*_of(OWN, "order_id").values()], "total": [*_of(SECOND, "total").values()]}, False),
        ({**_of(OWN, "order_id"), "order": _of(SECOND, "total")}, False),
        (_of(SECOND, "total"), False),
        ({"lines": [_row(1, "name", "qty", "price"), _row(0, "name", "qty", "price")]}, True),
        ({"lines": {"$evidence": f"{BASKET}#/lines"}}, True),
        ({"lines": [*[_row(0, "name", "qty", "price")] * 20, _row(1, "name", "qty", "price")]}, False),
        ({"lines": [_row(0, "name") | _row(1, "qty", "price")]}, False),
        ({"lines": [_row(0, "name", "qty") | _row(1, "price"), _row(1, "name", "qty", "price")]}, False),
        ({"lines": [_row(1, "qty", "price")]}, False),
        ({"lines": [_row(1, "name", "qty", "price")]}, False),
        ({"other": [_row(1, "name", "qty", "price")]}, True),
        ({"lines": [_row(1, "name", "qty"), _row(1, "name", "qty")]}, False),
        (_row(1, "price"), False),
        ({**_of(BASKET, "basket_id"), "shipping": {"$evidence": f"{BASKET}#/shipping"}}, True),
        ({**_of(BASKET, "basket_id"), "billing": {"$evidence": f"{BASKET}#/shipping"}}, False),
        ({**_of(BASKET, "basket_id"), "city": {"$evidence": f"{BASKET}#/billing/city"}}, False),
        ({"shipping": _of(BASKET, "shipping/city") | _of(BASKET, "billing/zip")}, False),
        ({"total": {"order_id": {"$evidence": f"{OWN}#/order_id"}}}, False),
    ],
)
def test_values_that_stand_together_come_from_one_record(letter: Any, is_committed: bool) -> None:
    """A name of one row is never committed beside the price of another, nor a total of which nobody says whose it is."""
    shop = Shop({**quality(values=[]), "outputs_schema": NAMED}, known=FACTS)
    pins = [OWN, SECOND, BASKET]
    assert (shop.run(look_up(*pins), outputs={"letter": letter}).status == "completed") is is_committed


@pytest.mark.parametrize("source", [{"$from": "n#/total"}, {"$cel": "n.total"}])
def test_a_note_does_not_make_one_record_of_two(source: JsonObject) -> None:
    note: JsonObject = {"id": "n", "kind": "note", "params": _of(OWN, "order_id") | _of(SECOND, "total")}
    outputs: JsonObject = {"letter": {"order_id": {"$from": "n#/order_id"}, "total": source}}
    done = Shop(quality(values=[]), known=FACTS).run(look_up(OWN, SECOND), note, outputs=outputs)
    assert done.status == "awaiting_gate"


def test_a_declared_name_is_nobodys_where_its_sources_disagree() -> None:
    """Each order has another total, so `order_total` has none; a person says which one is meant."""
    shop = Shop(quality(), known=FACTS)
    outputs: JsonObject = {"letter": _of(SECOND, "order_id", "total")}
    assert shop.run(look_up(OWN, SECOND), outputs=outputs).status == "awaiting_gate"
    assert shop.run(look_up(OWN), outputs={"letter": _of(OWN, "order_id", "total")}).status == "completed"


@pytest.mark.parametrize("holder", ["fee", "total"])
def test_an_object_with_the_name_of_a_value_does_not_vouch_for_what_is_in_it(holder: str) -> None:
    outputs: JsonObject = {"letter": {holder: {"order_total": {"$evidence": f"{OWN}#/total"}}}}
    assert Shop(quality()).run(look_up(OWN), outputs=outputs).status == (
        "completed" if holder == "total" else "awaiting_gate"
    )


@pytest.mark.parametrize(
    ("said", "is_committed"),
    [
        ("closed", True),
        ("ord_881", True),
        ("your account is closed", False),
        ("your account is closed.", False),
        ("your_account_is_closed", False),
        ("your\u00a0account", False),
        ("您的账户已关闭", False),
        (["your", "account", "is", "closed"], False),
    ],
)
@pytest.mark.parametrize("source", ["request#/text", "e#/text"])
def test_words_of_the_request_vouch_for_themselves_only_one_by_one(
    said: Any, is_committed: bool, source: str
) -> None:
    """Punctuation does not decide, and a trusted tool that says them again does not vouch for them either."""
    echo: JsonObject = {"id": "e", "tool": "shop.echo", "params": {"text": {"$from": "request#/text"}}}
    outputs: JsonObject = {"letter": {"text": {"$from": source}}}
    schema: JsonObject = {"properties": {"letter": {"properties": {"text": {}}}}}
    shop = Shop({**quality(), "outputs_schema": schema})
    done = shop.run(look_up(OWN), echo, outputs=outputs, asked={"text": said})
    assert (done.status == "completed") is is_committed


@pytest.mark.parametrize(
    ("said", "is_committed"),
    [
        ("closed", True),
        ({"We": {"hereby": {"approve": {"your": "refund"}}}}, False),
        ([{"You": "owe"}, {"us": "nothing"}], False),
        ({"Refund": 5000, "EUR": 5000}, False),
    ],
)
def test_names_in_the_request_do_not_vouch(said: Any, is_committed: bool) -> None:
    """The names of an object can be a sentence of the requester's, a word each."""
    schema: JsonObject = {"properties": {"letter": {"properties": {"text": {}}}}}
    shop = Shop({**quality(), "outputs_schema": schema})
    outputs: JsonObject = {"letter": {"text": {"$from": "request#/text"}}}
    done = shop.run(look_up(OWN), outputs=outputs, asked={"text": said})
    assert (done.status == "completed") is is_committed


def test_tests_vouch_for_what_they_are_given() -> None:
    command = {
        "tool": "shop.echo",
        "params": {"text": {"$output": "/code/src"}},
        "vouches": True,
        "output": "/code",
    }
    rules = QualityRules.model_validate({"tests": [command]})
    assert rules.tests[0].vouched == {"/code/src"}
    for output, given, vouched in (
        ("/code", "/code", {"/code"}),
        ("/code/a", "/code", {"/code/a"}),
        ("/code", "/codes", set[str]()),
    ):
        changed = {**command, "output": output, "params": {"text": [{"$output": given}]}}
        assert TestCommand.model_validate(changed).vouched == vouched


def test_a_marked_field_does_not_choose_the_locale() -> None:
    rules = QualityRules.model_validate({"locale": "en_IE", "locale_from": "request#/mail/locale"})
    given: JsonObject = {"mail": {"locale": "de"}}
    assert (rules.locale_for(given), rules.locale_for(given, ["mail"])) == ("de", "en_IE")


def test_an_effect_does_not_run_on_the_strength_of_a_delivery_that_may_not_come() -> None:
    """A policy that only the delivery would meet is not met yet, and at the score it would be violated."""
    rule = 'plan.steps.exists(s, s.tool == "store.file" && s.id == "f")'
    policy = Policy(name="told", scope="plan", expression=rule, message="tell them")
    shop = Shop(quality(template=LETTER), policies=(policy,))
    early: JsonObject = {**FILE, "id": "e", "params": {"to": {"$from": "request#/customer"}, "body": "x"}}
    done = shop.run(look_up(OWN), early, FILE)
    assert (done.status == "completed", shop.filed) == (False, [])


@pytest.mark.parametrize(
    ("kind", "text", "is_right"),
    [
        *(
            ("name", each, True)
            for each in ("asha", "Asha Rao", "J. R. R. Tolkien", "Ludwig van Beethoven", "李小龙")
        ),
        *(
            ("name", each, True)
            for each in ("Jean d'Arc", "Conan O'Brien", "Acme & Sons Ltd.", "Анна Каренина")
        ),
        *(
            ("name", each, False)
            for each in ("Your account is closed", "Asha. Pay 5000 EUR!", "# Closed", "closed:")
        ),
        *(
            ("name", each, False)
            for each in ("<script>x</script>", "Asha\nRao", "[Asha](http://eve)", "A " * 9)
        ),
        *(
            ("identifier", each, True)
            for each in ("ord_881", "DE89 3704 0044", "HB-LM 447", "+49 30 123", "kg:order:A-1")
        ),
        *(
            ("identifier", each, False)
            for each in ("your account is closed", "<script>", "A-1\nclosed", "# A-1")
        ),
        ("text", "Your account is <b>closed</b>.", True),
    ],
)
def test_names_and_identifiers_are_neither_sentences_nor_markup(kind: Any, text: str, is_right: bool) -> None:
    rule = DocumentValue.model_validate({"name": "v", "from": "request#/v", "type": kind})
    known = known_values([rule], [], {"v": text}, (), "en")
    assert (known[0].value is not None) is is_right


@pytest.mark.parametrize(
    ("total", "advice"), [("€120.00", "approve"), ("€121.00", "compare")], ids=["right", "replaced"]
)
def test_no_gate_advises_to_accept_what_a_rule_has_replaced(total: str, advice: str) -> None:
    """Whether the sentence is about that value, only a person can tell."""
    done = Shop(quality()).run(look_up(OWN), outputs={"letter": f"Hello there.\n\nThe total is {total}."})
    assert done.outputs["letter"] == "Hello there.\n\nThe total is €120.00."
    assert done.gate is not None
    assert done.gate.shown["recommended"] == advice
