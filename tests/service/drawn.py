"""Requests that schemathesis makes of an OpenAPI document."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

_SETTINGS = settings(
    deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)  # fmt: skip


def draw_requests(document: dict[str, Any], examples: int = 25) -> list[Any]:
    """Return so many requests that fit the document, and as many that do not, for each of its operations."""
    schema = cast("Any", schemathesis.openapi.from_dict(document))
    cases: list[Any] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in GenerationMode:
            strategy = operation.as_strategy(generation_mode=mode)

            @settings(_SETTINGS, max_examples=examples)
            @given(case=strategy)
            def keep(case: Any) -> None:
                cases.append(case)

            with suppress(Unsatisfiable):  # a path without parameters has no wrong ones
                keep()
    return cases
