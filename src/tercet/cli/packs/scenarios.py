"""`tercet test`: runs the scenarios of a pack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

from tercet.cli import ExitCode
from tercet.cli.inputs import load_checked_pack
from tercet.cli.options import AsJson, PackFolder, option
from tercet.cli.replay.runs import require_writable, write_file
from tercet.cli.screen import Screen, respond
from tercet.contracts.errors import UsageError
from tercet.contracts.values.canonical import canonical
from tercet.packs.scenarios import load_scenarios
from tercet.testing.scenarios import Mismatch, ScenarioResult, run_scenario
from tercet.view.terminal.text import count, printable

RUN_TESTS_EXAMPLES = """\
tercet test examples/refunds
tercet test examples/refunds --only hijacked --json
tercet test examples/refunds --junit results.xml
"""

_JUNIT = b"<?xml version='1.0' encoding='utf-8'?>\n<testsuite "
"""The first bytes of a report, which the next one replaces."""


def run_tests(
    pack: PackFolder,
    *,
    only: Annotated[
        str, option("TEXT", "Run only scenarios whose name contains this text.", show_default=False)
    ] = "",
    junit: Annotated[Path | None, option("FILE", "Also write the results as JUnit XML, for CI.")] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Run the scenarios of a pack, which are in `scenarios/*.toml`.

    The critic, the gates and the runtime are real. Tools return what the scenario says: none is called unless the
    scenario lists it under `real`, which only `read_only` and `local_write` tools can be. No language model is asked,
    and the journal is in memory.

    Exits with 0 if every scenario came out as expected, with 5 if one did not, and with 2 if the pack or a scenario
    cannot be read.
    """
    if junit is not None:
        require_writable(junit, is_forced=False, mark=_JUNIT)
    loaded = load_checked_pack(pack)
    chosen = [each for each in load_scenarios(pack, loaded) if only in each.scenario.name]
    if not chosen:
        raise UsageError(
            f"no scenario of {pack} has {only!r} in its name", code="no_scenarios", remedy="leave --only out"
        )
    with redirect_stdout(sys.stderr):
        results = [run_scenario(loaded, each) for each in chosen]
    if junit is not None:
        write_file(junit, _junit(loaded.ref, results))
    failed = sum(not result.ok for result in results)
    return respond(
        lambda: {
            "ok": not failed,
            "pack": loaded.ref,
            "passed": len(results) - failed,
            "failed": failed,
            "scenarios": [_json(result) for result in results],
        },
        lambda screen: _show(screen, loaded.ref, results),
        as_json=as_json,
        code=ExitCode.FAILED if failed else ExitCode.ACCEPTED,
    )


def _json(result: ScenarioResult) -> dict[str, Any]:
    mismatches = [vars(mismatch) for mismatch in result.mismatches]
    shown = {key: value for key, value in vars(result).items() if key != "seconds"}
    return {"ok": result.ok, **shown, "mismatches": mismatches}


def _show(screen: Screen, ref: str, results: Sequence[ScenarioResult]) -> None:
    for result in results:
        screen.put(f"{result.name}", first=f"{'✓' if result.ok else '✗'} ")
        if result.ok:
            continue
        screen.put(f"{result.file}", first="    in        ")
        for mismatch in result.mismatches:
            screen.put(mismatch.field, first="    differs   ")
            screen.put(_text(mismatch.expected), first="      expected  ")
            screen.put(_text(mismatch.actual), first="      actual    ")
        if result.reason:
            screen.put(printable(result.reason, 400), first="    reason    ")
    failed = sum(not result.ok for result in results)
    passed = f"{count(len(results) - failed, 'scenario')} passed"
    screen.say()
    screen.conclude(f"{ref}: {passed}, {failed} failed" if failed else f"{ref}: {passed}", is_good=not failed)


def _text(value: Any) -> str:
    """Return a value as one line: text unchanged, any other value as canonical JSON."""
    if isinstance(value, str):
        return printable(value, 400) or "nothing"
    return printable(canonical(value).decode(), 1_000)


def _junit(ref: str, results: Sequence[ScenarioResult]) -> bytes:
    """Return the results as a JUnit report."""
    failures = sum(not result.ok for result in results)
    suite = ElementTree.Element(
        "testsuite", name=ref, tests=str(len(results)), failures=str(failures), errors="0", skipped="0"
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=result.file, name=result.name, time=f"{result.seconds:.3f}"
        )
        if not result.ok:
            failure = ElementTree.SubElement(case, "failure", message=_line(result.mismatches[0]))
            failure.text = "\n".join(map(_line, result.mismatches))
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)


def _line(mismatch: Mismatch) -> str:
    return f"{mismatch.field}: expected {_text(mismatch.expected)}, got {_text(mismatch.actual)}"
