"""Purity: what the critic says depends on what goes in, and on nothing else.

An audit hook cannot be taken out again, so the guarded run has a process of its own: everything is called once to fill
the caches and to do the imports, then the doors are locked, then everything is called again.
"""

from __future__ import annotations

import ast
import builtins
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
from pydantic import BaseModel

from tercet.contracts.gate import Approval
from tercet.contracts.plan import Plan
from tercet.contracts.policy import Policy
from tercet.contracts.runs.run import Outcome, Run, ToolCall, ToolResult, TranscriptEntry
from tercet.contracts.verdict import VerdictEnvelope
from tercet.critic.consolidate import consolidate, finalize
from tercet.critic.judge import judge, judge_step
from tercet.critic.score import measure, print_envelope, score
from tercet.critic.verify import validate, verify
from tercet.policy.expressions import ExpressionError, compile_planner

from .houses import SHOP, WINDOW, House, look_up, pay, plan, step, ticket
from .test_five_checks import FAULTS, made

TESTS = Path(__file__).resolve().parents[1]

POLICIES = (
    Policy(name="calm", expression="plan.steps.size() < 99"),
    Policy(name="day", expression="timestamp('2026-05-09T12:00:00Z').getHours('+02:00') == 14"),
    Policy(name="shape", scope="step", expression="step.tool.matches('^[a-z.]*$')"),
    Policy(
        name="effects", scope="step", expression="step.mode == 'read_only'", effect="gate", gate="SUPPORT"
    ),
)
RULED = SHOP.holding(policies=POLICIES).deciding(
    required_outputs=("amount",), outputs_schema={"properties": {"amount": {"type": "integer"}}}
)
WORKED = plan(
    look_up(),
    step("n", params={"to": [{"$from": "s1#/payment_id"}], "sum": {"$cel": "s1.total - s1.total"}}),
    pay("p", {"$from": "n#/to/0"}, when="s1.total > 0", depends_on=("s1",)),
    ticket("t", {"$from": "s1#/note"}),
    outputs={"amount": {"$from": "p#/amount"}},
)
CALLS: list[tuple[str, str, dict[str, Any], Any]] = [
    ("s1", "orders.lookup", {"order_id": "ord_881"}, {"payment_id": "pay_8861", "total": 5, "note": "oh"}),
    ("p", "payments.refund", {"payment_id": "pay_8861", "amount": 24_500}, {"amount": 24_500}),
    ("t", "tickets.file", {"title": "oh"}, {"id": "7"}),
]
ENDS = [
    ToolResult(step_id="s1", outcome=outcome, error=error) for outcome in Outcome for error in (None, "busy")
]


def cases() -> list[tuple[House, Plan]]:
    """A plan for each row of the matrix, a sound one, and one that is worked through to its record."""
    return [made(), *(made(fault) for _, fault in FAULTS), (RULED, WORKED), (SHOP, plan())]


def recorded(house: House, reviewed: Plan) -> Run:
    """What an executor would have left of a plan."""
    entries = [
        TranscriptEntry(
            call=ToolCall(step_id=step_id, tool=tool, params=params),
            result=ToolResult(step_id=step_id, outcome=Outcome.DONE, value=value),
        )
        for step_id, tool, params, value in CALLS
    ]
    noon = datetime(2026, 5, 9, 12, tzinfo=UTC)
    yes = [
        Approval(gate=gate, step_id=step_id, approver="fay", decision="approve", decided_at=noon)
        for gate, step_id in (("FINANCE", "p"), ("SUPPORT", "p"))
    ]
    return Run(
        context=house.ctx,
        spec=house.spec,
        compiled=house.compiled,
        plan=reviewed,
        transcript=tuple(entries),
        approvals=tuple(yes),
        outputs={"amount": 24_500},
    )


def told(house: House, reviewed: Plan, run: Run) -> Iterator[BaseModel]:
    """Everything that the critic has to say about one plan and its run."""
    verified = verify(*house, reviewed)
    yield verified
    yield validate(*house, reviewed)
    scored = score(run)
    yield scored
    for given in (scored, None):
        report = consolidate(
            trace_id="t", decision_key="d", verify=verified, score=given, decided_at="2026-05-09T12:00:00Z"
        )
        verdict = judge(house.ctx, house.spec, report, measure(run))
        yield report
        yield verdict
        yield finalize(*house, reviewed, report, verdicts=(verified, verdict), run=run if given else None)
    yield VerdictEnvelope.model_validate(print_envelope(run, scored, "accept"))
    for ended in ENDS:
        yield judge_step(house.ctx, ended, retries_left=1)


