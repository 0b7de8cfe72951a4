"""Files become facts, and bad files a list of what is wrong with them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.contracts.errors import UsageError
from tercet.contracts.mode import Trust
from tercet.contracts.values.canonical import hash_bytes
from tercet.evidence.errors import BadFact, BadFiles
from tercet.evidence.importing import files as importing
from tercet.evidence.importing.files import demand_some, find_files
from tercet.evidence.importing.records import MOST_PROBLEMS, Report
from tercet.evidence.importing.texts import html_text
from tercet.evidence.rows import prepare
from tercet.evidence.store import NewFact

from .files import documents, facts, pdf_bytes, read

MARKDOWN = "# Refunds\n\nTwo days.\n\n## Limits\n\nAbove 500 ask.\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, data: str | bytes) -> Path:
    """A file in the working folder."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def problems(*paths: Path) -> list[tuple[str, str | None, int | None]]:
    """What is wrong with files: codes, files and lines; and nothing was imported."""
    with pytest.raises(BadFiles) as caught:
        read(*paths)
    assert all(problem.remedy for problem in caught.value.problems)
    return [(problem.code, problem.file, problem.row) for problem in caught.value.problems]


@pytest.mark.req("R210")
def test_a_markdown_file_becomes_chunks(here: Path) -> None:
    """Each chunk has its heading, its number, its bytes in the file, and the document with the hash of its bytes."""
    changes = read(write("docs/a b#.md", MARKDOWN))
    (document,) = documents(changes)
    assert (document.name, document.hash) == ("docs/a%20b%23.md", hash_bytes(MARKDOWN.encode()))
    first, second = facts(changes)
    assert first.content == {"text": "# Refunds\n\nTwo days.", "heading": "Refunds"}
    assert (second.key, second.chunk, second.document) == ("docs/a%20b%23.md/1", 1, document.name)
    assert MARKDOWN.encode()[second.start : second.end] == b"## Limits\n\nAbove 500 ask."
    assert (second.trust, second.source) == (Trust.UNTRUSTED, document.name)


def test_labels_are_given_to_every_fact(here: Path) -> None:
    """Class, trust, source and expiry are those that were asked for."""
    end = datetime(2030, 1, 1, tzinfo=UTC)
    paths = (write("a.md", "One."), write("b.txt", "Two."))
    for fact in facts(read(*paths, classification="law", trust=Trust.TRUSTED, source="wiki", expires_at=end)):
        assert (fact.classification, fact.trust, fact.source) == ("law", Trust.TRUSTED, "wiki")
        assert fact.expires_at == end


def test_a_mark_at_the_beginning_is_no_text(here: Path) -> None:
    """A byte order mark is in no chunk, and the bytes are still those of the file."""
    path = write("a.md", b"\xef\xbb\xbf# Head\n\nText.")
    (fact,) = facts(read(path))
    assert fact.content["text"] == "# Head\n\nText."
    assert path.read_bytes()[fact.start : fact.end] == b"# Head\n\nText."


def test_html_says_what_a_reader_sees(here: Path) -> None:
    """Headings and paragraphs are kept apart; scripts, styles and the head say nothing, and references are letters."""
    page = """<!doctype html><html><head><title>T</title><style>p {color: red}</style></head>
      <body><h1>Refunds &amp; more</h1><p>Two <b>days</b>.<br>Or&nbsp;three.<script>alert("<p>no</p>")</script></p>
      <ul><li>one<li>two</ul><table><tr><th>a</th><td>b</td></tr></table><noscript>no</noscript>end"""
    text = html_text(page)
    assert text.split("\n\n") == ["# Refunds & more", "Two days. Or\xa0three.", "one", "two", "a | b", "end"]
    (fact,) = facts(read(write("a.html", page)))
    assert fact.content["heading"] == "Refunds & more"


