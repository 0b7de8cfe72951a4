"""What the pages show is what happens: their code runs, their commands exist, their links lead somewhere.

Python blocks of one page run in order, in one namespace.
The command lines of `sh` and `console` blocks run in order, in a folder with recorded runs (see recorded.py): each must
exit as it says (`# exit 3`), else with 0, and what a `console` block shows below a command must be printed by it.
Commands that wait, ask a person or reach other machines, and usage lines with `[OPTIONS]`, are parsed but not run.
Everything happens in this process, and in a temporary folder that holds a copy of the examples.
Tutorials and how-to pages are not read here but followed step by step: see test_walkthroughs.py.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from pages import (
    FENCE,
    ROOT,
    SHOWN,
    SHOWN_ID,
    WALKTHROUGHS,
    Block,
    Command,
    demand_lines,
    page_name,
    read_blocks,
    read_command,
    read_commands,
    read_mentions,
)
from recorded import Recorded, record_runs, type_command
from tercet.cli.main import COMMANDS, GROUPS, SHORTCUTS, USUAL, LazyCommand, expand_shortcut
from tercet.cli.replay.runs import require_runs
from tercet.contracts.shape import Authored
from tercet.contracts.tasks import TaskLibrary
from tercet.contracts.verdict import Code
from tercet.core.events import Event
from tercet.packs import Pack
from tercet.packs.declarations import ALL_DECLARED, PACK_FILE, TUNING_FILE
from tercet.packs.folder import COMMANDS_FILE, HTTP_FILE
from tercet.policy.expressions import CALL, PLAN, STEP
from tercet.policy.resolution import ResolutionError
from tercet.service.methods import METHODS
from tercet.service.targets import EmailTarget, NotificationSettings, WebhookTarget

PAGES = [*SHOWN, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
OTHERS = [*sorted((ROOT / "examples").rglob("*.md")), *sorted((ROOT / "src").rglob("*.md"))]
NOT_RUN = {
    "demo": "test_demo.py runs it",
    "serve": "waits for requests",
    "console": "waits for requests",
    "worker": "waits for sessions",
    "call": "needs a service",
    "cluster": "needs Temporal",
    "tune": "needs more runs than a page can have",
    "notifications test": "sends to another machine",
    "tools pin": "starts the servers of an example",
    "tools diff": "starts the servers of an example",
    "erase": "asks before it deletes",
}
NEEDS_ANOTHER_STATE = {
    "api-keys revoke", "evidence snapshot", "gates approve", "gates decide", "gates modify", "gates settle",
    "gates withdraw", "golden add", "notifications retry", "sessions migrate", "sessions pause", "sessions resume",
    "sessions settle",
}  # fmt: skip
"""Commands whose examples each take a run in another state: they are only parsed, and have tests of their own."""
BEFORE = {
    "evidence diff": ["tercet evidence add handbook/ --class policy", "tercet evidence snapshot 2026-05"],
    "evidence search": ["tercet evidence add handbook/ --class policy", "tercet evidence snapshot 2026-05"],
    "evidence show": ["tercet evidence add handbook/ --class policy", "tercet evidence snapshot 2026-05"],
    "export": ["tercet signing-keys new release"],
    "feedback golden": [f"tercet feedback add {SHOWN_ID} --note wrong"],
    "golden check": [f"tercet golden add {SHOWN_ID} --to golden"],
    "signing-keys show": ["tercet signing-keys new release"],
    "stop lift": ["tercet stop tool adp_payments.issue_refund", "tercet stop tenant"],
    "verify-bundle": [
        "tercet signing-keys new release",
        f"tercet export {SHOWN_ID} -o run.tercet --sign release",
    ],
}
"""What comes before the examples of a command."""
ON_WAITING = {
    "gates show",
    "gates approve",
    "gates deny",
    "gates modify",
    "sessions resume",
    "sessions pause",
    "sessions cancel",
    "sessions extend",
    "sessions migrate",
}
"""The commands that are tried on the run that waits; others are on the one that is completed."""
TRIED_HERE = [page for page in PAGES if page not in WALKTHROUGHS]

_LINK = re.compile(r"\]\((?P<inline>[^)\s]+)\)|(?:src|href)=\"(?P<html>[^\"]+)\"")
_ONE_MACHINE = re.compile(
    r"(?<![\w.#/-])/(?:work|root|home|Users)/|\bpypi\.(?:org|python)|\bpythonhosted\.org|\bregistry\.npmjs\b"
)

WITH_PYTHON = [page for page in TRIED_HERE if any(block.language == "python" for block in read_blocks(page))]
WITH_COMMANDS = [page for page in TRIED_HERE if any(read_commands(page))]


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


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A folder with recorded runs, of which each page gets a copy."""
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("TERCET_JOURNAL", raising=False)
        return record_runs(folder)


