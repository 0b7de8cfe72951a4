-- How often somebody rang for a tenant. A tenant that never rang has no row.
CREATE TABLE bells (
    tenant TEXT    NOT NULL PRIMARY KEY,
    rings  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- When somebody should look at a session. Only those that wait for a time are in the index.
ALTER TABLE sessions ADD COLUMN due_at INTEGER;

CREATE INDEX sessions_by_due ON sessions (tenant, due_at, session_id) WHERE due_at IS NOT NULL;

-- Which streams brought which blob, so that a blob can go with the last of them.
CREATE TABLE blob_uses (
    tenant    TEXT    NOT NULL,
    digest    BLOB    NOT NULL,
    stream_id INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest, stream_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_uses_by_stream ON blob_uses (stream_id);

-- Nobody knows who brought the blobs of before. Number 0 is no stream's, so they stay.
INSERT INTO blob_uses (tenant, digest, stream_id) SELECT tenant, digest, 0 FROM blobs;

-- Claims name their stream by its number, which pays for the index that finds them by it.
ALTER TABLE claims RENAME TO old_claims;

CREATE TABLE claims (
    tenant    TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    stream_id INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    UNIQUE (tenant, key)
) STRICT;

INSERT INTO claims (tenant, key, stream_id, seq)
SELECT c.tenant, c.key, s.id, c.seq
  FROM old_claims AS c
  JOIN streams AS s ON s.tenant = c.tenant AND s.stream = c.stream;

DROP TABLE old_claims;

CREATE INDEX claims_by_stream ON claims (stream_id);