@given(
    st.text(max_size=200)
    | st.lists(
        st.sampled_from(["<p>", "</", "<!--", "<script>", "&#", "x", "<h1", ">", "]]>", "<![", "<?"])
    ).map("".join)
)
def test_no_markup_breaks_the_reader(markup: str) -> None:
    """Whatever is called HTML gives a text."""
    assert isinstance(html_text(markup), str)


def test_a_pdf_is_read_by_pages(here: Path) -> None:
    """Each page has chunks of its own, told by its number."""
    changes = read(write("a.pdf", pdf_bytes(["Refunds take two days.", "Limits apply."])))
    assert [fact.content for fact in facts(changes)] == [
        {"text": "Refunds take two days.", "heading": "page 1"},
        {"text": "Limits apply.", "heading": "page 2"},
    ]
    assert documents(changes)[0].media_type == "application/pdf"


def test_rows_of_a_table_are_facts(here: Path) -> None:
    """Columns are fields; the id column names the fact, else its line does; quoted fields may have several lines."""
    text = 'id,name,note\no1,Ann,"a\nb"\no2,Bob,\n\n'
    path = write("t.csv", text)
    first, second = facts(read(path))
    assert first.content == {"id": "o1", "name": "Ann", "note": "a\nb"}
    assert (first.key, first.chunk, second.key, second.chunk) == ("o1", 2, "o2", 4)
    assert path.read_bytes()[first.start : first.end] == b'o1,Ann,"a\nb"\n'
    assert [fact.key for fact in facts(read(path, id_field="none"))] == ["t.csv/2", "t.csv/4"]
    assert facts(read(write("t.tsv", "id\tx\n1\t2\n")))[0].content == {"id": "1", "x": "2"}


def test_lines_of_objects_are_facts(here: Path) -> None:
    """Fields that are named say id, class, trust and expiry; without them the labels hold."""
    lines = [
        {"id": 7, "kind": "order", "safe": "untrusted", "until": "2030-01-01T00:00:00Z", "n": 1.5},
        {"n": None},
    ]
    path = write("f.jsonl", "\n".join(json.dumps(line) for line in lines))
    named: dict[str, Any] = {"class_field": "kind", "trust_field": "safe", "expires_field": "until"}
    first, second = facts(read(path, trust=Trust.TRUSTED, **named))
    assert (first.classification, first.key, first.trust) == ("order", "7", Trust.UNTRUSTED)
    assert (first.expires_at, first.content) == (datetime(2030, 1, 1, tzinfo=UTC), lines[0])
    assert (second.classification, second.key, second.trust) == ("policy", "f.jsonl/2", Trust.TRUSTED)


def test_a_record_cannot_raise_its_own_trust(here: Path) -> None:
    """A line of an untrusted file that calls itself trusted is not."""
    path = write("f.jsonl", '{"trust": "trusted"}')
    assert facts(read(path, trust_field="trust"))[0].trust is Trust.UNTRUSTED


def test_an_expiry_beyond_the_calendar_is_a_bad_line(here: Path) -> None:
    """In its own zone it is a time, in UTC it is none: nobody could read a snapshot that holds it."""
    lines = ['{"until": "0001-01-01T00:00:00+14:00"}', '{"until": "9999-12-31T23:59:59-12:00"}']
    path = write("f.jsonl", "\n".join(lines))
    with pytest.raises(BadFiles) as caught:
        read(path, expires_field="until")
    assert [(each.code, each.row) for each in caught.value.problems] == [("bad_expiry", 1), ("bad_expiry", 2)]


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_a_store_takes_no_expiry_that_it_could_not_give_back(moment: datetime) -> None:
    """Such a fact would make its snapshot, and every later one, unreadable."""
    with pytest.raises(BadFact):
        list(prepare([NewFact(classification="c", key="k", content={}, expires_at=moment)]))