def everything(inputs: list[tuple[House, Plan, Run]]) -> str:
    """All answers on all cases, as text."""
    return "\n".join(
        answer.model_dump_json() for house, reviewed, run in inputs for answer in told(house, reviewed, run)
    )


def made_inputs() -> list[tuple[House, Plan, Run]]:
    """The cases with their runs, parsed before anything is locked."""
    return [(house, reviewed, recorded(house, reviewed)) for house, reviewed in cases()]


# ---- the locked room ----------------------------------------------------------------------------------------------

CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "sleep",
    "localtime",
)
LOTS = ("random", "randint", "choice", "getrandbits", "shuffle", "uniform")

# Looking at one's own stack or at an object's identity touches nothing outside; that it changes no answer is checked.
HARMLESS = frozenset({"sys._getframe", "object.__getattr__", "builtins.id"})


class NoEnvironment:
    """Stands where os.environ was, and does not let anybody look."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError(f"os.environ.{name}")

    def __getitem__(self, name: str) -> NoReturn:
        raise AssertionError(f"os.environ[{name}]")

    def __contains__(self, name: object) -> NoReturn:
        raise AssertionError(f"{name} in os.environ")


def forbidden(name: str) -> Callable[..., NoReturn]:
    """A function that nobody may call."""

    def call(*_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{name} was called")

    return call


def lock() -> None:
    """Takes clock, lots, environment, files, sockets and imports away from this process."""
    for name in CLOCKS:
        setattr(time, name, forbidden(f"time.{name}"))
    for name in LOTS:
        setattr(random, name, forbidden(f"random.{name}"))
    for name in ("urandom", "getenv", "open", "stat", "listdir", "getcwd"):
        setattr(os, name, forbidden(f"os.{name}"))
    for owner, name, instead in (
        (builtins, "open", forbidden("open")),
        (builtins, "__import__", forbidden("import")),
        (socket, "socket", forbidden("socket.socket")),
        (os, "environ", NoEnvironment()),
    ):
        setattr(owner, name, instead)
    sys.meta_path[:] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event not in HARMLESS:
            raise AssertionError(f"{event} {arguments!r}")

    sys.addaudithook(watch)


def answer_locked() -> None:
    """What the guarded process does: warm up, lock, ask again, compare."""
    inputs = made_inputs()
    before = everything(inputs)
    write, leave = sys.stdout.write, os._exit  # pyright: ignore[reportPrivateUsage] - leaving must not run hooks
    flush = sys.stdout.flush
    lock()
    try:
        after = everything(inputs)
        write("same" if after == before else "different")
    except BaseException as error:  # noqa: BLE001 - every way out of the locked room is reported
        write(f"{type(error).__name__}: {error}")
    flush()
    leave(0)


def answer() -> None:
    """What a process in another environment does: ask once, and tell."""
    sys.stdout.buffer.write(everything(made_inputs()).encode())


def asked(function: str, cwd: Path | None = None, **environment: str) -> str:
    """What a fresh process says."""
    code = f"from critic.test_purity import {function}; {function}()"
    path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": path, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.req("R81")
def test_the_critic_touches_nothing_outside() -> None:
    """With clock, lots, environment, files, sockets and imports locked away, every answer is the same as before."""
    assert asked("answer_locked") == "same"


ATTEMPTS: list[tuple[Any, str, tuple[Any, ...]]] = [
    (time, "time", ()),
    (time, "perf_counter", ()),
    (random, "random", ()),
    (os, "urandom", (1,)),
    (os, "getenv", ("PATH",)),
    (os.environ, "get", ("PATH",)),
    (builtins, "open", (__file__,)),
    (Path(__file__), "read_bytes", ()),
    (os, "scandir", (".",)),
    (builtins, "__import__", ("colorsys",)),
    (socket, "socket", ()),
    (socket, "getaddrinfo", ("localhost", 80)),
    (subprocess, "run", (["true"],)),
]
"""Ways out of the locked room: an owner, the name of a function, and its arguments."""


def attempt() -> None:
    """What a process does to prove that the doors are locked: try each of them."""
    write, flush, leave = sys.stdout.write, sys.stdout.flush, os._exit  # pyright: ignore[reportPrivateUsage] - as above
    environment = os.environ
    lock()
    for owner, name, arguments in ATTEMPTS:
        try:
            getattr(os.environ if owner is environment else owner, name)(*arguments)
        except AssertionError:
            continue
        write(f"{name} ")
    flush()
    leave(0)


@pytest.mark.slow
def test_the_locks_hold() -> None:
    """The guard would have noticed: each thing that is locked away raises when it is reached for."""
    assert asked("attempt") == ""


@pytest.mark.slow
@pytest.mark.req("R81")
def test_the_critic_says_the_same_everywhere(tmp_path: Path) -> None:
    """Hash seed, time zone, language and working folder change nothing, to the last byte."""
    here = asked("answer", PYTHONHASHSEED="0", TZ="UTC", LANG="C")
    there = asked(
        "answer",
        cwd=tmp_path,
        PYTHONHASHSEED="4242",
        TZ="Asia/Kolkata",
        TZDIR="/nowhere",
        LANG="tr_TR.UTF-8",
        LC_ALL="tr_TR.UTF-8",
        HOME="/nowhere",
    )
    assert here == there
    assert here.count("\n") > 300


# ---- the imports --------------------------------------------------------------------------------------------------

OUTSIDE = frozenset(
    [
        "time",
        "random",
        "os",
        "posix",
        "socket",
        "pathlib",
        "io",
        "subprocess",
        "uuid",
        "secrets",
        "tempfile",
        "logging",
        "threading",
        "asyncio",
        "urllib",
        "http",
        "ssl",
        "shutil",
        "glob",
        "sqlite3",
    ]
)


def pure_modules() -> list[ModuleType]:
    """Return the loaded modules of the pure packages."""
    packages = ("tercet.contracts.", "tercet.policy.", "tercet.critic.")
    found = [module for name, module in sys.modules.items() if name.startswith(packages)]
    assert len(found) > 40
    return found


@pytest.mark.req("R81")
def test_pure_packages_import_no_io_or_clock() -> None:
    """No module of a pure package has a name that comes from a module for I/O or time."""
    keys = [
        f"{module.__name__}.{name}"
        for module in pure_modules()
        for name, thing in vars(module).items()
        if _home(thing).partition(".")[0] in OUTSIDE and not name.startswith("__")
    ]
    assert keys == []


@pytest.mark.req("R81")
def test_pure_packages_read_no_clock() -> None:
    """The class of a point in time may be named in a contract, but nobody calls its clock."""
    asking = [
        f"{module.__name__}:{node.lineno}"
        for module in pure_modules()
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today")
    ]
    assert asking == []


def _home(thing: object) -> str:
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return name if isinstance(name, str) else ""


@pytest.mark.req("R81")
@pytest.mark.parametrize(
    "zone", ["'America/New_York'", "'localtime'", "'U' + 'TC'", "s1.zone", "' UTC'", "'+02:00' + ''"]
)
def test_no_rule_asks_the_machine_for_a_time_zone(zone: str) -> None:
    """What a named zone means is in files of the machine, so an expression may use fixed offsets only."""
    for reading in ("getHours", "getDayOfWeek", "getFullYear"):
        text = f"timestamp('2026-05-09T12:00:00Z').{reading}({zone}) > 0"
        with pytest.raises(ExpressionError, match="time zone"):
            compile_planner(text, frozenset({"s1"}))
        house = SHOP.holding(policies=(Policy(name="zone", expression=text),))
        assert house.review(plan(look_up())).code == "policy_invariant"


def test_fixed_offsets_and_plain_readings_stay_possible() -> None:
    """UTC and offsets are the same everywhere, and a field may be called what it likes."""
    for text in (
        "timestamp('2026-05-09T12:00:00Z').getHours() == 12",
        "timestamp('2026-05-09T12:00:00Z').getHours('UTC') == 12",
        "timestamp('2026-05-09T12:00:00Z').getHours('-03:30') == 8",
    ):
        house = SHOP.holding(policies=(Policy(name="zone", expression=text),))
        assert house.review(plan(look_up())).ok
    compile_planner("s1.getHours > 3", frozenset({"s1"}))


def test_a_review_leaves_its_inputs_as_they_were() -> None:
    """Nothing that goes in is changed by being judged."""
    house, reviewed, run = RULED, WORKED, recorded(RULED, WORKED)
    before = [part.model_dump_json() for part in (*house, reviewed, run)]
    for _ in told(house, reviewed, run):
        pass
    assert [part.model_dump_json() for part in (*house, reviewed, run)] == before
    assert WINDOW in before[1]
