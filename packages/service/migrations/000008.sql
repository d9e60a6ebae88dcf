-- Tenants take turns. What can be claimed is in the order of its tenants, so that whoever claims finds the first calls of
-- each without reading those of the others; what stands aside is counted for one tenant alone.
alter table queue add column principal text;
update queue q set principal = c.principal from calls c where c.call_id = q.call_id;
drop index queue_ready;
create index queue_ready on queue (tenant, priority desc, id) where lane = 'ready' and lease_until is null;
-- Written so that only who counts uses it: while the table is small the planner would take it for any other lane, too.
create index queue_aside on queue (tenant) where coalesce(lane <> 'ready', false);

-- Calls of a tenant that can be claimed, at most so many, locked: the highest priority first, then the oldest. With
-- `limits`, which says how many calls of a principal may be held at a time (`*`: of each that is not named), none that
-- would be one too many; whoever asks for that has the lock of the tenant.
create function take_calls(of_tenant text, most integer, labels jsonb, limits jsonb) returns setof text
language plpgsql set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off set jit = off as $$
declare
  held jsonb;
  rooms jsonb := '{}';
  found_call record;
  who text;
  room integer;
  taken integer := 0;
begin
  if limits is null then
    return query select call_id from queue
      where tenant = of_tenant and lane = 'ready' and lease_until is null
        and (placement is null or placement <@ labels)
      order by priority desc, id limit most
      for update skip locked;
    return;
  end if;
  select jsonb_object_agg(principal, calls) into held
  from (
    select coalesce(principal, '') as principal, count(*) as calls from queue
    where tenant = of_tenant and lease_until is not null group by 1
  ) leased;
  for found_call in
    select call_id, principal from queue
    where tenant = of_tenant and lane = 'ready' and lease_until is null and (placement is null or placement <@ labels)
    order by priority desc, id
  loop
    exit when taken >= most;
    who := coalesce(found_call.principal, '');
    room := coalesce((rooms -> who)::integer,
      coalesce(limits -> who, limits -> '*')::integer - coalesce((held -> who)::integer, 0), most);
    continue when room <= 0;
    perform from (
      select lane, lease_until from queue where call_id = found_call.call_id offset 0 for update skip locked
    ) locked where lane = 'ready' and lease_until is null;
    continue when not found;
    rooms := rooms || jsonb_build_object(who, room - 1);
    taken := taken + 1;
    return next found_call.call_id;
  end loop;
end
$$;

-- Calls that can be claimed, at most so many, locked. Each next one goes to the tenant that has the least in hand for
-- its weight, and among equals to the first after `after` in the circle of names, until nobody has any left; within a
-- tenant the highest priority is first, then the oldest. `busy` says how many calls of each tenant whoever asks has in hand already;
-- `shares` the weight of tenants, how many of their calls may be held at a time by all together, and how many of each
-- of their principals (`*`: of every tenant that is not named). With `newcomers` only tenants that are not in `busy` get
-- a call, one each. About a hundred tenants are looked at, from the first
-- after `after` on.
-- Whoever comes second to a tenant with a limit waits for the first to commit and then, because each statement of a
-- function sees what was committed before it, counts what the first one took.
create function take_turns(most integer, labels jsonb, busy jsonb, shares jsonb, after text,
  newcomers boolean) returns setof text
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  names text[] := '{}';
  upto text;
  held jsonb;
  weights float8[];
  loads integer[];
  rooms integer[];
  given integer[];
  limits jsonb[];
  turn record;
  got text[];
  free integer := most;
