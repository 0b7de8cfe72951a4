"""How Hypothesis runs here: without a deadline, since machines are slow now and then, and on CI with fixed examples.

A new counter-example is found at a developer's desk, and becomes a test; a check of a finished change should not
depend on the luck of the draw.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
