"""Whether a defect is gone, told from a new diagnosis: by what it is about and where, for words may repeat or change."""

from __future__ import annotations

from collections.abc import Callable

from tercet.contracts.quality import CritiqueDiagnosis, Defect
from tercet.contracts.shape import JsonObject
from tercet.repair.regions import Region, locate

Diagnose = Callable[[JsonObject], CritiqueDiagnosis]


def gone_by(diagnose: Diagnose) -> Callable[[JsonObject, Defect], bool]:
    """A function that says whether a defect is gone from an output, for `mend`."""

    def is_gone(output: JsonObject, defect: Defect) -> bool:
        return not any(is_same(output, defect, other) for other in diagnose(output).defects)

    return is_gone


def is_same(output: JsonObject, one: Defect, other: Defect) -> bool:
    """Whether two defects of an output are one: of one dimension and at one place, or in the same words where one has none."""
    if one.dimension != other.dimension:
        return False
    first, second = locate(output, one.location), locate(output, other.location)
    if first is None or second is None or _is_point(first) or _is_point(second):
        return one.description == other.description
    return _overlaps(first, second)


def _is_point(region: Region) -> bool:
    """Whether it is a place between two characters: something is missing there, or was taken out."""
    return region.is_range and region.start == region.end


def _overlaps(one: Region, other: Region) -> bool:
    if one.pointer != other.pointer:
        return one.pointer.startswith(f"{other.pointer}/") or other.pointer.startswith(f"{one.pointer}/")
    if one.start is None or other.start is None or one.end is None or other.end is None:
        return True
    return one.start < other.end and other.start < one.end
