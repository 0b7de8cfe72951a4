-- Writing.

-- What a batch stores, in one statement that is put together out of parts: `store`, then `moved` or, where streams begin,
-- `store_streams`, one part for every other table that the batch adds to, and `answer`. Each part counts its parameters
-- from 1. Nobody rings while the statement holds its tenants' locks, which it takes before anything else. A stream moves
-- only if it still ends where the batch was computed and its lease epoch is still the writer's; UPDATE locks the row and
-- looks again after waiting for somebody else's change, so no take-over slips in between. Nothing of a stream that did
-- not move is stored.
-- name: store
WITH heard AS (
    SELECT t.tenant, tercet.listen(t.tenant, t.is_ringing) AS rings
      FROM unnest($1::text[], $2::boolean[]) AS t (tenant, is_ringing)
), advanced AS (
    UPDATE tercet.streams AS s
       SET seq = m.seq, chain = m.chain
      FROM unnest($3::bigint[], $4::bigint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bytea[])
           AS m (id, old_seq, old_chain, epoch, seq, chain)
     WHERE (SELECT count(*) FROM heard) > 0
       AND s.id = m.id AND s.seq = m.old_seq AND s.chain = m.old_chain
       AND s.epoch = m.epoch AND (s.epoch = 0 OR s.owner IS NOT NULL)
    RETURNING s.id, s.tenant, s.stream
)

-- name: moved
, moved AS (
    SELECT id AS ref, id, tenant, stream FROM advanced
)

-- name: store_streams
-- Rows of a stream that begins refer to it by a number below zero, since the server gives it its own here; it does not
-- begin if another writer has begun it already.
, fresh AS (
    SELECT *
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[])
           AS f (ref, tenant, stream, seq, chain, owner, epoch, until)
), begun AS (
    INSERT INTO tercet.streams (tenant, stream, seq, chain, owner, epoch, until)
    SELECT tenant, stream, seq, chain, owner, epoch, until
      FROM fresh
     WHERE (SELECT count(*) FROM heard) > 0
        ON CONFLICT DO NOTHING
    RETURNING id, tenant, stream
), moved AS (
    SELECT id AS ref, id, tenant, stream FROM advanced
     UNION ALL
    SELECT fresh.ref, begun.id, begun.tenant, begun.stream FROM begun JOIN fresh USING (tenant, stream)
)

-- name: store_events
, new_events AS (
    INSERT INTO tercet.events (stream_id, seq, data, chain, sizes, point)
    SELECT moved.id, e.seq, e.data, e.chain, e.sizes, e.point
      FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[])
           AS e (stream_id, seq, data, chain, sizes, point)
      JOIN moved ON moved.ref = e.stream_id
)

-- name: store_checkpoints
, new_checkpoints AS (
    INSERT INTO tercet.checkpoints (stream_id, kind, seq, hash, data)
    SELECT moved.id, c.kind, c.seq, c.hash, c.data
      FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bytea[], $5::bytea[])
           AS c (stream_id, kind, seq, hash, data)
      JOIN moved ON moved.ref = c.stream_id
)

-- name: store_blobs
, new_blobs AS (
    INSERT INTO tercet.blobs (tenant, digest, data)
    SELECT moved.tenant, b.digest, b.data
      FROM unnest($1::bigint[], $2::bytea[], $3::bytea[]) AS b (stream_id, digest, data)
      JOIN moved ON moved.ref = b.stream_id
        ON CONFLICT DO NOTHING
), new_blob_uses AS (
    INSERT INTO tercet.blob_uses (tenant, digest, stream_id)
    SELECT moved.tenant, b.digest, moved.id
      FROM unnest($1::bigint[], $2::bytea[]) AS b (stream_id, digest)
      JOIN moved ON moved.ref = b.stream_id
        ON CONFLICT DO NOTHING
)