begin
  loop
    with recursive ready as (
      (select tenant, 1 as n from queue
        where lane = 'ready' and lease_until is null and tenant > after order by tenant limit 1)
      union all
      select next.tenant, r.n + 1
      from ready r, lateral (
        select tenant from queue where lane = 'ready' and lease_until is null and tenant > r.tenant
        order by tenant limit 1
      ) next
      where r.n < 100
    )
    select names || array_agg(tenant) into names
    from ready where upto is null or tenant <= upto;
    exit when after = '' or cardinality(names) >= 100;
    upto := after;
    after := '';
  end loop;

  if newcomers then
    names := array(select name from unnest(names) with ordinality as ready(name, n) where not busy ? name order by n);
    most := least(most, cardinality(names));
    free := most;
  end if;

  perform pg_advisory_xact_lock(l.lock)
  from (
    select distinct hashtextextended(name, 4721906116) as lock
    from unnest(names) as name
    where coalesce(shares -> name, shares -> '*') ?| array['concurrency', 'principals']
    order by 1
  ) l;
  if found then
    select jsonb_object_agg(tenant, calls) into held
    from (select tenant, count(*) as calls from queue where lease_until is not null group by 1) leased;
  end if;
  select array_agg(coalesce((share -> 'weight')::float8, 1) order by n),
    array_agg(coalesce((busy -> name)::integer, 0) order by n),
    array_agg(share -> 'principals' order by n),
    array_agg(0),
    array_agg(least(most, case when newcomers then 1 end, (share -> 'concurrency')::integer - coalesce((held -> name)::integer, 0)) order by n)
  into weights, loads, limits, given, rooms
  from unnest(names) with ordinality as ready(name, n),
    lateral (select coalesce(shares -> name, shares -> '*') as share) own;

  -- Shares are made as if everybody had enough; what those leave who have less is shared once more among the others.
  while free > 0 loop
    got := null;
    for turn in
      select h.n, given[h.n] + count(*)::integer as share
      from (
        select s.n
        from generate_series(1, cardinality(names)) as s(n),
          generate_series(1, least(free, rooms[n] - given[n])) as next
        order by (loads[n] + given[n] + next) / weights[n], n limit free
      ) h
      group by h.n
    loop
      select coalesce(array_agg(call_id), '{}') into got
      from take_calls(names[turn.n], turn.share, labels, limits[turn.n]) as call_id;
      return query select unnest(got[given[turn.n] + 1:]);
      given[turn.n] := cardinality(got);
      if cardinality(got) < turn.share then
        rooms[turn.n] := 0;
      end if;
    end loop;
    exit when got is null;
    free := most - (select sum(n) from unnest(given) as n);
  end loop;
end
$$;

-- Tokens that all processes share; a bucket without a row is full, and a row whose bucket is full again is removed.
create table buckets (
  key           text collate "C" primary key,
  tokens        float8 not null,
  filled_at     timestamptz not null,
  full_at       timestamptz not null
);

-- Takes tokens from a bucket, at most so many and none when there are not so many at least, and says after how long
-- there would be. Whoever comes second waits for the first to commit and then sees what that one left.
create function draw_tokens(of_key text, capacity float8, per_ms float8, least_wanted float8, most_wanted float8,
  out taken float8, out wait_ms float8) language plpgsql as $$
declare
  bucket buckets;
  at timestamptz;
begin
  loop
    insert into buckets values (of_key, capacity, clock_timestamp(), clock_timestamp()) on conflict do nothing;
    select * into bucket from buckets where key = of_key for update;
    exit when found;
  end loop;
  at := greatest(bucket.filled_at, clock_timestamp());
  bucket.tokens := least(capacity, bucket.tokens + extract(epoch from at - bucket.filled_at)::float8 * 1000 * per_ms);
  taken := case when bucket.tokens < least_wanted then 0 else least(most_wanted, floor(bucket.tokens)) end;
  wait_ms := case when taken > 0 then 0 else (least_wanted - bucket.tokens) / per_ms end;
  update buckets set tokens = bucket.tokens - taken, filled_at = at,
    full_at = at + least(1e11, (capacity - bucket.tokens + taken) / per_ms) * interval '1 millisecond'
  where key = of_key;
end
$$;
