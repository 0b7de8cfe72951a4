"""Errors about a critic, its result, and the state it works on.

UsageError
└── CriticError               an object that is not a critic, or an invalid setting of a critic
    ├── CriticReturnError     a critic returned an invalid result
    ├── CriticStateError      the state cannot be copied, or cannot hold what critics write
    └── PatchError            a state_patch that cannot be applied
"""

from __future__ import annotations

from tercet.contracts.errors import UsageError


class CriticError(UsageError):
    """A critic that cannot be used."""

    default_code = "critic_invalid"


class CriticReturnError(CriticError):
    """A critic returned an invalid result."""

    default_code = "critic_return_invalid"


class CriticStateError(CriticError):
    """The state cannot be copied, or cannot hold what critics write into its metadata."""

    default_code = "critic_state_unfit"


class PatchError(CriticError):
    """A state patch that cannot be applied."""

    default_code = "critic_patch_refused"
