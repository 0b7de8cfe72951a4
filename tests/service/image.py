"""The steps of the Dockerfile without a container: `make image-check`, or `PYTHONPATH=tests python -m service.image`.

What the image copies goes into an empty folder, what it installs into an empty virtual environment, and then its entry
point is started with its command: first without a key, which it refuses, then with one, until its health check succeeds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORT = "8700"


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, each with its words."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def copy_sources(steps: list[tuple[str, str]], folder: Path) -> None:
    """Copy what the image copies, and nothing else."""
    for name, words in steps:
        if name == "COPY":
            *sources, target = words.split()
            for source in sources:
                place = folder / target / Path(source).name if target.endswith("/") else folder / target
                place.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / source, place)


def install(steps: list[tuple[str, str]], folder: Path) -> Path:
    """Run the image's pip in an empty environment; return where its programs are."""
    venv.create(folder / "venv", with_pip=True)
    bin_folder = folder / "venv" / "bin"
    (command,) = [words for name, words in steps if name == "RUN"]
    words = shlex.split(command.partition("&&")[0])
    assert words[0] == "pip"
    subprocess.run([bin_folder / "python", "-m", "pip", "-q", *words[1:]], cwd=folder, check=True)
    return bin_folder


def start(steps: list[tuple[str, str]], folder: Path, programs: Path) -> None:
    """Start the entry point as the image does, on a machine with and without a key."""
    found = {name: words for name, words in steps if name in ("ENTRYPOINT", "CMD", "HEALTHCHECK")}
    given = [str(folder / "packs") if word == "/packs" else word for word in json.loads(found["CMD"])]
    entry = [str(programs / json.loads(found["ENTRYPOINT"])[0])]
    check = [str(programs / "python"), *json.loads(found["HEALTHCHECK"].partition("CMD ")[2])[1:]]
    data = folder / "data"
    data.mkdir()
    shutil.copytree(folder / "examples" / "refunds", folder / "packs")
    environment = {**os.environ, "TERCET_JOURNAL": f"sqlite:///{data}/tercet.db", "PYTHONPATH": ""}
    alone = subprocess.run([*entry, *given], cwd=data, env=environment, check=False)
    assert alone.returncode == 2, "an open address without a key must be refused"
    subprocess.run([*entry, "api-keys", "create", "user_finance_lead"], cwd=data, env=environment, check=True)
    with subprocess.Popen(
        [*entry, *given, "--json"], cwd=data, env=environment, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["url"].endswith(f":{PORT}")
        for _ in range(20):
            if subprocess.run(check, cwd=data, env=environment, check=False).returncode == 0:
                break
            time.sleep(0.5)
        else:
            raise AssertionError("the health check never succeeded")
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def main() -> int:
    """Do what the Dockerfile says; 0 if the service of the image starts."""
    steps = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_sources(steps, folder)
        start(steps, folder, install(steps, folder))
    sys.stdout.write("What the Dockerfile copies, installs and starts works in an empty environment.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
