-- Content that a tenant, or a principal of it, has stored, and in how many files: its bytes count once. The principal ''
-- stands for the whole tenant.
create table stored_digests (
  tenant        text not null,
  principal     text not null,
  digest        text not null,
  bytes         bigint not null,
  files         bigint not null,
  primary key (tenant, principal, digest)
);
-- Processes of the version before wait, so that what they store is counted either way as a whole.
lock table stored_usage, artifacts in share row exclusive mode;
insert into stored_digests (tenant, principal, digest, bytes, files)
  select tenant, '', digest, max(bytes), count(*) from artifacts group by tenant, digest
  union all
  select tenant, principal, digest, max(bytes), count(*) from artifacts where principal <> ''
  group by tenant, principal, digest;
update stored_usage u set bytes = (
  select coalesce(sum(d.bytes), 0) from stored_digests d where d.tenant = u.tenant and d.principal = u.principal
);

-- Adds a file unless its tenant or its principal has no room for it, and answers which of them has none. The digest is
-- locked before the rows of the usage, as by a transaction that removes files; the row of the tenant comes first, so that
-- files of one tenant are counted one after the other.
create or replace function store_artifact(
  new_id text, new_tenant text, new_principal text, new_call text, new_fence integer, new_name text, new_type text,
  new_bytes bigint, new_digest text, tenant_bytes bigint, tenant_files bigint, principal_bytes bigint,
  principal_files bigint
) returns text language plpgsql as $$
declare
  used record;
  fresh bigint;
begin
  perform pg_advisory_xact_lock_shared(hashtextextended(new_digest, 0));
  for used in
    select '' as principal, tenant_bytes as most_bytes, tenant_files as most_files
    union all select new_principal, principal_bytes, principal_files where new_principal <> ''
    order by principal
  loop
    insert into stored_usage as u (tenant, principal, bytes, files) values (new_tenant, used.principal, 0, 0)
    on conflict (tenant, principal) do update set files = u.files;
    fresh := new_bytes;
    if exists (
      select from stored_digests d
      where d.tenant = new_tenant and d.principal = used.principal and d.digest = new_digest
    ) then
      fresh := 0;
    end if;
    if exists (
      select from stored_usage u where u.tenant = new_tenant and u.principal = used.principal
        and (fresh > 0 and u.bytes + fresh > used.most_bytes or u.files + 1 > used.most_files)
    ) then
      delete from stored_usage u where u.tenant = new_tenant and u.principal in ('', used.principal) and u.files = 0;
      return case used.principal when '' then 'tenant' else 'principal' end;
    end if;
  end loop;
  for used in select '' as principal union select new_principal loop
    insert into stored_digests as d (tenant, principal, digest, bytes, files)
    values (new_tenant, used.principal, new_digest, new_bytes, 1)
    on conflict (tenant, principal, digest) do update set files = d.files + 1
    returning case d.files when 1 then d.bytes else 0 end into fresh;
    update stored_usage u set bytes = u.bytes + fresh, files = u.files + 1
    where u.tenant = new_tenant and u.principal = used.principal;
  end loop;
  insert into artifacts (id, tenant, principal, call_id, fence, name, mime_type, bytes, digest)
  values (new_id, new_tenant, new_principal, new_call, new_fence, new_name, new_type, new_bytes, new_digest);
  return null;
end
$$;

-- Frees what a removed file took, at the end of the transaction, so that removing many files keeps nobody from storing.
-- One transaction at a time does so, because each may be about several tenants in any order.
create or replace function release_stored() returns trigger language plpgsql as $$
declare
  used text;
  others bigint;
  freed bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('gantry stored usage', 0));
  for used in select '' union select old.principal order by 1 loop
    -- A store of the same tenant has counted its content, or sees that this one is gone.
    perform from stored_usage u where u.tenant = old.tenant and u.principal = used for update;
    update stored_digests d set files = d.files - 1
    where d.tenant = old.tenant and d.principal = used and d.digest = old.digest
    returning d.files, d.bytes into others, freed;
    if not found then
      -- It was stored by a process of the version before, which counted it by itself.
      freed := old.bytes;
    elsif others > 0 then
      freed := 0;
    else
      delete from stored_digests d where d.tenant = old.tenant and d.principal = used and d.digest = old.digest;
    end if;
    update stored_usage u set bytes = greatest(0, u.bytes - freed), files = greatest(0, u.files - 1)
    where u.tenant = old.tenant and u.principal = used;
  end loop;
  delete from stored_usage u where u.tenant = old.tenant and u.principal in ('', old.principal) and u.files = 0;
  return null;
end
$$;
