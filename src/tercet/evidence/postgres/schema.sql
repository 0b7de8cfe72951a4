-- The versions that this store has gone through, newest last. Everything else is made by the migrations.
CREATE SCHEMA IF NOT EXISTS tercet;

CREATE TABLE IF NOT EXISTS tercet.evidence_schema (
    version integer PRIMARY KEY
);
