-- Callers list the files of their tenant, the newest first.
create index artifacts_tenant on artifacts (tenant, created_at desc, id desc);
