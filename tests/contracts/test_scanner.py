"""What the scanner sees in an expression without compiling it: names, reads, constants and evidence."""

from __future__ import annotations

from typing import Any

import pytest

from tercet.contracts.values.references import (
    MAX_SCANNED,
    Opaque,
    Read,
    constants,
    evidence_read,
    names,
    reads,
    tokens,
)

REF = "kg:order:o1#snapshot_k1"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s1.total - s2.fee", ("s1", "s2")),
        ("s1.total + s1.fee", ("s1",)),
        ("s1.s2.s3", ("s1",)),
        ("size(s1.items) > 3", ("s1",)),
        ("s1.name.startsWith(request.prefix)", ("s1", "request")),
        ("true || false && null == s1", ("s1",)),
        ("'x' in s1", ("s1",)),
        ("s1[s2.key]", ("s1", "s2")),
        ("\"s1\" + 's2' + \"\"\"s3\"\"\" + '''s4'''", ()),
        (r'"\"s1" + s2', ("s2",)),
        ("'it''s' + s1", ("s1",)),
        (r'r"\" + s1', ("s1",)),
        ('"""\\"""" + s1.x + ""', ("s1",)),
        ('r"""a"b""" + s1', ("s1",)),
        ("br'x' + b'y' + B\"z\" + R's1'", ()),
        ("bar + rb", ("bar", "rb")),
        ("s1 // + s2\n+ s3", ("s1", "s3")),
        ('"//" + s1', ("s1",)),
        ("1e5 + 0xFFu + 1.5e-3 + 10u + .5", ()),
        ("1in.s1.items", ("s1",)),
        ("0in s1", ("s1",)),
        (".s1.total", ("s1",)),
        ("s2.a+.s1.b", ("s2", "s1")),
        ("'x' in .s1", ("s1",)),
        ("(.s1)", ("s1",)),
        ("[.s1, .s2]", ("s1", "s2")),
        ("s1 . total", ("s1",)),
        ("s1\n.total", ("s1",)),
        ("s1.`a//b` + s2.x", ("s1", "s2")),
        ("s1.`a b`.c", ("s1",)),
        ("'é' + s1", ("s1",)),
        ("", ()),
        ("s1 + 'unterminated + s2", ("s1",)),
    ],
)
def test_names_are_the_roots_of_what_is_read(expression: str, expected: tuple[str, ...]) -> None:
    """Strings, comments, numbers, fields and functions hide no name and add none."""
    assert names(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s1", [Read("s1", ())]),
        ("s1.a.b", [Read("s1", ("a", "b"))]),
        ('s1.lines[0]["sku"]', [Read("s1", ("lines", 0, "sku"))]),
        ("s1[s2.n]", [Read("s1", ()), Read("s2", ("n",))]),
        ("s1.a.size()", [Read("s1", ("a",))]),
        ("s1.a + .s1.b", [Read("s1", ("a",)), Read("s1", ("b",))]),
        ("has(s1.a)", [Read("s1", ("a",))]),
        ("s1.`a-b`.c", [Read("s1", ("a-b", "c"))]),
        (r's1["\x61"].b', [Read("s1", ())]),
        ("s1[1.5]", [Read("s1", ())]),
        ("{'a': s1}.a", [Read("s1", ())]),
    ],
)
def test_reads_tell_the_way_as_far_as_it_is_plain(expression: str, expected: list[Read]) -> None:
    """Fields and plain keys are followed; at the first thing that has to be computed the way ends."""
    assert reads(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s1.total > 100", [100]),
        ("s1.total * 1.5", [1.5]),
        ('s1["total"]', []),
        ("s1.list[0].x", []),
        ('s1["a"]["b"] + "c"', ["c"]),
        ('["acc_1"]', ["acc_1"]),
        ('s1.x in ["acc_1"]', ["acc_1"]),
        ('true ? ["acc_1"] : s1.list', [True, "acc_1"]),
        ('{"k": "v"}["k"]', ["k", "v"]),
        ("null", [None]),
        ("s1.ok ? true : false", [True, False]),
        ("s1.true", []),
        ("-5", [5]),
        ("'plain'", ["plain"]),
        ("''", [""]),
        ("'a' // 'b'", ["a"]),
        ('evidence["x"].amount + 1', [1]),
        ("12345678901234567890", [12345678901234567890]),
    ],
)
def test_constants_are_what_the_expression_writes_down(expression: str, expected: list[Any]) -> None:
    """A key that selects a field is no value of the expression; everything else that it spells out is."""
    found = constants(expression)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@pytest.mark.parametrize("literal", [r'"\x61cc"', "'''acc'''", "r'acc'", "b'acc'", "0x1F", "1u"])
def test_a_constant_that_is_not_worked_out_equals_nothing(literal: str) -> None:
    """A spelling that could hide a value is kept as it is, so that it never equals a trusted one."""
    assert constants(literal) == [Opaque(literal)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'evidence["{REF}"].amount', (REF,)),
        (f"evidence['{REF}'].amount + evidence['b'].x", (REF, "b")),
        (f'evidence ["{REF}"]', (REF,)),
        ('.evidence["a"].x + evidence["b"].y', ("a", "b")),
        ('0in.evidence["a"].xs', ("a",)),
        ('evidence["a"].`x//y` + evidence["b"].z', ("a", "b")),
        ("s1.evidence['a']", ()),
        ("s1.total", ()),
        ("evidence", None),
        ("evidence[s1.ref]", None),
        ("evidence.a", None),
        ("evidence.`a`", None),
        ("evidence[0]", None),
        (r'evidence["\x61"]', None),
        ('evidence["a" + "b"]', None),
        ("size(evidence)", None),
        ("'a' in evidence", None),
        ("evidence[", None),
    ],
)
def test_evidence_is_read_by_its_id_or_it_cannot_be_told(
    expression: str, expected: tuple[str, ...] | None
) -> None:
    """Every piece of evidence that an expression reads is named, or the answer is that it cannot be told."""
    assert evidence_read(expression) == expected


@pytest.mark.parametrize(
    "piece", ["'", '"', "'a", '"""', "r'", "`", "`a", "//", "(", ".a", "'\\n", "\\'", "1e"]
)
def test_a_hostile_expression_is_scanned_in_no_time(piece: str) -> None:
    """Unclosed quotes and repeated marks cost their length, and what is far too long is not looked at."""
    assert len(tokens(piece * (MAX_SCANNED // len(piece)))) <= MAX_SCANNED
    assert tokens(piece * MAX_SCANNED + "s1") == ()


def test_tokens_know_members_from_roots() -> None:
    """A name behind a dot is a member only if something stands before the dot that can have members."""
    found = [(token.text, token.kind, token.is_member) for token in tokens("a.b(1).c + .d in .e // f")]
    assert found == [
        ("a", "name", False),
        (".", "mark", False),
        ("b", "name", True),
        ("(", "mark", False),
        ("1", "literal", False),
        (")", "mark", False),
        (".", "mark", False),
        ("c", "name", True),
        ("+", "mark", False),
        (".", "mark", False),
        ("d", "name", False),
        ("in", "name", False),
        (".", "mark", False),
        ("e", "name", False),
    ]
