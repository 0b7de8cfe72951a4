-- The versions that this journal has gone through, newest last. Everything else is made by the migrations.
CREATE TABLE IF NOT EXISTS journal_schema (
    version INTEGER NOT NULL PRIMARY KEY
) STRICT;