@pytest.fixture
def copy(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A copy of the recorded runs, as the working folder."""
    shutil.copytree(recorded.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERCET_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("TERCET_JOURNAL", raising=False)
    return replace(recorded, folder=tmp_path)


@pytest.mark.parametrize("page", [page for page in WITH_COMMANDS if page.name != "cli.md"], ids=page_name)
def test_the_commands_on_a_page_do_what_it_says(page: Path, copy: Recorded) -> None:
    """Each command line exists, exits with the code that the page gives, and prints what it shows."""
    try_commands(read_commands(page), copy)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_do_what_they_say(name: str, copy: Recorded) -> None:
    """Each exits with the code beside it, as far as a folder with recorded runs has what it needs."""
    lines = [*BEFORE.get(name, ()), *COMMANDS[name].load()[1].splitlines()]
    try_commands(map(read_command, lines), copy, parsed={name} & NEEDS_ANOTHER_STATE)


def try_commands(commands: Iterable[Command], recorded: Recorded, parsed: Set[str] = frozenset()) -> None:
    """Type command lines one after the other; the id on pages is that of the last `run`, else of a recorded one."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    own = ""
    for command in commands:
        words, line = list(command.words), f"tercet {shlex.join(command.words)}"
        if command.name == "make":
            assert set(words[:1]) <= set(targets), f"make {words[0]} does not exist"
            continue
        is_elsewhere = re.search(r"(?<!sqlite)://", line)
        name = " ".join(words[:2])
        if "[OPTIONS]" in words or is_elsewhere or {*NOT_RUN, *parsed} & {words[0], name}:
            assert not find_problem([word for word in words if word != "[OPTIONS]"]), line
            continue
        if words[0] == "export":
            Path("run.tercet").unlink()
        session = own or (recorded.waiting if name in ON_WAITING else recorded.completed)
        printed = type_command(*(word.replace(SHOWN_ID, session) for word in words), code=command.code)
        if words[0] == "run" and (found := re.search(r"ses_[0-9a-f]{16}", printed)):
            own = found[0]
        demand_lines(list(command.shown), printed, line)


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=page_name)
def test_the_commands_inside_sentences_can_be_typed(page: Path) -> None:
    """Each is the name of a command, or has options that exist and all arguments."""
    found = [
        f"{page_name(page)}:{row}: tercet {shlex.join(words)}: {problem}"
        for row, words in read_mentions(page)
        if (problem := find_problem(words))
    ]
    assert not found, "\n".join(found)


def find_problem(words: Sequence[str]) -> str:
    """Return why a command line cannot be typed as it is; empty if it can.

    The name of a command or group alone is no problem, nor is a command with only the name of an option behind it.
    """
    if len(words) == 1 and words[0] in {*GROUPS, *SHORTCUTS}:
        return ""
    words = expand_shortcut(list(words))
    if words[0] in USUAL and " ".join(words[:2]) not in COMMANDS:
        words.insert(1, USUAL[words[0]])
    name = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), None)
    if name is None:
        return "there is no such command"
    command: Any = LazyCommand(name, COMMANDS[name]).real
    given = words[len(name.split()) :]
    if not given or (
        len(given) == 1 and any(given[0] in (*each.opts, *each.secondary_opts) for each in command.params)
    ):
        return ""
    try:
        values, rest, _ = command.make_parser(command.context_class(command)).parse_args(given)
        if any(each.name == "everything" for each in command.params):
            is_all, chosen = "everything" in values, {name: values.get(name) for name in ("intent", "status")}
            require_runs(values.get("runs") or (), is_all=is_all, **chosen)
    except Exception as error:  # noqa: BLE001 - the parser's own errors differ between versions of typer
        return str(error)
    missing = [
        str(each.metavar or each.name)
        for each in command.params
        if each.required and not values.get(each.name)
    ]
    return f"without {', '.join(missing)}" if missing else " ".join(map(str, rest))


@pytest.mark.parametrize(
    "line",
    [
        "replay --pack garden",
        "verify plan.json",
        "run a --plam b",
        "gate list",
        "sessions lst",
        "gates show a b",
        "verify-bundle --key NAME",
        "run --plam",
    ],
)
def test_a_command_that_cannot_be_typed_is_found(line: str) -> None:
    """Unknown commands and options, missing arguments and those too many are problems."""
    assert find_problem(line.split())


@pytest.mark.parametrize(
    "line", ["show", "gates", "verify", "worker --temporal", "tune PACK --all", "list", "replay x"]
)
def test_a_command_that_is_only_named_is_no_problem(line: str) -> None:
    """A name may stand alone or with one option, and shortcuts are commands."""
    assert not find_problem(line.split())


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_links_on_a_page_lead_to_files(page: Path) -> None:
    """Every relative link names a file or folder of the repository."""
    prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    targets = [match["inline"] or match["html"] for match in _LINK.finditer(prose)]
    relative = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    missing = [target for target in relative if not (page.parent / target).exists()]
    assert not missing


