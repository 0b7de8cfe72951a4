"""Words and ranking: what a search compares and how it counts, and that no text can break it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tercet.contracts.text.words import LONGEST, MOST_TERMS, terms_of, words_of
from tercet.evidence.opening import open_evidence
from tercet.evidence.rows import MOST_WORDS, Match, Totals, best, indexed, score
from tercet.evidence.store import EvidenceStore, NewFact
from tercet.testing.evidence_backend import fact, take
from tercet.testing.expectation import new_tenant

ODD = st.sampled_from(
    ["AND", "OR", "NOT", "NEAR(", '"', "'", "*", "^", ":", "(", ")", "-", "+", "&", "|", "!", "<->", "\0", "\\", "%", "_", "$1", "?", ";", "--",
     "apple", "Äpfel", "東京", "ﬁn", "İ", "ß", "²", "\ud800", "\u2028", "𝄞", "1x", "x"]
)  # fmt: skip
QUERIES = st.one_of(st.text(st.characters(), max_size=60), st.lists(ODD, max_size=12).map(" ".join))
FACTS = [
    "apple pie",
    "Äpfel und Birnen",
    "東京タワー",
    "AND OR NOT near",
    "ﬁn de siècle",
    {"x1": [1, 2.5, True, None]},
    "straße ss",
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Refunds, policies and boxes!", ["refund", "policy", "and", "boxe"]),
        ("bus glass gas cacti", ["bus", "glass", "gas", "cacti"]),
        ("Crème BRÛLÉE ﬁne", ["creme", "brulee", "fine"]),
        ("ord_881 v1.2-rc", ["ord", "881", "v1", "2", "rc"]),
        ("東京都 tower", ["東", "京", "都", "tower"]),
        ("\0\ud800 -- *", []),
        ("x" * 100, ["x" * LONGEST]),
    ],
)
def test_words_are_letters_and_digits(text: str, words: list[str]) -> None:
    """Case, accents, marks and plurals make no difference."""
    assert words_of(text) == words


def test_common_words_count_only_alone() -> None:
    """Words that stand everywhere are left out of a query that has others; each word counts once."""
    assert terms_of("what is the refund of the refund") == ("refund",)
    assert terms_of("to be or") == ("to", "be", "or")
    assert len(terms_of(" ".join(f"w{number}" for number in range(500)))) == MOST_TERMS


def test_all_texts_of_a_fact_are_searched() -> None:
    """Names of fields, texts and numbers are, in the order of the canonical form; true, false and null say nothing."""
    assert indexed({"b": [1, 2.0, True], "a": {"name": "Ann", "left": None}}) == [
        "a",
        "left",
        "name",
        "ann",
        "b",
        "1",
        "2",
    ]
    assert len(indexed("word " * (2 * MOST_WORDS))) == MOST_WORDS


def test_scores_are_those_of_the_formula() -> None:
    """BM25 with the usual constants, over the facts that are searched."""
    totals = Totals(10, 100)
    scores = score([[Match(1, 2, 8), Match(2, 1, 20)], [Match(1, 1, 8)]], totals)

    def worth(having: int) -> float:
        return math.log(1 + (10 - having + 0.5) / (having + 0.5))

    def weight(times: int, length: int) -> float:
        return times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / 10))

    assert scores[1] == round(worth(2) * weight(2, 8) + worth(1) * weight(1, 8), 6)
    assert scores[2] == round(worth(2) * weight(1, 20), 6)


@given(st.dictionaries(st.integers(0, 50), st.sampled_from([1.0, 2.0, 3.0])), st.integers(-1, 20))
def test_the_best_include_all_that_equal_the_last(scores: dict[int, float], limit: int) -> None:
    """Nobody is left out whom the order by id may still put in front."""
    chosen = best(scores, limit)
    assert len(set(chosen)) == len(chosen) >= min(max(limit, 0), len(scores))
    if chosen:
        lowest = min(scores[each] for each in chosen)
        assert all(scores[each] <= lowest for each in scores.keys() - set(chosen))
        assert not any(scores[each] == lowest for each in scores.keys() - set(chosen))


class Library:
    """The same facts in several stores, on one loop."""

    def __init__(self, urls: list[str]) -> None:
        self.runner = asyncio.Runner()
        self.tenant = new_tenant()
        self.stores = [self.runner.run(self.filled(url)) for url in urls]

    async def filled(self, url: str) -> EvidenceStore:
        """A store with the facts."""
        store = await open_evidence(url)
        facts: list[NewFact] = [fact(f"k{number}", content) for number, content in enumerate(FACTS)]
        await take(store, self.tenant, "s", *facts)
        return store

    def answers(self, query: str) -> list[Any]:
        """What each store finds."""
        return [self.runner.run(store.search(self.tenant, "s", query)) for store in self.stores]

    def close(self) -> None:
        """Close everything."""
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Generator[Library]:
    """A store of every kind."""
    path: Path = tmp_path_factory.mktemp("library") / "evidence.db"
    made = Library(["memory:", f"sqlite:///{path}", postgres_url])
    yield made
    made.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(query=QUERIES)
def test_every_text_is_a_query_and_every_store_answers_alike(library: Library, query: str) -> None:
    """Whatever is asked, nothing raises, and the hits, scores and citations are the same in all stores."""
    first, *others = library.answers(query)
    assert all(each == first for each in others)
    assert bool(first) == any(set(terms_of(query)) & set(indexed(content)) for content in FACTS)
