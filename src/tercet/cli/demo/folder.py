"""The folder of one demo (a copy of the refund pack, the journal, the shop's payments), and the facts read back from it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import tercet
from tercet.cli.journals import TENANT, RecordedSession, read_session, use_journal
from tercet.contracts.errors import InternalError, UsageError
from tercet.contracts.request import Actor
from tercet.core import events as e
from tercet.engine.session_reader import read_record
from tercet.journal.protocol import Journal

_PACK = Path("examples", "refunds")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The files of a demo. Journal and database have the names that commands look for in the working folder."""

    root: Path

    @property
    def pack(self) -> Path:
        """The refund pack."""
        return self.root / "refunds"

    @property
    def journal(self) -> Path:
        """The journal of the runs."""
        return self.root / "tercet.db"

    @property
    def journal_url(self) -> str:
        """The journal as a URL."""
        return f"sqlite:///{self.journal}"

    @property
    def payments(self) -> Path:
        """The shop's payment database."""
        return self.root / "refunds.db"

    def plan(self, name: str) -> Path:
        """Return the file of a plan of the pack."""
        return self.pack / "plans" / f"{name}.json"


def make_folder(wanted: Path | None) -> Folder:
    """Make a folder with a copy of the pack; raise `UsageError` if it is not empty or cannot be made."""
    _require_sqlite()
    source = pack_home()
    try:
        folder = Folder(root=_empty(wanted))
        shutil.copytree(source, folder.pack, ignore=shutil.ignore_patterns("__pycache__", "*.db*"))
    except OSError as error:
        raise UsageError(
            f"the demo cannot write its files: {error.strerror or error}",
            code="unwritable",
            remedy="name a folder that you may write to: tercet demo --dir FOLDER",
        ) from error
    return folder


def _empty(wanted: Path | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="tercet-demo-")).resolve()
    if wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
        raise UsageError(
            f"{wanted} is {'not empty' if wanted.is_dir() else 'not a folder'}, and the demo overwrites nothing",
            code="folder_not_empty",
            remedy="name a new or empty folder, or leave --dir out",
        )
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted.resolve()


def pack_home() -> Path:
    """Return the folder of the refund pack: inside the package in a wheel, beside the sources in a checkout."""
    package = Path(tercet.__file__).resolve().parent
    for home in (package / _PACK, package.parents[1] / _PACK):
        if (home / "pack.toml").is_file():
            return home
    raise InternalError("this installation of Tercet has no refund pack")


def _require_sqlite() -> None:
    if find_spec("_sqlite3") is None:
        raise UsageError(
            "this Python has no SQLite",
            code="sqlite_missing",
            remedy="use a Python that was built with it: there, python3 -c 'import sqlite3' prints no error",
        )


Facts: TypeAlias = dict[str, Any]
"""The facts of one scene, as the JSON document has them."""


class Scene(NamedTuple):
    """A scene under its name in the JSON document; headings and asides are not part of the document."""

    name: str
    facts: Facts


def heading(number: int, text: str) -> Scene:
    """Return the heading above the next scenes."""
    return Scene("heading", {"number": number, "text": text})


OWNER = Actor(id="agt_support", roles=("support_agent",))
APPROVER = Actor(id="user_finance_lead", roles=("finance_lead",))

Answer: TypeAlias = Literal["approve", "deny", "quit"]
"""The user's answer at the gate."""


# --- facts ---


T = TypeVar("T")

_REFUNDS = "SELECT refund_id, idempotency_key, payment_id, amount_inr, status FROM refunds ORDER BY rowid"


