-- Tenants take turns at the slots of a key, too: a call of one does not wait until all calls of another have run.
-- The tenant that got the last slot of a key for which several waited; the next turn begins after it.
create table slot_turns (
  slot_key      text collate "C" primary key,
  after         text not null
);
create index queue_held_turns on queue (slot_key, tenant, id) where lane = 'held';

-- How many slots of a key a tenant may have: three quarters, so that others find one free; all of a limit below four,
-- which cannot be divided, and all for the only tenant of an installation. The same as `declaredShare` of the library.
create function slot_share(slots integer, tenant text) returns integer language sql immutable
return case when slots < 4 or tenant in ('local', 'default') then slots else slots - slots / 4 end;

-- Lets as many calls of these slot keys be claimed as there are slots; says how many. Each next slot goes to the tenant
-- that has the fewest of the key, and among equals to the first after `after` in the circle of names; within a tenant
-- the oldest call is first. No tenant gets more than its share. About a hundred tenants are looked at.
-- Called by every statement that adds a call with a slot key or takes one away, at its end. A second one waits for the
-- first to commit and then, because each statement of a function sees what was committed before it, counts what the
-- first one left. A call that another transaction has locked is skipped: that one fills the slots again at its end.
create or replace function fill_slots(keys text[]) returns integer language plpgsql strict
set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off set jit = off as $$
declare
  filled integer := 0;
  of_key text;
  slots integer;
  free integer;
  sole text;
  changed integer;
  turn text;
  upto text;
  names text[];
  chosen record;
begin
  perform pg_advisory_xact_lock(k.lock)
  from (select distinct hashtextextended(key, 4721906114) as lock from unnest(keys) as key order by 1) k;
  for of_key in select distinct key from unnest(keys) as key where key is not null loop
    slots := (select slot_limit from queue where slot_key = of_key and lane = 'held' order by id limit 1);
    free := slots - (select count(*) from queue where slot_key = of_key and lane = 'ready');
    continue when free is null or free <= 0;
    sole := (select tenant from queue where slot_key = of_key and lane = 'held' order by tenant limit 1);
    if sole = (select tenant from queue where slot_key = of_key and lane = 'held' order by tenant desc limit 1) then
      free := least(free, slot_share(slots, sole)
        - (select count(*) from queue where slot_key = of_key and lane = 'ready' and tenant = sole));
      continue when free <= 0;
      update queue set lane = 'ready' where call_id = any (array(
        select call_id from queue where slot_key = of_key and lane = 'held' order by id limit free
        for update skip locked
      ));
      get diagnostics changed = row_count;
      filled := filled + changed;
      continue;
    end if;

    turn := coalesce((select after from slot_turns where slot_key = of_key), '');
    upto := null;
    names := '{}';
    loop
      with recursive waiting as (
        (select tenant, 1 as n from queue
          where slot_key = of_key and lane = 'held' and tenant > turn order by tenant limit 1)
        union all
        select next.tenant, w.n + 1
        from waiting w, lateral (
          select tenant from queue where slot_key = of_key and lane = 'held' and tenant > w.tenant
          order by tenant limit 1
        ) next
        where w.n < 100
      )
      select names || array_agg(tenant order by n) into names from waiting where upto is null or tenant <= upto;
      exit when turn = '' or cardinality(names) >= 100;
      upto := turn;
      turn := '';
    end loop;

    select array_agg(c.call_id) as calls, (array_agg(c.tenant order by c.place desc, c.n desc))[1] as last into chosen
    from (
      select h.call_id, w.tenant, w.n, coalesce(r.running, 0) + h.nth as place
      from unnest(names) with ordinality as w(tenant, n)
      left join (
        select tenant, count(*) as running from queue where slot_key = of_key and lane = 'ready' group by 1
      ) r on r.tenant = w.tenant
      cross join lateral (
        select q.call_id, row_number() over (order by q.id) as nth
        from (
          select call_id, id from queue
          where slot_key = of_key and tenant = w.tenant and lane = 'held' order by id limit free
        ) q
      ) h
      where coalesce(r.running, 0) + h.nth <= slot_share(slots, w.tenant)
      order by place, w.n limit free
    ) c;
    continue when chosen.calls is null;
    insert into slot_turns values (of_key, chosen.last)
    on conflict (slot_key) do update set after = excluded.after;
    update queue set lane = 'ready' where call_id = any (array(
      select call_id from queue where call_id = any (chosen.calls) and lane = 'held' for update skip locked
    ));
    get diagnostics changed = row_count;
    filled := filled + changed;
  end loop;
  if filled > 0 then
    perform pg_notify('gantry_ready', '');
  end if;
  return filled;
end
$$;
