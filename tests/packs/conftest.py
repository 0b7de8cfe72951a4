"""A small pack folder that has no problem, and a way to write it with changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import TypeAlias

import pytest

Changes: TypeAlias = Mapping[str, str | bytes | None]
WritePack: TypeAlias = Callable[..., Path]

FILES: dict[str, str] = {
    "pack.toml": """
        name = "desk"
        version = "1.2.3"
        description = "Holds at an invented library desk."
        safety_mode = "local_write"

        [budget]
        max_steps = 4
    """,
    "tools.py": '''
        from tercet.tools import ToolContext, tool


        @tool("desk.find_copy", mode="read_only", trust="trusted")
        def find_copy(title: str) -> dict[str, str]:
            """Finds a copy of a title."""
            return {"copy_id": title}


        @tool("desk.place_hold", mode="local_write", trust="trusted", reversibility="compensable", authority=["copy_id"],
              limits=["args.days <= 14"], compensate={"tool": "desk.drop_hold", "params": {"copy_id": {"$from": "params#/copy_id"}}})
        def place_hold(ctx: ToolContext, copy_id: str, days: int) -> None:
            """Keeps a copy for somebody."""


        @tool("desk.drop_hold", mode="local_write", trust="trusted", reversibility="reversible", no_compensation="place it again")
        def drop_hold(copy_id: str) -> None:
            """Lets a copy go."""
    ''',
    "decisions.toml": """
        [[decision]]
        id = "hold"
        intents = ["desk.hold"]
        required_outputs = ["copy_id"]
        required_evidence = ["loan_rules_evidence"]
        tools = ["desk.find_copy", "desk.place_hold"]
        output_gate = "GATE_LIBRARIAN"

        [decision.outputs_schema]
        type = "object"
        properties.copy_id = { type = "string" }

        [[decision.thresholds]]
        name = "policy"
    """,
    "gates.toml": """
        [[gate]]
        name = "GATE_LIBRARIAN"
        roles = ["librarian"]
    """,
    "policies.toml": """
        [[policy]]
        name = "few_holds"
        expression = 'plan.steps.size() <= 4'
    """,
    "actors.toml": """
        [[actor]]
        id = "lin.example"
        roles = ["librarian"]
    """,
    "evidence/rules.json": """
        {
          "snapshot": "rules_1",
          "created_at": "2026-01-02T03:04:05Z",
          "facts": [{"class": "loan_rules", "id": "all", "content": {"max_days": 14}}]
        }
    """,
    "plans/sample.json": '{"steps": []}',
    "README.md": "A pack for tests.",
}


@pytest.fixture
def write_pack(tmp_path: Path) -> WritePack:
    """Writes the folder with some files changed, added, or left out where the change is None."""

    def write(changes: Changes | None = None, folder: str = "pack", order: int = 1) -> Path:
        root = tmp_path / folder
        files = {**FILES, **(changes or {})}
        for name in list(files)[::order]:
            content = files[name]
            if content is None:
                continue
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else dedent(content).lstrip().encode())
        return root

    return write
