"""Models of any provider, asked through pydantic-ai.

Only this folder imports `pydantic_ai` and what comes with it: the extra `tercet[models]`.
"""

from tercet.models.hosted.provider import ProviderModel

__all__ = ["ProviderModel"]