@pytest.mark.parametrize("value", [False, 1.5, ["untrusted"], {"at": "2020-01-01T00:00:00Z"}, 1_700_000_000])
@pytest.mark.parametrize(("name", "code"), [("trust_field", "bad_trust"), ("expires_field", "bad_expiry")])
def test_a_label_that_cannot_be_read_is_not_passed_over(here: Path, name: str, code: str, value: Any) -> None:
    """A record that meant to be trusted less, or to go stale, does not become trusted for ever."""
    path = write("f.jsonl", json.dumps({"id": 1, "label": value}))
    named: dict[str, Any] = {name: "label"}
    with pytest.raises(BadFiles) as caught:
        read(path, trust=Trust.TRUSTED, **named)
    assert [each.code for each in caught.value.problems] == [code]


@pytest.mark.parametrize("order", [("a.md", "f.jsonl"), ("f.jsonl", "a.md")])
def test_a_record_does_not_take_the_place_of_a_chunk(here: Path, order: tuple[str, str]) -> None:
    """An id that a chunk of another file has is told, in whatever order the files come."""
    write("a.md", "Two days.")
    write("f.jsonl", '{"id": "a.md/0", "text": "Two years."}')
    with pytest.raises(BadFiles) as caught:
        read(*map(Path, order))
    assert [(each.code, each.file) for each in caught.value.problems] == [("duplicate_fact", order[1])]


def test_every_bad_line_is_told(here: Path) -> None:
    """The lines are named, all at once, and nothing comes out; what is skipped is told as well."""
    lines = [
        b'{"id": 1}', b"{", b"[1]", b'{"id": 1}', b'{"id": "a b"}', b'{"x": NaN}', b"\xff", b'{"x": "\0"}', b"", b'{"id": 2}',
        b'{"id": 3, "x": 1, "x": 2}',
    ]  # fmt: skip
    path = write("f.jsonl", b"\n".join(lines))
    expected = [
        ("json_syntax", "f.jsonl", 2),
        ("not_an_object", "f.jsonl", 3),
        ("duplicate_fact", "f.jsonl", 4),
        ("bad_id", "f.jsonl", 5),
        ("json_syntax", "f.jsonl", 6),
        ("not_utf8", "f.jsonl", 7),
        ("not_text", "f.jsonl", 8),
        ("json_syntax", "f.jsonl", 11),
    ]
    assert problems(path) == expected
    report = Report(skips_bad=True)
    assert [fact.key for fact in facts(read(path, report=report))] == ["1", "2"]
    assert [(problem.code, problem.file, problem.row) for problem in report.problems] == expected


def test_rows_that_do_not_fit_are_told(here: Path) -> None:
    """Uneven rows, wrong quotes and a header with holes are named by their lines."""
    uneven = write("u.csv", "a,b\n1,2\n3\n4,5,6\n7,8\n")
    assert problems(uneven) == [("uneven_row", "u.csv", 3), ("uneven_row", "u.csv", 4)]
    report = Report(skips_bad=True)
    assert [fact.content["a"] for fact in facts(read(uneven, report=report))] == ["1", "7"]
    assert problems(write("q.csv", 'a,b\n"x"y,2\n')) == [("csv_syntax", "q.csv", 2)]
    assert problems(write("h.csv", "a,a\n1,2\n"), write("e.csv", "a,\n1,2\n")) == [
        ("bad_header", "h.csv", 1),
        ("bad_header", "e.csv", 1),
    ]


def test_an_endless_line_is_not_swallowed(here: Path) -> None:
    """A line of 200 megabytes is answered with its number, and the lines behind it are still read."""
    path = Path("big.jsonl")
    with path.open("wb") as stream:
        stream.write(b'{"id": 1}\n')
        stream.seek(200_000_000, os.SEEK_CUR)  # zeros that take no room
        stream.write(b'\n{"id": 3}\n')
    assert problems(path) == [("line_too_long", "big.jsonl", 2)]
    report = Report(skips_bad=True)
    assert [fact.key for fact in facts(read(path, report=report))] == ["1", "3"]


