"""What reading and screening a text costs, as ratios: ten times the known values, and ten times the sentences.

Values are those of a table in one fact; sentences state some of them, every third one with a wrong total. Ten times of
either may cost ten times as much, and no more. Candidates alternate inside each round, and CPU time is measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from tercet import Evidence
from tercet.contracts.mode import Trust
from tercet.locales import read_text
from tercet.quality.screen import screen
from tercet.quality.values import known_values

from .measurement import Target, cpu_seconds, show_targets

ROUNDS = 5
FEW_ROWS = 80
FEW_SENTENCES = 20
MOST = 1.5
"""How much more than ten times as much ten times as many may cost, as a factor: caches hold less of more."""


def make_evidence(rows: int) -> list[Evidence]:
    """Return a table of orders with so many rows, as one fact."""
    content = [
        {
            "order_id": f"ord_{number}",
            "customer": f"Customer{number % 97} Smith{number % 31}",
            "total": 1_000 + number,
            "delivered_on": f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}",
        }
        for number in range(rows)
    ]
    return [Evidence(id="kg:order:all#snapshot_s1", content={"rows": content}, trust=Trust.TRUSTED)]


def make_letter(sentences: int, rows: int) -> str:
    """Return a letter that states totals of orders, every third one wrong."""
    lines = (
        f"The order ord_{n * 7 % rows} has a total of {1_000 + n * 7 % rows if n % 3 else 7} euros."
        for n in range(sentences)
    )
    return " ".join(lines)


def screening(rows: int, sentences: int) -> Callable[[], None]:
    """Return what collects the known values, and reads and screens a letter."""
    evidence, letter = make_evidence(rows), make_letter(sentences, rows)
    wrong = (sentences + 2) // 3

    def judge() -> None:
        known = known_values([], evidence, {}, (), "en")
        verdicts = screen(read_text("/letter", letter, known, "en", {}, "agent"), known)
        assert sum(each.status == "unknown" for each in verdicts) == wrong
        assert len(verdicts) == 2 * sentences

    return judge


def measure(few_rows: int, few_sentences: int, rounds: int) -> dict[str, float]:
    """Return the median CPU time of each candidate, in milliseconds."""
    many_rows, many_sentences = 10 * few_rows, 10 * few_sentences
    candidates = {
        "few rows, few sentences": screening(few_rows, few_sentences),
        "many rows, few sentences": screening(many_rows, few_sentences),
        "few rows, many sentences": screening(few_rows, many_sentences),
        "many rows, many sentences": screening(many_rows, many_sentences),
    }
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            times[name].append(1000 * cpu_seconds(candidate))
    return {name: statistics.median(found) for name, found in times.items()}


def run(*, is_smoke: bool = False) -> list[str]:
    """Print the figures; return the targets that were missed."""
    found = measure(2, 2, 1) if is_smoke else measure(FEW_ROWS, FEW_SENTENCES, ROUNDS)
    few, rows, sentences, both = found.values()
    print("A letter against known values, median CPU time")
    for name, taken in found.items():
        print(f"  {name:<40} {taken:>9.1f} ms")
    return show_targets(
        [
            Target(name="ten times the rows, over ten times the cost", found=rows / few / 10, most=MOST),
            Target(
                name="ten times the sentences, over ten times the cost",
                found=sentences / few / 10,
                most=MOST,
            ),
            Target(
                name="ten times of both, over a hundred times the cost",
                found=both / few / 100,
                most=MOST / 10,
            ),
        ]
    )
