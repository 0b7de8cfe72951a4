"""A reader at a terminal and a browser, who types and presses what a page of the documentation shows."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from console.browser import CHROMIUM
from pages import BROWSER, ENDS, SHOWN_ID, Block, demand_lines, promised_code, read_blocks, read_lines
from tercet.cli.main import app

SHOWN_SERVICE = "http://127.0.0.1:8700"
SHOWN_PORT = "8931"
"""The port of a service that a page writes itself."""
SHOWN_KEY = "tck_…"
SHOWN_KEY_ID = "0123456789ab"
SHELL = {"cat", "cp", "mkdir", "mv", "ls", "rm"}
DATABASE = {"createdb", "pg_dump", "pg_restore"}
LEFT_OUT = {"pip", "git", "make", ".", "source", "python", "docker"}
"""Installers and containers: `make dist` tries the former, and no test has a runtime for the latter."""
SERVERS = {"serve", "worker", "console"}
PATIENCE_S = 600
_ID = re.compile(r"\bses_[0-9a-f]{16}\b")
_KEY = re.compile(r"\btck_[\w-]+")
_LINK = re.compile(r"https?://\S+token=\S+")
_ELSEWHERE = re.compile(r"\b(?:second terminal|other machines|one machine)\b")
_SET = re.compile(r"^(?P<name>[A-Z_]+)=(?P<value>\S*)$")
_ACTION = re.compile(
    r"(?P<verb>open|press|choose|type) \*\*(?P<what>[^*]+)\*\*(?: (?:under|into) \*\*(?P<label>[^*]+)\*\*)?",
    re.IGNORECASE,
)


@dataclass(kw_only=True)
class Reader:
    """A reader in a folder, with a database server if the page needs one."""

    folder: Path
    postgres: str = ""
    """The address of a database; the page's own, `postgresql://tercet@db/NAME`, is replaced by one beside it."""
    binaries: Path | None = None
    hook: Callable[[], str] = str
    """Returns the address of something that takes webhooks."""
    inbox: Callable[[], str] = str
    """Waits for a message that was sent there, and returns its text."""
    session: str = SHOWN_ID
    keys: dict[str, str] = field(default_factory=dict[str, str])
    env: dict[str, str] = field(default_factory=dict[str, str])
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    port: int = 0
    other_port: int = 0
    hands: Hands | None = None
    closers: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    def follow(self, block: Block) -> None:
        """Do what one block of the page shows."""
        if block.language == BROWSER:
            self.click(block.body)
        elif block.title:
            self.write(block.title, block.body)
        elif block.language == "python":
            self.run_python(block)
        elif block.language == "http":
            self.send(block.body)
        elif block.language in {"sh", "console"}:
            for line, shown in read_lines(block):
                printed = self.type(line)
                demand_lines(shown, printed, line)

    def write(self, title: str, body: str) -> None:
        """Save a block under its title."""
        name = title.removeprefix("add to ")
        path = self.folder / name
        assert self.folder in path.resolve().parents
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") + "\n" if name != title else ""
        body = body.replace(SHOWN_PORT, self.own_port) if SHOWN_PORT in body else body
        path.write_text(f"{before}{body}\n", encoding="utf-8")

    def run_python(self, block: Block) -> None:
        """Run a block as a program, with the variables that were exported."""
        path = self.folder / f"block_{block.row}.py"
        path.write_text("\n" * block.row + self.replace(block.body) + "\n", encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env.items():
                patch.setenv(name, value)
            runpy.run_path(str(path), run_name="__main__")
        path.unlink()

    def send(self, message: str) -> None:
        """Send an HTTP message to the service that the page has started, with the key that it uses."""
        head, _, body = self.replace(message).partition("\n{")
        method, path = head.split("\n")[0].split()
        headers = {
            "Authorization": f"Bearer {self.env['TERCET_API_KEY']}",
            "Content-Type": "application/json",
        }
        # The address is of this machine.
        request = Request(self.url + path, data=b"{" + body.encode(), headers=headers, method=method)  # noqa: S310
        with urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            assert "error" not in json.load(answer)

    def replace(self, text: str) -> str:
        """Return a text with what differs from the page: ids, addresses, and the key of the actor that it names."""
        text = text.replace(SHOWN_ID, self.session)
        if SHOWN_PORT in text:
            text = text.replace(SHOWN_PORT, self.own_port)
        if self.port:
            text = text.replace(SHOWN_SERVICE, self.url).replace("https://tercet.example.com", self.url)
        if self.postgres:
            text = re.sub(r"postgresql://tercet@db/(\w+)", lambda found: self.database_url(found[1]), text)
        actor = next((name for name in self.keys if name in text), "")
        if self.keys:
            text = text.replace(SHOWN_KEY_ID, next(reversed(self.keys.values())).split("_")[1])
        return text.replace(SHOWN_KEY, self.keys[actor]) if actor else text

    @property
    def own_port(self) -> str:
        """The port of the service that the page brings, instead of the one that it shows."""
        self.other_port = self.other_port or free_port()
        return str(self.other_port)

    @property
    def url(self) -> str:
        """The address of the service that the page has started."""
        return f"http://127.0.0.1:{self.port}"

    def database_url(self, name: str) -> str:
        """Return the address of a database of the test's server."""
        return self.postgres.replace("/postgres?", f"/{name}?")

    def type(self, line: str) -> str:
        """Carry a line out, and return what it prints."""
        code = promised_code(line)
        stays = is_server(line)
        if stays and "worker" not in line:
            self.port = free_port()
        words = shlex.split(self.replace(line), comments=True)
        env = {**self.env}
        while words and (match := _SET.match(words[0])):
            env[match["name"]] = match["value"]
            words = words[1:]
        if words[:1] == ["python"] and words[-1] == "&":
            self.launch([sys.executable, *words[1:-1]], env)
            return ""
        if words[:1] == ["python"] and words[1].endswith(".py"):
            words[0] = sys.executable
            return subprocess.run(words, capture_output=True, text=True, check=True).stdout
        if not words or words[0] in LEFT_OUT:
            return ""
        if words[0] == "tercet" and (stays or words[-1] == "&"):
            self.start([word for word in words[1:] if word != "&"], env)
            return ""
        if words[0] == "tercet":
            return self.run(words[1:], env, code)
        return self.run_shell(words, env)

    def run_shell(self, words: list[str], env: Mapping[str, str]) -> str:
        """Carry out a line that is not about `tercet`."""
        match words:
            case ["kill", "-9", _]:
                return self.kill()
            case ["export", *pairs]:
                given = {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
                is_hook = "https://hooks.slack.com" in given.get("SLACK_WEBHOOK_URL", "")
                self.env |= {"SLACK_WEBHOOK_URL": self.hook()} if is_hook else given
                return ""
            case ["cd", folder]:
                os.chdir(folder)
                return ""
            case [name, *rest] if name in DATABASE:
                return self.run_database(name, rest)
            case _:
                assert words[0] in SHELL, f"a page shows {words[0]}, which this test does not know"
        if words[0] == "cp":
            words = [
                name
                for word in words
                for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
            ]
        if words[0] == "cat":
            wait_for(Path(words[1]).exists, f"{words[1]} did not appear")
        done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **env})
        return done.stdout

    def run_database(self, name: str, words: list[str]) -> str:
        """Run a program of PostgreSQL against the server of the test."""
        assert self.binaries is not None
        host = unquote(self.postgres.partition("host=")[2])
        env = {**os.environ, "PGHOST": host, "PGUSER": "postgres"}
        if name == "createdb":
            drop = partial(subprocess.run, [str(self.binaries / "dropdb"), "--force", words[0]], env=env)
            self.closers.append(drop)
        done = subprocess.run(
            [str(self.binaries / name), *words], capture_output=True, text=True, check=False, env=env
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return done.stdout

    def run(self, words: list[str], env: Mapping[str, str], code: int) -> str:
        """Run `tercet` in this process."""
        tried = list(takewhile(lambda word: word not in ENDS, words))
        if "[OPTIONS]" in tried or tried[0] == "demo" or any(word.startswith("openai:") for word in tried):
            # Usage lines, a demo that asks questions, and models of other companies: only the help is asked for.
            tried, code = [*takewhile(lambda word: word.isalpha(), tried[:1]), "--help"], 0
        done = CliRunner().invoke(app, tried, env=dict(env))
        assert done.exit_code == code, f"tercet {shlex.join(tried)}: exit {done.exit_code}\n{done.output}"
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        if found := _ID.findall(done.output):
            self.session = found[0]
        if tried[:2] == ["api-keys", "create"] and (key := _KEY.search(done.output)):
            self.keys[tried[2]] = key[0]
        if ">" in words:
            Path(words[words.index(">") + 1]).write_text(done.stdout, encoding="utf-8")
        return done.output

    def start(self, words: list[str], env: Mapping[str, str]) -> None:
        """Run `tercet` as a process of its own, on a free port of this machine, and wait until a server is ready."""
        words = ["127.0.0.1" if word == "0.0.0.0" else word for word in words]  # noqa: S104 - it is replaced
        if words[0] in SERVERS - {"worker"}:
            words += ["--port", str(self.port)]
        if words[0] == "console":
            words.append("--no-open")
        log = self.log
        self.launch([sys.executable, "-m", "tercet", *words], env)
        if words[0] not in SERVERS:
            return  # what it does can be seen by the next line
        wait_for(lambda: "✓" in log.read_text() or self.processes[-1].poll() is not None, "it did not start")
        assert self.processes[-1].poll() is None, log.read_text()

    def launch(self, words: list[str], env: Mapping[str, str]) -> None:
        """Start a process whose output goes to the log."""
        with self.log.open("wb") as output:
            process = subprocess.Popen(words, env={**os.environ, **env}, stdout=output, stderr=output)
        self.processes.append(process)

    @property
    def log(self) -> Path:
        """What the process that was started last prints."""
        return self.folder.parent / f"{self.folder.name}.log"

    def kill(self) -> str:
        """End the process that was started last, as `kill -9` does."""
        process = self.processes.pop()
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=PATIENCE_S)
        return ""

    def click(self, sentence: str) -> None:
        """Do in Chromium what a sentence says: open, press, choose and type what is printed in bold."""
        if not CHROMIUM:
            pytest.skip("Chromium is not installed")
        if self.hands is None:
            self.hands = Hands()
            self.closers.append(self.hands.close)
        address = ""
        if re.search(r"open the link", sentence, re.IGNORECASE):
            address = (_LINK.search(self.log.read_text()) or [""])[0]
        elif re.search(r"follow the link", sentence, re.IGNORECASE):
            address = self.inbox()
        actions = [
            (found["verb"].lower(), found["label"] or "", self.keys.get(found["what"], found["what"]))
            for found in _ACTION.finditer(sentence)
        ]
        self.hands.do(address, actions)

    def close(self) -> None:
        """End everything that was started."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=PATIENCE_S)
        for close in reversed(self.closers):
            close()


class Hands:
    """Chromium in a thread of its own: Playwright has an event loop, beside which commands could not run theirs."""

    def __init__(self) -> None:
        """Start the browser."""
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._playwright = self._thread.submit(lambda: sync_playwright().start()).result()
        self._browser = self._thread.submit(
            self._playwright.chromium.launch, executable_path=CHROMIUM, args=["--no-sandbox"]
        ).result()
        self._page = self._thread.submit(self._browser.new_page).result()
        self._thread.submit(self._page.set_default_timeout, PATIENCE_S * 1_000).result()

    def do(self, address: str, actions: Sequence[tuple[str, str, str]]) -> None:
        """Go to an address, if there is one, and carry out verbs with their labels and values."""
        self._thread.submit(self._do, address, actions).result()

    def _do(self, address: str, actions: Sequence[tuple[str, str, str]]) -> None:
        page = self._page
        if address:
            page.goto(address)
        for verb, label, value in actions:
            match verb:
                case "open":
                    page.get_by_role("link", name=value, exact=True).click()
                case "press":
                    page.get_by_role("button", name=value, exact=True).click()
                case "choose":
                    page.get_by_label(label, exact=True).select_option(value)
                case _:
                    page.get_by_label(label, exact=True).fill(value)
            page.wait_for_load_state("networkidle")

    def close(self) -> None:
        """End the browser."""
        self._thread.submit(self._browser.close).result()
        self._thread.submit(self._playwright.stop).result()
        self._thread.shutdown()


def find_stuck_lines(page: Path) -> Iterator[str]:
    """Yield the commands of a page that a reader cannot type because a server is in the foreground of their terminal.

    A server ends its block, and unless it is the last command of the page, the two lines above its block name a second
    terminal or another machine.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks = [block for block in read_blocks(page) if block.language in {"sh", "console"} and not block.title]
    for block in blocks:
        typed = [line for line, _ in read_lines(block)]
        for number, line in enumerate(typed, start=1):
            if not is_server(line) or line.rstrip().endswith("&"):
                continue
            yield from typed[number:]
            above = " ".join(line for line in lines[max(0, block.row - 5) : block.row - 1] if line)
            if block is not blocks[-1] and not _ELSEWHERE.search(above):
                yield line


def is_server(line: str) -> bool:
    """Return whether a line starts a server of Tercet."""
    return bool(SERVERS.intersection(line.partition("tercet ")[2].split()[:1]))


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(is_so: Callable[[], bool], otherwise: str) -> None:
    """Return once something is so; a reader would look again."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)
