-- Names are compared byte by byte, so that lists have the same order in every store.
CREATE TABLE tercet.evidence_tenants (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- Snapshots have a number; drafts have none. Times are milliseconds since 1970, UTC.
-- Totals are how many facts and words each class has, as JSON: what a search needs to know of all facts.
CREATE TABLE tercet.evidence_snapshots (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  bigint NOT NULL REFERENCES tercet.evidence_tenants,
    name       text COLLATE "C" NOT NULL,
    number     bigint,
    created_at bigint NOT NULL,
    frozen_at  bigint,
    hash       bytea,
    totals     bytea,
    UNIQUE (tenant_id, name),
    UNIQUE (tenant_id, number)
);

CREATE TABLE tercet.evidence_documents (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id   bigint NOT NULL,
    snapshot_id bigint NOT NULL,
    name        text COLLATE "C" NOT NULL,
    hash        text NOT NULL,
    media_type  text NOT NULL,
    size        bigint NOT NULL
);
CREATE INDEX ON tercet.evidence_documents (tenant_id, name);
CREATE INDEX ON tercet.evidence_documents (snapshot_id);

-- What a fact says never changes, so its bytes and words are written once. The words come from Tercet, so that every store
-- splits a text alike; each begins with the number of its tenant and an x, so that a search reads nothing of another's.
-- The position of a word is how often the fact has it.
CREATE TABLE tercet.evidence_facts (
    id         bigint PRIMARY KEY,
    content    bytea,
    hash       bytea NOT NULL,
    trust      text NOT NULL,
    source     text NOT NULL,
    expires_at bigint,
    chunk      bigint,
    first      bigint,
    behind     bigint,
    words      tsvector
);
CREATE INDEX evidence_facts_by_word ON tercet.evidence_facts USING gin (words) WITH (fastupdate = off);
CREATE SEQUENCE tercet.evidence_fact_numbers;

-- In which snapshots a fact stands: from the number `since` up to the one before `until`. A fact of a draft has no `since`;
-- one that still stands ends at 2^62. These rows are small, and all that freezing a snapshot changes.
CREATE TABLE tercet.evidence_versions (
    fact_id        bigint PRIMARY KEY,
    tenant_id      bigint NOT NULL,
    classification text COLLATE "C" NOT NULL,
    key            text COLLATE "C" NOT NULL,
    snapshot_id    bigint NOT NULL,
    document_id    bigint,
    since          bigint,
    until          bigint NOT NULL,
    is_removal     boolean NOT NULL,
    length         integer NOT NULL
);
CREATE INDEX ON tercet.evidence_versions (tenant_id, classification, key, until);
CREATE INDEX ON tercet.evidence_versions (snapshot_id) WHERE since IS NULL;
CREATE INDEX ON tercet.evidence_versions (document_id) WHERE document_id IS NOT NULL;

CREATE TABLE tercet.evidence_pins (
    snapshot_id bigint NOT NULL REFERENCES tercet.evidence_snapshots,
    session     text COLLATE "C" NOT NULL,
    PRIMARY KEY (snapshot_id, session)
);
