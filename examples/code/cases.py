"""What the functions of the library must do; `check.py` hands each case the function that it is about."""

# ruff: noqa: PT009 - unittest says what was expected and found; a plain assert says it under pytest alone

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar
from unittest import TestCase


class Case(TestCase):
    """Tests of one function."""

    call: ClassVar[Callable[..., Any]]
    """The function that is tested."""


class LateFee(Case):
    """`late_fee`."""

    def test_three_days_are_free(self) -> None:
        """Nothing is due for a book that is three days late."""
        self.assertEqual(self.call(3), 0)

    def test_the_fourth_day_counts(self) -> None:
        """The fourth day is the first that costs something."""
        self.assertEqual(self.call(4), 2)

    def test_ten_days(self) -> None:
        """Seven days count."""
        self.assertEqual(self.call(10, daily=3), 21)

    def test_there_is_a_cap(self) -> None:
        """Whatever the delay, no more than the cap is due."""
        self.assertEqual(self.call(300), 30)


class IsOpen(Case):
    """`is_open`."""

    def test_it_opens_at_nine(self) -> None:
        """At nine the doors are open."""
        self.assertEqual(self.call(9, "Monday"), True)

    def test_it_is_closed_at_eight(self) -> None:
        """At eight they are not."""
        self.assertEqual(self.call(8, "Monday"), False)

    def test_it_closes_at_six(self) -> None:
        """At six in the evening they are closed again."""
        self.assertEqual([self.call(17, "Friday"), self.call(18, "Friday")], [True, False])

    def test_saturdays_end_at_one(self) -> None:
        """On Saturdays they are closed in the afternoon."""
        self.assertEqual([self.call(12, "Saturday"), self.call(13, "Saturday")], [True, False])

    def test_sundays_are_quiet(self) -> None:
        """On Sundays no one comes in."""
        self.assertEqual(self.call(11, "Sunday"), False)


class Initials(Case):
    """`initials`."""

    def test_one_name(self) -> None:
        """A name of one part has one initial."""
        self.assertEqual(self.call("Asha"), "A.")

    def test_two_names(self) -> None:
        """One of two parts has two."""
        self.assertEqual(self.call("Asha Rao"), "A. R.")


class WaitingDays(Case):
    """`waiting_days`. No test here covers a book that has no copy left."""

    def test_nobody_is_before(self) -> None:
        """Who is the first does not wait."""
        self.assertEqual(self.call(0, 3), 0)

    def test_copies_are_shared(self) -> None:
        """With two copies it takes half as long."""
        self.assertEqual([self.call(4, 1), self.call(4, 2)], [56, 28])


CASES: dict[str, type[Case]] = {
    "late_fee": LateFee,
    "is_open": IsOpen,
    "initials": Initials,
    "waiting_days": WaitingDays,
}
"""The tests of each function."""
