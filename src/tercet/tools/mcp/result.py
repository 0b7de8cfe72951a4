"""What an MCP tool answered, as the result of a call."""

from __future__ import annotations

from typing import Any

import mcp_types as types

OUTCOME = "tercet/outcome"
"""In the `_meta` of an error answer: `not_done` states that the effect did not happen."""


def read_result(answer: types.CallToolResult) -> Any:
    """The structured content; without any, the text, and beside it the blocks where some are more than text."""
    if "structured_content" in answer.model_fields_set and answer.structured_content is not None:
        return answer.structured_content
    blocks = [
        block.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
        for block in answer.content
    ]
    text = read_text(answer)
    return (
        {"text": text}
        if all(block["type"] == "text" for block in blocks)
        else {"text": text, "content": blocks}
    )


def read_text(answer: types.CallToolResult) -> str:
    """The text of an answer, its blocks on lines of their own."""
    return "\n".join(block.text for block in answer.content if isinstance(block, types.TextContent))


def is_not_done(answer: types.CallToolResult) -> bool:
    """Whether an error answer states that nothing happened."""
    return (answer.meta or {}).get(OUTCOME) == "not_done"
