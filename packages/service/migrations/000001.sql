-- What a call is, once and for ever: written when it is admitted, never changed, removed after its retention.
create table calls (
  call_id       text primary key,
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
  created_at    timestamptz not null default now(),
  unique (tenant, principal, idem_key)
);
create index calls_listed on calls (tenant, created_at desc, call_id desc);

-- What is still to be done: a narrow row for each call without an outcome, removed by the outcome.
-- A lease is held while lease_until is set. Claiming changes no indexed column, so that it stays a cheap (HOT) update.
create table queue (
  id            bigint generated always as identity primary key,
  call_id       text not null unique,
  tenant        text not null,
  lane          text not null default 'ready' check (lane in ('ready', 'later')),
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
  deaths        integer not null default 0,
  cancel_at     timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
create index queue_ready on queue (priority desc, id) where lane = 'ready' and slot_key is null;
create index queue_keyed on queue (priority desc, id) where lane = 'ready' and slot_key is not null;
create index queue_slots on queue (slot_key) where slot_key is not null;
create index queue_later on queue (run_at) where lane = 'later';
create index queue_deadline on queue (deadline) where deadline is not null;

-- The one outcome of a call. The primary key is what makes a second one impossible.
create table results (
  call_id       text primary key,
  status        text not null,
  code          text,
  result        text,
  result_ref    text,
  result_bytes  integer not null,
  fence         integer not null,
  finished_at   timestamptz not null default now()
);
create index results_finished on results (finished_at);

-- One row for each attempt that ended or was lost with its worker.
create table attempts (
  call_id       text not null,
  fence         integer not null,
  worker        text,
  outcome       text not null,
  started_at    timestamptz,
  ended_at      timestamptz not null default now(),
  primary key (call_id, fence)
);

-- What a running call reported: progress, chunks, logs.
create table events (
  call_id       text not null,
  id            bigint not null,
  event         text not null,
  created_at    timestamptz not null default now(),
  primary key (call_id, id)
);

-- The inner calls of a chain or a program: what was begun and what came of it, so that a later attempt does not repeat it.
create table journal (
  call_id       text not null,
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
  call_id       text not null,
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
  call_id       text not null,
  fence         integer not null,
  phase         text not null,
  tool          text not null,
  worker        text,
  status        text,
  code          text,
  config        text,
  details       text
);
create index audit_call on audit (call_id);

-- What could not be done and waits for a person.
create table dead_letters (
  id            text primary key,
  tenant        text not null,
  call_id       text,
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

-- Files kept outside the rows, by digest; a row is there only once the file is.
create table artifacts (
  id            text primary key,
  tenant        text not null,
  call_id       text not null,
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
  call_id       text not null,
  tool          text not null,
  fingerprint   text not null,
  asked_at      timestamptz not null default now(),
  expires_at    timestamptz not null,
  decision      text,
  decided_by    text,
  decided_at    timestamptz
);

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