def test_the_code_of_other_frameworks_compiles_and_names_what_they_have() -> None:
    """`py` blocks are code of others: each compiles, and what it imports from an installed package exists."""
    blocks = [block for page in PAGES for block in read_blocks(page) if block.language == "py"]
    assert len(blocks) >= 4
    looked_up = 0
    for block in blocks:
        for node in ast.walk(ast.parse(block.body)):
            if isinstance(node, ast.ImportFrom) and node.module and find_spec(node.module.partition(".")[0]):
                exec(ast.unparse(node), {})  # noqa: S102 - an import on our own page
                looked_up += 1
    assert looked_up >= 3


def test_no_command_hides_in_a_block_that_is_not_run() -> None:
    """Blocks that are only shown hold no command, and the languages of all blocks are known."""
    known = {"python", "py", "sh", "console", "toml", "json", "text", "http", "ini", "sql", ""}
    hidden: list[str] = []
    for page in PAGES:
        for block in read_blocks(page):
            assert block.language in known, f"{page_name(page)}:{block.row}: {block.language}"
            if block.language in ("text", "") and page.name != "cli.md":
                hidden += [
                    f"{page_name(page)}:{block.row}: {line}"
                    for line in block.body.splitlines()
                    if re.match(r"(\$ |export |tercet |pip |make |curl |from \w+ import|import )", line)
                ]
    assert not hidden


def test_data_on_a_page_can_be_read() -> None:
    """Each `toml` and `json` block parses."""
    for page in PAGES:
        for block in read_blocks(page):
            if block.language == "toml":
                tomllib.loads(block.body)
            elif block.language == "json":
                json.loads(block.body)


def test_the_page_of_public_names_is_current() -> None:
    """docs/api.md is what `make api` writes, and gives a sentence to every name."""
    page = runpy.run_path(str(ROOT / "docs" / "api_page.py"))["page"]()
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == page, "run: make api"
    assert "|  |" not in page


def test_the_generated_reference_is_current_and_complete() -> None:
    """Each refusal code, event and field of a pack file is on its page, which is what `make api` writes."""
    written = runpy.run_path(str(ROOT / "docs" / "reference_pages.py"))
    for name, page in written["PAGES"].items():
        shown = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert shown == page(), "run: make api"
    refusals = (ROOT / "docs" / "reference" / "refusals.md").read_text(encoding="utf-8")
    assert {code for code in Code if f"| `{code}` |" not in refusals} == set()
    assert "|  |" not in refusals
    events = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    assert {kind for kind in get_args(Event) if f"`{kind.__struct_config__.tag}`" not in events} == set()


def test_every_code_of_a_refused_call_or_answer_is_in_the_reference() -> None:
    """The codes in the source, of calls that are refused when they are due and of messages that a run refuses, are those
    of the page."""
    written = runpy.run_path(str(ROOT / "docs" / "reference_pages.py"))
    core = ROOT / "src" / "tercet" / "core"
    calls = {ResolutionError.default_code} | {
        code
        for file in [*core.rglob("*.py"), ROOT / "src" / "tercet" / "policy" / "resolution.py"]
        for code in written_codes(file, {"Fault", "StepRefused", "ResolutionError", "_refused"})
    }
    assert calls - set(Code) == set(written["CALLS"])
    answers = {
        code
        for name in ("message_rules.py", "modifications.py")
        for code in written_codes(core / name, {"UsageError"})
    }
    assert answers == set(written["ANSWERS"])


def written_codes(file: Path, makers: set[str]) -> Iterator[str]:
    """Yield the codes that a file gives to calls of these functions, by their values; not those that it passes on."""
    relative = file.relative_to(ROOT / "src").with_suffix("")
    names = vars(import_module(".".join(relative.parts).removesuffix(".__init__")))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in makers:
            continue
        given = [word.value for word in node.keywords if word.arg == "code"]
        if ast.unparse(node.func) == "_refused":
            given = node.args[2:3]
        for value in given:
            for each in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
                text = ast.unparse(each)
                if not re.search(r"\bcode\)?$", text):
                    yield str(eval(text, names))  # noqa: S307 - a constant of our own source


