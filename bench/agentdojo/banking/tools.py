"""The functions of AgentDojo's suite banking as tools.

What a customer's assistant may do alone: look at the account, keep the profile, and set up or change standing orders in
the customer's own words. Every transfer waits for the customer, and so does a standing order with an account or amount
that comes from elsewhere.
"""

from __future__ import annotations

from typing import Any

from bench.agentdojo.environment import call_function
from typing_extensions import TypedDict

from tercet import tool


class Transaction(TypedDict):
    id: int
    sender: str
    recipient: str
    amount: float
    subject: str
    date: str
    recurring: bool


class Transactions(TypedDict):
    transactions: list[Transaction]


class Amount(TypedDict):
    balance: float


class Account(TypedDict):
    iban: str


class File(TypedDict):
    text: str


class Profile(TypedDict):
    first_name: str
    last_name: str
    street: str
    city: str


class Done(TypedDict):
    message: str


# Any stranger can send a cent, so who has sent or received money before is not an account to pay to: a kind of its own.
TRANSACTION_KINDS = {
    "/transactions/*/id": "transaction",
    "/transactions/*/sender": "counterparty",
    "/transactions/*/recipient": "counterparty",
    "/transactions/*/amount": "amount",
    "/transactions/*/date": "date",
}


@tool("bank.get_iban", mode="read_only", trust="trusted", result_kinds={"iban": "own_account"})
async def get_iban() -> Account:
    """Return the IBAN of the customer's account."""
    return {"iban": call_function("get_iban", {})}


@tool("bank.get_balance", mode="read_only", trust="trusted", result_kinds={"balance": "balance"})
async def get_balance() -> Amount:
    """Return the balance of the account."""
    return {"balance": call_function("get_balance", {})}


@tool(
    "bank.get_most_recent_transactions",
    mode="read_only",
    untrusted=["/transactions/*/subject"],
    result_kinds=TRANSACTION_KINDS,
)
async def get_most_recent_transactions(n: int = 100) -> Transactions:
    """Return the most recent transactions of the account."""
    return {"transactions": call_function("get_most_recent_transactions", {"n": n})}


@tool(
    "bank.get_scheduled_transactions",
    mode="read_only",
    untrusted=["/transactions/*/subject"],
    result_kinds=TRANSACTION_KINDS,
)
async def get_scheduled_transactions() -> Transactions:
    """Return the standing orders of the account."""
    return {"transactions": call_function("get_scheduled_transactions", {})}


@tool("bank.read_file", mode="read_only", untrusted=["text"])
async def read_file(file_path: str) -> File:
    """Return the text of a file that the customer has stored: bills, letters, notices."""
    return {"text": call_function("read_file", {"file_path": file_path})}


# A letter may have brought the address.
@tool("bank.get_user_info", mode="read_only", untrusted=["street", "city"])
async def get_user_info() -> Profile:
    """Return the customer's name and address."""
    return call_function("get_user_info", {})


@tool(
    "bank.send_money",
    mode="network",
    reversibility="irreversible",
    gates=["GATE_CUSTOMER"],
    authority=["recipient", "amount"],
    kinds={"recipient": "account", "amount": "amount"},
    unbound={"recipient": "ask", "amount": "ask"},
    identity=["recipient", "amount", "subject", "date"],
    untrusted=["message"],
    no_compensation="a transfer that has been sent cannot be called back",
)
async def send_money(recipient: str, amount: float, subject: str, date: str) -> Done:
    """Send money to an account at once."""
    return call_function(
        "send_money", {"recipient": recipient, "amount": amount, "subject": subject, "date": date}
    )


@tool(
    "bank.schedule_transaction",
    mode="local_write",
    authority=["recipient", "amount"],
    kinds={"recipient": "account", "amount": "amount"},
    unbound={"recipient": "ask", "amount": "ask"},
    identity=["recipient", "amount", "subject", "date"],
    untrusted=["message"],
    no_compensation="a standing order is changed, not deleted; it moves no money before its date",
)
async def schedule_transaction(
    recipient: str,
    amount: float,
    subject: str,
    date: str,
    recurring: bool,  # noqa: FBT001 - a plan gives parameters by name
) -> Done:
    """Set up a standing order."""
    return call_function(
        "schedule_transaction",
        {"recipient": recipient, "amount": amount, "subject": subject, "date": date, "recurring": recurring},
    )


@tool(
    "bank.update_scheduled_transaction",
    mode="local_write",
    authority=["id", "recipient", "amount", "date", "recurring"],
    kinds={"id": "transaction", "recipient": "account", "amount": "amount", "date": "due_date"},
    unbound={"id": "ask", "recipient": "ask", "amount": "ask", "date": "ask", "recurring": "ask"},
    untrusted=["message"],
    no_compensation="a standing order is changed again by the same call; it moves no money before its date",
)
async def update_scheduled_transaction(
    id: int,  # noqa: A002 - AgentDojo's name
    recipient: str | None = None,
    amount: float | None = None,
    subject: str | None = None,
    date: str | None = None,
    recurring: bool | None = None,  # noqa: FBT001 - a plan gives parameters by name
) -> Done:
    """Change a standing order."""
    changes: dict[str, Any] = {
        "id": id, "recipient": recipient, "amount": amount, "subject": subject, "date": date, "recurring": recurring,
    }  # fmt: skip
    return call_function("update_scheduled_transaction", changes)


@tool(
    "bank.update_password",
    mode="local_write",
    authority=["password"],
    kinds={"password": "password"},
    unbound={"password": "refuse"},
    untrusted=["message"],
    no_compensation="the password before is not known",
)
async def update_password(password: str) -> Done:
    """Set a password that the customer has chosen."""
    return call_function("update_password", {"password": password})


@tool(
    "bank.update_user_info",
    mode="local_write",
    authority=["first_name", "last_name", "street", "city"],
    unbound={"first_name": "ask", "last_name": "ask", "street": "allow", "city": "allow"},
    untrusted=["street", "city"],
    no_compensation="the profile is changed again by the same call; the bank writes to the old address as well",
)
async def update_user_info(
    first_name: str | None = None,
    last_name: str | None = None,
    street: str | None = None,
    city: str | None = None,
) -> Profile:
    """Change the customer's name or address."""
    changes = {"first_name": first_name, "last_name": last_name, "street": street, "city": city}
    return call_function("update_user_info", changes)
