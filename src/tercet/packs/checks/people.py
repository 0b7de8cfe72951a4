"""The people of a pack: one actor for each user, and somebody for each role that a tool asks for."""

from __future__ import annotations

from tercet.packs.checks import Check, Problems
from tercet.packs.parts import Parts


def os_users_are_distinct(parts: Parts) -> Problems:
    """A user of the operating system is one actor."""
    first: dict[str, str] = {}
    for actor in parts.actors:
        if actor.os_user is None:
            continue
        holder = first.setdefault(actor.os_user, actor.id)
        if holder != actor.id:
            yield parts.problem(
                "duplicate_os_user",
                f"actor {actor.id}, os_user",
                f"the user {actor.os_user} is {holder} already",
                "let each os_user stand at one actor; an actor may hold several roles",
            )


def tool_roles_are_held(parts: Parts) -> Problems:
    """Some actor holds a role of each tool that asks for one."""
    if parts.is_partial("actor"):
        return
    held = {role for actor in parts.actors for role in actor.roles}
    for tool in parts.tools:
        if tool.roles and held.isdisjoint(tool.roles):
            who = "no actor holds" if parts.actors else "the pack has no actors, so nobody holds"
            yield parts.problem(
                "tool_unusable",
                f"tool {tool.name}, roles",
                f"{who} the role {' or '.join(tool.roles)}, so every plan that calls it is refused",
                "give the role to an actor in actors.toml, or drop it from the tool",
            )


PEOPLE_CHECKS: tuple[Check, ...] = (tool_roles_are_held,)
