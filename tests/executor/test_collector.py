"""The garbage collector is held back while it has nothing to find, and is put back as the program had it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tercet.executor.collector import YOUNG, eased, paused


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_it_looks_less_often_until_the_last_one_has_ended() -> None:
    """Two runtimes of one process may overlap."""
    gc.set_threshold(700, 11, 12)
    with eased:
        with eased:
            pass
        assert gc.get_threshold() == (YOUNG, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("own", [0, YOUNG, 4 * YOUNG])
def test_a_program_that_asked_for_less_keeps_its_thresholds(own: int) -> None:
    """0 turns it off, and that is not undone."""
    gc.set_threshold(own, 11, 12)
    with eased:
        assert gc.get_threshold() == (own, 11, 12)
    assert gc.get_threshold() == (own, 11, 12)


def test_thresholds_that_are_set_meanwhile_stay() -> None:
    """The program's own word is the last one."""
    gc.set_threshold(700, 11, 12)
    with eased:
        gc.set_threshold(900, 11, 12)
    assert gc.get_threshold() == (900, 11, 12)


def test_it_is_paused_until_the_last_one_has_ended() -> None:
    """And is not turned on for a program that has turned it off."""
    with paused:
        with paused:
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with paused:
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
