"""Turns a command into a tool, and runs it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tercet.contracts.errors import GatewayError, NotDone, NotSent, Unusable
from tercet.contracts.mode import ApprovalMode
from tercet.tools.commands.command import Command, fill
from tercet.tools.commands.process import Launch, NotRun, Ran, run
from tercet.tools.http.answer import read_json
from tercet.tools.pinned_files import find_changed
from tercet.tools.secrets import Redaction, read_secret
from tercet.tools.tool import Tool, ToolContext, one_line, uncalled, with_trust

KEY_VARIABLE = "TERCET_IDEMPOTENCY_KEY"
FENCE_VARIABLE = "TERCET_FENCING_TOKEN"


@dataclass(frozen=True, kw_only=True)
class Place:
    """The environment of a command: its pack folder, its program as found, and the hashed files."""

    folder: Path = field(default_factory=Path.cwd)
    program: str | None = None
    """The program's path; None if it did not exist when the pack was loaded."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """The hashes of the files among the arguments, by their names in the pack or their absolute paths."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def find_program(command: Command, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return the path of a command's program: in the pack if its name has a slash, else on the search path."""
    name = command.argv[0].replace("$$", "$")
    if "/" in name:
        path = folder / name
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(name, path=environment.get("PATH", os.defpath))


def command_tool(command: Command, *, place: Place | None = None) -> Tool:
    """Return the tool for a command."""
    place = place or Place()
    fields: dict[str, Any] = {
        "mode": ApprovalMode.DESTRUCTIVE,
        "timeout_ms": command.timeout_ms,
        **with_trust(command.tool),
        "name": command.name,
        "parameters": command.inputs,
        "result": command.shape,
        "adapter": "command",
    }
    made = Tool.model_validate({**fields, "call": uncalled})
    definition = {
        "command": command.model_dump(mode="json", exclude_defaults=True),
        "files": dict(place.files),
    }
    return made.model_copy(update={"call": make_call(command, made, place), "definition": definition})


def make_call(command: Command, tool: Tool, place: Place) -> Callable[..., Any]:
    """Return the function that runs a command."""

    async def call(_tercet_context: ToolContext, **params: Any) -> Any:
        secrets = {name: read_secret(place.environment, name, tool.name) for name in command.secrets}
        redaction = Redaction(secrets.values())
        launch = _launch(command, tool, place, _tercet_context, {**command.defaults, **params}, secrets)
        ran = await _in_time(launch, tool)
        if isinstance(ran, NotRun):
            raise _not_run(tool, redaction.text(ran.error), "program_failed")
        return _result(command, tool, ran, redaction)

    return call


async def _in_time(launch: Launch, tool: Tool) -> Ran | NotRun:
    """Wait for the end of a program within the tool's timeout, also without a gateway."""
    try:
        async with asyncio.timeout(tool.timeout_ms / 1_000):
            return await run(launch)
    except TimeoutError:
        pass
    raise GatewayError(
        f"{tool.name} did not end within {tool.timeout_ms:,} ms and was killed", code="timeout"
    )


def _launch(
    command: Command,
    tool: Tool,
    place: Place,
    context: ToolContext,
    params: dict[str, Any],
    secrets: dict[str, str],
) -> Launch:
    arguments = fill(command.template, params, command.options)
    program = place.program or find_program(command, place.folder, place.environment)
    if program is None:
        raise _not_run(tool, f"the program {command.argv[0]} does not exist", "program_missing")
    if (name := find_changed(place.folder, place.files)) is not None:
        raise _not_run(tool, f"{name} has changed since the pack was loaded", "program_changed")
    seen = {name: place.environment[name] for name in command.env if name in place.environment}
    return Launch(
        path=program,
        argv=arguments,
        environment={
            **seen,
            **secrets,
            KEY_VARIABLE: context.idempotency_key,
            FENCE_VARIABLE: str(context.fencing_token),
        },
        cwd=str(place.folder / command.cwd),
        stdin=orjson.dumps(params) if command.stdin == "json" else None,
        limits=command.resource_limits,
        max_output_bytes=command.max_output_bytes,
    )


def _not_run(tool: Tool, why: str, code: str) -> NotSent:
    return NotSent(f"{tool.name} was not run: {why}", code=code, is_retriable=False)


def _result(command: Command, tool: Tool, ran: Ran, redaction: Redaction) -> Any:
    """Return the output of a successful program; else raise the error that states the outcome."""
    if ran.is_cut:
        raise GatewayError(
            f"{tool.name} printed more than {command.max_output_bytes:,} bytes and was ended",
            code="output_too_large",
        )
    said = one_line(redaction.text(ran.errors.decode("utf-8", "replace")))
    said = f"…{said[-200:]}" if len(said) > 200 else said
    ended = f"was ended by signal {-ran.code}" if ran.code < 0 else f"ended with exit code {ran.code}"
    message = f"{tool.name} {ended}{f': {said}' if said else ''}"
    code = "signalled" if ran.code < 0 else f"exit_{ran.code}"
    if ran.code in command.not_done:
        raise NotDone(message, code=code, is_attempt_only=True)
    if ran.code not in command.done:
        raise GatewayError(message, code=code)
    return _value(command, tool, ran.output.decode("utf-8", "replace"), redaction)


def _value(command: Command, tool: Tool, text: str, redaction: Redaction) -> Any:
    match command.result:
        case "text":
            return redaction.text(text)
        case "lines":
            return [redaction.text(line) for line in text.splitlines()]
        case "json":
            pass
    fault = ""
    try:
        return redaction.value(read_json(text))
    except Unusable as error:
        fault = error.message
    raise Unusable(f"{tool.name}: {redaction.text(fault)}", code="answer_not_json")
