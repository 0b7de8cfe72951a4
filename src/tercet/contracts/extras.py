"""What is said where a part needs an extra of the package that is not installed: one code, one wording, one remedy."""

from __future__ import annotations

from tercet.contracts.errors import UsageError


def install_words(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'tercet[{extra}]'"


def extra_missing(what: str, library: str, extra: str) -> UsageError:
    """The answer to whoever asks for `what` where its library is not installed."""
    return UsageError(
        f"{what} needs {library}, which is not installed", code="extra_missing", remedy=install_words(extra)
    )