class DemoReader:
    """Reads the journal and the payment database of a demo."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def _read(self, act: Callable[[Journal], Awaitable[T]]) -> T:
        return use_journal(self._folder.journal_url, act)

    def newest(self) -> str:
        """Return the session that was started last."""
        return self._read(lambda journal: journal.sessions(TENANT, limit=1))[0].session_id

    def session(self, session: str) -> RecordedSession:
        """Return a session with all its events."""
        return self._read(lambda journal: read_session(journal, session))

    def record(self, session: str) -> dict[str, Any]:
        """Return the decision record of a session; raise `ReplayError` if its hash does not match."""
        state = self.session(session).state
        return self._read(lambda journal: read_record(journal, TENANT, state))

    def refunds(self) -> list[Facts]:
        """Return every refund of the shop; none before a tool has created its database."""
        import sqlite3  # noqa: PLC0415 - a Python without it was reported before

        if not self._folder.payments.exists():
            return []
        address = f"file:{quote(str(self._folder.payments))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(_REFUNDS)]

    def lease_until(self, session: str) -> int:
        """Return when the lease of a dead worker on a session expires; 0 if there is none."""
        lease = self._read(lambda journal: journal.lease(TENANT, session))
        return lease.until if lease is not None else 0

    # --- scenes ---

    def refused(self, session: str) -> Scene:
        """Return the critic's refusal of a plan, and the number of calls, which should be 0."""
        recorded = self.session(session)
        verdict = recorded.state.verdict
        facts = {
            "session_id": session,
            "status": recorded.state.status,
            "kind": verdict.get("kind", ""),
            "code": verdict.get("code", ""),
            "reason": recorded.state.reason,
            "remedy": verdict.get("remedy", ""),
            "calls": sum(isinstance(event, e.Intent) for event in recorded.events),
            "has_payment_database": self._folder.payments.exists(),
        }
        return Scene("refused", facts)

    def waiting(self, session: str, worker: int) -> Scene:
        """Return the gate that a session waits at, as its approver sees it."""
        state = self.session(session).state
        gate = next(iter(state.gates.values()), None)
        if gate is None:
            raise UsageError(
                f"session {session} does not wait at a gate", code="no_gate", remedy=state.reason
            )
        shown, need = gate.shown, gate.needs[gate.names[0]]
        facts = {
            "session_id": session,
            "status": state.status,
            "worker": worker,
            "verdict": ", ".join(state.verdict.get("reasons", ())),
            "gate": gate.id,
            "gate_name": gate.names[0],
            **{name: shown[name] for name in ("tool", "mode", "reversibility")},
            "values": [_value(shown, name, value) for name, value in shown["params"].items()],
            "evidence": [
                {name: each[name] for name in ("id", "hash", "source")} for each in shown["evidence"]
            ],
            "undo": shown["compensation"]["tool"] if shown["compensation"] else "",
            "roles": need.roles,
            "quorum": need.quorum,
            "owner": state.start.actor["id"],
            "digest": gate.digest,
            "refunds": self.refunds(),
        }
        return Scene("waiting", facts)

    def own_attempt(self, gate: Facts, refusal: UsageError) -> Scene:
        """Return the refusal of the owner's approval, and the approvals that the gate has."""
        approvals = len(self.session(gate["session_id"]).state.gates[gate["gate"]].approvals)
        facts = {"code": refusal.code, "reason": refusal.message, "remedy": refusal.remedy or ""}
        return Scene("own_attempt", {"actor": gate["owner"], **facts, "approvals": approvals})

    def answered(self, session: str) -> Scene:
        """Return the recorded answer to the gate."""
        answer = self.session(session).state.answers[-1]
        return Scene(
            "answered", {name: getattr(answer, name) for name in ("actor", "roles", "answer", "digest")}
        )

    def crashed(self, gate: Facts, worker: int, number: int) -> Scene:
        """Return the entries of a killed worker in the payment database and in the journal."""
        keys, completes = self._attempts(gate)
        facts = {"worker": worker, "signal": number, "refunds": self.refunds()}
        return Scene("crashed", {**facts, "intents": len(keys), "completes": completes})

    def recovered(self, gate: Facts, worker: int) -> Scene:
        """Return the result of the next worker."""
        keys, completes = self._attempts(gate)
        facts = {"worker": worker, "status": self.session(gate["session_id"]).state.status}
        return Scene("recovered", {**facts, "keys": keys, "completes": completes, "refunds": self.refunds()})

    def recorded(self, session: str) -> Scene:
        """Return the decision record, whose hash was checked, with its approval."""
        record, state = self.record(session), self.session(session).state
        approval = record["approvals"][-1]
        facts = {
            "hash": state.record,
            "outputs": record["outputs"],
            "approver": approval["approver"],
            "approver_roles": approval["roles"],
            "digest": approval["digest"],
            "evidence": record["evidence_refs"],
        }
        return Scene("recorded", facts)

    def ended(self, gate: Facts) -> Scene:
        """Return the state of a session without a payment: denied, or left at its gate."""
        state = self.session(gate["session_id"]).state
        facts = {
            "status": state.status,
            "reason": state.reason,
            "calls_of_payment": len(self._attempts(gate)[0]),
        }
        return Scene("ended", {**facts, "refunds": self.refunds()})

    def _attempts(self, gate: Facts) -> tuple[list[str], int]:
        """Return the idempotency key of each attempt of a gate's call, and its number of COMPLETEs."""
        events = self.session(gate["session_id"]).events
        intents = [event for event in events if isinstance(event, e.Intent) and event.tool == gate["tool"]]
        steps = {intent.step for intent in intents}
        done = sum(isinstance(event, e.Complete) and event.step in steps for event in events)
        return [intent.key for intent in intents], done


def _value(shown: Facts, name: str, value: Any) -> Facts:
    """Return a parameter of the waiting call, with the field of the pinned evidence that has the same value."""
    held = [pair for each in shown["evidence"] for pair in each["content"].items()]
    same = [field for field, other in held if type(other) is type(value) and other == value]
    return {
        "name": name,
        "value": value,
        "carries_authority": name in shown["authority"],
        "source": shown["sources"][name],
        "same_in": same[0] if same else "",
    }
