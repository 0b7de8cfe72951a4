"""The refund desk of Marigold Outfitters, an invented shop: five tools over one small SQLite database.

The database is the file that TERCET_REFUNDS_DB names, else `refunds.db` in the working folder. It is made from
`schema.sql` and `seed.sql` at its first use. The queries stand here and not in a file of their own, because this
file's bytes are part of the pack's hash: a pack whose payments work differently is another pack.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tercet import NotDone, ToolContext, tool

HERE = Path(__file__).resolve().parent
WINDOW = "+30 days"

ReasonClass = Literal["damaged_in_transit", "wrong_item", "changed_mind", "unstated"]


@dataclass(frozen=True, kw_only=True)
class Order:
    """An order as the shop's books have it, and the note that its customer wrote."""

    order_id: str
    payment_id: str
    amount_inr: int
    delivered_on: str
    customer_email: str
    customer_note: str


@dataclass(frozen=True, kw_only=True)
class Eligibility:
    """What the shop's rules say about a refund."""

    eligible: bool
    refundable_inr: int
    reason_class: ReasonClass
    payment_id: str


@dataclass(frozen=True, kw_only=True)
class Refund:
    """Money that returns to the payment that it came from."""

    refund_id: str
    payment_id: str
    refund_amount_inr: int
    refund_reason_class: ReasonClass
    status: Literal["issued", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    """A refund that will not be paid."""

    refund_id: str
    status: Literal["cancelled"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that has left the house."""

    message_id: str
    recipient: str


@tool(
    "adp_orders.lookup",
    mode="read_only",
    aliases={"id": "order_id"},
    untrusted=["customer_note"],
    estimated_ms=20,
)
def lookup(order_id: str) -> Order:
    """Find an order, its payment, and what the customer wrote about it."""
    query = """
        SELECT order_id, payment_id, captured_inr AS amount_inr, delivered_on, customer_email,
               coalesce(note, '') AS customer_note
        FROM orders JOIN payments USING (order_id) LEFT JOIN refund_requests USING (order_id)
        WHERE order_id = :order_id
    """
    with database() as db:
        row = db.execute(query, {"order_id": order_id}).fetchone()
    if row is None:
        raise _unknown("order", order_id)
    return Order(**row)


@tool("adp_policy.eval", mode="read_only", trust="trusted", aliases={"id": "order_id"}, estimated_ms=20)
def evaluate(order_id: str) -> Eligibility:
    """Say whether an order may be refunded, how much of it, and for which class of reason.

    What counts is the day on which the customer asked: 30 days after delivery the window is closed.
    """
    query = """
        SELECT payment_id,
               coalesce(reason_class, 'unstated') AS reason_class,
               coalesce(requested_on BETWEEN delivered_on AND date(delivered_on, :window), 0) AS in_window,
               left_inr
        FROM orders JOIN balances USING (order_id) LEFT JOIN refund_requests USING (order_id)
        WHERE order_id = :order_id
    """
    with database() as db:
        row = db.execute(query, {"order_id": order_id, "window": WINDOW}).fetchone()
    if row is None:
        raise _unknown("order", order_id)
    is_eligible = bool(row["in_window"] and row["left_inr"] > 0)
    return Eligibility(
        eligible=is_eligible,
        refundable_inr=row["left_inr"] if is_eligible else 0,
        reason_class=row["reason_class"],
        payment_id=row["payment_id"],
    )


@tool(
    "adp_payments.issue_refund",
    mode="destructive",
    trust="trusted",
    reversibility="compensable",
    gates=["GATE_FINANCE_APPROVAL"],
    authority=["payment_id", "amount_inr"],
    aliases={"id": "payment_id"},
    limits=["args.amount_inr > 0 && args.amount_inr <= 100000"],
    requires_evidence=["refund_window_evidence"],
    compensate={"tool": "adp_payments.cancel_refund", "params": {"refund_id": {"$from": "self#/refund_id"}}},
    idempotent=True,
    estimated_ms=400,
)
def issue_refund(ctx: ToolContext, payment_id: str, amount_inr: Annotated[int, Field(gt=0)]) -> Refund:
    """Pay an amount back to the payment that it came from, once for each action."""
    # One statement decides and acts, so that two calls at once cannot pay more than was captured. A call under a key
    # that has paid already changes nothing, and finds its own row.
    statement = """
        INSERT INTO refunds (refund_id, idempotency_key, payment_id, amount_inr, reason_class, status)
        SELECT :refund_id, :key, payment_id, :amount_inr, coalesce(reason_class, 'unstated'), 'issued'
        FROM balances LEFT JOIN refund_requests USING (order_id)
        WHERE payment_id = :payment_id AND :amount_inr <= left_inr
        ON CONFLICT (idempotency_key) DO NOTHING
    """
    key = ctx.idempotency_key
    values = {"refund_id": _id("rf", key), "key": key, "payment_id": payment_id, "amount_inr": amount_inr}
    with database() as db:
        db.execute(statement, values)
        row = db.execute("SELECT * FROM refunds WHERE idempotency_key = ?", (key,)).fetchone()
        if row is None:
            raise _not_paid(db, payment_id, amount_inr)
    if (row["payment_id"], row["amount_inr"]) != (payment_id, amount_inr):
        raise NotDone(
            f"the key of this call belongs to the refund {row['refund_id']}",
            code="key_reused",
            remedy="use one key for one payment and amount",
        )
    return Refund(
        refund_id=row["refund_id"],
        payment_id=row["payment_id"],
        refund_amount_inr=row["amount_inr"],
        refund_reason_class=row["reason_class"],
        status=row["status"],
    )


@tool(
    "adp_payments.cancel_refund",
    mode="network",
    trust="trusted",
    reversibility="irreversible",
    gates=["GATE_FINANCE_APPROVAL"],
    authority=["refund_id"],
    no_compensation="it undoes a refund itself; money that is due after all needs a new refund and a new approval",
    idempotent=True,
    estimated_ms=400,
)
def cancel_refund(refund_id: str) -> Cancellation:
    """Stop a refund that was issued; a refund that is cancelled already stays so."""
    statement = "UPDATE refunds SET status = 'cancelled' WHERE refund_id = ? RETURNING refund_id, status"
    with database() as db:
        row = db.execute(statement, (refund_id,)).fetchone()
    if row is None:
        raise _unknown("refund", refund_id)
    return Cancellation(**row)


@tool(
    "adp_messages.notify_customer",
    mode="network",
    trust="trusted",
    reversibility="irreversible",
    gates=["GATE_SUPPORT_APPROVAL"],
    authority=["recipient"],
    identity=["recipient", "text"],
    no_compensation="a message cannot be unsent; a correction is a second message",
    idempotent=True,
    estimated_ms=200,
)
def notify_customer(
    ctx: ToolContext, recipient: str, text: Annotated[str, Field(max_length=1000)]
) -> Message:
    """Write to a customer of the shop."""
    statement = """
        INSERT INTO messages (message_id, idempotency_key, recipient, body)
        SELECT DISTINCT :message_id, :key, customer_email, :body FROM orders WHERE customer_email = :recipient
        ON CONFLICT (idempotency_key) DO NOTHING
    """
    key = ctx.idempotency_key
    values = {"message_id": _id("msg", key), "key": key, "recipient": recipient, "body": text}
    with database() as db:
        db.execute(statement, values)
        row = db.execute(
            "SELECT message_id, recipient FROM messages WHERE idempotency_key = ?", (key,)
        ).fetchone()
    if row is None:
        raise _unknown("customer", recipient)
    return Message(**row)


@contextmanager
def database() -> Generator[sqlite3.Connection]:
    """The shop's database for the time of one call; each statement is a transaction of its own."""
    path = os.environ.get("TERCET_REFUNDS_DB") or "refunds.db"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as db:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA foreign_keys = ON")
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            parts = [(HERE / name).read_text(encoding="utf-8") for name in ("schema.sql", "seed.sql")]
            db.executescript("\n".join(["BEGIN IMMEDIATE;", *parts, "PRAGMA user_version = 1;", "COMMIT;"]))
        yield db


def _id(prefix: str, key: str) -> str:
    return f"{prefix}_{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _unknown(what: str, name: str) -> NotDone:
    return NotDone(
        f"there is no {what} {name!r}",
        code=f"{what}_unknown",
        remedy="take the value from the shop's own records",
    )


def _not_paid(db: sqlite3.Connection, payment_id: str, amount_inr: int) -> NotDone:
    """Why the statement above inserted nothing."""
    row = db.execute("SELECT left_inr FROM balances WHERE payment_id = ?", (payment_id,)).fetchone()
    if row is None:
        return _unknown("payment", payment_id)
    return NotDone(
        f"INR {amount_inr} is more than the INR {row['left_inr']} that are left of {payment_id}",
        code="amount_exceeds_payment",
        remedy="refund at most what is left",
    )
