-- One row a stream: where it ends, and who may write to it. An epoch of 0 means that it was never leased;
-- an owner that is NULL, that nobody holds the lease. Times are milliseconds since 1970, UTC.
CREATE TABLE streams (
    id     INTEGER NOT NULL PRIMARY KEY,
    tenant TEXT    NOT NULL,
    stream TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    chain  BLOB    NOT NULL,
    owner  TEXT,
    epoch  INTEGER NOT NULL,
    until  INTEGER NOT NULL,
    UNIQUE (tenant, stream)
) STRICT;

-- Events refer to their stream by its number, which keeps the index small.
CREATE TABLE events (
    stream_id INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    data      BLOB    NOT NULL,
    chain     BLOB    NOT NULL,
    UNIQUE (stream_id, seq)
) STRICT;

CREATE TABLE checkpoints (
    stream_id INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    seq       INTEGER NOT NULL,
    hash      BLOB    NOT NULL,
    data      BLOB    NOT NULL,
    UNIQUE (stream_id, kind, seq)
) STRICT;

CREATE TABLE blobs (
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL,
    data   BLOB NOT NULL,
    UNIQUE (tenant, digest)
) STRICT;

CREATE TABLE claims (
    tenant TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    stream TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    UNIQUE (tenant, key)
) STRICT;

CREATE TABLE sessions (
    tenant     TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    pack       TEXT    NOT NULL,
    pack_hash  TEXT    NOT NULL,
    snapshot   TEXT    NOT NULL,
    intent     TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    next_step  TEXT,
    details    BLOB    NOT NULL,
    UNIQUE (tenant, session_id)
) STRICT;

CREATE INDEX sessions_by_start ON sessions (tenant, started_at, session_id);
