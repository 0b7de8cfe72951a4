"""What a `$select` depends on: the fields that decide which item is picked, and the field that it yields.

A selection is trusted if all of its reads and all of its constants are. It reads only the fields that it names, so other
fields of the list may be marked untrusted; a marked field in `where`, `by` or `field` makes the selection untrusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tercet.contracts import pointer, references
from tercet.contracts.references import Read, Reference


def select_reads(reference: Reference) -> list[Read]:
    """Return every read of a selection: first what it yields, then what decides which item that is.

    The items are read at `*`, which stands for any item.
    """
    return references.reads_of(reference)


def select_constants(reference: Reference) -> list[Any]:
    """Return the scalars that the plan writes down in `where`; each must be trusted like any literal."""
    return references.constants_of(reference)


def explain_untrusted_selection(
    reference: Reference,
    is_trusted_read: Callable[[Read], bool],
    is_trusted_scalar: Callable[[Any], bool],
    explain_read: Callable[[Read], str],
) -> str | None:
    """Return why a selection is not trusted; None if it is."""
    for value in select_constants(reference):
        if not is_trusted_scalar(value):
            return f"it selects by {value!r}, which equals nothing that is trusted"
    for read in select_reads(reference):
        if not is_trusted_read(read):
            return f"it reads {read.name}#{pointer.join(read.place)}: {explain_read(read)}"
    return None


def describe_selection(reference: Reference) -> str:
    """Return how a gate shows where a selected value came from."""
    return f"selected: {reference.text}"
