"""A workshop, and a collector that the variables of OpenTelemetry point at."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from engine.workshop import Workshop

from .receiver import Receiver, receiving


@pytest.fixture
def workshop() -> Workshop:
    """A workshop of its own for each test."""
    return Workshop()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[Receiver]:
    """A collector of its own for each test."""
    with receiving() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            monkeypatch.delenv(name, raising=False)
        yield found
