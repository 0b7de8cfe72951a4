-- How often somebody rang for a tenant. A tenant that never rang has no row.
CREATE TABLE tercet.bells (
    tenant text COLLATE "C" PRIMARY KEY,
    rings  bigint NOT NULL
);

-- A tenant's bell, read while nobody can ring or forget: whoever rings, or removes what others may share, keeps
-- everybody else's commits out until its own is done. Advisory locks are served in turn, so a stream of appends cannot
-- keep a ring waiting, and cost no write. Being volatile, the function sees what was committed before it got the lock,
-- though the statement around it began earlier.
CREATE FUNCTION tercet.listen(whose text, alone boolean) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF alone THEN
        PERFORM pg_advisory_xact_lock(2122115842, hashtext(whose));
    ELSE
        PERFORM pg_advisory_xact_lock_shared(2122115842, hashtext(whose));
    END IF;
    RETURN coalesce((SELECT b.rings FROM tercet.bells AS b WHERE b.tenant = whose), 0);
END
$$;

-- When somebody should look at a session. Only those that wait for a time are in the index.
ALTER TABLE tercet.sessions ADD COLUMN due_at bigint;

CREATE INDEX sessions_by_due ON tercet.sessions (tenant, due_at, session_id) WHERE due_at IS NOT NULL;

-- Which streams brought which blob, so that a blob can go with the last of them.
CREATE TABLE tercet.blob_uses (
    tenant    text COLLATE "C" NOT NULL,
    digest    bytea  NOT NULL,
    stream_id bigint NOT NULL,
    PRIMARY KEY (tenant, digest, stream_id)
);

CREATE INDEX blob_uses_by_stream ON tercet.blob_uses (stream_id);

-- Nobody knows who brought the blobs of before. Number 0 is no stream's, so they stay.
INSERT INTO tercet.blob_uses (tenant, digest, stream_id) SELECT tenant, digest, 0 FROM tercet.blobs;

-- Claims name their stream by its number, which pays for the index that finds them by it.
ALTER TABLE tercet.claims ADD COLUMN stream_id bigint;

UPDATE tercet.claims AS c
   SET stream_id = s.id
  FROM tercet.streams AS s
 WHERE s.tenant = c.tenant AND s.stream = c.stream;

ALTER TABLE tercet.claims ALTER COLUMN stream_id SET NOT NULL, DROP COLUMN stream;

CREATE INDEX claims_by_stream ON tercet.claims (stream_id);
