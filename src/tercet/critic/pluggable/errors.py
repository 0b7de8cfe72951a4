"""What can be wrong with a critic, with what it returned, and with the state it works on.

UsageError
└── CriticError               a thing in the list of critics that cannot judge, or a wrong setting of a critic
    ├── CriticReturnError     a critic returned something that is no result
    ├── CriticStateError      the state cannot be copied, or cannot hold what critics write
    └── PatchError            a state_patch that cannot be applied
"""

from __future__ import annotations

from tercet.contracts.errors import UsageError


class CriticError(UsageError):
    """A critic that cannot be used as given."""

    default_code = "critic_invalid"


class CriticReturnError(CriticError):
    """A critic returned something that is no result."""

    default_code = "critic_return_invalid"


class CriticStateError(CriticError):
    """The state cannot be copied, or cannot hold what critics write into its metadata."""

    default_code = "critic_state_unfit"


class PatchError(CriticError):
    """A state patch that cannot be applied."""

    default_code = "critic_patch_refused"