-- name: store_claims
, new_claims AS (
    INSERT INTO tercet.claims (tenant, key, stream_id, seq)
    SELECT moved.tenant, c.key, moved.id, c.seq
      FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS c (stream_id, key, seq)
      JOIN moved ON moved.ref = c.stream_id
)

-- name: store_sessions
, new_sessions AS (
    INSERT INTO tercet.sessions (tenant, session_id, status, pack, pack_hash, snapshot, intent, owner,
                                 started_at, updated_at, next_step, details, due_at, waits_since)
    SELECT moved.tenant, moved.stream, r.status, r.pack, r.pack_hash, r.snapshot, r.intent, r.owner,
           r.started_at, r.updated_at, r.next_step, r.details, r.due_at, r.waits_since
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::bigint[], $9::bigint[], $10::text[], $11::bytea[], $12::bigint[], $13::bigint[])
           AS r (stream_id, status, pack, pack_hash, snapshot, intent, owner,
                 started_at, updated_at, next_step, details, due_at, waits_since)
      JOIN moved ON moved.ref = r.stream_id
        ON CONFLICT (tenant, session_id) DO UPDATE
       SET status = excluded.status, pack = excluded.pack, pack_hash = excluded.pack_hash,
           snapshot = excluded.snapshot, intent = excluded.intent, owner = excluded.owner,
           started_at = excluded.started_at, updated_at = excluded.updated_at,
           next_step = excluded.next_step, details = excluded.details, due_at = excluded.due_at,
           waits_since = excluded.waits_since
)

-- name: store_rings
, rung AS (
    INSERT INTO tercet.bells AS b (tenant, rings)
    SELECT r.tenant, count(*)
      FROM unnest($1::bigint[], $2::text[]) AS r (stream_id, tenant)
      JOIN moved ON moved.ref = r.stream_id
     GROUP BY r.tenant
        ON CONFLICT (tenant) DO UPDATE SET rings = b.rings + excluded.rings
    RETURNING b.tenant, b.rings
)

-- name: store_reminders
, new_reminders AS (
    INSERT INTO tercet.reminders (tenant, name, due_at)
    SELECT moved.tenant, r.name, r.due_at
      FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS r (stream_id, name, due_at)
      JOIN moved ON moved.ref = r.stream_id
     WHERE r.due_at IS NOT NULL
        ON CONFLICT (tenant, name) DO UPDATE SET due_at = excluded.due_at
), old_reminders AS (
    DELETE FROM tercet.reminders AS o
     USING unnest($1::bigint[], $2::text[], $3::bigint[]) AS r (stream_id, name, due_at)
      JOIN moved ON moved.ref = r.stream_id
     WHERE r.due_at IS NULL AND o.tenant = moved.tenant AND o.name = r.name
)

-- name: answer
SELECT moved.ref, moved.id, heard.rings FROM moved JOIN heard USING (tenant)

-- name: answer_ringing
SELECT moved.ref, moved.id, coalesce(rung.rings, heard.rings) AS rings
  FROM moved
  JOIN heard USING (tenant)
  LEFT JOIN rung USING (tenant)

-- name: listen
SELECT tercet.listen($1, $2)

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
SELECT c.key, s.stream
  FROM tercet.claims AS c
  JOIN tercet.streams AS s ON s.id = c.stream_id
 WHERE c.tenant = $1 AND c.key = ANY($2::text[])

-- name: find_checkpoint_hash
SELECT hash FROM tercet.checkpoints WHERE stream_id = $1 AND kind = $2::text AND seq = $3
 UNION ALL
SELECT substring(point FOR 32) FROM tercet.events WHERE stream_id = $1 AND $2::text = 'point' AND seq = $3 AND point <> ''

-- The link of the last event of a row.
-- name: find_chain
SELECT substring(chain FROM length(chain) - 31) FROM tercet.events WHERE stream_id = $1 AND seq = $2

-- Forgetting a stream. Its blobs go first, as long as its uses say which they are.

