"""Which requirement lines are proved: the table of mutants, the recorded results, and whether they are still fresh."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutants.code import NotFoundError, find_source, find_test
from mutants.mutations import Mutation, describe, generated_mutations, written_mutation

TABLE = Path("tests", "mutants", "lines.toml")
RESULTS = Path("tests", "mutants", "results.json")


@dataclass(frozen=True, kw_only=True)
class Target:
    """The function, class or constant that implements a line, and the mutation if the table writes one out."""

    name: str
    old: str | None = None
    new: str = ""

    def mutations(self, sources: Path) -> list[Mutation]:
        """Return the mutations to try, the written one or some generated ones."""
        definition = find_source(sources, self.name)
        if self.old is None:
            return generated_mutations(definition)
        return [written_mutation(definition, self.old, self.new)]

    def find_result(self, results: Sequence[Result]) -> Result | None:
        """Return the recorded result of this target."""
        text = None if self.old is None else describe(self.old, self.new)
        found = (result for result in results if result.name == self.name and text in (None, result.mutant))
        return next(found, None)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a target: a mutant and the test that failed with it, or no test and how many mutants survived."""

    name: str
    digest: str
    mutant: str
    test: str | None = None
    test_digest: str | None = None


def read_table(root: Path) -> dict[str, list[Target]]:
    """Read which code implements each line."""
    path = root / TABLE
    if not path.is_file():
        return {}
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return {line: [_target(each) for each in _as_list(value)] for line, value in table.items()}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]


def _target(value: str | dict[str, str]) -> Target:
    if isinstance(value, str):
        return Target(name=value)
    return Target(name=value["in"], old=value["old"], new=value["new"])


def read_results(root: Path) -> dict[str, list[Result]]:
    """Read what `make mutants` has recorded."""
    path = root / RESULTS
    if not path.is_file():
        return {}
    recorded: dict[str, list[dict[str, str]]] = json.loads(path.read_text(encoding="utf-8"))
    return {line: [Result(**each) for each in results] for line, results in recorded.items()}


def write_results(root: Path, results: Mapping[str, Sequence[Result]]) -> None:
    """Write the results, sorted by line."""
    lines = sorted(results, key=lambda line: int(line.removeprefix("R")))
    content = {line: [_without_none(vars(result)) for result in results[line]] for line in lines}
    (root / RESULTS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _without_none(values: dict[str, str | None]) -> dict[str, str | None]:
    return {name: value for name, value in values.items() if value is not None}


def gap(
    root: Path, targets: Sequence[Target], results: Sequence[Result], tests: Collection[str]
) -> str | None:
    """Return why a line is not proved, or None if a test out of these has killed a mutant of each target."""
    if not targets:
        return f"no mutant in {TABLE.as_posix()}"
    return next((text for each in targets if (text := _gap(root, each, results, tests))), None)


def _gap(root: Path, target: Target, results: Sequence[Result], tests: Collection[str]) -> str | None:
    try:
        definition = find_source(root / "src", target.name)
        result = target.find_result(results)
        if result is None:
            return f"no result for {target.name}: run make mutants"
        if result.digest != definition.digest():
            return f"stale: {target.name} has changed, run make mutants"
        if result.test is None:
            return f"survived in {target.name}: {result.mutant}"
        if result.test_digest != find_test(root, result.test).digest():
            return f"stale: {result.test} has changed, run make mutants"
    except NotFoundError as error:
        return str(error)
    if result.test not in tests:
        return f"stale: {result.test} is not a passing test of this line, run make mutants"
    return None
