"""A small model that runs offline, in its own process, from two wheels: the extra `tercet[local-model]`.

It writes well-formed but poor plans: enough to try everything that needs a model, without a key or a network.
"""

from tercet.models.local.model import LocalModel

__all__ = ["LocalModel"]
