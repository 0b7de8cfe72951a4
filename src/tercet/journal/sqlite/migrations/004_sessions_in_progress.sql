-- The sessions that some process should carry: few of all, so that looking for those without one stays cheap.
CREATE INDEX sessions_in_progress ON sessions (tenant, session_id) WHERE status = 'in_progress';
