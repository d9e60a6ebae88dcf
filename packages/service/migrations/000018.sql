-- How much each tenant, and each principal of it, has stored in files. The principal '' stands for the whole tenant, and
-- for files from before principals were noted.
create table stored_usage (
  tenant        text not null,
  principal     text not null,
  bytes         bigint not null,
  files         bigint not null,
  primary key (tenant, principal)
);
insert into stored_usage (tenant, principal, bytes, files)
  select tenant, '', sum(bytes), count(*) from artifacts group by tenant;
alter table artifacts add column principal text not null default '';

-- Adds a file unless its tenant or its principal has no room for it, and answers which of them has none. The
-- digest is locked before the rows of the usage, as by a transaction that removes files.
create function store_artifact(
  new_id text, new_tenant text, new_principal text, new_call text, new_fence integer, new_name text, new_type text,
  new_bytes bigint, new_digest text, tenant_bytes bigint, tenant_files bigint, principal_bytes bigint,
  principal_files bigint
) returns text language plpgsql as $$
declare
  used record;
begin
  perform pg_advisory_xact_lock_shared(hashtextextended(new_digest, 0));
  for used in
    select '' as principal, tenant_bytes as most_bytes, tenant_files as most_files
    union all select new_principal, principal_bytes, principal_files where new_principal <> ''
    order by principal
  loop
    insert into stored_usage as u (tenant, principal, bytes, files) values (new_tenant, used.principal, new_bytes, 1)
    on conflict (tenant, principal) do update set bytes = u.bytes + excluded.bytes, files = u.files + 1;
    if exists (
      select from stored_usage u where u.tenant = new_tenant and u.principal = used.principal
        and (u.bytes > used.most_bytes or u.files > used.most_files)
    ) then
      update stored_usage u set bytes = u.bytes - new_bytes, files = u.files - 1
      where u.tenant = new_tenant and u.principal in ('', used.principal);
      return case used.principal when '' then 'tenant' else 'principal' end;
    end if;
  end loop;
  insert into artifacts (id, tenant, principal, call_id, fence, name, mime_type, bytes, digest)
  values (new_id, new_tenant, new_principal, new_call, new_fence, new_name, new_type, new_bytes, new_digest);
  return null;
end
$$;

-- Frees what a removed file took, at the end of the transaction, so that removing many files keeps nobody from storing.
-- One transaction at a time does so, because each may be about several tenants in any order.
create function release_stored() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('gantry stored usage', 0));
  update stored_usage set bytes = greatest(0, bytes - old.bytes), files = greatest(0, files - 1)
  where tenant = old.tenant and principal = '';
  if old.principal <> '' then
    update stored_usage set bytes = greatest(0, bytes - old.bytes), files = greatest(0, files - 1)
    where tenant = old.tenant and principal = old.principal;
  end if;
  delete from stored_usage where tenant = old.tenant and principal in ('', old.principal) and files = 0;
  return null;
end
$$;
create constraint trigger artifacts_released after delete on artifacts
  deferrable initially deferred for each row execute function release_stored();
