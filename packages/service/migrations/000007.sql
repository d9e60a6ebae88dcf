-- Who may do what with which rows. The two roles belong to the whole server and are made before the tables are:
-- `gantry_service` is what the service works as, `gantry_tenant` what it reads as for one tenant, whose name is in the
-- setting `gantry.tenant`. The owner of the tables is bound by none of this.

-- Gives every table its rights and its row-level security; called after this and every later migration.
-- The service sees all rows, because it works for everybody, but of what was audited it can change none. A tenant reads
-- rows that have its name, and those that belong to a call of its own; tables that have neither are not for it.
create function guard_tables() returns void language plpgsql as $$
declare
  guarded record;
  own text;
begin
  grant usage on schema gantry to gantry_service, gantry_tenant;
  for guarded in
    select c.oid, c.oid::regclass as name, c.relname, c.relrowsecurity,
      bool_or(a.attname = 'tenant') as has_tenant, bool_or(a.attname = 'call_id') as has_call
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'gantry'::regnamespace and c.relkind in ('r', 'p')
    group by c.oid
  loop
    execute format('grant %s on %s to gantry_service', case
      when guarded.relname = 'migrations' then 'select'
      when guarded.relname = 'audit' then 'select'
      when guarded.relname in ('audit_seals', 'policies') then 'select, insert'
      else 'select, insert, update, delete' end, guarded.name);
    if not guarded.relrowsecurity then
      execute format('alter table %s enable row level security', guarded.name);
    end if;
    if not exists (select from pg_policy where polrelid = guarded.oid and polname = 'service') then
      execute format('create policy service on %s to gantry_service using (true) with check (true)', guarded.name);
    end if;
    own := case
      when guarded.has_tenant then 'tenant = nullif(current_setting(''gantry.tenant'', true), '''')'
      when guarded.has_call then format(
        'exists (select from gantry.calls c where c.call_id = %s.call_id'
        ' and c.tenant = nullif(current_setting(''gantry.tenant'', true), ''''))', guarded.name)
    end;
    continue when own is null;
    execute format('grant select on %s to gantry_tenant', guarded.name);
    if not exists (select from pg_policy where polrelid = guarded.oid and polname = 'tenant') then
      execute format('create policy tenant on %s for select to gantry_tenant using (%s)', guarded.name, own);
    end if;
  end loop;
  -- Rows of the audit record get their numbers from the sequence and from nobody else; who knows the last one knows
  -- which rows were put behind it.
  revoke insert on audit from gantry_service;
  execute (
    select format('grant insert (%s) on audit to gantry_service', string_agg(quote_ident(attname), ', '))
    from pg_attribute where attrelid = 'gantry.audit'::regclass and attnum > 0 and not attisdropped and attname <> 'seq'
  );
  grant select on sequence audit_seq_seq to gantry_service;
  -- What is done with the rights of the owner is for the service alone.
  for guarded in
    select oid::regprocedure as name from pg_proc where pronamespace = 'gantry'::regnamespace and prosecdef
  loop
    execute format('revoke execute on function %s from public', guarded.name);
    execute format('grant execute on function %s to gantry_service', guarded.name);
  end loop;
end
$$;

-- What was audited stays as it was written, also for the owner of the tables: only `retire_audit`, which sets
-- `gantry.retiring`, removes what is past its time.
create function refuse_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and current_setting('gantry.retiring', true) = 'on' then
    return null;
  end if;
  raise exception 'rows of % are never changed', tg_table_name using errcode = 'insufficient_privilege';
end
$$;
create trigger append_only before update or delete or truncate on audit
  for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on audit_seals
  for each statement execute function refuse_change();
