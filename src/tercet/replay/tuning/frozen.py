"""Candidates: typed values applied to a pack, and the check that nothing else has changed.

The proof does not ask what a candidate meant to do. It makes the pack that the typed values come to, and whatever else is
offered as the candidate must be that pack, to the last declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from tercet.contracts.errors import TercetError, UsageError
from tercet.contracts.shape import JsonObject, as_list, as_object
from tercet.contracts.tuning import Candidate, LaneSurface, Surface, Value, domain_of
from tercet.packs.checking import check
from tercet.packs.checks.tuning import TUNING_CHECKS
from tercet.packs.pack import Pack
from tercet.packs.surfaces import read_value, write_value

_NAMES = ("name", "id", "intent", "step_id")
"""The fields by which a declaration in a list is known."""


class CandidateRefused(UsageError):  # noqa: N818 - what happened is named, not that it is an error
    """A candidate is more than typed values of the pack's surfaces."""

    default_code = "candidate_refused"


def tunable(pack: Pack) -> tuple[Surface, ...]:
    """The surfaces that can be searched; raises `UsageError` if there are none, or one is not fit to be."""
    problems = [found for look in TUNING_CHECKS for found in look(pack.parts) if found.severity == "error"]
    if problems:
        raise UsageError(problems[0].message, code=problems[0].code, remedy=problems[0].remedy)
    found = tuple(each for each in pack.tuning.surfaces if pack.lanes or not isinstance(each, LaneSurface))
    if not found:
        raise UsageError(
            f"{pack.ref} does not say what may be tuned",
            code="nothing_to_tune",
            remedy="name surfaces and their bounds in tuning.toml: see docs/tuning.md",
        )
    return found


def choices_of(pack: Pack, surface: Surface) -> tuple[Value, ...]:
    """Return the values that a surface may be set to, including its current one."""
    now, domain = read_value(pack, surface), domain_of(surface)
    if now in domain:
        return domain
    if isinstance(now, str):
        return (now, *domain)
    return tuple(sorted((now, *domain), key=float))


def apply(pack: Pack, candidate: Candidate, *, version: str | None = None) -> Pack:
    """Return the pack with the values of a candidate; raises `CandidateRefused` for a value that is none of a surface's."""
    surfaces = {each.id: each for each in pack.tuning.surfaces}
    unknown = [name for name in candidate.values if name not in surfaces]
    if unknown:
        raise CandidateRefused(
            f"{unknown[0]} is not a surface of {pack.ref}",
            remedy="only what tuning.toml names can be changed",
        )
    changed = pack if version is None else pack.model_copy(update={"version": version})
    for surface in surfaces.values():
        if surface.id in candidate.values:
            changed = _with(changed, pack, surface, candidate.values[surface.id])
    _demand_sound(pack, changed)
    return changed


def _with(changed: Pack, original: Pack, surface: Surface, value: Value) -> Pack:
    # By type as well: True is not 1, and a budget is not a fraction.
    fits = any(type(value) is type(each) and value == each for each in choices_of(original, surface))
    if not fits:
        raise CandidateRefused(
            f"{surface.id} cannot be {value!r}", remedy="stay within the bounds of tuning.toml"
        )
    try:
        return write_value(changed, surface, value)
    except (ValidationError, TercetError) as error:
        raise CandidateRefused(
            f"{surface.id} cannot be {value!r}: {str(error)[:200]}", remedy="choose other bounds"
        ) from error


def _demand_sound(original: Pack, changed: Pack) -> None:
    """A candidate has no error that the pack does not have."""
    known = {(found.code, found.place) for found in check(original)}
    for found in check(changed):
        if found.severity == "error" and (found.code, found.place) not in known:
            raise CandidateRefused(f"the pack would not be sound: {found.message}", remedy=found.remedy)


def demand_same(original: Pack, candidate: Candidate, offered: Pack, *, version: str | None = None) -> None:
    """Demand that a pack is what a candidate makes of the original; raises `CandidateRefused` with what else differs."""
    wanted = apply(original, candidate, version=version)
    different = list(differences(wanted.declarations, offered.declarations))
    if different:
        place, was, would_be = different[0]
        raise CandidateRefused(
            f"{place} is not a surface, and would become {_short(would_be)} from {_short(was)}",
            remedy="tuning changes the values of surfaces and nothing else; a person may change the pack",
        )
    if offered != wanted or offered.tuning != wanted.tuning:
        raise CandidateRefused(
            "people, evidence or the bounds of tuning would be others",
            remedy="tuning changes the values of surfaces and nothing else",
        )


def differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield every place at which two declarations differ, by its path of names."""
    old, new = _members(before), _members(after)
    if old is None or new is None:
        if type(before) is not type(after) or before != after:
            yield place, before, after
        return
    for name in dict.fromkeys((*old, *new)):
        here = f"{place}.{name}".lstrip(".")
        yield from differences(old.get(name, "(nothing)"), new.get(name, "(nothing)"), here)


def _members(value: Any) -> JsonObject | None:
    if (fields := as_object(value)) is not None:
        return fields
    items = as_list(value)
    return None if items is None else {_name(item, number): item for number, item in enumerate(items)}


def _name(item: Any, number: int) -> str:
    fields = as_object(item) or {}
    return str(next((fields[key] for key in _NAMES if key in fields), number))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
