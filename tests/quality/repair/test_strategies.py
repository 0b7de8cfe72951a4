"""Which repair is tried: by severity, place and scope, by what was recorded, and by what it costs."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tercet.contracts.outputs.quality import (
    Defect,
    DefectSeverity,
    RepairEntry,
    RepairStrategy,
    RootCauseClass,
)
from tercet.contracts.outputs.repair import RepairRules, SuccessRates
from tercet.quality.repair.rates import chance, prior, record
from tercet.quality.repair.regions import locate
from tercet.quality.repair.strategies import Option, choose, cost_of, fitting, model_options, region_for
from tercet.quality.verification.places import Location

TEXT = "# One\n\n" + "a line of it\n" * 20 + "\n# Two\n\n" + "another line\n" * 20
OUTPUT: dict[str, Any] = {"text": TEXT, "total": 5}
RULES = RepairRules()
S = DefectSeverity
STRATEGIES: tuple[RepairStrategy, ...] = ("MINIMAL_EDIT", "SECTION_REWRITE", "FULL_REGENERATION")


def defect(
    severity: S, scope: Literal["LOCAL", "SECTION", "GLOBAL"] = "LOCAL", location: str | None = "/text@8-12"
) -> Defect:
    return Defect(dimension="d", severity=severity, description="x", location=location, scope=scope)


@pytest.mark.req("R199")
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (defect(S.LOW), STRATEGIES),
        (defect(S.MEDIUM), STRATEGIES),
        (defect(S.HIGH), STRATEGIES[1:]),
        (defect(S.CRITICAL), STRATEGIES[2:]),
        (defect(S.LOW, location="/text"), STRATEGIES[1:]),
        (defect(S.LOW, location="/total"), STRATEGIES),
        (defect(S.LOW, location=None), STRATEGIES[2:]),
        (defect(S.LOW, "GLOBAL"), STRATEGIES[2:]),
        (defect(S.LOW, "SECTION"), STRATEGIES),
    ],
)
def test_severity_place_and_scope_decide_what_a_model_may_do(given: Defect, found: tuple[str, ...]) -> None:
    """An edit needs a mild defect and a precise place, a section a bounded one; all anew is for the rest, and the last resort."""
    assert fitting(OUTPUT, given, locate(OUTPUT, given.location), RULES) == found


@pytest.mark.req("R201")
@given(st.integers(0, len(TEXT) - 1), st.integers(0, 40), st.integers(0, 30))
@example(start=258, length=11, radius=0)
def test_an_edit_is_cheaper_than_a_section_and_that_than_all(start: int, length: int, radius: int) -> None:
    """Wherever the defect is and however wide the window: each costs by the size of its region, and the regions nest."""
    place = Location(pointer="/text", start=start, end=min(start + length, len(TEXT)))
    costs = [cost_of(OUTPUT, each, region_for(OUTPUT, each, place, radius)) for each in STRATEGIES]
    assert costs == sorted(costs)
    assert costs[0] < costs[2]
    if radius <= 2 and length < 12:
        assert costs[0] * 2 < costs[1]
        if not start < TEXT.index("# Two") < start + length:  # one that reaches into both sections takes both
            assert costs[1] * 1.5 < costs[2]


@pytest.mark.req("R201")
def test_a_defect_that_reaches_into_two_sections_takes_the_text_that_holds_both() -> None:
    """No single section holds it, so rewriting a section saves only what lies outside of the text."""
    place = Location(pointer="/text", start=258, end=269)
    assert region_for(OUTPUT, "SECTION_REWRITE", place, 0) == Location(
        pointer="/text", start=0, end=len(TEXT)
    )
    assert 258 < TEXT.index("# Two") < 269


@pytest.mark.req("R201")
def test_costs_are_proportional_to_the_region() -> None:
    """Twice the text, twice the cost."""
    once, twice = ({"t": "abcd" * size} for size in (100, 200))
    for strategy in STRATEGIES[:2]:
        one = cost_of(once, strategy, Location(pointer="/t", start=0, end=400))
        assert cost_of(twice, strategy, Location(pointer="/t", start=0, end=800)) == 2 * one


def option(name: str, cost: int, likely: float) -> Option:
    return Option(
        means="model", strategy="MINIMAL_EDIT", region=Location(), cost=cost, chance=likely, name=name
    )


@pytest.mark.req("R200")
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 10)), min_size=1, max_size=5), st.integers(0, 10))
def test_the_cheapest_that_is_likely_enough_is_chosen(drawn: list[tuple[int, int]], least: int) -> None:
    """No cheaper one is as likely as it must be; where none is, the likeliest is taken."""
    options = [option(str(index), cost, likely / 10) for index, (cost, likely) in enumerate(drawn)]
    chosen = choose(options, least / 10)
    assert chosen is not None
    likely = [each for each in options if each.chance >= least / 10]
    if likely:
        assert chosen in likely
        assert chosen.cost == min(each.cost for each in likely)
    else:
        assert chosen.chance == max(each.chance for each in options)


def entry(strategy: RepairStrategy, *, success: bool | None) -> RepairEntry:
    return RepairEntry(
        defect=defect(S.LOW), strategy=strategy, root_cause=RootCauseClass.LOGIC_ERROR, success=success
    )


@pytest.mark.req("R200")
def test_recorded_failures_make_a_dearer_repair_the_better_one() -> None:
    """Before there are records the edit is chosen; after a few that did not help, the section is."""

    def chosen(rates: SuccessRates) -> str:
        given = defect(S.LOW)
        place = locate(OUTPUT, given.location)
        found = choose(
            model_options(OUTPUT, given, place, RootCauseClass.LOGIC_ERROR, rules=RULES, rates=rates), 0.5
        )
        return found.strategy if found else ""

    rates = SuccessRates()
    assert chosen(rates) == "MINIMAL_EDIT"
    for _ in range(3):
        rates = record(rates, entry("MINIMAL_EDIT", success=False))
    assert chosen(rates) == "SECTION_REWRITE"
    for _ in range(9):
        rates = record(rates, entry("MINIMAL_EDIT", success=True))
    assert chosen(rates) == "MINIMAL_EDIT"


@pytest.mark.req("R200")
@given(st.lists(st.booleans(), max_size=60))
def test_a_chance_is_the_mean_of_its_beta_distribution(outcomes: list[bool]) -> None:
    """It begins at the prior, moves with each record, and in the end is the share that helped."""
    rates = SuccessRates()
    for success in outcomes:
        rates = record(rates, entry("SECTION_REWRITE", success=success))
    expected = prior("model", "SECTION_REWRITE", RootCauseClass.LOGIC_ERROR)
    found = chance(rates, "model", "SECTION_REWRITE", RootCauseClass.LOGIC_ERROR)
    assert found == round((4 * expected + sum(outcomes)) / (4 + len(outcomes)), 6)
    # Others are not touched, and a pending one counts for nothing.
    assert chance(rates, "model", "MINIMAL_EDIT", RootCauseClass.LOGIC_ERROR) == 0.55
    assert record(rates, entry("MINIMAL_EDIT", success=None)) == rates


def test_the_order_of_records_does_not_matter() -> None:
    """The same repairs give the same rates, byte for byte, in whatever order they were recorded."""
    entries = [entry(strategy, success=success) for strategy in STRATEGIES for success in (True, False)]
    first, second = SuccessRates(), SuccessRates()
    for one, other in zip(entries, reversed(entries), strict=True):
        first, second = record(first, one), record(second, other)
    assert first.model_dump_json() == second.model_dump_json()