def test_a_document_that_is_too_large_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts have a limit, since they are read whole."""
    monkeypatch.setattr(importing, "MAX_DOCUMENT", 10)
    assert problems(write("a.md", "x" * 11)) == [("document_too_large", "a.md", None)]


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("a.md", b"\xff\xfe", "not_utf8"),
        ("a.md", b"a\0b", "not_text"),
        ("a.md", b"", "empty_file"),
        ("a.md", b" \n\n ", "empty_file"),
        ("a.html", b"<script>x</script>", "empty_file"),
        ("a.pdf", b"no pdf", "pdf_unreadable"),
        ("a.pdf", b"%PDF-1.7\n%%EOF", "pdf_unreadable"),
        ("a.pdf", pdf_bytes(["secret"], "open"), "pdf_encrypted"),
        ("a.pdf", pdf_bytes([""]), "pdf_without_text"),
        ("a.docx", b"PK", "unknown_kind"),
        ("Makefile", b"x", "unknown_kind"),
        ("a.csv", b"", "empty_file"),
        ("a.csv", b"a\n\xff\n", "not_utf8"),
        ("a.csv", b"a\n\0\n", "not_text"),
    ],
)
def test_a_bad_file_has_a_typed_answer(here: Path, name: str, data: bytes, code: str) -> None:
    """What is no document of its kind is named with what to do, also among good ones, and nothing is imported."""
    found = problems(write("good.md", "Good."), write(name, data))
    assert [(each[0], each[1]) for each in found] == [(code, name)]


@given(st.binary(max_size=300))
def test_no_bytes_break_the_pdf_reader(data: bytes) -> None:
    """Whatever is called PDF is read or refused with a reason."""
    reader = importing._READERS[".pdf"]  # pyright: ignore[reportPrivateUsage] - the reader itself
    with pytest.raises(UsageError):
        list(reader(b"%PDF-1.4\n" + data))


def test_a_folder_is_read_in_order(here: Path) -> None:
    """Files come by name; hidden ones, links to folders and unknown kinds are left out, the latter two with a word."""
    for name in ("k/b.md", "k/a/z.md", "k/a/y.txt", "k/.git/c.md", "k/x.bin"):
        write(name, "Text.")
    (here / "k" / "loop").symlink_to(here / "k", target_is_directory=True)
    report = Report()
    found = find_files([Path("k"), Path("k/b.md")], report)
    assert [file.name for file in found] == ["k/b.md", "k/a/y.txt", "k/a/z.md"]
    assert report.ignored == ["k/loop", "k/x.bin"]
    assert not report.problems


def test_what_cannot_be_opened_is_told(here: Path) -> None:
    """A missing file, a link to itself and a device are problems, not tracebacks."""
    loop = here / "loop.md"
    loop.symlink_to(loop)
    assert problems(Path("missing.md"), Path("loop.md"), Path(os.devnull)) == [
        ("unreadable", "missing.md", None),
        ("unreadable", "loop.md", None),
        ("not_a_file", os.devnull, None),
    ]


def test_an_empty_folder_is_wrong_use(here: Path) -> None:
    """Nothing to import is said, not passed over."""
    report = Report()
    with pytest.raises(UsageError) as caught:
        demand_some(find_files([here], report), report)
    assert caught.value.code == "nothing_to_import"


def test_not_every_problem_is_listed(here: Path) -> None:
    """A file in which all is wrong is given up after a while."""
    assert len(problems(write("f.jsonl", "x\n" * 1_000))) == MOST_PROBLEMS


def test_a_link_out_of_a_folder_is_refused_by_name(here: Path, tmp_path: Path) -> None:
    """Whoever can write into a folder does not choose which other files are read; a link inside of it is fine."""
    write("k/own.md", "own words")
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "secret.md").write_text("not for here")
    (here / "k" / "again.md").symlink_to(here / "k" / "own.md")
    assert [file.name for file in find_files([Path("k")], Report())] == ["k/again.md", "k/own.md"]
    (here / "k" / "stolen.md").symlink_to(outside / "secret.md")
    assert problems(Path("k")) == [("link_outside", "k/stolen.md", None)]
