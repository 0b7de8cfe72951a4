-- Lists of the sessions with one status, of one intent or of one owner, newest first: a page reads only its own rows.
CREATE INDEX sessions_by_status ON tercet.sessions (tenant, status, started_at, session_id);
CREATE INDEX sessions_by_intent ON tercet.sessions (tenant, intent, started_at, session_id);
CREATE INDEX sessions_by_owner ON tercet.sessions (tenant, owner, started_at, session_id);
