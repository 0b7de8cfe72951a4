"""`scaffold` makes a pack that is whole, passes every check, and whose sample plan passes the critic."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest

from tercet.context import compile as compile_context
from tercet.contracts.errors import UsageError
from tercet.contracts.plan_formats import load_plan
from tercet.contracts.request import Request
from tercet.contracts.verdict import Code, Verdict
from tercet.critic.verify import verify
from tercet.packs import Pack, check, check_folder, scaffold
from tercet.tools import ToolContext


def judge(folder: Path, document: dict[str, Any]) -> Verdict:
    pack = Pack.load(folder)
    plan = load_plan(document)
    frame = pack.run_context(plan_origin="caller")
    compiled = compile_context(pack, Request(intent=plan.intent or "", input={"plant": "tomato"}), frame)
    return verify(frame, compiled, pack.decision_for(plan.intent), plan)


def sample(folder: Path) -> dict[str, Any]:
    return orjson.loads((folder / "plans/sample.json").read_bytes())


def test_the_new_pack_has_no_problem(tmp_path: Path) -> None:
    """A fresh pack is checked without an error or a warning, and is named after its folder."""
    written = scaffold(tmp_path / "My Garden")
    assert check_folder(tmp_path / "My Garden") == ()
    pack = Pack.load(tmp_path / "My Garden")
    assert (pack.ref, check(pack)) == ("my-garden@0.1.0", ())
    assert sorted(written) == sorted(path for path in (tmp_path / "My Garden").rglob("*") if path.is_file())


def test_the_sample_plan_passes_and_waits_for_its_gate(tmp_path: Path) -> None:
    """The critic lets the sample plan through, with one approval to come."""
    scaffold(tmp_path / "pack")
    verdict = judge(tmp_path / "pack", sample(tmp_path / "pack"))
    assert verdict.ok, verdict.reasons
    assert verdict.reasons == ("2 steps, 2 required outputs covered",)
    assert [demand.gate for demand in verdict.gates] == ["GATE_HEAD_GARDENER"]


@pytest.mark.parametrize(
    ("parameter", "value", "code"),
    [("litres", 400, Code.ARGUMENT_NOT_PERMITTED), ("bed", "bed_basil", Code.UNBOUND_ARGUMENT)],
)
def test_the_readme_says_how_to_be_refused(parameter: str, value: object, code: Code, tmp_path: Path) -> None:
    """The two changes that the new pack's README proposes are refused."""
    scaffold(tmp_path / "pack")
    document = sample(tmp_path / "pack")
    document["steps"][1]["params"][parameter] = value
    verdict = judge(tmp_path / "pack", document)
    assert not verdict.ok
    assert code in [refusal.code for refusal in verdict.refusals]


def test_a_watering_that_does_not_wait_for_the_measurement_is_refused(tmp_path: Path) -> None:
    """The sample plan lists the measurement first; that alone does not make it run first."""
    scaffold(tmp_path / "pack")
    orders: list[list[list[str]]] = [[[], []], [["water"], []]]
    for waits in orders:
        document = sample(tmp_path / "pack")
        for step, before in zip(document["steps"], waits, strict=True):
            step["depends_on"] = before
        assert judge(tmp_path / "pack", document).code == Code.POLICY_INVARIANT


def test_the_tools_of_the_new_pack_run(tmp_path: Path) -> None:
    """A repeated call with the same key waters the bed once."""
    scaffold(tmp_path / "pack")
    tools = {tool.name: tool for tool in Pack.load(tmp_path / "pack").tools}
    measure, water = tools["garden_sensors.read_moisture"].call, tools["garden_valves.water_bed"].call
    ctx = ToolContext(tenant="t", run_id="r", step_id="s", actor="ada", idempotency_key="k")
    before = measure(bed="bed_tomato").moisture_percent
    first, second = water(ctx=ctx, bed="bed_tomato", litres=24), water(ctx=ctx, bed="bed_tomato", litres=24)
    assert first == second
    assert measure(bed="bed_tomato").moisture_percent == before + 12


def test_a_name_may_be_given(tmp_path: Path) -> None:
    """The given name is taken as it is, and one that is no name is refused before anything is written."""
    scaffold(tmp_path / "a", name="water-works")
    assert Pack.load(tmp_path / "a").name == "water-works"
    with pytest.raises(UsageError, match="lower-case letters"):
        scaffold(tmp_path / "b", name="Water Works")
    assert not (tmp_path / "b").exists()


def test_a_folder_whose_name_fits_nothing_gets_the_usual_name(tmp_path: Path) -> None:
    """A name without a single usable letter is replaced."""
    scaffold(tmp_path / "水やり")
    assert Pack.load(tmp_path / "水やり").name == "greenhouse"


def test_an_empty_folder_is_filled_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init .` in a new folder works, and the folder stays the one that the shell stands in."""
    folder = tmp_path / "desk"
    folder.mkdir()
    inode = folder.stat().st_ino
    monkeypatch.chdir(folder)
    scaffold(".")
    assert folder.stat().st_ino == inode
    assert Pack.load(".").name == "desk"
    assert [path.name for path in tmp_path.iterdir()] == ["desk"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A folder with anything in it, a file and a dead link are refused and stay as they are."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/.hidden").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, code in {"full": "folder_not_empty", "file": "not_a_folder", "link": "not_a_folder"}.items():
        with pytest.raises(UsageError) as caught:
            scaffold(tmp_path / name)
        assert (caught.value.code, bool(caught.value.remedy)) == (code, True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".hidden", "file", "full", "link"]


def test_a_missing_parent_is_told(tmp_path: Path) -> None:
    """The error names the folder to create."""
    with pytest.raises(UsageError, match="create it first"):
        scaffold(tmp_path / "a/b")


@pytest.mark.parametrize("exists", [True, False], ids=["into an empty folder", "as a new folder"])
def test_a_failure_leaves_nothing_behind(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full at the last file, or at putting them in place, leaves no half pack."""
    if exists:
        (tmp_path / "pack").mkdir()
    before = sorted(tmp_path.rglob("*"))
    rename, write = Path.rename, Path.write_text

    def full_write(path: Path, *args: Any, **kwargs: Any) -> int:
        if path.name == "tools.py":
            raise OSError(28, "No space left on device")
        return write(path, *args, **kwargs)

    def full_rename(path: Path, target: Path) -> Path:
        if path.name in ("tools.py", "pack") or target.name == "pack":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    for name, failing in (("write_text", full_write), ("rename", full_rename)):
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, failing)
            with pytest.raises(UsageError, match="No space left on device"):
                scaffold(tmp_path / "pack")
        assert sorted(tmp_path.rglob("*")) == before


def test_the_template_is_a_pack_itself() -> None:
    """What is copied can be checked where it lies, so its files cannot rot unseen."""
    assert check_folder(Path(str(files("tercet.packs").joinpath("template")))) == ()
