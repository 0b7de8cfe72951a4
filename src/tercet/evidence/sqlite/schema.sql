-- The versions that this store has gone through, newest last. Everything else is made by the migrations.
CREATE TABLE IF NOT EXISTS evidence_schema (
    version INTEGER NOT NULL PRIMARY KEY
) STRICT;
