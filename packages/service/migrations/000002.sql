-- Whom to answer over the broker that a call came from, as the codec of its message wrote it.
alter table calls add column reply text;

-- Only workers that have all of these labels may claim the call; without any, every worker.
alter table queue add column placement jsonb;

-- What is to be sent need not be the outcome of a call: `body` holds it, or the address that it goes to. Items of a call
-- that has not ended are due at infinity until it has. The same item of a call is sent once.
alter table outbox alter column call_id drop not null;
alter table outbox add column body text;
alter table outbox add column item text;
create index outbox_waiting on outbox (call_id) where next_at = 'infinity';
create unique index outbox_item on outbox (call_id, item) where item is not null;

-- Circuits that are open or on trial, for all workers; a row goes when its circuit closes.
create table circuits (
  key           text primary key,
  retry_at      timestamptz not null,
  streak        integer not null,
  trial_by      text,
  trial_until   timestamptz,
  changed_at    timestamptz not null default now()
);
