"""What holding claims against evidence costs, as ratios: ten times the rows, and ten times the claims.

Rows are those of a table in one fact; claims are sentences about some of them, right ones and wrong ones. Evidence is read
once and claims are looked up in it, so that ten times of either may cost ten times as much, and no more. Comparing each
claim with every statement is measured beside it, on the smaller sizes, for what looking up saves: there ten times of both
cost a hundred times as much. Candidates alternate inside each round, and CPU time is measured.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from tercet import DecisionSpec, Evidence
from tercet.contracts.mode import Trust
from tercet.critic.outputs.grounding.comparison import compare
from tercet.critic.outputs.grounding.statements import read, state
from tercet.critic.outputs.verification import verify_output

ROUNDS = 5
FEW_ROWS, MANY_ROWS = 80, 800
"""Each row is five statements; of one fact, 4,000 statements are read."""
FEW_CLAIMS, MANY_CLAIMS = 20, 200
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


CANDIDATES: dict[str, Callable[[], None]] = {
    "few rows, few claims": judging(FEW_ROWS, FEW_CLAIMS),
    "many rows, few claims": judging(MANY_ROWS, FEW_CLAIMS),
    "few rows, many claims": judging(FEW_ROWS, MANY_CLAIMS),
    "many rows, many claims": judging(MANY_ROWS, MANY_CLAIMS),
    "each with each, many rows, few claims": comparing(MANY_ROWS, FEW_CLAIMS),
}


def measure() -> dict[str, float]:
    """The median CPU time of each candidate, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for _ in range(ROUNDS):
        for name, candidate in CANDIDATES.items():
            began = time.process_time()
            candidate()
            times[name].append(1000 * (time.process_time() - began))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> int:
    """Print the figures; 1 if a target was missed."""
    found = measure()
    few, rows, claims, both, each = found.values()
    print(f"Claims against a table, CPU time, median of {ROUNDS} rounds")
    for name, taken in found.items():
        print(f"  {name:<40} {taken:>9.1f} ms")
    figures = (
        ("ten times the rows, over ten times the cost", rows / few / 10, MOST, False),
        ("ten times the claims, over ten times the cost", claims / few / 10, MOST, False),
        ("ten times of both, over a hundred times the cost", both / few / 100, MOST / 10, False),
        ("comparing each with each, over looking up", each / rows, LEAST_SAVED, True),
    )
    is_missed = False
    for name, ratio, limit, is_least in figures:
        is_reached = ratio >= limit if is_least else ratio <= limit
        sign = ">=" if is_least else "<="
        print(f"{name:<50} {ratio:>6.2f}   {sign} {limit:g}: {'reached' if is_reached else 'missed'}")
        is_missed |= not is_reached
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