-- name: forget_blobs
DELETE FROM tercet.blobs AS b
 USING tercet.blob_uses AS mine
 WHERE mine.stream_id = $1 AND b.tenant = mine.tenant AND b.digest = mine.digest
   AND NOT EXISTS (SELECT 1 FROM tercet.blob_uses AS other
                    WHERE other.tenant = b.tenant AND other.digest = b.digest AND other.stream_id <> $1)

-- name: forget_session
DELETE FROM tercet.sessions AS r
 USING tercet.streams AS s
 WHERE s.id = $1 AND r.tenant = s.tenant AND r.session_id = s.stream

-- name: forget_rest
WITH uses AS (
    DELETE FROM tercet.blob_uses WHERE stream_id = $1
), events AS (
    DELETE FROM tercet.events WHERE stream_id = $1
), checkpoints AS (
    DELETE FROM tercet.checkpoints WHERE stream_id = $1
), claims AS (
    DELETE FROM tercet.claims WHERE stream_id = $1
)
DELETE FROM tercet.streams WHERE id = $1

-- Reading.

-- Up to the row that holds the last event which is asked for.
-- name: read_events
WITH mine AS (
    SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2
)
SELECT seq, data, chain, sizes, 0
  FROM tercet.events
 WHERE stream_id = (SELECT id FROM mine) AND seq > $3::bigint
   AND seq <= coalesce(
           (SELECT min(seq) FROM tercet.events WHERE stream_id = (SELECT id FROM mine) AND seq >= $3::bigint + $4::bigint),
           $3::bigint + $4::bigint)
 ORDER BY seq

-- name: read_head
SELECT seq, chain FROM tercet.streams WHERE tenant = $1 AND stream = $2

-- name: read_lease
SELECT owner, epoch, until FROM tercet.streams WHERE tenant = $1 AND stream = $2 AND owner IS NOT NULL

-- name: read_bell
SELECT rings FROM tercet.bells WHERE tenant = $1

-- name: newest_checkpoint
WITH mine AS (
    SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2
)
SELECT seq, kind, hash, data FROM tercet.checkpoints WHERE stream_id = (SELECT id FROM mine) AND kind = $3::text
 UNION ALL
(SELECT seq, 'point', substring(point FOR 32), substring(point FROM 33)
   FROM tercet.events
  WHERE stream_id = (SELECT id FROM mine) AND $3::text = 'point' AND point <> ''
  ORDER BY seq DESC LIMIT 1)
 ORDER BY seq DESC LIMIT 1

-- name: read_checkpoints
WITH mine AS (
    SELECT seq, kind, hash, data
      FROM tercet.checkpoints
     WHERE stream_id = (SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2) AND seq > $3
     UNION ALL
    (SELECT seq, 'point', substring(point FOR 32), substring(point FROM 33)
       FROM tercet.events
      WHERE stream_id = (SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2) AND seq > $3 AND point <> ''
      ORDER BY seq LIMIT $4::bigint + 1)
)
SELECT seq, kind, hash, data
  FROM mine
 WHERE seq <= (SELECT max(seq) FROM (SELECT seq FROM mine ORDER BY seq LIMIT $4::bigint) AS page)
 ORDER BY seq, kind

-- name: read_blob
SELECT data, 0 FROM tercet.blobs WHERE tenant = $1 AND digest = $2

-- name: list_blobs
SELECT digest
  FROM tercet.blob_uses
 WHERE tenant = $1 AND stream_id = (SELECT id FROM tercet.streams WHERE tenant = $1 AND stream = $2) AND digest > $3
 ORDER BY digest LIMIT $4

-- name: read_claim
SELECT s.stream, c.seq
  FROM tercet.claims AS c
  LEFT JOIN tercet.streams AS s ON s.id = c.stream_id
 WHERE c.tenant = $1 AND c.key = $2

-- name: list_claims
SELECT c.key, s.stream, c.seq
  FROM tercet.claims AS c
  LEFT JOIN tercet.streams AS s ON s.id = c.stream_id
 WHERE c.tenant = $1 AND c.key >= $2 AND c.key < $3
 ORDER BY c.key LIMIT $4

