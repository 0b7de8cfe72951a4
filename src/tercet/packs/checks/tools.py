"""Checks what tools and lanes declare about their parameters and results, and the extras that a pack needs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from tercet.contracts.errors import install_words
from tercet.contracts.lane import LANE, Lane
from tercet.contracts.mode import MODE_RANK, Trust
from tercet.contracts.shape import as_object
from tercet.contracts.tool import ALL_FIELDS, ToolSpec
from tercet.packs.checks import (
    Check,
    Problems,
    did_you_mean,
    fields_of,
    missing_field,
    unknown_parameter,
    unknown_tool,
)
from tercet.packs.parts import PACK, Parts, decision_of, why_untrusted


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
            is_open = tool.result is None or where == ALL_FIELDS
            field = None if is_open else missing_field(tool.result or {}, where, in_lists=True)
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
                yield parts.warning(
                    "precondition_unestablished",
                    f"tool {tool.name}, preconditions",
                    f"nothing establishes {condition}, so no plan can call it",
                    "let a tool establish it, or list it in the conditions of a decision",
                )


def modes_are_reachable(parts: Parts) -> Problems:
    """A tool above the pack's safety mode is refused unless a run has a higher one."""
    if f"{PACK}, safety_mode" in parts.broken:
        return
    for tool in parts.tools:
        if MODE_RANK[tool.mode] > MODE_RANK[parts.safety_mode]:
            yield parts.warning(
                "above_safety_mode",
                f"tool {tool.name}, mode",
                f"its mode {tool.mode} is above the pack's safety mode {parts.safety_mode}",
                f'say safety_mode = "{tool.mode}" in pack.toml if runs of this pack should use it',
            )


def timeouts_suffice(parts: Parts) -> Problems:
    """The expected duration of a tool is within its timeout."""
    for tool in parts.tools:
        if tool.estimated_ms > tool.timeout_ms:
            yield parts.warning(
                "timeout_short",
                f"tool {tool.name}, timeout_ms",
                f"estimated_ms is {tool.estimated_ms:,} and timeout_ms only {tool.timeout_ms:,}",
                "raise timeout_ms above estimated_ms",
            )


TOOL_CHECKS: tuple[Check, ...] = (
    parameters_exist,
    untrusted_fields_exist,
    trust_is_declared,
    preconditions_can_be_met,
    modes_are_reachable,
    timeouts_suffice,
)


# --- lanes ---


def lanes_take_decisions(parts: Parts) -> Problems:
    """The intent of each lane asks for one decision of the pack, whose outputs no person has to accept."""
    if parts.is_partial("decision"):
        return
    for lane in parts.lanes:
        decision = decision_of(lane, parts.decisions)
        if decision is None:
            known = [name for spec in parts.decisions for name in (spec.intents or (spec.id,))]
            yield parts.problem(
                "lane_intent_unknown",
                f"lane {lane.name}, intent",
                f"no decision answers the intent {lane.intent}",
                did_you_mean(lane.intent, known) or f"name one of {', '.join(known) or 'its decisions'}",
            )
        elif decision.quality is not None:
            yield parts.problem(
                "lane_asks_person",
                f"lane {lane.name}, intent",
                f"the outputs of {decision.id} may go to a person, and those of a lane cannot",
                "let the lane take a decision without [decision.quality], and judge the outputs in its parent",
            )


def lanes_name_tools(parts: Parts) -> Problems:
    """The tools of a lane exist."""
    for lane in parts.lanes:
        for name in lane.tools:
            if name not in parts.tool and parts.lacks_tool(name):
                yield unknown_tool(parts, f"lane {lane.name}, tools", name)


def lane_names_are_free(parts: Parts) -> Problems:
    """No tool has the name that a step calls a lane by."""
    taken = {tool.name for tool in parts.tools}
    for lane in parts.lanes:
        if lane.tool_name in taken:
            yield parts.problem(
                "duplicate_name",
                f"lane {lane.name}",
                f"there is a tool {lane.tool_name}",
                f"rename one of them; {LANE}.<name> is what a step calls a lane by",
            )


