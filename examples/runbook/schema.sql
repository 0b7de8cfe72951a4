-- The machines of an invented shop. A host runs one release of one service, and is in the balancer or not.

CREATE TABLE IF NOT EXISTS releases (
    service TEXT NOT NULL,
    version TEXT NOT NULL,
    -- What the memory of a host climbs to under this release.
    memory_percent INTEGER NOT NULL,
    is_archived INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (service, version)
) STRICT;

CREATE TABLE IF NOT EXISTS hosts (
    host TEXT PRIMARY KEY,
    service TEXT,
    version TEXT,
    in_balancer INTEGER NOT NULL DEFAULT 1,
    memory_percent INTEGER NOT NULL DEFAULT 20,
    -- A frozen host does not come back from a restart; a person has to pull the plug.
    is_frozen INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Everything that was done to the machines, once for each action.
CREATE TABLE IF NOT EXISTS actions (
    idempotency_key TEXT PRIMARY KEY,
    what TEXT NOT NULL,
    host TEXT NOT NULL
) STRICT;
