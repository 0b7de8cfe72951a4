-- What a process has to look at once its time has come, such as a notification to be sent.
CREATE TABLE reminders (
    tenant TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    due_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX reminders_by_due ON reminders (due_at, tenant, name);
