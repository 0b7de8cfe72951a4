"""SQL lives in .sql files beside the backend that runs it: named queries, and numbered migrations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

import msgspec

_NAME = re.compile(r"^-- name: (?P<name>\w+)\n", re.MULTILINE)
_MIGRATION = re.compile(r"(?P<version>\d{3})_\w+\.sql")


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema, which leads to `version`."""

    version: int
    script: str


def read_queries(package: str) -> Mapping[str, str]:
    """The queries of a backend's `queries.sql`, by the names in its `-- name:` lines."""
    parts = _NAME.split(files(package).joinpath("queries.sql").read_text(encoding="utf-8"))
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def read_schema(package: str) -> str:
    """The script that makes the table of schema versions, which every journal has from the start."""
    return files(package).joinpath("schema.sql").read_text(encoding="utf-8")


def read_migrations(package: str) -> tuple[Migration, ...]:
    """The migrations of a backend, oldest first; their numbers are the versions they lead to."""
    found = [
        Migration(int(match["version"]), entry.read_text(encoding="utf-8"))
        for entry in files(package).joinpath("migrations").iterdir()
        if (match := _MIGRATION.fullmatch(entry.name))
    ]
    return tuple(sorted(found, key=lambda each: each.version))
