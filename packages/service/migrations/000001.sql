-- What a call is, once and for ever: written when it is admitted, never changed, removed after its retention.
create table calls (
  call_id       text collate "C" not null check (octet_length(call_id) < 1000),
  kind          text not null check (kind in ('call', 'chain')),
  tenant        text not null,
  principal     text not null,
  identity      text not null,
  idem_key      text,
  fingerprint   text not null,
  tool          text not null,
  digest        text,
  effect        text not null,
  payload       text,
  payload_ref   text,
  payload_bytes integer not null,
  timeout_ms    integer,
  callback      text,
  trace         text,
  redrive_of    text,
  effect_key    text,
  created_at    timestamptz not null default now()
);
create index calls_listed on calls (tenant, created_at desc, call_id desc);
create index calls_payload on calls (payload_ref) where payload_ref is not null;
-- The keys come last: of indexes that look equally good, as all do while the table is empty, the planner takes the newest.
alter table calls add unique (tenant, principal, idem_key), add primary key (call_id);

-- What is still to be done: a narrow row for each call without an outcome, removed by the outcome.
-- A lease is held while lease_until is set. A call is in one of three lanes: `ready` when it can be claimed, or is;
-- `held` while it stands behind others of its slot key; `later` until its time has come.
create table queue (
  call_id       text collate "C" primary key,
  id            bigint generated always as identity,
  tenant        text not null,
  lane          text not null default 'ready' check (lane in ('ready', 'held', 'later')),
  priority      integer not null default 0,
  run_at        timestamptz not null default now(),
  deadline      timestamptz,
  slot_key      text,
  slot_limit    integer,
  fence         integer not null default 0,
  lease_until   timestamptz,
  worker        text,
  claimed_at    timestamptz,
  deliveries    integer not null default 0,
  begun         boolean not null default false,
  lost          integer not null default 0,
  deaths        integer not null default 0,
  cancel_at     timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
create index queue_ready on queue (priority desc, id) where lane = 'ready' and lease_until is null;
create index queue_leased on queue (lease_until) where lease_until is not null;
create index queue_held on queue (slot_key, id) where lane = 'held';
create index queue_slots on queue (slot_key) where lane = 'ready' and slot_key is not null;
create index queue_later on queue (run_at) where lane = 'later';
create index queue_deadline on queue (deadline) where deadline is not null and lease_until is null;

-- Lets as many calls of these slot keys be claimed as there are slots, oldest first; says how many.
-- Called by every statement that adds a call with a slot key or takes one away, at its end. Whoever comes second waits
-- for the first to commit and then, because each statement of a function sees what was committed before it, counts what
-- the first one left.
create function fill_slots(keys text[]) returns integer language plpgsql strict as $$
declare
  filled integer;
begin
  perform pg_advisory_xact_lock(k.lock)
  from (select distinct hashtextextended(key, 4721906114) as lock from unnest(keys) as key order by 1) k;
  update queue set lane = 'ready' where call_id = any (array(
    select h.call_id
    from (select distinct key from unnest(keys) as key) k, lateral (
      select call_id from queue where slot_key = k.key and lane = 'held' order by id
      limit greatest(0,
        (select slot_limit from queue where slot_key = k.key and lane = 'held' order by id limit 1)
        - (select count(*) from queue where slot_key = k.key and lane = 'ready'))
      for update skip locked
    ) h
  ));
  get diagnostics filled = row_count;
  if filled > 0 then
    perform pg_notify('gantry_ready', '');
  end if;
  return filled;
end
$$;

-- The one outcome of a call. The primary key is what makes a second one impossible.
create table results (
  call_id       text collate "C" primary key,
  status        text not null,
  code          text,
  result        text,
  result_ref    text,
  result_bytes  integer not null,
  fence         integer not null,
  finished_at   timestamptz not null default now()
);
create index results_finished on results (finished_at);
create index results_troubled on results (status) where status <> 'ok';

-- One row for each attempt that ended or was lost with its worker.
create table attempts (
  call_id       text collate "C" not null,
  fence         integer not null,
  worker        text,
  outcome       text not null,
  started_at    timestamptz,
  ended_at      timestamptz not null default now(),
  primary key (call_id, fence)
);

-- What a running call reported: progress, chunks, logs.
create table events (
  call_id       text collate "C" not null,
  id            bigint not null,
  event         text not null,
  created_at    timestamptz not null default now(),
  primary key (call_id, id)
);

-- The inner calls of a chain or a program: what was begun and what came of it, so that a later attempt does not repeat it.
create table journal (
  call_id       text collate "C" not null,
  entry         text not null,
  state         text not null check (state in ('begun', 'done')),
  fence         integer not null,
  result        text,
  created_at    timestamptz not null default now(),
  primary key (call_id, entry)
);

-- What is to be sent when a call has ended; written with the outcome, sent at least once.
create table outbox (
  id            bigint generated always as identity primary key,
  call_id       text collate "C" not null,
  tenant        text not null,
  kind          text not null,
  target        text not null,
  tries         integer not null default 0,
  next_at       timestamptz not null default now(),
  lease_until   timestamptz,
  last_error    text,
  sent_at       timestamptz,
  failed_at     timestamptz,
  created_at    timestamptz not null default now()
);
create index outbox_due on outbox (next_at) where sent_at is null and failed_at is null;
create index outbox_call on outbox (call_id);

-- Who did what. Rows are only added: a start before the tool starts, an end with the outcome.
create table audit (
  seq           bigint generated always as identity primary key,
  at            timestamptz not null default now(),
  tenant        text not null,
  principal     text not null,
  call_id       text collate "C" not null,
  fence         integer not null,
  phase         text not null,
  tool          text not null,
  worker        text,
  status        text,
  code          text,
  config        text,
  details       text
);

-- What could not be done and waits for a person.
create table dead_letters (
  id            text primary key,
  tenant        text not null,
  call_id       text collate "C",
  source        text not null,
  reason        text not null,
  code          text not null,
  tool          text,
  payload       text,
  deliveries    integer not null,
  created_at    timestamptz not null default now(),
  redriven_at   timestamptz,
  redriven_by   text,
  redriven_as   text,
  discarded_at  timestamptz,
  discarded_by  text
);
create index dead_letters_listed on dead_letters (tenant, created_at desc, id desc);
create index dead_letters_call on dead_letters (call_id);

-- Files kept outside the rows, by digest; a row is there only once the file is.
create table artifacts (
  id            text primary key,
  tenant        text not null,
  call_id       text collate "C" not null,
  fence         integer not null,
  name          text not null,
  mime_type     text not null,
  bytes         bigint not null,
  digest        text not null,
  created_at    timestamptz not null default now()
);
create index artifacts_call on artifacts (call_id);
create index artifacts_digest on artifacts (digest);

-- Calls that wait for a person, bound to the exact arguments.
create table approvals (
  id            text primary key,
  tenant        text not null,
  call_id       text collate "C" not null,
  tool          text not null,
  fingerprint   text not null,
  asked_at      timestamptz not null default now(),
  expires_at    timestamptz not null,
  decision      text,
  decided_by    text,
  decided_at    timestamptz
);
create index approvals_call on approvals (call_id);

-- Who works, as last heard.
create table workers (
  worker        text primary key,
  host          text not null,
  pid           integer not null,
  roles         text not null,
  slots         integer not null,
  running       integer not null default 0,
  state         text not null,
  started_at    timestamptz not null default now(),
  seen_at       timestamptz not null default now()
);
