"""The files by which the service is deployed name what exists; `make image-check` runs the image's steps."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from service.image import ROOT, copy_sources, instructions
from tercet.cli.main import app
from tercet.service.server import STOP_S

DOCKERFILE = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
UNIT = ROOT / "deploy" / "tercet.service"
NOT_IN_THE_IMAGE = {"dev", "bench", "local-model", "embeddings", "adversarial", "tuning"}
"""The extras of developers, and those that no pack needs."""


def test_the_image_copies_what_its_package_needs(tmp_path: Path) -> None:
    """What is copied is there and is not ignored, and the extras that it installs are those that a served pack may need."""
    copy_sources(DOCKERFILE, tmp_path)
    assert (tmp_path / "src" / "tercet" / "service" / "server.py").is_file()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sources = {source for name, words in DOCKERFILE if name == "COPY" for source in words.split()[:-1]}
    assert {f"!{source}" for source in sources} == {line for line in ignored if line.startswith("!")}
    (command,) = [words for name, words in DOCKERFILE if name == "RUN"]
    extras = command.partition("[")[2].partition("]")[0].split(",")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*extras} == {*declared["optional-dependencies"]} - NOT_IN_THE_IMAGE


def test_the_compose_file_starts_a_command_that_exists() -> None:
    """Its words are understood, its pack is there, its volumes are declared, and it has longer to stop than it needs."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["tercet"]
    mounts = [volume.split(":") for volume in service["volumes"]]
    (packs,) = [(source, target) for source, target, *_ in mounts if source.startswith(".")]
    assert (ROOT / packs[0] / "pack.toml").is_file()
    assert service["command"][:2] == ["serve", packs[1]]
    done = CliRunner().invoke(app, [*service["command"], "--json"])
    assert done.exit_code == 2  # the pack is mounted only in the container; every word is known
    assert packs[1] in done.output
    assert service["command"][2:4] == ["--host", "0.0.0.0"]  # noqa: S104 - in a container
    assert {source for source, *_ in mounts if source != packs[0]} < {*compose["volumes"]}
    assert Path(service["environment"]["TERCET_REFUNDS_DB"]).parent.as_posix() in [each[1] for each in mounts]
    assert int(service["stop_grace_period"].removesuffix("s")) > STOP_S
    assert {*service["depends_on"]} < {*compose["services"]}
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_unit_starts_a_command_that_exists() -> None:
    """Its words are understood by the command line, and it may write where its journal is."""
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(UNIT, encoding="utf-8")
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    assert words[:2] == ["/opt/tercet/bin/tercet", "serve"]
    done = CliRunner().invoke(app, [*words[1:], "--json"])
    assert done.exit_code == 2  # the pack is not on this machine; every word is known
    assert "/opt/packs/refunds" in done.output
    assert service["StateDirectory"] == Path(service["WorkingDirectory"]).name
    assert service["Environment"].endswith(f"sqlite:///{service['WorkingDirectory']}/tercet.db")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd on this machine")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """Every line is known to systemd."""
    copy = tmp_path / UNIT.name
    copy.write_text(
        UNIT.read_text(encoding="utf-8").replace("/opt/tercet/bin/tercet", "/bin/true"), encoding="utf-8"
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy],  # noqa: S607 - the system's own
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if UNIT.name in line], done.stderr
