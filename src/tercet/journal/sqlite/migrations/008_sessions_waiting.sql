-- Since when the oldest open gate of a session waits for people, and the sessions in that order. Earlier versions did not
-- say it: of their rows, those that may have a gate are listed from their last change on, until they are written again.
ALTER TABLE sessions ADD COLUMN waits_since INTEGER;

CREATE INDEX sessions_waiting ON sessions (tenant, waits_since, session_id) WHERE waits_since IS NOT NULL;

UPDATE sessions SET waits_since = updated_at
 WHERE status IN ('awaiting_gate', 'paused', 'in_progress') AND length(details) > 0;
