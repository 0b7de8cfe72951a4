-- Snapshots and drafts.

-- name: add_tenant
INSERT INTO tercet.evidence_tenants (name) VALUES ($1) ON CONFLICT DO NOTHING

-- name: find_tenant
SELECT id FROM tercet.evidence_tenants WHERE name = $1

-- name: lock_tenant
SELECT id FROM tercet.evidence_tenants WHERE name = $1 FOR NO KEY UPDATE

-- name: find_snapshot
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM tercet.evidence_snapshots AS s JOIN tercet.evidence_tenants AS t ON t.id = s.tenant_id
 WHERE t.name = $1 AND s.name = $2

-- name: lock_snapshot
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM tercet.evidence_snapshots AS s JOIN tercet.evidence_tenants AS t ON t.id = s.tenant_id
 WHERE t.name = $1 AND s.name = $2
   FOR UPDATE OF s

-- name: newest_snapshot
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM tercet.evidence_snapshots AS s JOIN tercet.evidence_tenants AS t ON t.id = s.tenant_id
 WHERE t.name = $1 AND s.number IS NOT NULL
 ORDER BY s.number DESC LIMIT 1

-- name: list_snapshots
SELECT s.id, s.tenant_id, s.name, s.number, s.created_at, s.frozen_at, s.hash, s.totals
  FROM tercet.evidence_snapshots AS s JOIN tercet.evidence_tenants AS t ON t.id = s.tenant_id
 WHERE t.name = $1
 ORDER BY s.number DESC NULLS FIRST, s.name LIMIT $2

-- name: add_snapshot
INSERT INTO tercet.evidence_snapshots (tenant_id, name, created_at) VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING RETURNING id

-- name: number_snapshot
UPDATE tercet.evidence_snapshots SET name = $1, number = $2, frozen_at = $3, hash = $4, totals = $5 WHERE id = $6

-- name: remove_snapshot
DELETE FROM tercet.evidence_snapshots WHERE id = $1

-- name: count_changes
SELECT count(*) FROM tercet.evidence_versions WHERE snapshot_id = $1 AND since IS NULL

-- Pins.

-- name: add_pin
INSERT INTO tercet.evidence_pins (snapshot_id, session) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: remove_pin
DELETE FROM tercet.evidence_pins WHERE snapshot_id = $1 AND session = $2

-- name: list_pins
SELECT session FROM tercet.evidence_pins WHERE snapshot_id = $1 ORDER BY session

-- name: count_pins
SELECT count(*) FROM tercet.evidence_pins WHERE snapshot_id = $1

-- Adding to a draft.

-- name: reserve_facts
SELECT nextval('tercet.evidence_fact_numbers') FROM generate_series(1, $1::integer)

-- name: draft_documents
SELECT DISTINCT name FROM tercet.evidence_documents WHERE snapshot_id = $1

-- name: add_document
INSERT INTO tercet.evidence_documents (tenant_id, snapshot_id, name, hash, media_type, size)
VALUES ($1, $2, $3, $4, $5, $6) RETURNING id

-- name: add_facts
INSERT INTO tercet.evidence_facts (id, content, hash, trust, source, expires_at, chunk, first, behind, words, repeats)
SELECT id, content, hash, trust, source, expires_at, chunk, first, behind, words::tsvector, repeats::jsonb
  FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
              $9::bigint[], $10::text[], $11::text[])
    AS new (id, content, hash, trust, source, expires_at, chunk, first, behind, words, repeats)

-- name: add_versions
INSERT INTO tercet.evidence_versions
       (fact_id, tenant_id, classification, key, snapshot_id, document_id, until, is_removal, length)
SELECT fact_id, $6, classification, key, $7, document_id, $8, is_removal, length
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::boolean[], $9::integer[])
    AS new (fact_id, classification, key, document_id, is_removal, length)

