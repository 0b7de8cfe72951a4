"""What holding claims against evidence costs, as ratios: ten times the rows, and ten times the claims.

Rows are those of a table in one fact; claims are sentences about some of them, right ones and wrong ones. Evidence is read
once and claims are looked up in it, so that ten times of either may cost ten times as much, and no more. Comparing each
claim with every statement is measured beside it, on the smaller sizes, for what looking up saves: there ten times of both
cost a hundred times as much. Candidates alternate inside each round, and CPU time is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from tercet import DecisionSpec, Evidence
from tercet.contracts.mode import Trust
from tercet.quality.grounding.comparison import compare
from tercet.quality.grounding.statements import read, state
from tercet.quality.verification.verification import verify_output

from .measurement import Target, cpu_seconds, show_targets

ROUNDS = 5
FEW_ROWS = 80
"""Each row is five statements; of one fact, 4,000 statements are read, which ten times as many rows have."""
FEW_CLAIMS = 20
MOST = 1.5
"""How much more than ten times as much ten times as many may cost, as a factor: caches hold less of more."""
LEAST_SAVED = 3.0
"""How much longer comparing everything takes, reading included, with few claims: it grows with them."""

SPEC = DecisionSpec(id="letter", required_outputs=("letter",))


def facts(rows: int) -> list[Evidence]:
    """A result of so many rows."""
    content = [
        {
            "order_id": f"ord_{number}",
            "customer": f"Customer{number % 97} Smith{number % 31}",
            "total": 100 + number,
            "status": ("open", "closed", "shipped")[number % 3],
            "delivered_on": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
        }
        for number in range(rows)
    ]
    return [Evidence(id="kg:order:all#snapshot_s1", content={"rows": content}, trust=Trust.TRUSTED)]


def sentences(claims: int, rows: int) -> list[str]:
    """Claims about some of the rows, each third with a wrong total."""
    return [
        f"Order ord_{n * 7 % rows} has a total of {100 + n * 7 % rows + (n % 3 == 0)} and was delivered on {n % 28 + 1} May 2026."
        for n in range(claims)
    ]


def judging(rows: int, claims: int) -> Callable[[], None]:
    """Holds a letter against evidence; what was read in the round before is forgotten."""
    evidence, outputs = facts(rows), {"letter": " ".join(sentences(claims, rows))}

    def judge() -> None:
        read.cache_clear()
        assert len(verify_output(SPEC, outputs, evidence).claims) == claims

    return judge


def comparing(rows: int, claims: int) -> Callable[[], None]:
    """Compares every claim with every statement, and concludes nothing."""
    content: Any = facts(rows)[0].content

    def go() -> None:
        read.cache_clear()
        said = state(content, 0)
        for claim in map(read, sentences(claims, rows)):
            for statement in said:
                compare(claim, statement)

    return go


def measure(few_rows: int, few_claims: int, rounds: int) -> dict[str, float]:
    """The median CPU time of each candidate, in milliseconds."""
    many_rows, many_claims = 10 * few_rows, 10 * few_claims
    candidates: dict[str, Callable[[], None]] = {
        "few rows, few claims": judging(few_rows, few_claims),
        "many rows, few claims": judging(many_rows, few_claims),
        "few rows, many claims": judging(few_rows, many_claims),
        "many rows, many claims": judging(many_rows, many_claims),
        "each with each, many rows, few claims": comparing(many_rows, few_claims),
    }
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            times[name].append(1000 * cpu_seconds(candidate))
    return {name: statistics.median(found) for name, found in times.items()}


def run(*, is_smoke: bool = False) -> list[str]:
    """Print the figures; return the targets that were missed."""
    found = measure(2, 2, 1) if is_smoke else measure(FEW_ROWS, FEW_CLAIMS, ROUNDS)
    few, rows, claims, both, each = found.values()
    print("Claims against a table, median CPU time")
    for name, taken in found.items():
        print(f"  {name:<40} {taken:>9.1f} ms")
    return show_targets(
        [
            Target(name="ten times the rows, over ten times the cost", found=rows / few / 10, most=MOST),
            Target(name="ten times the claims, over ten times the cost", found=claims / few / 10, most=MOST),
            Target(
                name="ten times of both, over a hundred times the cost",
                found=both / few / 100,
                most=MOST / 10,
            ),
            Target(name="comparing each with each, over looking up", found=each / rows, least=LEAST_SAVED),
        ]
    )