def test_every_file_and_field_of_a_pack_is_in_the_reference() -> None:
    """The page has a part for each file that the loader reads, with each key of its tables and what it means."""
    written = runpy.run_path(str(ROOT / "docs" / "reference_pages.py"))
    page = (ROOT / "docs" / "reference" / "pack-fields.md").read_text(encoding="utf-8")
    files = {each.file for each in ALL_DECLARED} | {
        PACK_FILE,
        TUNING_FILE,
        HTTP_FILE,
        COMMANDS_FILE,
        "tools.py",
    }
    assert {file for file in files if f"## {file}\n" not in page} == set()
    listed = {model for models in written["FILES"].values() for _, model in models}
    parts = {
        each for each in get_type_hints(Pack).values() if inspect.isclass(each) and issubclass(each, Authored)
    }
    assert parts - {TaskLibrary} <= {*listed, *written["_nested"](listed)}
    for model in (*listed, *written["_nested"](listed)):
        for name, info in model.model_fields.items():
            assert f"| `{info.alias or name}` |" in page, f"{model.__name__}.{name}"
    tables = page[page.index("## pack.toml") :]
    unsaid = [line for line in tables.splitlines() if line.startswith("| `") and line.endswith("|  |")]
    assert unsaid == [], "add what these mean to docs/field_meanings.py"


def test_every_variable_of_an_expression_is_in_the_reference() -> None:
    """What rules of a pack may read is listed with its type, and nothing else is."""
    page = (ROOT / "docs" / "reference" / "pack-fields.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([a-z_.]+)` \| [a-z ]+ \| .+ \|$", page.partition("## pack.toml")[0], re.MULTILINE
    )
    assert set(rows) == {*PLAN.variables, *STEP.variables, *CALL.variables}


def test_every_method_of_the_service_is_on_its_page() -> None:
    """docs/service.md has a row with the parameters of each method that `POST /rpc` takes."""
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (`\w+`(?:, `\w+`)*) \|([^|]*)\| (?:read|run|answer|operate)\b", page, re.MULTILINE
    )
    listed = {name: taken for names, taken in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(listed) == set(METHODS)
    for name, method in METHODS.items():
        taken, parameters = set(re.findall(r"`(\w+)`", listed[name])), set(method.params.model_fields)
        assert taken <= parameters
        assert parameters - taken <= {"request_key"} or "and others" in listed[name], name


def test_every_route_of_the_service_is_on_its_page() -> None:
    """docs/service.md names each path of the OpenAPI document; what stands for an id is written ID."""
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    source = (ROOT / "src" / "tercet" / "service" / "app.py").read_text(encoding="utf-8")
    paths = re.findall(r"@app\.(?:get|post)\(\s*\"([^\"]+)\"", source)
    assert {"/v1/sessions/{session_id}/progress", "/healthz"} <= set(paths)
    shown = [re.sub(r"\{\w+\}", "ID", path) for path in paths if path != "/"]
    assert [path for path in shown if f"{path}`" not in page] == []


def test_every_variable_of_the_environment_is_in_the_reference() -> None:
    """The page has a row for each variable of our own that the sources name, and for no other."""
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    named = {
        name
        for file in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"\bTERCET_[A-Z_]+\b", file.read_text(encoding="utf-8"))
    }
    listed = set(re.findall(r"`(TERCET_[A-Z_]+)`", page))
    assert listed == named - {"TERCET_REFUNDS_DB"}, "TERCET_REFUNDS_DB is read by an example's own tools"


def test_every_setting_of_notifications_is_on_its_page() -> None:
    """docs/notifications.md names each field of the file that `--notifications` takes."""
    page = (ROOT / "docs" / "notifications.md").read_text(encoding="utf-8")
    fields = {
        name for model in (NotificationSettings, WebhookTarget, EmailTarget) for name in model.model_fields
    }
    assert {
        name for name in fields if not re.search(rf"`{name}`|^{name} = |^\[{name}\.", page, re.MULTILINE)
    } == set()


def test_every_extra_is_in_the_reference_and_installed_from_the_clone() -> None:
    """The page has a row for each extra that users need, and no page installs the package of that name of an index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "reference" / "extras.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| .+ \|$", page, re.MULTILINE)
    assert set(rows) == set(project["optional-dependencies"]) - {"dev", "bench"}
    installs = [
        f"{page_name(page)}: {line}"
        for page in [*PAGES, *OTHERS]
        for line in re.findall(r"pip install ([^`\n]*tercet[^`\n]*)", page.read_text(encoding="utf-8"))
        if not re.match(r"'\./tercet\[", line)
    ]
    assert installs == []


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


def test_the_changelog_has_the_version_of_the_package() -> None:
    """The newest version in the changelog is the package's, with a date, and versions come newest first."""
    versions = re.findall(
        r"^## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert versions[0] == project["version"]
    assert versions == sorted(versions, key=lambda text: [*map(int, text.split("."))], reverse=True)


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
        Command(name="tercet", words=("verify", "a", "b", "--json"), code=3, shown=("tercet printed this",)),
        Command(name="make", words=("demo",), code=0),
        Command(name="tercet", words=("check", "my pack"), code=0),
    ]
