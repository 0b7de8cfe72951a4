"""`tercet call`: calling a method of a service."""

from __future__ import annotations

from typing import Annotated, Any

from tercet.cli import ExitCode
from tercet.cli.inputs import read_input
from tercet.cli.options import AsJson, argument, option
from tercet.cli.screen import print_json
from tercet.cli.sessions.next_commands import EXIT_CODES
from tercet.contracts.errors import extra_missing

EXAMPLES = """\
tercet call invokeAgent '{"request": {"intent": "support.refund", "input": {"order_id": "ord_881", "window_id": "rw_881"}}}'
tercet call approveGate '{"gate_id": "ses_0123456789abcdef.g1"}' --server https://tercet.example.com
"""


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
    session: 0 if it has completed or is in progress, 3 if the critic refused its plan, 4 if it waits or is paused, 5 if it
    failed. Exits with 2 if the service refuses the call.
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
    standing = result.get("standing")
    if standing is None or standing == "in progress":
        return ExitCode.ACCEPTED
    return EXIT_CODES.get(standing, ExitCode.FAILED)
