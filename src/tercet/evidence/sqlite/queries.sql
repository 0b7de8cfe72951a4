-- Snapshots and drafts.

-- name: find_tenant
SELECT id FROM tenants WHERE name = ?

-- name: add_tenant
INSERT INTO tenants (name) VALUES (?) ON CONFLICT DO NOTHING

-- name: find_snapshot
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM snapshots AS s JOIN tenants AS t ON t.id = s.tenant_id
 WHERE t.name = ? AND s.name = ?

-- A transaction that writes holds the only lock that there is.

-- name: lock_tenant
SELECT id FROM tenants WHERE name = ?

-- name: lock_snapshot
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM snapshots AS s JOIN tenants AS t ON t.id = s.tenant_id
 WHERE t.name = ? AND s.name = ?

-- name: newest_snapshot
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM snapshots AS s JOIN tenants AS t ON t.id = s.tenant_id
 WHERE t.name = ? AND s.number IS NOT NULL
 ORDER BY s.number DESC LIMIT 1

-- name: list_snapshots
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM snapshots AS s JOIN tenants AS t ON t.id = s.tenant_id
 WHERE t.name = ?
 ORDER BY s.number IS NOT NULL, s.number DESC, s.name LIMIT ?

-- name: add_snapshot
INSERT INTO snapshots (tenant_id, name, created_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING id

-- name: number_snapshot
UPDATE snapshots SET name = ?, number = ?, frozen_at = ?, hash = ?, totals = ? WHERE id = ?

-- name: remove_snapshot
DELETE FROM snapshots WHERE id = ?

-- name: count_changes
SELECT count(*) FROM versions WHERE snapshot_id = ? AND since IS NULL

-- Pins.

-- name: add_pin
INSERT INTO pins (snapshot_id, session) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: remove_pin
DELETE FROM pins WHERE snapshot_id = ? AND session = ?

-- name: list_pins
SELECT session FROM pins WHERE snapshot_id = ? ORDER BY session

-- name: count_pins
SELECT count(*) FROM pins WHERE snapshot_id = ?

-- Adding to a draft.

-- name: last_fact
SELECT coalesce(max(id), 0) FROM facts

-- name: add_document
INSERT INTO documents (tenant_id, snapshot_id, name, hash, media_type, size) VALUES (?, ?, ?, ?, ?, ?)

-- name: add_fact
INSERT INTO facts (id, content, hash, trust, source, expires_at, chunk, first, behind)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_version
INSERT INTO versions (fact_id, tenant_id, classification, key, snapshot_id, document_id, until, is_removal, length)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)

-- name: find_change
SELECT fact_id FROM versions
 WHERE tenant_id = ? AND classification = ? AND key = ? AND until = ? AND snapshot_id = ? AND since IS NULL

-- name: changes_of_document
SELECT v.fact_id FROM versions AS v JOIN documents AS d ON d.id = v.document_id
 WHERE d.snapshot_id = ? AND d.name = ? AND v.since IS NULL

-- name: all_changes
SELECT fact_id FROM versions WHERE snapshot_id = ? AND since IS NULL

-- name: remove_documents
DELETE FROM documents WHERE snapshot_id = ?

-- Freezing a draft.

-- name: unindexed
SELECT v.fact_id, f.content FROM versions AS v JOIN facts AS f ON f.id = v.fact_id
 WHERE v.snapshot_id = ? AND v.since IS NULL AND v.fact_id > ? AND v.length IS NULL AND NOT v.is_removal
 ORDER BY v.fact_id LIMIT ?

-- name: index_words
INSERT INTO fact_words (rowid, words) VALUES (?, ?)

-- name: unindex_words
INSERT INTO fact_words (fact_words, rowid, words) VALUES ('delete', ?, ?)

-- name: set_length
UPDATE versions SET length = ? WHERE fact_id = ?

-- name: wake
UPDATE versions SET length = NULL
 WHERE snapshot_id = ? AND since IS NULL AND length = ? AND fact_id NOT IN (SELECT value FROM json_each(?))

-- name: vanished
SELECT old.classification, old.key
  FROM documents AS new
  JOIN documents AS d ON d.tenant_id = new.tenant_id AND d.name = new.name
  JOIN versions AS old ON old.document_id = d.id
 WHERE new.snapshot_id = ?1 AND old.since IS NOT NULL AND old.until = ?2
   AND NOT EXISTS (SELECT 1 FROM versions AS v
                    WHERE v.tenant_id = old.tenant_id AND v.classification = old.classification AND v.key = old.key
                      AND v.until = ?2 AND v.snapshot_id = ?1 AND v.since IS NULL)
 GROUP BY old.classification, old.key

-- name: idle
SELECT new.fact_id
  FROM versions AS new
  JOIN facts AS f ON f.id = new.fact_id
  LEFT JOIN documents AS d ON d.id = new.document_id
  LEFT JOIN versions AS old
    ON old.tenant_id = new.tenant_id AND old.classification = new.classification AND old.key = new.key
   AND old.until = ?2 AND old.since IS NOT NULL
  LEFT JOIN facts AS g ON g.id = old.fact_id
  LEFT JOIN documents AS e ON e.id = old.document_id
 WHERE new.snapshot_id = ?1 AND new.since IS NULL
   AND CASE WHEN new.is_removal THEN old.fact_id IS NULL
            ELSE old.fact_id IS NOT NULL AND f.hash = g.hash AND f.trust = g.trust AND f.source = g.source
             AND f.expires_at IS g.expires_at AND d.name IS e.name AND d.hash IS e.hash
             AND f.chunk IS g.chunk AND f.first IS g.first AND f.behind IS g.behind END

