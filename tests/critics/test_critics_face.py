"""What `tercet.critics` offers."""

from __future__ import annotations

import tercet.critics


def test_every_promised_name_is_there() -> None:
    """Each exported name exists and is listed once."""
    names = tercet.critics.__all__
    assert [name for name in names if not hasattr(tercet.critics, name)] == []
    assert len(names) == len(set(names))


def test_the_usual_names() -> None:
    """What a person who knows pluggable critics looks for is here under its usual name."""
    usual = {
        "Critic",
        "CriticResult",
        "PassThroughCritic",
        "ReActSelfReflectionCritic",
        "SelfReflectionCritic",
        "StopReason",
        "critic",
        "pass_through_critic",
        "react_self_reflection_critic",
        "self_reflection_critic",
    }
    assert usual <= set(tercet.critics.__all__)
    assert tercet.critics.critic.__module__ == "tercet.critic.pluggable.critic"
