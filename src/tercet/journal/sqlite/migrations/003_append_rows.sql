-- A row holds the events of a whole append and the point at its end, and names the position of its last event. Rows of
-- before hold one event each, and are left as they are.
ALTER TABLE events ADD COLUMN sizes BLOB NOT NULL DEFAULT x'';

ALTER TABLE events ADD COLUMN point BLOB NOT NULL DEFAULT x'';

-- How many bytes data has that is stored compressed; 0 for data that is stored as it is.
ALTER TABLE events ADD COLUMN size INTEGER NOT NULL DEFAULT 0;

ALTER TABLE blobs ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
