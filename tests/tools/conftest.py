"""A raw MCP server in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_servers.raw import Raw


@pytest.fixture
def raw(tmp_path: Path) -> Raw:
    """A server that has not been started."""
    return Raw(tmp_path)
