"""`tercet call`: calling a method of a service."""

from __future__ import annotations

from typing import Annotated, Any

from tercet.cli import ExitCode
from tercet.cli.inputs import read_input
from tercet.cli.options import AsJson, argument, option
from tercet.cli.screen import print_json
from tercet.contracts.errors import extra_missing
from tercet.contracts.shape import as_object

EXAMPLES = """\
tercet call invokeAgent '{"request": {"intent": "support.refund", "input": {"order_id": "ord_881", "window_id": "rw_881"}}}'
tercet call approveGate '{"gate_id": "ses_0123456789abcdef.g1"}' --server https://tercet.example.com
"""
_CODES = {
    "in_progress": ExitCode.ACCEPTED,
    "completed": ExitCode.ACCEPTED,
    "awaiting_gate": ExitCode.WAITING,
    "paused": ExitCode.WAITING,
}


def call(
    method: Annotated[str, argument("METHOD", "The method, such as getSession; docs/service.md lists them.")],
    params: Annotated[str, argument("PARAMS", "Its parameters: a JSON object, or @FILE.")] = "{}",
    *,
    server: Annotated[
        str,
        option("URL", "The address of the service.", "--server", envvar="TERCET_SERVER", show_envvar=False),
    ] = "http://127.0.0.1:8700",
    as_json: AsJson = False,
) -> ExitCode:
    """Call a method of a service, and print its result as JSON.

    The API key is the variable TERCET_API_KEY of the environment. Exits as `tercet run` does if the result is a
    session: 0 if it is over or in progress, 4 if it waits or is paused, 5 if it failed; with 2 if the call is refused.
    """
    try:
        from tercet.service.client import Client  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise extra_missing("calling a service", error.name or "httpx2", "service") from error
    del as_json  # it is always JSON
    with Client(server) as client:
        result = client.call(method, read_input(params))
    print_json(result)
    return _exit_code(result)


def _exit_code(result: dict[str, Any]) -> ExitCode:
    session = as_object(result.get("session"))
    return ExitCode.ACCEPTED if session is None else _CODES.get(str(session.get("status")), ExitCode.FAILED)