-- name: changes
SELECT new.classification, new.key, new.is_removal, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind, new.length, old.length
  FROM versions AS new
  JOIN facts AS f ON f.id = new.fact_id
  LEFT JOIN documents AS d ON d.id = new.document_id
  LEFT JOIN versions AS old
    ON old.tenant_id = new.tenant_id AND old.classification = new.classification AND old.key = new.key
   AND old.until = ?2 AND old.since IS NOT NULL
 WHERE new.snapshot_id = ?1 AND new.since IS NULL
 ORDER BY new.classification, new.key

-- name: end_replaced
UPDATE versions SET until = ?3
 WHERE fact_id IN (SELECT old.fact_id
                     FROM versions AS new
                     JOIN versions AS old
                       ON old.tenant_id = new.tenant_id AND old.classification = new.classification
                      AND old.key = new.key AND old.until = ?2 AND old.since IS NOT NULL
                    WHERE new.snapshot_id = ?1 AND new.since IS NULL)

-- name: all_removals
SELECT fact_id FROM versions WHERE snapshot_id = ? AND since IS NULL AND is_removal

-- name: begin_changes
UPDATE versions SET since = ?2 WHERE snapshot_id = ?1 AND since IS NULL

-- name: remove_idle_documents
DELETE FROM documents
 WHERE snapshot_id = ? AND NOT EXISTS (SELECT 1 FROM versions AS v WHERE v.document_id = documents.id)

-- Removing facts.

-- name: read_words
SELECT v.tenant_id, f.content, v.length FROM versions AS v JOIN facts AS f ON f.id = v.fact_id WHERE v.fact_id = ?

-- name: remove_fact
DELETE FROM facts WHERE id = ?

-- name: remove_version
DELETE FROM versions WHERE fact_id = ?

-- name: unseen
SELECT fact_id FROM versions AS v
 WHERE v.tenant_id = ?1 AND v.since IS NOT NULL AND v.until < ?2
   AND NOT EXISTS (SELECT 1 FROM snapshots AS s
                    WHERE s.tenant_id = ?1 AND s.number >= v.since AND s.number < v.until)

-- name: remove_unused_documents
DELETE FROM documents
 WHERE tenant_id = ?1
   AND NOT EXISTS (SELECT 1 FROM versions AS v WHERE v.document_id = documents.id)
   AND NOT EXISTS (SELECT 1 FROM snapshots AS s WHERE s.id = documents.snapshot_id AND s.number IS NULL)

-- Reading.

-- name: find_fact
SELECT v.classification, v.key, f.content, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind
  FROM versions AS v
  JOIN facts AS f ON f.id = v.fact_id
  LEFT JOIN documents AS d ON d.id = v.document_id
 WHERE v.tenant_id = ?1 AND v.classification = ?2 AND v.key = ?3
   AND v.until > ?4 AND v.since <= ?4

-- name: list_facts
SELECT v.classification, v.key, f.content, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind
  FROM versions AS v
  JOIN facts AS f ON f.id = v.fact_id
  LEFT JOIN documents AS d ON d.id = v.document_id
 WHERE v.tenant_id = ?1 AND (v.classification, v.key) > (?2, ?3)
   AND v.until > ?4 AND v.since <= ?4
   AND (?5 IS NULL OR v.classification IN (SELECT value FROM json_each(?5)))
 ORDER BY v.classification, v.key LIMIT ?6

-- name: differences
SELECT v.classification, v.key, v.since <= ?2 AS is_old, f.hash
  FROM versions AS v JOIN facts AS f ON f.id = v.fact_id
 WHERE v.tenant_id = ?1
   AND ((v.since <= ?2 AND v.until > ?2 AND v.until <= ?3)
     OR (v.since > ?2 AND v.since <= ?3 AND v.until > ?3))
 ORDER BY v.classification, v.key

-- name: find_word
SELECT v.fact_id, count(*), v.length
  FROM word_places AS w CROSS JOIN versions AS v ON v.fact_id = w.doc
 WHERE w.term = ?1 AND v.since <= ?2 AND v.until > ?2
   AND (?3 IS NULL OR v.classification IN (SELECT value FROM json_each(?3)))
 GROUP BY w.doc

-- name: names_of
SELECT v.fact_id, v.classification, v.key
  FROM json_each(?) AS wanted CROSS JOIN versions AS v ON v.fact_id = wanted.value

-- name: read_facts
SELECT v.fact_id, v.classification, v.key, f.content, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind
  FROM versions AS v
  JOIN facts AS f ON f.id = v.fact_id
  LEFT JOIN documents AS d ON d.id = v.document_id
 WHERE v.fact_id IN (SELECT value FROM json_each(?))
