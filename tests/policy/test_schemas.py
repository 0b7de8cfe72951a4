"""JSON Schema validators: every fault at its place, and nothing reaches out."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import pytest

from tercet.contracts.errors import UsageError
from tercet.policy import schemas
from tercet.policy.schemas import Fault, faults, validator

SCHEMA = orjson.dumps(
    {
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "maximum": 100},
            "to": {"type": "string", "pattern": "^acc_"},
            "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
        },
        "required": ["amount"],
        "additionalProperties": False,
    }
).decode()


@pytest.mark.parametrize(
    "value", [{"amount": 5}, {"amount": 5.0, "to": "acc_1"}, {"amount": 0, "lines": [{"sku": "k"}]}]
)
def test_a_value_that_fits_has_no_faults(value: Any) -> None:
    """Nothing is said about what is right."""
    assert faults(SCHEMA, value) == []


def test_every_fault_is_told_with_its_place() -> None:
    """All of them at once: where it is, which keyword it breaks, and a sentence about it."""
    value = {"amount": "much", "to": "evil", "lines": [{"sku": "k"}, {}], "extra": 1}
    found = faults(SCHEMA, value)
    assert {(fault.place, fault.keyword) for fault in found} == {
        (("amount",), "type"),
        (("to",), "pattern"),
        (("lines", 1), "required"),
        ((), "additionalProperties"),
    }
    assert all(fault.message for fault in found)
    assert faults(SCHEMA, {})[0].keyword == "required"


def test_unchecked_members_may_be_anything() -> None:
    """A member whose value is not known yet is present, and breaks nothing; the others are checked as ever."""
    value = {"amount": {"$from": "s1#/total"}, "to": "evil"}
    assert [fault.place for fault in faults(SCHEMA, value, frozenset({"amount"}))] == [("to",)]
    assert faults(SCHEMA, {"amount": {}, "to": []}, frozenset({"amount", "to"})) == []
    assert [fault.keyword for fault in faults(SCHEMA, {"to": {}}, frozenset({"to"}))] == ["required"]
    assert faults(SCHEMA, {"amount": 1, "extra": {}}, frozenset({"extra"})) == []


def test_a_schema_may_be_a_boolean() -> None:
    """True lets everything through, false nothing, unchecked or not."""
    for unchecked in (frozenset[str](), frozenset({"a"})):
        assert faults("true", {"a": 1}, unchecked) == []
        assert len(faults("false", {"a": 1}, unchecked)) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "zzz"}',
        '{"required": "a"}',
        '{"pattern": "("}',
        '{"$ref": "#/nowhere"}',
        '{"$schema": "http://example.com/unknown"}',
        "{",
        "",
        "null",
        "7",
        "[]",
        '{"not":' * 1_000 + "{}" + "}" * 1_000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    """A wrong keyword, a reference to nowhere or no JSON at all is the caller's mistake, in one line."""
    with pytest.raises(UsageError) as caught:
        validator(text)
    assert caught.value.code == "schema_invalid"
    assert caught.value.message.startswith(("not a JSON Schema: ", "this JSON Schema is too complex"))
    assert "\n" not in caught.value.message


def test_a_schema_reads_no_file(tmp_path: Path) -> None:
    """A reference to a file is refused, though the file is there."""
    target = tmp_path / "amount.json"
    target.write_text('{"type": "integer"}', encoding="utf-8")
    with pytest.raises(UsageError, match="not present in a registry"):
        validator(orjson.dumps({"$ref": target.as_uri()}).decode())


def test_a_schema_opens_no_connection() -> None:
    """A reference to another machine is refused, though the machine would answer: it is never asked."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        with pytest.raises(UsageError, match="not present in a registry"):
            validator(orjson.dumps({"$ref": f"http://127.0.0.1:{server.server_port}/x.json"}).decode())
        server.shutdown()
        thread.join()
    assert asked == []


@pytest.mark.parametrize(
    "value",
    [{1: 2}, object(), b"x", datetime(2026, 1, 1, tzinfo=UTC)],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_no_json_is_a_fault(value: Any) -> None:
    """A tool that returns something else has broken its schema, and nothing is raised."""
    (fault,) = faults("{}", value)
    assert (fault.place, fault.keyword) == ((), "type")
    assert fault.message.startswith("no JSON value")


def test_long_values_are_cut_in_messages() -> None:
    """The message shows the beginning of the value and what was wrong with it."""
    (fault,) = faults('{"enum": ["x"]}', "y" * 5_000)
    assert len(fault.message) <= 200
    assert fault.message.endswith('is not one of "x"')


def test_numbers_are_compared_by_value() -> None:
    """A whole float is an integer, as JSON Schema has it; NaN is at most a number."""
    assert faults('{"type": "integer"}', 5.0) == []
    assert faults('{"type": "integer"}', 10**30) == []
    assert faults('{"maximum": 5}', 5.5) != []
    assert faults('{"type": "string"}', math.nan) != []


def test_validators_are_kept() -> None:
    """The same schema text is compiled once."""
    assert validator('{"type": "null"}') is schemas.validator('{"type": "null"}')
    assert isinstance(faults('{"type": "null"}', 1)[0], Fault)
