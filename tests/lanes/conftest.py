"""The workshop of the engine's tests, and the journals that every run must behave the same on."""

from __future__ import annotations

from engine.conftest import file, url, workshop

__all__ = ["file", "url", "workshop"]
