-- Seals over the audit record. A seal stands for the rows of `audit` whose numbers are after `after_seq` and up to
-- `upto_seq`, when nobody could add one among them any more: it names each of them with its digest, and its hash is over
-- all of that and the hash of the seal before. Neither seals nor the rows of `audit` are ever changed.
create table audit_seals (
  n             bigint primary key,
  prev          text not null,
  after_seq     bigint not null,
  upto_seq      bigint not null,
  seqs          bigint[] not null,
  digests       bytea not null,
  sealed_at     timestamptz not null,
  key_id        text,
  hash          text not null
);
-- By time, seals lead to the rows of that time, whose own times have no index.
create index audit_seals_time on audit_seals (sealed_at);

-- A seal continues the last one and stands for numbers that were given out: one that stood for later ones would have
-- rows that are still to come taken for forged.
create function check_seal() returns trigger language plpgsql as $$
begin
  if new.n is distinct from (select coalesce(max(n), 0) + 1 from audit_seals)
    or new.upto_seq > coalesce(pg_sequence_last_value('audit_seq_seq'), 0)
  then
    raise exception 'seal % does not continue the record', new.n using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;
create trigger continues before insert on audit_seals for each row execute function check_seal();

-- The only way in which rows of the audit record go: whole seals from the oldest on, with their rows, once all of those
-- are older than the retention, which is a day at least whatever is asked for. The newest seal stays. What went is noted
-- on the record itself, so that who verifies knows where the chain begins now, and nobody can cut off its start unseen.
-- It runs as whoever owns the tables; `gantry.retiring` tells a trigger on them that it is this function that deletes.
create function retire_audit(keep_ms float8, most integer) returns integer
language plpgsql security definer set search_path = gantry, pg_temp as $$
declare
  cutoff timestamptz := now() - greatest(keep_ms, 86400000) * interval '1 millisecond';
  first bigint;
  seal audit_seals;
  last audit_seals;
  removed integer;
begin
  perform pg_advisory_xact_lock(4721906115);
  select after_seq into first from audit_seals order by n limit 1;
  for seal in
    select * from audit_seals where n < (select max(n) from audit_seals) order by n limit most
  loop
    exit when exists (select from audit where seq > seal.after_seq and seq <= seal.upto_seq and at >= cutoff);
    last := seal;
  end loop;
  if last.n is null then
    return 0;
  end if;
  perform set_config('gantry.retiring', 'on', true);
  delete from audit where seq > first and seq <= last.upto_seq;
  get diagnostics removed = row_count;
  delete from audit_seals where n <= last.n;
  perform set_config('gantry.retiring', '', true);
  insert into audit (tenant, principal, call_id, fence, phase, tool, details)
  values ('', 'gantry', '', 0, 'admin', 'audit.retire', json_build_object(
    'seal', last.n, 'hash', last.hash, 'uptoSeq', last.upto_seq, 'rows', removed, 'before', cutoff)::text);
  return removed;
end
$$;
revoke all on function retire_audit(float8, integer) from public;
