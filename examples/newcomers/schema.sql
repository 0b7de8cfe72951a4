-- The front office of an invented shop.

CREATE TABLE IF NOT EXISTS people (
    person INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    team TEXT NOT NULL,
    account TEXT,
    groups TEXT,
    desk TEXT UNIQUE,
    greeting TEXT
) STRICT;

-- Everything that was done, once for each action.
CREATE TABLE IF NOT EXISTS actions (
    idempotency_key TEXT PRIMARY KEY,
    what TEXT NOT NULL,
    person INTEGER NOT NULL
) STRICT;
