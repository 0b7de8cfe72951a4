-- Writing.

-- Everything a batch stores, in one statement. A stream moves only if it still ends where the batch was computed and
-- its lease epoch is still the writer's; UPDATE locks the row and looks again after waiting for somebody else's
-- change, so no take-over slips in between. Nothing of a stream that did not move is stored.
-- name: store
WITH moved AS (
    UPDATE tercet.streams AS s
       SET seq = m.seq, chain = m.chain
      FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bytea[])
           AS m (id, old_seq, old_chain, epoch, seq, chain)
     WHERE s.id = m.id AND s.seq = m.old_seq AND s.chain = m.old_chain
       AND s.epoch = m.epoch AND (s.epoch = 0 OR s.owner IS NOT NULL)
    RETURNING s.id
), new_events AS (
    INSERT INTO tercet.events (stream_id, seq, data, chain)
    SELECT e.stream_id, e.seq, e.data, e.chain
      FROM unnest($7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[]) AS e (stream_id, seq, data, chain)
      JOIN moved ON moved.id = e.stream_id
), new_checkpoints AS (
    INSERT INTO tercet.checkpoints (stream_id, kind, seq, hash, data)
    SELECT c.stream_id, c.kind, c.seq, c.hash, c.data
      FROM unnest($11::bigint[], $12::text[], $13::bigint[], $14::bytea[], $15::bytea[])
           AS c (stream_id, kind, seq, hash, data)
      JOIN moved ON moved.id = c.stream_id
), new_blobs AS (
    INSERT INTO tercet.blobs (tenant, digest, data)
    SELECT b.tenant, b.digest, b.data
      FROM unnest($16::bigint[], $17::text[], $18::bytea[], $19::bytea[]) AS b (stream_id, tenant, digest, data)
      JOIN moved ON moved.id = b.stream_id
        ON CONFLICT DO NOTHING
), new_claims AS (
    INSERT INTO tercet.claims (tenant, key, stream, seq)
    SELECT c.tenant, c.key, c.stream, c.seq
      FROM unnest($20::bigint[], $21::text[], $22::text[], $23::text[], $24::bigint[])
           AS c (stream_id, tenant, key, stream, seq)
      JOIN moved ON moved.id = c.stream_id
), new_sessions AS (
    INSERT INTO tercet.sessions (tenant, session_id, status, pack, pack_hash, snapshot, intent, owner,
                                 started_at, updated_at, next_step, details)
    SELECT r.tenant, r.session_id, r.status, r.pack, r.pack_hash, r.snapshot, r.intent, r.owner,
           r.started_at, r.updated_at, r.next_step, r.details
      FROM unnest($25::bigint[], $26::text[], $27::text[], $28::text[], $29::text[], $30::text[], $31::text[],
                  $32::text[], $33::text[], $34::bigint[], $35::bigint[], $36::text[], $37::bytea[])
           AS r (stream_id, session_id, tenant, status, pack, pack_hash, snapshot, intent, owner,
                 started_at, updated_at, next_step, details)
      JOIN moved ON moved.id = r.stream_id
        ON CONFLICT (tenant, session_id) DO UPDATE
       SET status = excluded.status, pack = excluded.pack, pack_hash = excluded.pack_hash,
           snapshot = excluded.snapshot, intent = excluded.intent, owner = excluded.owner,
           started_at = excluded.started_at, updated_at = excluded.updated_at,
           next_step = excluded.next_step, details = excluded.details
)
SELECT id FROM moved

-- name: begin_streams
INSERT INTO tercet.streams (tenant, stream, seq, chain, owner, epoch, until)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::bigint[], $7::bigint[])
    ON CONFLICT DO NOTHING
RETURNING id, tenant, stream

-- name: find_streams
SELECT s.tenant, s.stream, s.id, s.seq, s.chain, s.owner, s.epoch, s.until
  FROM unnest($1::text[], $2::text[]) AS wanted (tenant, stream)
  JOIN tercet.streams AS s ON s.tenant = wanted.tenant AND s.stream = wanted.stream

-- name: add_stream
INSERT INTO tercet.streams (tenant, stream, seq, chain, owner, epoch, until)
VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING

-- name: lock_stream
SELECT id, seq, chain, owner, epoch, until FROM tercet.streams WHERE tenant = $1 AND stream = $2 FOR UPDATE

-- name: lease_stream
UPDATE tercet.streams SET owner = $2, epoch = $3, until = $4 WHERE id = $1

-- name: find_claims
SELECT key, stream FROM tercet.claims WHERE tenant = $1 AND key = ANY($2::text[])

-- name: find_checkpoint_hash
SELECT hash FROM tercet.checkpoints WHERE stream_id = $1 AND kind = $2 AND seq = $3

-- name: find_chain
SELECT chain FROM tercet.events WHERE stream_id = $1 AND seq = $2

-- Reading.

-- name: read_events
SELECT seq, data, chain
  FROM tercet.events
 WHERE stream_id = (SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2) AND seq > $3
 ORDER BY seq LIMIT $4

-- name: read_head
SELECT seq, chain FROM tercet.streams WHERE tenant = $1 AND stream = $2

-- name: newest_checkpoint
SELECT seq, kind, hash, data
  FROM tercet.checkpoints
 WHERE stream_id = (SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2) AND kind = $3
 ORDER BY seq DESC LIMIT 1

-- name: read_checkpoints
WITH mine AS (
    SELECT seq, kind, hash, data
      FROM tercet.checkpoints
     WHERE stream_id = (SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2) AND seq > $3
)
SELECT seq, kind, hash, data
  FROM mine
 WHERE seq <= (SELECT max(seq) FROM (SELECT seq FROM mine ORDER BY seq LIMIT $4) AS page)
 ORDER BY seq, kind

-- name: read_blob
SELECT data FROM tercet.blobs WHERE tenant = $1 AND digest = $2

-- name: read_claim
SELECT stream, seq FROM tercet.claims WHERE tenant = $1 AND key = $2

-- name: read_session
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details
  FROM tercet.sessions
 WHERE tenant = $1 AND session_id = $2

-- name: list_sessions
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details
  FROM tercet.sessions
 WHERE tenant = $1
   AND ($2::text IS NULL OR status = $2)
   AND ($3::text IS NULL OR (started_at, session_id) < ($4::bigint, $3))
 ORDER BY started_at DESC, session_id DESC LIMIT $5
