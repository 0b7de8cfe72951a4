-- The sessions that wait, and whose time has come: a denial is to be carried out, or nobody answered in time.
CREATE INDEX sessions_due ON sessions (due_at) WHERE due_at IS NOT NULL AND status <> 'in_progress';
