CREATE TABLE tenants (
    id   INTEGER NOT NULL PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE
) STRICT;

-- Snapshots have a number; drafts have none. Times are milliseconds since 1970, UTC.
-- Totals are how many facts and words each class has, as JSON: what a search needs to know of all facts.
CREATE TABLE snapshots (
    id         INTEGER NOT NULL PRIMARY KEY,
    tenant_id  INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    number     INTEGER,
    created_at INTEGER NOT NULL,
    frozen_at  INTEGER,
    hash       BLOB,
    totals     BLOB,
    UNIQUE (tenant_id, name),
    UNIQUE (tenant_id, number)
) STRICT;

CREATE TABLE documents (
    id          INTEGER NOT NULL PRIMARY KEY,
    tenant_id   INTEGER NOT NULL,
    snapshot_id INTEGER NOT NULL,
    name        TEXT    NOT NULL,
    hash        TEXT    NOT NULL,
    media_type  TEXT    NOT NULL,
    size        INTEGER NOT NULL
) STRICT;
CREATE INDEX documents_by_name ON documents (tenant_id, name);
CREATE INDEX documents_by_snapshot ON documents (snapshot_id);

-- What a fact says never changes, so its bytes are written once.
CREATE TABLE facts (
    id          INTEGER NOT NULL PRIMARY KEY,
    content     BLOB,
    hash        BLOB    NOT NULL,
    trust       TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    expires_at  INTEGER,
    chunk       INTEGER,
    first       INTEGER,
    behind      INTEGER
) STRICT;

-- In which snapshots a fact stands: from the number `since` up to the one before `until`. A fact of a draft has no `since`;
-- one that still stands ends at 2^62. `length` is its number of words, once they are in the index.
-- These rows are small, and all that freezing a snapshot changes.
CREATE TABLE versions (
    fact_id        INTEGER NOT NULL PRIMARY KEY,
    tenant_id      INTEGER NOT NULL,
    classification TEXT    NOT NULL,
    key            TEXT    NOT NULL,
    snapshot_id    INTEGER NOT NULL,
    document_id    INTEGER,
    since          INTEGER,
    until          INTEGER NOT NULL,
    is_removal     INTEGER NOT NULL,
    length         INTEGER
) STRICT;
CREATE INDEX versions_by_name ON versions (tenant_id, classification, key, until);
CREATE INDEX versions_of_drafts ON versions (snapshot_id, fact_id) WHERE since IS NULL;
CREATE INDEX versions_by_document ON versions (document_id) WHERE document_id IS NOT NULL;

CREATE TABLE pins (
    snapshot_id INTEGER NOT NULL,
    session     TEXT    NOT NULL,
    PRIMARY KEY (snapshot_id, session)
) STRICT, WITHOUT ROWID;

-- The words come from Tercet, so that every store splits a text alike; each begins with the number of its tenant and an x,
-- so that a search reads nothing of another's. The table of places tells which facts have a word, and how often.
CREATE VIRTUAL TABLE fact_words USING fts5 (words, content = '', tokenize = 'ascii');
CREATE VIRTUAL TABLE word_places USING fts5vocab (fact_words, 'instance');
