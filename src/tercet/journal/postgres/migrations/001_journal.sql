-- One row a stream: where it ends, and who may write to it. An epoch of 0 means that it was never leased;
-- an owner that is NULL, that nobody holds the lease. Times are milliseconds since 1970, UTC.
-- Names compare by their bytes (COLLATE "C"), as they do in SQLite.
CREATE TABLE tercet.streams (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    chain  bytea  NOT NULL,
    owner  text,
    epoch  bigint NOT NULL,
    until  bigint NOT NULL,
    UNIQUE (tenant, stream)
);

CREATE TABLE tercet.events (
    stream_id bigint NOT NULL,
    seq       bigint NOT NULL,
    data      bytea  NOT NULL,
    chain     bytea  NOT NULL,
    PRIMARY KEY (stream_id, seq)
);

CREATE TABLE tercet.checkpoints (
    stream_id bigint NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    hash      bytea  NOT NULL,
    data      bytea  NOT NULL,
    PRIMARY KEY (stream_id, kind, seq)
);

CREATE TABLE tercet.blobs (
    tenant text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    data   bytea NOT NULL,
    PRIMARY KEY (tenant, digest)
);

CREATE TABLE tercet.claims (
    tenant text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

CREATE TABLE tercet.sessions (
    tenant     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    status     text COLLATE "C" NOT NULL,
    pack       text   NOT NULL,
    pack_hash  text   NOT NULL,
    snapshot   text   NOT NULL,
    intent     text   NOT NULL,
    owner      text   NOT NULL,
    started_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    next_step  text,
    details    bytea  NOT NULL,
    PRIMARY KEY (tenant, session_id)
);

CREATE INDEX sessions_by_start ON tercet.sessions (tenant, started_at, session_id);