-- name: find_changes
SELECT v.fact_id
  FROM unnest($1::text[], $2::text[]) AS wanted (classification, key)
  JOIN tercet.evidence_versions AS v
    ON v.tenant_id = $3 AND v.classification = wanted.classification AND v.key = wanted.key AND v.until = $4
   AND v.snapshot_id = $5 AND v.since IS NULL

-- name: changes_of_document
SELECT v.fact_id FROM tercet.evidence_versions AS v JOIN tercet.evidence_documents AS d ON d.id = v.document_id
 WHERE d.snapshot_id = $1 AND d.name = $2 AND v.since IS NULL

-- name: all_changes
SELECT fact_id FROM tercet.evidence_versions WHERE snapshot_id = $1 AND since IS NULL

-- name: remove_documents
DELETE FROM tercet.evidence_documents WHERE snapshot_id = $1

-- Freezing a draft.

-- The draft's own facts are looked up by name: `+ 0` keeps the server from going through all of them for each.

-- name: vanished
SELECT old.classification, old.key
  FROM tercet.evidence_documents AS new
  JOIN tercet.evidence_documents AS d ON d.tenant_id = new.tenant_id AND d.name = new.name
  JOIN tercet.evidence_versions AS old ON old.document_id = d.id
 WHERE new.snapshot_id = $1 AND old.since IS NOT NULL AND old.until = $2
   AND NOT EXISTS (SELECT 1 FROM tercet.evidence_versions AS v
                    WHERE v.tenant_id = old.tenant_id AND v.classification = old.classification AND v.key = old.key
                      AND v.until = $2 AND v.snapshot_id + 0 = $1 AND v.since IS NULL)
 GROUP BY old.classification, old.key

-- name: idle
SELECT new.fact_id
  FROM tercet.evidence_versions AS new
  JOIN tercet.evidence_facts AS f ON f.id = new.fact_id
  LEFT JOIN tercet.evidence_documents AS d ON d.id = new.document_id
  LEFT JOIN tercet.evidence_versions AS old
    ON old.tenant_id = new.tenant_id AND old.classification = new.classification AND old.key = new.key
   AND old.until = $2 AND old.since IS NOT NULL
  LEFT JOIN tercet.evidence_facts AS g ON g.id = old.fact_id
  LEFT JOIN tercet.evidence_documents AS e ON e.id = old.document_id
 WHERE new.snapshot_id = $1 AND new.since IS NULL
   AND CASE WHEN new.is_removal THEN old.fact_id IS NULL
            ELSE old.fact_id IS NOT NULL AND f.hash = g.hash AND f.trust = g.trust AND f.source = g.source
             AND f.expires_at IS NOT DISTINCT FROM g.expires_at
             AND d.name IS NOT DISTINCT FROM e.name AND d.hash IS NOT DISTINCT FROM e.hash
             AND f.chunk IS NOT DISTINCT FROM g.chunk AND f.first IS NOT DISTINCT FROM g.first
             AND f.behind IS NOT DISTINCT FROM g.behind END

-- name: changes
SELECT new.classification, new.key, new.is_removal, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind, new.length, old.length
  FROM tercet.evidence_versions AS new
  JOIN tercet.evidence_facts AS f ON f.id = new.fact_id
  LEFT JOIN tercet.evidence_documents AS d ON d.id = new.document_id
  LEFT JOIN tercet.evidence_versions AS old
    ON old.tenant_id = new.tenant_id AND old.classification = new.classification AND old.key = new.key
   AND old.until = $2 AND old.since IS NOT NULL
 WHERE new.snapshot_id = $1 AND new.since IS NULL
 ORDER BY new.classification, new.key

-- name: end_replaced
UPDATE tercet.evidence_versions AS old SET until = $3
  FROM tercet.evidence_versions AS new
 WHERE new.snapshot_id = $1 AND new.since IS NULL
   AND old.tenant_id = new.tenant_id AND old.classification = new.classification AND old.key = new.key
   AND old.until = $2 AND old.since IS NOT NULL

