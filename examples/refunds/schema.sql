-- The order book of an invented shop. Amounts are whole rupees.

CREATE TABLE IF NOT EXISTS orders (
    order_id       TEXT PRIMARY KEY,
    customer_email TEXT NOT NULL,
    delivered_on   TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS payments (
    payment_id   TEXT PRIMARY KEY,
    order_id     TEXT NOT NULL UNIQUE REFERENCES orders,
    captured_inr INTEGER NOT NULL CHECK (captured_inr > 0)
) STRICT;

-- What customers wrote when they asked for their money: the note is theirs, the class is the shop's.
CREATE TABLE IF NOT EXISTS refund_requests (
    order_id     TEXT PRIMARY KEY REFERENCES orders,
    requested_on TEXT NOT NULL,
    reason_class TEXT NOT NULL
        CHECK (reason_class IN ('damaged_in_transit', 'wrong_item', 'changed_mind', 'unstated')),
    note         TEXT NOT NULL
) STRICT;

-- One row for one action: the key is what makes a repeated call harmless.
CREATE TABLE IF NOT EXISTS refunds (
    refund_id       TEXT PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    payment_id      TEXT NOT NULL REFERENCES payments,
    amount_inr      INTEGER NOT NULL CHECK (amount_inr > 0),
    reason_class    TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('issued', 'cancelled'))
) STRICT;

CREATE TABLE IF NOT EXISTS messages (
    message_id      TEXT PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    recipient       TEXT NOT NULL,
    body            TEXT NOT NULL
) STRICT;

CREATE VIEW IF NOT EXISTS balances AS
SELECT payment_id, order_id, captured_inr, captured_inr - (
    SELECT coalesce(sum(amount_inr), 0) FROM refunds
    WHERE refunds.payment_id = payments.payment_id AND status = 'issued'
) AS left_inr
FROM payments;
