-- What a process has to look at once its time has come, such as a notification to be sent.
CREATE TABLE tercet.reminders (
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    due_at bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX reminders_by_due ON tercet.reminders (due_at, tenant, name);
