-- Connections that read for one tenant do so as tercet_reader, with the tenant's name in the setting tercet.tenant; without it
-- they see no row. The owner of the tables, as which the writer stores the batches of many tenants, is not limited. A scalar
-- subquery, because EXISTS may be planned as a hash of all streams.
GRANT USAGE ON SCHEMA tercet TO tercet_reader;
GRANT SELECT ON tercet.streams, tercet.events, tercet.checkpoints, tercet.blobs, tercet.blob_uses, tercet.claims,
                tercet.sessions, tercet.bells, tercet.reminders
   TO tercet_reader;

ALTER TABLE tercet.streams     ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.events      ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.checkpoints ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.blobs       ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.blob_uses   ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.claims      ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.sessions    ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.bells       ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.reminders   ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_tenant ON tercet.streams FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.events FOR SELECT TO tercet_reader
    USING ((SELECT s.tenant FROM tercet.streams AS s WHERE s.id = stream_id) = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.checkpoints FOR SELECT TO tercet_reader
    USING ((SELECT s.tenant FROM tercet.streams AS s WHERE s.id = stream_id) = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.blobs FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.blob_uses FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.claims FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.sessions FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.bells FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.reminders FOR SELECT TO tercet_reader
    USING (tenant = current_setting('tercet.tenant', true));
