"""The garbage collector while tests run."""

from __future__ import annotations

import gc


def test_what_was_collected_is_left_alone() -> None:
    """Tests run with the garbage collector at work, rarely, and it does not look at what was there before them."""
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold()[0] > 1_000