-- name: read_session
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND session_id = $2

-- name: list_session_ids
SELECT session_id
  FROM tercet.sessions
 WHERE tenant = $1 AND session_id >= $2 AND session_id < $3
 ORDER BY session_id LIMIT $4

-- name: list_sessions
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1
   AND ($2::text IS NULL OR status = $2)
   AND ($6::text IS NULL OR intent IN (SELECT jsonb_array_elements_text($6::text::jsonb)))
   AND ($7::text IS NULL OR owner = $7)
   AND ($8::text IS NULL OR strpos(lower(session_id), lower($8)) > 0 OR strpos(lower(intent), lower($8)) > 0 OR strpos(lower(owner), lower($8)) > 0 OR strpos(lower(pack), lower($8)) > 0)
   AND (started_at, session_id) < ($4::bigint, $3::text) AND (started_at, session_id) >= ($9::bigint, $10::text)
 ORDER BY started_at DESC, session_id DESC LIMIT $5 OFFSET $11

-- name: list_sessions_by_status
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND status = $2::text
   AND ($6::text IS NULL OR intent IN (SELECT jsonb_array_elements_text($6::text::jsonb)))
   AND ($7::text IS NULL OR owner = $7)
   AND ($8::text IS NULL OR strpos(lower(session_id), lower($8)) > 0 OR strpos(lower(intent), lower($8)) > 0 OR strpos(lower(owner), lower($8)) > 0 OR strpos(lower(pack), lower($8)) > 0)
   AND (started_at, session_id) < ($4::bigint, $3::text) AND (started_at, session_id) >= ($9::bigint, $10::text)
 ORDER BY started_at DESC, session_id DESC LIMIT $5 OFFSET $11

-- name: list_sessions_by_intent
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND intent = $6::text
   AND ($2::text IS NULL OR status = $2)
   AND ($7::text IS NULL OR owner = $7)
   AND ($8::text IS NULL OR strpos(lower(session_id), lower($8)) > 0 OR strpos(lower(intent), lower($8)) > 0 OR strpos(lower(owner), lower($8)) > 0 OR strpos(lower(pack), lower($8)) > 0)
   AND (started_at, session_id) < ($4::bigint, $3::text) AND (started_at, session_id) >= ($9::bigint, $10::text)
 ORDER BY started_at DESC, session_id DESC LIMIT $5 OFFSET $11

-- name: list_sessions_by_owner
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND owner = $7::text
   AND ($2::text IS NULL OR status = $2)
   AND ($6::text IS NULL OR intent IN (SELECT jsonb_array_elements_text($6::text::jsonb)))
   AND ($8::text IS NULL OR strpos(lower(session_id), lower($8)) > 0 OR strpos(lower(intent), lower($8)) > 0 OR strpos(lower(owner), lower($8)) > 0 OR strpos(lower(pack), lower($8)) > 0)
   AND (started_at, session_id) < ($4::bigint, $3::text) AND (started_at, session_id) >= ($9::bigint, $10::text)
 ORDER BY started_at DESC, session_id DESC LIMIT $5 OFFSET $11

-- name: list_due
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND due_at <= $2
 ORDER BY due_at, session_id LIMIT $3

-- name: list_waiting
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND waits_since IS NOT NULL AND (waits_since, session_id) > ($2::bigint, $3::text)
 ORDER BY waits_since, session_id LIMIT $4

-- name: list_resumable
WITH ready AS (
    SELECT * FROM tercet.sessions WHERE status = 'in_progress'
    UNION ALL
    SELECT * FROM tercet.sessions WHERE status <> 'in_progress' AND due_at <= $1
), unheld AS (
    SELECT r.*, row_number() OVER (PARTITION BY r.tenant ORDER BY r.updated_at, r.session_id) AS place
      FROM ready AS r
      JOIN tercet.streams AS s ON s.tenant = r.tenant AND s.stream = r.session_id
     WHERE (s.owner IS NULL OR s.until <= $1)
       AND (r.updated_at, r.tenant, r.session_id) > ($3::bigint, $4::text, $5::text)
)
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM unheld
 WHERE place <= $2
 ORDER BY updated_at, tenant, session_id

