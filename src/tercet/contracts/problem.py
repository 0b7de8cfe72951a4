"""A problem found in something a person or a planner wrote."""

from __future__ import annotations

from tercet.contracts.shape import Shape


class Problem(Shape):
    """One defect: where it is, what is wrong, and what to do about it."""

    code: str
    message: str
    place: str = ""
    """A JSON Pointer into the document (`/steps/2/params/amount`), or a name such as `tool adp_orders.lookup`."""
    remedy: str = ""
    file: str | None = None
    row: int | None = None
    """The line in `file`, counted from 1, where it is known."""
    severity: str = "error"

    def line(self) -> str:
        """This problem as one line of text."""
        where = ":".join(str(part) for part in (self.file, self.row) if part is not None)
        prefix = " ".join(part for part in (where, self.place) if part)
        text = f"{prefix}: {self.message}" if prefix else self.message
        return f"{text}; {self.remedy}" if self.remedy else text
