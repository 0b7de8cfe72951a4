"""The bounded cache: it keeps so much and no more."""

from __future__ import annotations

from tercet.contracts.values.cache import BoundedCache


def test_the_oldest_makes_room() -> None:
    """A value beyond the bound takes the place of the one that was kept first."""
    kept: BoundedCache[str, int] = BoundedCache(2)
    for number, key in enumerate("abc"):
        assert kept.keep(key, number) == number
    assert [kept.get(key) for key in "abc"] == [None, 1, 2]
    assert len(kept) == 2


def test_a_key_that_is_kept_again_takes_no_further_room() -> None:
    """The newer value counts, and nothing else is dropped."""
    kept: BoundedCache[str, int] = BoundedCache(2)
    for key, number in (("a", 1), ("b", 2), ("b", 3)):
        kept.keep(key, number)
    assert (kept.get("a"), kept.get("b")) == (1, 3)