-- name: list_unfinished
WITH RECURSIVE owners (tenant) AS (
    SELECT min(tenant) FROM tercet.sessions
    UNION ALL
    SELECT (SELECT min(s.tenant) FROM tercet.sessions AS s WHERE s.tenant > o.tenant)
      FROM owners AS o
     WHERE o.tenant IS NOT NULL
), found AS (
    SELECT count(*) OVER (PARTITION BY s.status) AS total,
           row_number() OVER (PARTITION BY s.status ORDER BY s.started_at, s.tenant, s.session_id) AS place, s.*
      FROM owners AS o
     CROSS JOIN LATERAL (
            SELECT *
              FROM tercet.sessions
             WHERE tenant = o.tenant AND status = ANY($3::text[]) AND pack = $1 AND starts_with(pack_hash, $2::text)
            OFFSET 0 -- looked up for each tenant, by the index of statuses
        ) AS s
)
SELECT total, session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step,
       details, due_at, waits_since
  FROM found
 WHERE place <= $4
 ORDER BY started_at, tenant, session_id

-- name: list_reminders
SELECT tenant, name, due_at FROM tercet.reminders WHERE due_at <= $1 ORDER BY due_at, tenant, name LIMIT $2

-- name: list_reminders_of
SELECT tenant, name, due_at
  FROM tercet.reminders
 WHERE tenant = $1 AND due_at <= $2
 ORDER BY due_at, name LIMIT $3

-- name: list_ended
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE tenant = $1 AND updated_at < $2 AND status = ANY($3::text[])
 ORDER BY updated_at, session_id LIMIT $4

-- Checking a whole journal: each page begins after the last key of the page before.

-- name: check_streams
SELECT tenant, stream FROM tercet.streams WHERE (tenant, stream) > ($1, $2) ORDER BY tenant, stream LIMIT $3

-- name: check_sessions
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM tercet.sessions
 WHERE (tenant, session_id) > ($1, $2)
 ORDER BY tenant, session_id LIMIT $3

-- name: check_claims
SELECT c.tenant, c.key, s.stream
  FROM tercet.claims AS c
  LEFT JOIN tercet.streams AS s ON s.id = c.stream_id AND s.tenant = c.tenant
 WHERE (c.tenant, c.key) > ($1, $2)
 ORDER BY c.tenant, c.key LIMIT $3

-- name: claims_of_stream
SELECT c.key, c.seq
  FROM tercet.streams AS s
  JOIN tercet.claims AS c ON c.stream_id = s.id AND c.tenant = s.tenant
 WHERE s.tenant = $1 AND s.stream = $2

-- name: check_foreign_rows
SELECT 'event', e.stream_id, e.seq, s.stream
  FROM tercet.events AS e
  LEFT JOIN tercet.streams AS s ON s.id = e.stream_id
 WHERE s.id IS NULL OR e.seq < 1
 UNION ALL
SELECT 'checkpoint', c.stream_id, c.seq, s.stream
  FROM tercet.checkpoints AS c
  LEFT JOIN tercet.streams AS s ON s.id = c.stream_id
 WHERE s.id IS NULL OR c.seq < 1 OR c.seq > s.seq
 LIMIT 100

-- name: check_blobs
SELECT tenant, digest FROM tercet.blobs WHERE (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT $3

-- name: check_blob_uses
SELECT u.tenant, u.digest
  FROM tercet.blob_uses AS u
  LEFT JOIN tercet.blobs AS b ON b.tenant = u.tenant AND b.digest = u.digest
 WHERE b.digest IS NULL AND (u.tenant, u.digest) > ($1, $2)
 GROUP BY u.tenant, u.digest
 ORDER BY u.tenant, u.digest LIMIT $3
