"""What the pages show is what happens: their code runs, their commands exist, their links lead somewhere.

Python blocks of one page run in order, in one namespace.
In `sh` blocks every line that begins with `tercet`, in `console` blocks every line that begins with `$ tercet`, is tried.
`plan`, `verify`, `run`, `check`, `schema` and `init` are run and must exit as the line says (`# exit 3`), or else with 0.
Other commands, and usage lines with `[OPTIONS]`, are only asked for their help, which fails on a name that does not exist.
Everything happens in this process, and in a temporary folder that holds a copy of the examples.
"""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tercet.cli.main import app

ROOT = Path(__file__).parents[1]
SHOWN = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*SHOWN, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
EXECUTED = {"plan", "verify", "run", "check", "schema", "init"}

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_COMMAND = {
    "sh": re.compile(r"(?:\$ )?(?:\.venv/bin/)?(?P<name>tercet|make)\b(?P<rest>.*)"),
    "console": re.compile(r"\$ (?:\.venv/bin/)?(?P<name>tercet|make)\b(?P<rest>.*)"),
}
_EXIT = re.compile(r"#.*\bexit (?P<code>\d+)")
_LINK = re.compile(r"\]\((?P<inline>[^)\s]+)\)|(?:src|href)=\"(?P<html>[^\"]+)\"")
_ONE_MACHINE = re.compile(
    r"(?<![\w.#/-])/(?:work|root|home|Users)/|\bpypi\.(?:org|python)|\bpythonhosted\.org|\bregistry\.npmjs\b"
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block, and the line of the page on which its body begins."""

    language: str
    row: int
    body: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command line that a page shows, and the exit code it promises."""

    name: str
    words: tuple[str, ...]
    code: int


def read_blocks(page: Path) -> Iterator[Block]:
    """Find the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        indent = len(match["indent"])
        body = "\n".join(line[indent:] for line in match["body"].splitlines())
        yield Block(language=match["language"], row=text.count("\n", 0, match.start("body")), body=body)


def read_commands(page: Path) -> Iterator[Command]:
    """Find the command lines of a page, up to the first pipe or redirection of each."""
    for block in read_blocks(page):
        pattern = _COMMAND.get(block.language)
        for line in block.body.replace("\\\n", " ").splitlines() if pattern else ():
            if pattern and (match := pattern.fullmatch(line)):
                words = shlex.split(match["rest"], comments=True)
                until_pipe = takewhile(lambda word: word not in {"|", ">", ">>", "2>", "&&", ";"}, words)
                promised = _EXIT.search(line)
                code = int(promised["code"]) if promised else 0
                yield Command(name=match["name"], words=tuple(until_pipe), code=code)


def page_name(page: Path) -> str:
    """Name a page as a reader would."""
    return page.relative_to(ROOT).as_posix()


WITH_PYTHON = [page for page in SHOWN if any(block.language == "python" for block in read_blocks(page))]
WITH_COMMANDS = [page for page in PAGES if any(read_commands(page))]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary working folder with a copy of the examples, so that nothing touches the repository."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    return tmp_path


@pytest.mark.parametrize("page", WITH_PYTHON, ids=page_name)
def test_the_python_on_a_page_runs(page: Path, workshop: Path) -> None:
    """All Python blocks of a page run one after the other; a traceback shows the line numbers of the page."""
    script = ""
    for block in read_blocks(page):
        if block.language == "python":
            script += "\n" * (block.row - script.count("\n")) + block.body + "\n"
    path = workshop / f"{page.stem}.py"
    path.write_text(script, encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")


def test_the_first_thing_that_readme_shows_is_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Before any command, about thirty lines of Python: a plan refused, a gate, and a result, each as its comment says."""
    block = next(read_blocks(ROOT / "README.md"))
    lines = [line for line in block.body.splitlines() if line]
    assert (block.language, len(lines) <= 32) == ("python", True)
    exec(block.body, {"__name__": "__main__"})  # noqa: S102 - it is our own page
    printed = capsys.readouterr().out.splitlines()
    promised = [line.partition("  # ")[2] for line in lines if "print(" in line]
    assert len(printed) == len(promised) == 3
    assert all(text.startswith(line) for line, text in zip(printed, promised, strict=True))


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=page_name)
def test_the_commands_on_a_page_do_what_it_says(page: Path, workshop: Path) -> None:
    """Each command line exists, and those that are safe to run exit with the code the page gives."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in read_commands(page):
        if command.name == "make":
            assert set(command.words[:1]) <= set(targets), f"make {command.words[0]} does not exist"
            continue
        words, code = command.words, command.code
        if "[OPTIONS]" in words or not EXECUTED.intersection(words[:1]):
            words, code = (*takewhile(lambda word: word != "[OPTIONS]", words), "--help"), 0
        done = CliRunner().invoke(app, words)
        assert done.exit_code == code, f"tercet {shlex.join(words)}\n{done.output}"
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_links_on_a_page_lead_to_files(page: Path) -> None:
    """Every relative link names a file or folder of the repository."""
    prose = re.sub(r"`[^`\n]+`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))
    targets = [match["inline"] or match["html"] for match in _LINK.finditer(prose)]
    relative = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    missing = [target for target in relative if not (page.parent / target).exists()]
    assert not missing


def test_the_page_of_public_names_is_current() -> None:
    """docs/api.md is what `make api` writes, and gives a sentence to every name."""
    page = runpy.run_path(str(ROOT / "docs" / "api_page.py"))["page"]()
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == page, "run: make api"
    assert "|  |" not in page


def test_the_size_of_the_sources_is_told(tmp_path: Path) -> None:
    """`make size` counts lines and files for each package, and names what is too large."""
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "one.py").write_text("x = 1\n", encoding="utf-8")
    body = "".join(f"    x = {number}\n" for number in range(601))
    (tmp_path / "long.py").write_text(f"def grown():\n{body}", encoding="utf-8")
    said = list(runpy.run_path(str(ROOT / "tests" / "size.py"))["report"](tmp_path))
    assert said[:2] == ["    603 lines in 2 files", "    602 lines in   1 files  long.py"]
    assert said[-5:] == [
        "folders with more than 25 modules: none",
        "files over 600 lines: 1",
        "    602  long.py",
        "functions over 80 lines: 1",
        "    602  long.py:1 grown",
    ]


def test_every_design_note_is_in_the_index() -> None:
    """The index of the design notes links to each of them, in order."""
    folder = ROOT / "docs" / "design"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\((\d{3}-[a-z0-9-]+\.md)\)", index) == sorted(
        path.name for path in folder.glob("0*.md")
    )


def test_no_file_speaks_of_one_machine() -> None:
    """No file names a folder of somebody's machine or the host of a package registry."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs the git checkout to know which files belong to the repository")
    listing = subprocess.run(
        [git, "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: list[str] = []
    for name in filter(None, listing.stdout.split("\0")):
        text = (ROOT / name).read_bytes().decode(errors="replace") if (ROOT / name).is_file() else ""
        for row, line in enumerate(text.splitlines(), start=1):
            found += [f"{name}:{row}: {match[0]}" for match in _ONE_MACHINE.finditer(line)]
    assert not found


def test_the_reader_of_pages_sees_what_a_page_shows(tmp_path: Path) -> None:
    """The reader finds blocks with their rows, command lines with their codes, and leaves output alone."""
    page = tmp_path / "page.md"
    page.write_text(
        "One\n\n```python\nx = 1\n```\n\n"
        "```console\n$ tercet verify a \\\n  b --json | head  # refused: exit 3\ntercet printed this\n```\n\n"
        "  ```sh\n  make demo\n  .venv/bin/tercet check 'my pack'\n  ```\n",
        encoding="utf-8",
    )
    assert next(read_blocks(page)) == Block(language="python", row=3, body="x = 1")
    assert list(read_commands(page)) == [
        Command(name="tercet", words=("verify", "a", "b", "--json"), code=3),
        Command(name="make", words=("demo",), code=0),
        Command(name="tercet", words=("check", "my pack"), code=0),
    ]
