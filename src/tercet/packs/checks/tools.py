"""Checks what tools declare about their parameters and results, and about the rest of the pack."""

from __future__ import annotations

from tercet.contracts.mode import MODE_RANK
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.packs.checks import Check, Problems, fields_of, missing_field, unknown_parameter
from tercet.packs.parts import PACK, Parts


def parameters_exist(parts: Parts) -> Problems:
    """Authority, identity, aliases, kinds and unbound name parameters that the tool has."""
    for tool in parts.tools:
        names = fields_of(tool.parameters)
        if names is None:
            continue
        targets = {
            "authority": tool.authority or (),
            "identity": tool.identity or (),
            "once_per": tool.once_per.identity if tool.once_per else (),
            "aliases": tuple(tool.aliases.values()),
            "kinds": tuple(tool.kinds),
            "unbound": tuple(tool.unbound),
        }
        for field, given in targets.items():
            for name in given:
                if name not in names:
                    yield unknown_parameter(parts, _CODES[field], f"tool {tool.name}, {field}", name, names)
        yield from _shadowing(parts, tool, names)


_CODES = {
    "authority": "authority_unknown",
    "identity": "identity_unknown",
    "once_per": "identity_unknown",
    "aliases": "alias_unknown",
    "kinds": "kind_unknown",
    "unbound": "unbound_unknown",
}


def _shadowing(parts: Parts, tool: ToolSpec, names: tuple[str, ...]) -> Problems:
    for alias in tool.aliases:
        if alias in names:
            yield parts.problem(
                "alias_shadows",
                f"tool {tool.name}, aliases",
                f"{alias} is a parameter already, so a plan that gives it means two things",
                "choose another alias",
            )


def untrusted_fields_exist(parts: Parts) -> Problems:
    """Fields marked as untrusted are fields that the result can have."""
    for tool in parts.tools:
        for where in tool.untrusted:
            field = None if tool.result is None or where == ALL_FIELDS else missing_field(tool.result, where)
            if field is not None:
                yield parts.problem(
                    "untrusted_unknown",
                    f"tool {tool.name}, untrusted",
                    f"{where} leads nowhere: the result has no field {field!r}",
                    f"it has {', '.join(fields_of(tool.result or {}) or ()) or 'none'}; a misspelt mark protects nothing",
                )


def trust_is_declared(parts: Parts) -> Problems:
    """Python tools declare the trust of their results; by default results are trusted."""
    for tool in parts.tools:
        if tool.adapter == "python" and tool.is_trust_assumed:
            yield parts.problem(
                "trust_undeclared",
                f"tool {tool.name}, trust",
                "it does not declare the trust of its results, so they are trusted",
                'say trust="trusted", or name the fields with untrusted text: untrusted=["note"]',
                severity="note",
            )


def preconditions_can_be_met(parts: Parts) -> Problems:
    """A tool's preconditions hold at the start of a decision, or some tool establishes them."""
    if parts.is_partial("tool") or parts.is_partial("decision"):
        return
    known = {condition for decision in parts.decisions for condition in decision.conditions}
    known.update(condition for tool in parts.tools for condition in tool.establishes)
    for tool in parts.tools:
        for condition in tool.preconditions:
            if condition not in known:
                yield parts.problem(
                    "precondition_unestablished",
                    f"tool {tool.name}, preconditions",
                    f"nothing establishes {condition}, so no plan can call it",
                    "let a tool establish it, or list it in the conditions of a decision",
                    severity="warning",
                )


def modes_are_reachable(parts: Parts) -> Problems:
    """A tool above the pack's safety mode is refused unless a run has a higher one."""
    if f"{PACK}, safety_mode" in parts.broken:
        return
    for tool in parts.tools:
        if MODE_RANK[tool.mode] > MODE_RANK[parts.safety_mode]:
            yield parts.problem(
                "above_safety_mode",
                f"tool {tool.name}, mode",
                f"its mode {tool.mode} is above the pack's safety mode {parts.safety_mode}",
                f'say safety_mode = "{tool.mode}" in pack.toml if runs of this pack should use it',
                severity="warning",
            )


def timeouts_suffice(parts: Parts) -> Problems:
    """The expected duration of a tool is within its timeout."""
    for tool in parts.tools:
        if tool.estimated_ms > tool.timeout_ms:
            yield parts.problem(
                "timeout_short",
                f"tool {tool.name}, timeout_ms",
                f"estimated_ms is {tool.estimated_ms:,} and timeout_ms only {tool.timeout_ms:,}",
                "raise timeout_ms above estimated_ms",
                severity="warning",
            )


TOOL_CHECKS: tuple[Check, ...] = (
    parameters_exist,
    untrusted_fields_exist,
    trust_is_declared,
    preconditions_can_be_met,
    modes_are_reachable,
    timeouts_suffice,
)
