-- Writing. Streams and claims are looked up for a whole batch at once.

-- name: find_streams
SELECT s.tenant, s.stream, s.id, s.seq, s.chain, s.owner, s.epoch, s.until
  FROM json_each(?) AS wanted
 CROSS JOIN streams AS s
    ON s.tenant = json_extract(wanted.value, '$[0]') AND s.stream = json_extract(wanted.value, '$[1]')

-- name: find_claims
SELECT c.tenant, c.key, s.stream
  FROM json_each(?) AS wanted
 CROSS JOIN claims AS c
    ON c.tenant = json_extract(wanted.value, '$[0]') AND c.key = json_extract(wanted.value, '$[1]')
  LEFT JOIN streams AS s ON s.id = c.stream_id

-- name: find_checkpoint_hash
SELECT hash FROM checkpoints WHERE stream_id = ?1 AND kind = ?2 AND seq = ?3
 UNION ALL
SELECT substr(point, 1, 32) FROM events WHERE stream_id = ?1 AND ?2 = 'point' AND seq = ?3 AND point <> x''

-- name: last_stream
SELECT coalesce(max(id), 0) FROM streams

-- name: add_stream
INSERT INTO streams (id, tenant, stream, seq, chain, owner, epoch, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: move_stream
UPDATE streams SET seq = ?, chain = ?, owner = ?, epoch = ?, until = ? WHERE id = ?

-- name: add_event
INSERT INTO events (stream_id, seq, data, chain, sizes, point, size) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: add_checkpoint
INSERT INTO checkpoints (stream_id, kind, seq, hash, data) VALUES (?, ?, ?, ?, ?)

-- name: add_blob
INSERT INTO blobs (tenant, digest, data, size) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: add_blob_use
INSERT INTO blob_uses (tenant, digest, stream_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: add_claim
INSERT INTO claims (tenant, key, stream_id, seq) VALUES (?, ?, ?, ?)

-- name: put_bell
INSERT INTO bells (tenant, rings) VALUES (?, ?) ON CONFLICT (tenant) DO UPDATE SET rings = excluded.rings

-- name: put_reminder
INSERT INTO reminders (tenant, name, due_at) VALUES (?, ?, ?)
    ON CONFLICT (tenant, name) DO UPDATE SET due_at = excluded.due_at

-- name: drop_reminder
DELETE FROM reminders WHERE tenant = ? AND name = ?

-- name: put_session
INSERT INTO sessions (tenant, session_id, status, pack, pack_hash, snapshot, intent, owner,
                      started_at, updated_at, next_step, details, due_at, waits_since)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant, session_id) DO UPDATE
   SET status = excluded.status, pack = excluded.pack, pack_hash = excluded.pack_hash, snapshot = excluded.snapshot,
       intent = excluded.intent, owner = excluded.owner, started_at = excluded.started_at,
       updated_at = excluded.updated_at, next_step = excluded.next_step, details = excluded.details,
       due_at = excluded.due_at, waits_since = excluded.waits_since

-- name: touch_session
UPDATE sessions SET status = ?, updated_at = ?, next_step = ?, details = ? WHERE tenant = ? AND session_id = ?

-- Forgetting a stream. Its blobs go first, as long as its uses say which they are.

-- name: forget_blobs
DELETE FROM blobs
 WHERE tenant = :tenant
   AND digest IN (SELECT digest FROM blob_uses WHERE stream_id = :id)
   AND NOT EXISTS (SELECT 1 FROM blob_uses AS other
                    WHERE other.tenant = blobs.tenant AND other.digest = blobs.digest AND other.stream_id <> :id)

-- name: forget_blob_uses
DELETE FROM blob_uses WHERE stream_id = :id

-- name: forget_events
DELETE FROM events WHERE stream_id = :id

-- name: forget_checkpoints
DELETE FROM checkpoints WHERE stream_id = :id

-- name: forget_claims
DELETE FROM claims WHERE stream_id = :id

-- name: forget_session
DELETE FROM sessions WHERE tenant = :tenant AND session_id = :stream

-- name: forget_stream
DELETE FROM streams WHERE id = :id

-- Reading.

-- Up to the row that holds the last event which is asked for.
-- name: read_events
WITH mine AS (
    SELECT id FROM streams WHERE tenant = ?1 AND stream = ?2
)
SELECT seq, data, chain, sizes, size
  FROM events
 WHERE stream_id = (SELECT id FROM mine) AND seq > ?3
   AND seq <= coalesce((SELECT min(seq) FROM events WHERE stream_id = (SELECT id FROM mine) AND seq >= ?3 + ?4), ?3 + ?4)
 ORDER BY seq

-- name: read_head
SELECT seq, chain FROM streams WHERE tenant = ? AND stream = ?

-- name: read_lease
SELECT owner, epoch, until FROM streams WHERE tenant = ? AND stream = ? AND owner IS NOT NULL

-- name: read_bell
SELECT rings FROM bells WHERE tenant = ?

-- name: newest_checkpoint
WITH mine AS (
    SELECT id FROM streams WHERE tenant = ?1 AND stream = ?2
)
SELECT seq, kind, hash, data FROM checkpoints WHERE stream_id = (SELECT id FROM mine) AND kind = ?3
 UNION ALL
SELECT *
  FROM (SELECT seq, 'point', substr(point, 1, 32), substr(point, 33)
          FROM events
         WHERE stream_id = (SELECT id FROM mine) AND ?3 = 'point' AND point <> x''
         ORDER BY seq DESC LIMIT 1)
 ORDER BY seq DESC LIMIT 1

-- name: read_checkpoints
WITH mine AS (
    SELECT seq, kind, hash, data
      FROM checkpoints
     WHERE stream_id = (SELECT id FROM streams WHERE tenant = ?1 AND stream = ?2) AND seq > ?3
     UNION ALL
    SELECT *
      FROM (SELECT seq, 'point', substr(point, 1, 32), substr(point, 33)
              FROM events
             WHERE stream_id = (SELECT id FROM streams WHERE tenant = ?1 AND stream = ?2) AND seq > ?3 AND point <> x''
             ORDER BY seq LIMIT ?4 + 1)
)
SELECT seq, kind, hash, data
  FROM mine
 WHERE seq <= (SELECT max(seq) FROM (SELECT seq FROM mine ORDER BY seq LIMIT ?4))
 ORDER BY seq, kind

-- name: read_blob
SELECT data, size FROM blobs WHERE tenant = ? AND digest = ?

-- name: list_blobs
SELECT digest
  FROM blob_uses
 WHERE tenant = ?1 AND stream_id = (SELECT id FROM streams WHERE tenant = ?1 AND stream = ?2) AND digest > ?3
 ORDER BY digest LIMIT ?4

-- name: read_claim
SELECT s.stream, c.seq FROM claims AS c LEFT JOIN streams AS s ON s.id = c.stream_id WHERE c.tenant = ? AND c.key = ?

-- name: list_claims
SELECT c.key, s.stream, c.seq
  FROM claims AS c
  LEFT JOIN streams AS s ON s.id = c.stream_id
 WHERE c.tenant = ?1 AND c.key >= ?2 AND c.key < ?3
 ORDER BY c.key LIMIT ?4

-- name: read_session
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ? AND session_id = ?

-- name: list_session_ids
SELECT session_id FROM sessions WHERE tenant = ?1 AND session_id >= ?2 AND session_id < ?3 ORDER BY session_id LIMIT ?4

-- name: list_sessions
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ?1
   AND (?2 IS NULL OR status = ?2)
   AND (?6 IS NULL OR intent IN (SELECT value FROM json_each(?6)))
   AND (?7 IS NULL OR owner = ?7)
   AND (?8 IS NULL OR instr(lower(session_id), lower(?8)) > 0 OR instr(lower(intent), lower(?8)) > 0 OR instr(lower(owner), lower(?8)) > 0 OR instr(lower(pack), lower(?8)) > 0)
   AND (started_at, session_id) < (?4, ?3) AND (started_at, session_id) >= (?9, ?10)
 ORDER BY started_at DESC, session_id DESC LIMIT ?5 OFFSET ?11

-- name: list_sessions_by_status
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ?1 AND status = ?2
   AND (?6 IS NULL OR intent IN (SELECT value FROM json_each(?6)))
   AND (?7 IS NULL OR owner = ?7)
   AND (?8 IS NULL OR instr(lower(session_id), lower(?8)) > 0 OR instr(lower(intent), lower(?8)) > 0 OR instr(lower(owner), lower(?8)) > 0 OR instr(lower(pack), lower(?8)) > 0)
   AND (started_at, session_id) < (?4, ?3) AND (started_at, session_id) >= (?9, ?10)
 ORDER BY started_at DESC, session_id DESC LIMIT ?5 OFFSET ?11

-- name: list_sessions_by_intent
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ?1 AND intent = ?6
   AND (?2 IS NULL OR status = ?2)
   AND (?7 IS NULL OR owner = ?7)
   AND (?8 IS NULL OR instr(lower(session_id), lower(?8)) > 0 OR instr(lower(intent), lower(?8)) > 0 OR instr(lower(owner), lower(?8)) > 0 OR instr(lower(pack), lower(?8)) > 0)
   AND (started_at, session_id) < (?4, ?3) AND (started_at, session_id) >= (?9, ?10)
 ORDER BY started_at DESC, session_id DESC LIMIT ?5 OFFSET ?11

-- name: list_sessions_by_owner
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ?1 AND owner = ?7
   AND (?2 IS NULL OR status = ?2)
   AND (?6 IS NULL OR intent IN (SELECT value FROM json_each(?6)))
   AND (?8 IS NULL OR instr(lower(session_id), lower(?8)) > 0 OR instr(lower(intent), lower(?8)) > 0 OR instr(lower(owner), lower(?8)) > 0 OR instr(lower(pack), lower(?8)) > 0)
   AND (started_at, session_id) < (?4, ?3) AND (started_at, session_id) >= (?9, ?10)
 ORDER BY started_at DESC, session_id DESC LIMIT ?5 OFFSET ?11

-- name: list_due
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ? AND due_at <= ?
 ORDER BY due_at, session_id LIMIT ?

-- name: list_waiting
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ?1 AND waits_since IS NOT NULL AND (waits_since, session_id) > (?2, ?3)
 ORDER BY waits_since, session_id LIMIT ?4

-- name: list_resumable
WITH ready AS (
    SELECT * FROM sessions INDEXED BY sessions_in_progress WHERE status = 'in_progress'
    UNION ALL
    SELECT * FROM sessions INDEXED BY sessions_due WHERE status <> 'in_progress' AND due_at <= ?1
), unheld AS (
    SELECT r.*, row_number() OVER (PARTITION BY r.tenant ORDER BY r.updated_at, r.session_id) AS place
      FROM ready AS r
      JOIN streams AS s ON s.tenant = r.tenant AND s.stream = r.session_id
     WHERE (s.owner IS NULL OR s.until <= ?1)
       AND (r.updated_at, r.tenant, r.session_id) > (?3, ?4, ?5)
)
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM unheld
 WHERE place <= ?2
 ORDER BY updated_at, tenant, session_id

-- name: list_unfinished
WITH RECURSIVE owners (tenant) AS (
    SELECT min(tenant) FROM sessions
    UNION ALL
    SELECT (SELECT min(s.tenant) FROM sessions AS s WHERE s.tenant > o.tenant)
      FROM owners AS o
     WHERE o.tenant IS NOT NULL
), found AS (
    SELECT count(*) OVER (PARTITION BY s.status) AS total,
           row_number() OVER (PARTITION BY s.status ORDER BY s.started_at, s.tenant, s.session_id) AS place, s.*
      FROM owners AS o
      JOIN sessions AS s ON s.tenant = o.tenant
     WHERE s.status IN (SELECT value FROM json_each(?3)) AND s.pack = ?1 AND substr(s.pack_hash, 1, length(?2)) = ?2
)
SELECT total, session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step,
       details, due_at, waits_since
  FROM found
 WHERE place <= ?4
 ORDER BY started_at, tenant, session_id

-- name: list_reminders
SELECT tenant, name, due_at FROM reminders WHERE due_at <= ?1 ORDER BY due_at, tenant, name LIMIT ?2

-- name: list_reminders_of
SELECT tenant, name, due_at
  FROM reminders
 WHERE tenant = ?1 AND due_at <= ?2
 ORDER BY due_at, name LIMIT ?3

-- name: list_ended
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE tenant = ? AND updated_at < ? AND status IN (SELECT value FROM json_each(?))
 ORDER BY updated_at, session_id LIMIT ?

-- Checking a whole journal: each page begins after the last key of the page before.

-- name: check_streams
SELECT tenant, stream FROM streams WHERE (tenant, stream) > (?1, ?2) ORDER BY tenant, stream LIMIT ?3

-- name: check_sessions
SELECT session_id, tenant, status, pack, pack_hash, snapshot, intent, owner, started_at, updated_at, next_step, details,
       due_at, waits_since
  FROM sessions
 WHERE (tenant, session_id) > (?1, ?2)
 ORDER BY tenant, session_id LIMIT ?3

-- name: check_claims
SELECT c.tenant, c.key, s.stream
  FROM claims AS c
  LEFT JOIN streams AS s ON s.id = c.stream_id AND s.tenant = c.tenant
 WHERE (c.tenant, c.key) > (?1, ?2)
 ORDER BY c.tenant, c.key LIMIT ?3

-- name: claims_of_stream
SELECT c.key, c.seq
  FROM streams AS s
  JOIN claims AS c ON c.stream_id = s.id AND c.tenant = s.tenant
 WHERE s.tenant = ?1 AND s.stream = ?2

-- name: check_foreign_rows
SELECT 'event', e.stream_id, e.seq, s.stream
  FROM events AS e
  LEFT JOIN streams AS s ON s.id = e.stream_id
 WHERE s.id IS NULL OR e.seq < 1
 UNION ALL
SELECT 'checkpoint', c.stream_id, c.seq, s.stream
  FROM checkpoints AS c
  LEFT JOIN streams AS s ON s.id = c.stream_id
 WHERE s.id IS NULL OR c.seq < 1 OR c.seq > s.seq
 LIMIT 100

-- name: check_blobs
SELECT tenant, digest FROM blobs WHERE (tenant, digest) > (?1, ?2) ORDER BY tenant, digest LIMIT ?3

-- name: check_blob_uses
SELECT u.tenant, u.digest
  FROM blob_uses AS u
  LEFT JOIN blobs AS b ON b.tenant = u.tenant AND b.digest = u.digest
 WHERE b.digest IS NULL AND (u.tenant, u.digest) > (?1, ?2)
 GROUP BY u.tenant, u.digest
 ORDER BY u.tenant, u.digest LIMIT ?3

-- name: integrity_check
PRAGMA integrity_check(100)
