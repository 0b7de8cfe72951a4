"""Checks limits: token limits of contexts, times of sessions and roles, and gains of controllers."""

from __future__ import annotations

from tercet.contracts.buckets import estimate_tokens
from tercet.contracts.control import ControlSpec
from tercet.contracts.decision import DecisionSpec
from tercet.contracts.mode import MODE_RANK
from tercet.contracts.text.planner_view import show_instructions, show_tool
from tercet.contracts.tool import ToolSpec
from tercet.packs.checks import Check, Problems, offers
from tercet.packs.parts import PACK, Parts
from tercet.quality.control import character_of, is_stable, kp_bound, noise_floor


def instructions_fit(parts: Parts) -> Problems:
    """What a planner must see of each decision fits into its token limit."""
    limit = parts.context.tokens.instructions
    if limit is None:
        return
    for decision in parts.decisions:
        needed = estimate_tokens(show_instructions(decision, parts.gates, parts.policies))
        if needed > limit:
            yield parts.problem(
                "instructions_overflow",
                f"{PACK}, context.tokens.instructions",
                f"decision {decision.id} with its gates and policies needs {needed:,} tokens of {limit:,}, so every request for it is refused",
                f"raise it to {needed}, or shorten the texts",
            )


def tools_fit(parts: Parts) -> Problems:
    """The tools of each decision fit into their token limit together."""
    limit = parts.context.tokens.tools
    if limit is None:
        return
    for decision in parts.decisions:
        sizes = [estimate_tokens(show_tool(tool)) for tool in parts.tools if _may_use(parts, decision, tool)]
        if sum(sizes) > limit:
            yield parts.warning(
                "tools_overflow",
                f"{PACK}, context.tokens.tools",
                f"the tools of decision {decision.id} need {sum(sizes):,} tokens of {limit:,}, so some are left out",
                f"raise it to {sum(sizes)}, or let the decision list the tools that it needs",
            )


def _may_use(parts: Parts, decision: DecisionSpec, tool: ToolSpec) -> bool:
    return MODE_RANK[tool.mode] <= MODE_RANK[parts.safety_mode] and offers(decision, tool.name)


SENSIBLE_PLANNER_MS = range(5_000, 30_001)
_SLOW = "local"
"""The time of a local model depends on the machine."""


def planner_has_sensible_time(parts: Parts) -> Problems:
    """A planner has enough time to answer, but not unreasonably much."""
    limit = parts.limits.get("planner")
    if limit is None or limit.timeout_ms is None or limit.timeout_ms in SENSIBLE_PLANNER_MS:
        return
    is_slow = any(name.partition(":")[0] == _SLOW for name in parts.models.planner)
    if is_slow and limit.timeout_ms > SENSIBLE_PLANNER_MS.start:
        return
    yield parts.warning(
        "planner_timeout_unusual",
        f"{PACK}, limits.planner.timeout_ms",
        f"a planner that may take {limit.timeout_ms:,} ms is outside of the sensible 5 to 30 seconds",
        'choose between 5000 and 30000; a local model may take longer if the pack names it: models.planner = ["local"]',
    )


def heartbeats_fit_into_sessions(parts: Parts) -> Problems:
    """The lifetime of a session is longer than its heartbeat interval."""
    shortest = min(parts.session.for_tenant(tenant).ttl_ms for tenant in ("", *parts.session.tenants))
    if parts.session.heartbeat_interval_ms >= shortest:
        yield parts.problem(
            "heartbeat_too_slow",
            f"{PACK}, session.heartbeat_interval_ms",
            f"a session ends after {shortest:,} ms, before its first heartbeat is due",
            "lower heartbeat_interval_ms, or raise ttl_ms",
        )


SESSION_CHECKS: tuple[Check, ...] = (planner_has_sensible_time, heartbeats_fit_into_sessions)


def controls_are_stable(parts: Parts) -> Problems:
    """Every controller is stable: an unstable one would repair until its budget is used up."""
    for name, spec in parts.control.items():
        if not is_stable(spec):
            message, remedy = _instability(spec)
            yield parts.problem("control_unstable", _place(name, spec, "kp"), message, remedy)


def _place(name: str, spec: ControlSpec, key: str) -> str:
    """Return the place of a key; of its table if the key is not written."""
    table = f"{PACK}, control.{name}"
    return f"{table}.{key}" if key in spec.model_fields_set else table


def _instability(spec: ControlSpec) -> tuple[str, str]:
    bound = kp_bound(spec)
    if bound <= 0.0:
        return (
            f"no kp is stable with ki = {spec.ki:g}, kd = {spec.kd:g} and a gain of {spec.gain:g}: 2/gain - ki/2 - 2·kd is {bound:g}",
            "lower ki or kd",
        )
    rule = "2/gain" if spec.is_proportional else "2/gain - ki/2 - 2·kd"
    damped = (1.0 - spec.alpha) / spec.gain
    advice = f"leave kp out, which gives {damped:g}" if damped < bound else f"choose about {bound / 2:.4g}"
    return (
        f"kp = {spec.proportional:g} is unstable with a gain of {spec.gain:g}: it must be below {bound:.6g} ({rule})",
        f"choose a kp below {bound:.6g}, or {advice}",
    )


def controls_are_calm(parts: Parts) -> Problems:
    """No controller oscillates around its setpoint."""
    for name, spec in parts.control.items():
        if character_of(spec) == "oscillating":
            yield parts.warning(
                "control_oscillates",
                _place(name, spec, "kp"),
                f"with kp = {spec.proportional:g} the error goes to and fro around the setpoint before it dies away",
                f"choose a kp of at most {(1.0 - spec.alpha) / spec.gain:.4g}, or less ki and kd",
            )


def controls_can_reach(parts: Parts) -> Problems:
    """Noise does not keep a controller from its setpoint."""
    for name, spec in parts.control.items():
        floor = noise_floor(spec)
        if floor is not None and floor.is_above_epsilon:
            yield parts.warning(
                "control_in_noise",
                _place(name, spec, "sigma"),
                f"noise keeps the quality at about {floor.best_quality:g}, below the {spec.target - spec.epsilon:g} that would be accepted, so repairs end in escalation",
                "raise epsilon, lower kp, or repair by means that vary less",
            )


LIMIT_CHECKS: tuple[Check, ...] = (instructions_fit, tools_fit, controls_are_calm, controls_can_reach)
"""Without `controls_are_stable`, which is checked when the pack is loaded."""
