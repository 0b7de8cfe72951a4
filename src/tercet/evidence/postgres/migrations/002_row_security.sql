-- Connections that read for one tenant do so as tercet_reader, with the tenant's name in the setting tercet.tenant; without it
-- they see no row. The owner of the tables, as which drafts are written, is not limited.
GRANT USAGE ON SCHEMA tercet TO tercet_reader;
GRANT SELECT ON tercet.evidence_tenants, tercet.evidence_snapshots, tercet.evidence_documents, tercet.evidence_facts,
                tercet.evidence_versions, tercet.evidence_pins
   TO tercet_reader;

ALTER TABLE tercet.evidence_tenants   ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.evidence_snapshots ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.evidence_documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.evidence_facts     ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.evidence_versions  ENABLE ROW LEVEL SECURITY;
ALTER TABLE tercet.evidence_pins      ENABLE ROW LEVEL SECURITY;

CREATE POLICY own_tenant ON tercet.evidence_tenants FOR SELECT TO tercet_reader
    USING (name = current_setting('tercet.tenant', true));
CREATE POLICY own_tenant ON tercet.evidence_snapshots FOR SELECT TO tercet_reader
    USING (tenant_id = (SELECT t.id FROM tercet.evidence_tenants AS t WHERE t.name = current_setting('tercet.tenant', true)));
CREATE POLICY own_tenant ON tercet.evidence_documents FOR SELECT TO tercet_reader
    USING (tenant_id = (SELECT t.id FROM tercet.evidence_tenants AS t WHERE t.name = current_setting('tercet.tenant', true)));
CREATE POLICY own_tenant ON tercet.evidence_versions FOR SELECT TO tercet_reader
    USING (tenant_id = (SELECT t.id FROM tercet.evidence_tenants AS t WHERE t.name = current_setting('tercet.tenant', true)));
CREATE POLICY own_tenant ON tercet.evidence_facts FOR SELECT TO tercet_reader
    USING ((SELECT v.tenant_id FROM tercet.evidence_versions AS v WHERE v.fact_id = id) =
           (SELECT t.id FROM tercet.evidence_tenants AS t WHERE t.name = current_setting('tercet.tenant', true)));
CREATE POLICY own_tenant ON tercet.evidence_pins FOR SELECT TO tercet_reader
    USING ((SELECT s.tenant_id FROM tercet.evidence_snapshots AS s WHERE s.id = snapshot_id) =
           (SELECT t.id FROM tercet.evidence_tenants AS t WHERE t.name = current_setting('tercet.tenant', true)));

-- A search as the owner, of the words of the tenant in tercet.tenant and no other: an index of words cannot be used behind
-- a policy, because the operator @@ is not known to keep what it sees to itself.
CREATE FUNCTION tercet.find_words(plain text[], snapshot bigint, classes text[])
RETURNS TABLE (place bigint, fact_id bigint, times integer, length integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    mine bigint := (SELECT t.id FROM tercet.evidence_tenants AS t WHERE t.name = current_setting('tercet.tenant', true));
BEGIN
    RETURN QUERY
    SELECT wanted.place, found.fact_id, found.times, found.length
      FROM unnest(plain) WITH ORDINALITY AS wanted (word, place)
     CROSS JOIN LATERAL (
           SELECT v.fact_id, coalesce((f.repeats ->> wanted.word)::integer, 1) AS times, v.length
             FROM tercet.evidence_facts AS f
             JOIN tercet.evidence_versions AS v ON v.fact_id = f.id
            WHERE f.words @@ (mine || 'x' || wanted.word)::tsquery AND v.tenant_id = mine
              AND v.since <= snapshot AND v.until > snapshot
              AND (classes IS NULL OR v.classification = ANY (classes))) AS found;
END
$$;
REVOKE EXECUTE ON FUNCTION tercet.find_words FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tercet.find_words TO tercet_reader;
