"""The grounding check looks statements up: it must come to what comparing all of them comes to, in far fewer comparisons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality.repair.generated import Planted, letters
from tercet.contracts.evidence import Evidence
from tercet.contracts.mode import Trust
from tercet.contracts.quality import Judgement
from tercet.contracts.rubric import CritiqueInput, CritiqueTask
from tercet.quality.grounding import search
from tercet.quality.grounding.check import GroundingCheck
from tercet.quality.grounding.comparison import Comparison
from tercet.quality.grounding.judges import Judges
from tercet.quality.grounding.masks import Tally, mask_of, members
from tercet.quality.grounding.statements import Reading, Statement
from tercet.quality.rubric.critique import critique
from tercet.quality.verification.claims import extract

from .exhaustive import Exhaustive

HERE = Path(__file__).parent
ANSWERS = "48ddfe5399e310e55d78fea63a59b054932f67e0d6fbffb68d7c9dfae2b4b763"
"""The hash over all answers to the pairs, as they were when each claim was compared with every statement."""


def pairs() -> list[dict[str, Any]]:
    """All pairs that ship with the tests."""
    names = ("claims.jsonl", "claims_fresh.jsonl")
    return [json.loads(line) for name in names for line in (HERE / name).read_text("utf-8").splitlines()]


def facts(contents: Sequence[Any]) -> list[Evidence]:
    """Contents as evidence."""
    return [
        Evidence(id=f"kg:fact:{number}#snapshot_s", content=content, trust=Trust.TRUSTED)
        for number, content in enumerate(contents)
    ]


def shown(judgement: Judgement) -> dict[str, Any]:
    """All of an answer: label, reason, support with its pointers, what is missing."""
    return judgement.model_dump(mode="json")


def demand_same(contents: Sequence[Any], claims: Sequence[str], *, apart_from: int | None = None) -> None:
    """Both ways give the same answers."""
    quick, plain = GroundingCheck(facts(contents)), Exhaustive(facts(contents))
    for claim in claims:
        found, wanted = (each.judge(claim, apart_from=apart_from) for each in (quick, plain))
        assert shown(found) == shown(wanted), claim


@pytest.mark.req("R273")
def test_answers_to_the_pairs_are_those_that_were_recorded() -> None:
    """Label, reason, support and what is missing, byte for byte: verdicts of old runs are derived again."""
    answers = [
        shown(GroundingCheck(facts(row["evidence"]), edition=2).judge(row["claim"])) for row in pairs()
    ]
    assert sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest() == ANSWERS


def test_no_label_changes_with_the_edition() -> None:
    """What the third edition knows besides is about members that no pair names so: it has cost no right answer."""
    for row in pairs():
        old, new = (GroundingCheck(facts(row["evidence"]), edition=number) for number in (2, 3))
        assert old.judge(row["claim"]).label is new.judge(row["claim"]).label, row["claim"]


@pytest.mark.parametrize("part", range(8))
def test_looking_up_is_comparing_all_in_a_heap_of_evidence(part: int) -> None:
    """With the evidence of many pairs thrown together, and one of its facts left out."""
    some = pairs()[part::8]
    for at in range(0, len(some), 9):
        heap = some[at : at + 9]
        contents = [content for row in heap for content in row["evidence"]]
        demand_same(contents, [row["claim"] for row in heap])
        demand_same(contents, [row["claim"] for row in heap[:2]], apart_from=0)


@given(letters())
def test_looking_up_is_comparing_all_for_letters(planted: Planted) -> None:
    """For letters with faults, against their order."""
    claims = [claim.text for claim in extract(planted.output)]
    demand_same([planted.evidence.content], claims)


NAMES = ("Ada Lovelace", "Acme Ltd", "Jean Dupont", "Smith", "Berlin")
ITEMS = ("lamp", "shade", "desk", "red lamp")
STATUS = ("open", "closed", "shipped", "approved", "rejected", "unpaid", "paid", "inactive")
NOTES = (
    "Delivered by Ada Lovelace on 3 May 2026, and not returned.",
    "The parcel was not damaged; it weighs 2.5 kg.",
    "Smith wrote to Jean Dupont at 10:30. The discount is 10 %.",
    "All lamps are in stock, but the desk is sold out.",
    "DE12 3456 7890 1234 5678 90",
)
ROW = st.fixed_dictionaries(
    {"order_id": st.integers(0, 40).map("ord_{}".format)},
    optional={
        "customer": st.sampled_from(NAMES),
        "total": st.sampled_from((0, 12, 100, 101, 24.5, 24500)),
        "price_eur": st.sampled_from((2, 12.25, 0.5)),
        "quantity": st.integers(0, 4),
        "status": st.sampled_from(STATUS),
        "delivered_on": st.sampled_from(("2026-05-03", "2026-05-04", "2025-12-01")),
        "item": st.sampled_from(ITEMS),
        "paid": st.booleans(),
        "note": st.sampled_from(NOTES),
        "currency": st.sampled_from(("EUR", "USD")),
        "discount": st.sampled_from((0.1, "10 %")),
    },
)
CLAIMS = (
    "Order {order} has a total of {number} EUR and was delivered on {date}.",
    "The total of {order} is {number}.",
    "total: {number} EUR",
    "The order {order} is {status}.",
    "Order {order} is not {status}.",
    "Its status is {status}.",
    "{name} ordered {number} {item}s.",
    "There are {number} {item}s.",
    "{name} delivered the parcel.",
    "The parcel was delivered by {name}, and {item}s remain.",
    "All orders are {status}.",
    "Every {item} costs more than {number} EUR.",
    "{name} wrote to Smith at 10:30.",
    "The discount is about 10 %.",
    "The customer is {name}.",
    "The {item} weighs {number} kg.",
    "{order} was shipped before {date}.",
    "{number} at 12.25 each: 24.50",
    "The balance remaining is {number}.",
    "Pay to DE12345678901234567890.",
    "The {status} {item} of {name} was delivered on {date} and {number} are left.",
)
CLAIM = st.builds(
    str.format,
    st.sampled_from(CLAIMS),
    order=st.integers(0, 45).map("ord_{}".format),
    number=st.sampled_from((0, 2, 12, 100, 24.5, 7)),
    date=st.sampled_from(("2026-05-03", "4 May 2026", "2025")),
    status=st.sampled_from(STATUS),
    name=st.sampled_from(NAMES),
    item=st.sampled_from(ITEMS),
)


@given(st.lists(ROW, min_size=1, max_size=40), st.lists(CLAIM, min_size=1, max_size=6), st.integers(0, 3))
def test_looking_up_is_comparing_all_for_tables(
    rows: list[dict[str, Any]], claims: list[str], form: int
) -> None:
    """For rows of a table, of a record, of a text, and each as a fact of its own."""
    text = " ".join(f"Order {row['order_id']}, {row.get('note', 'as usual.')}" for row in rows)
    contents: Sequence[Any] = ([{"rows": rows}], [{"id": "ord_1", "items": rows}, text], [text], rows)[form]
    demand_same(contents, claims)


@given(st.lists(st.sets(st.integers(0, 99)), max_size=9), st.integers(0, 10))
def test_a_tally_counts(sets: list[set[int]], count: int) -> None:
    """In how many sets each statement is, as counting one by one would tell."""
    tally, every = Tally(mask_of(each, 100) for each in sets), (1 << 100) - 1
    counts = [sum(at in each for each in sets) for at in range(100)]
    assert list(members(tally.equal(count, every))) == [at for at in range(100) if counts[at] == count]
    assert list(members(tally.at_least(count, every))) == [at for at in range(100) if counts[at] >= count]
    descended = [(number, list(members(having))) for number, having in tally.descend(every)]
    assert descended == [
        (number, [at for at in range(100) if counts[at] == number])
        for number in sorted(set(counts), reverse=True)
    ]


def table(size: int) -> dict[str, Any]:
    """Evidence of so many rows."""
    return {
        "rows": [
            {
                "order_id": f"ord_{n}",
                "total": 100 + n,
                "status": "open",
                "delivered_on": f"2026-05-{n % 28 + 1:02}",
            }
            for n in range(size)
        ]
    }


TELLING = (
    "Order ord_{n} has a total of {total} and was delivered on {day} May 2026.",
    "The total of ord_{n} is 7.",
    "Order ord_{n} is closed.",
    "Every order is open.",
    "The total is {total}.",
    "The order ord_99999 is open, and 3 lamps were delivered by Ada Lovelace.",
)


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """The statements that claims are compared with."""
    made: list[Statement] = []
    compare = search.compare

    def counted(claim: Reading, statement: Statement) -> Comparison:
        made.append(statement)
        return compare(claim, statement)

    monkeypatch.setattr(search, "compare", counted)
    return made


def test_comparisons_do_not_grow_with_the_evidence(comparisons: list[Statement]) -> None:
    """Ten times the rows: not one comparison more, and few for each claim."""
    claims = [text.format(n=n, total=100 + n, day=n % 28 + 1) for n in range(5) for text in TELLING]
    counts: list[int] = []
    for size in (90, 900):
        comparisons.clear()
        check = GroundingCheck(facts([table(size)]))
        for claim in claims:
            check.judge(claim)
        counts.append(len(comparisons))
    assert counts[0] == counts[1]
    assert 0 < counts[0] < 3 * len(claims)


def test_judges_read_a_fact_once() -> None:
    """The same evidence has one judge; a fact in another place says the same, under its other number."""
    one, other = facts([table(3), {"note": "The lamp is red."}])
    judges = Judges()
    assert judges([one, other]) is judges([one, other.model_copy(deep=True)])
    moved = judges([other])
    assert moved is not judges([one, other])
    assert shown(moved.judge("The lamp is red.")) == shown(GroundingCheck([other]).judge("The lamp is red."))
    assert shown(judges([one, other]).judge("The lamp is red."))["support"][0]["evidence"] == other.id


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_facts_that_are_only_equal_are_not_the_same(one: Any, other: Any) -> None:
    """What is read differently has a judge of its own."""
    judges = Judges()
    assert judges(facts([{"paid": one}])) is not judges(facts([{"paid": other}]))


def test_a_claim_is_judged_once() -> None:
    """What was judged before a repair need not be judged again after it."""
    check = GroundingCheck(facts([table(3)]))
    assert check.judge("The total of ord_1 is 101.") is check.judge("The total of ord_1 is 101.")


def test_evidence_beyond_reason_is_a_finding() -> None:
    """Of more statements than are read (its members, the count of its rows and their sum), the defect says so."""
    asked = CritiqueInput(
        task=CritiqueTask(),
        output={"letter": "The total of ord_1 is 101."},
        evidence=tuple(facts([table(20)])),
    )
    read = critique(asked, judges=Judges(most=82))
    assert (read.scores["correctness"], read.defects) == (1.0, ())
    cut = critique(asked, judges=Judges(most=81))
    assert cut.scores["correctness"] == 0.0
    assert cut.defects[0].description == "the evidence has more than the 81 statements that are read"
    assert cut.defects[0].scope == "GLOBAL"