-- name: all_removals
SELECT fact_id FROM tercet.evidence_versions WHERE snapshot_id = $1 AND since IS NULL AND is_removal

-- name: begin_changes
UPDATE tercet.evidence_versions SET since = $2 WHERE snapshot_id = $1 AND since IS NULL

-- name: remove_idle_documents
DELETE FROM tercet.evidence_documents AS d
 WHERE d.snapshot_id = $1 AND NOT EXISTS (SELECT 1 FROM tercet.evidence_versions AS v WHERE v.document_id = d.id)

-- name: sort_words
SELECT gin_clean_pending_list('tercet.evidence_facts_by_word')

-- Removing facts.

-- name: remove_facts
DELETE FROM tercet.evidence_facts WHERE id = ANY ($1::bigint[])

-- name: remove_versions
DELETE FROM tercet.evidence_versions WHERE fact_id = ANY ($1::bigint[])

-- name: unseen
SELECT v.fact_id FROM tercet.evidence_versions AS v
 WHERE v.tenant_id = $1 AND v.since IS NOT NULL AND v.until < $2
   AND NOT EXISTS (SELECT 1 FROM tercet.evidence_snapshots AS s
                    WHERE s.tenant_id = $1 AND s.number >= v.since AND s.number < v.until)

-- name: remove_unused_documents
DELETE FROM tercet.evidence_documents AS d
 WHERE d.tenant_id = $1
   AND NOT EXISTS (SELECT 1 FROM tercet.evidence_versions AS v WHERE v.document_id = d.id)
   AND NOT EXISTS (SELECT 1 FROM tercet.evidence_snapshots AS s WHERE s.id = d.snapshot_id AND s.number IS NULL)

-- Reading.

-- name: find_fact
SELECT v.classification, v.key, f.content, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind
  FROM tercet.evidence_versions AS v
  JOIN tercet.evidence_facts AS f ON f.id = v.fact_id
  LEFT JOIN tercet.evidence_documents AS d ON d.id = v.document_id
 WHERE v.tenant_id = $1 AND v.classification = $2 AND v.key = $3 AND v.until > $4 AND v.since <= $4

-- name: list_facts
SELECT v.classification, v.key, f.content, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind
  FROM tercet.evidence_versions AS v
  JOIN tercet.evidence_facts AS f ON f.id = v.fact_id
  LEFT JOIN tercet.evidence_documents AS d ON d.id = v.document_id
 WHERE v.tenant_id = $1 AND (v.classification, v.key) > ($2, $3) AND v.until > $4 AND v.since <= $4
   AND ($5::text[] IS NULL OR v.classification = ANY ($5))
 ORDER BY v.classification, v.key LIMIT $6

-- name: differences
SELECT v.classification, v.key, v.since <= $2, f.hash
  FROM tercet.evidence_versions AS v JOIN tercet.evidence_facts AS f ON f.id = v.fact_id
 WHERE v.tenant_id = $1
   AND ((v.since <= $2 AND v.until > $2 AND v.until <= $3) OR (v.since > $2 AND v.since <= $3 AND v.until > $3))
 ORDER BY v.classification, v.key

-- name: find_words
SELECT place, fact_id, times, length FROM tercet.find_words($1, $2, $3)

-- name: names_of
SELECT fact_id, classification, key FROM tercet.evidence_versions WHERE fact_id = ANY ($1::bigint[])

-- name: read_facts
SELECT v.fact_id, v.classification, v.key, f.content, f.hash, f.trust, f.source, f.expires_at,
       coalesce(d.name, ''), coalesce(d.hash, ''), f.chunk, f.first, f.behind
  FROM tercet.evidence_versions AS v
  JOIN tercet.evidence_facts AS f ON f.id = v.fact_id
  LEFT JOIN tercet.evidence_documents AS d ON d.id = v.document_id
 WHERE v.fact_id = ANY ($1::bigint[])