def lane_parameters_are_named(parts: Parts) -> Problems:
    """What a lane is given is an object whose fields are named: nothing else is passed on."""
    for lane in parts.lanes:
        if lane.params.get("type") != "object" or as_object(lane.params.get("properties")) is None:
            yield parts.problem(
                "lane_params",
                f"lane {lane.name}, params",
                "the parameters of a lane are an object with named properties",
                'write params = { type = "object", properties = { … } }',
            )


def trusted_lanes_can_be(parts: Parts) -> Problems:
    """A lane is trusted only where every tool of it is, the pack itself plans it, and relations of its tools cover it."""
    if parts.is_partial("tool"):
        return
    for lane in parts.lanes:
        if lane.trust is Trust.TRUSTED and (why := why_untrusted(parts, lane)):
            yield parts.problem(
                "lane_trust",
                f"lane {lane.name}, trust",
                f"its outputs cannot be trusted: {why}",
                "leave trust out; or give the lane trusted tools and a template, and relate it where its tools are related",
            )


def lanes_can_be_paid(parts: Parts) -> Problems:
    """What a lane reserves fits into the budget of a run, and one that a model plans has tokens."""
    planned = {plan.intent for plan in parts.templates} | {goal.intent for goal in parts.library.goals}
    for lane in parts.lanes:
        yield from _affordable(parts, lane)
        if lane.intent not in planned and not lane.budget.tokens and not parts.is_partial("goal"):
            yield parts.problem(
                "lane_tokens",
                f"lane {lane.name}, budget.tokens",
                f"a language model plans {lane.intent}, and the lane may use no tokens",
                "reserve some: budget = { tokens = 4000 }; or add a template for the intent",
            )


def _affordable(parts: Parts, lane: Lane) -> Problems:
    for field in ("tool_calls", "tokens", "cost_microcents"):
        reserved, limit = getattr(lane.budget, field), getattr(parts.budget, field)
        if limit is not None and reserved > limit:
            yield parts.problem(
                "lane_unaffordable",
                f"lane {lane.name}, budget.{field}",
                f"it reserves {reserved:,}, and a run of this pack has {limit:,}",
                f"reserve at most {limit:,}, or raise {field} in [budget] of pack.toml",
            )


LANE_CHECKS: tuple[Check, ...] = (
    lanes_take_decisions,
    lanes_name_tools,
    lane_names_are_free,
    lane_parameters_are_named,
    trusted_lanes_can_be,
    lanes_can_be_paid,
)


# --- extras ---


def extras_are_installed(parts: Parts) -> Problems:
    """Every library that a run of the pack imports is installed."""
    named: set[str] = set()
    for extra, library, place, what in _needs(parts):
        if extra in named or find_spec(library) is not None:
            continue
        named.add(extra)
        message = f"{what} needs {library}, which is not installed here"
        yield parts.warning("extra_missing", place, message, install_words(extra))


def _needs(parts: Parts) -> Iterator[tuple[str, str, str, str]]:
    """Yield each extra with its library, and the place in the pack that needs it, in words."""
    for tool in parts.tools:
        if tool.adapter == "mcp":
            yield "mcp", "mcp", f"tool {tool.name}", f"{tool.name}, a tool of an MCP server,"
        elif tool.adapter == "http":
            yield "http", "httpx2", f"tool {tool.name}", f"{tool.name}, a tool of an HTTP service,"
    for name in (*parts.models.planner, *parts.models.critic, *parts.models.repair):
        if name.partition(":")[0] == "local":
            yield "local-model", "xllamacpp", PACK, f"the model {name}"
        else:
            yield "models", "pydantic_ai", PACK, f"the model {name}"
    for decision in parts.decisions:
        rules, place = decision.quality, f"decision {decision.id}"
        if rules is not None and (rules.values or rules.documents):
            yield "locales", "babel", f"{place}, quality", "a decision with values or documents"
        if rules is not None and rules.attacks:
            yield "adversarial", "hypothesis", f"{place}, quality.attacks", "making edge cases"
    if parts.personal.has_marks:
        yield "erasure", "cryptography", PACK, "a pack with personal values"


EXTRA_CHECKS: tuple[Check, ...] = (extras_are_installed,)
