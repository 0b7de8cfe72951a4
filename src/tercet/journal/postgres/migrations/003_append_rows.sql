-- A row holds the events of a whole append and the point at its end, and names the position of its last event. Rows of
-- before hold one event each, and are left as they are. PostgreSQL compresses large values itself.
ALTER TABLE tercet.events
    ADD COLUMN sizes bytea NOT NULL DEFAULT '',
    ADD COLUMN point bytea NOT NULL DEFAULT '';
