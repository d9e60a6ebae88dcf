-- A call that waits for a person is in the lane `asked`: nobody can claim it until somebody has decided, or until run_at,
-- when the time to decide is over. `resumed` is the fence of whoever held the call when somebody decided: should he hand
-- it back as asked, it is ready at once.
alter table queue drop constraint queue_lane_check;
alter table queue add constraint queue_lane_check check (lane in ('ready', 'held', 'later', 'asked'));
alter table queue add column resumed integer;
drop index queue_later;
create index queue_later on queue (run_at) where lane in ('later', 'asked');

-- Lets a call that is asked be claimed. The row is looked at once nobody else is changing it, so that whoever hands the
-- call back and whoever decides on it see each other in whatever order they come.
create function resume_call(resumed_id text) returns void language plpgsql as $$
declare
  slot text;
begin
  update queue
  set resumed = fence,
    lane = case when lane <> 'asked' then lane when slot_key is null then 'ready' else 'held' end
  where call_id = resumed_id
  returning slot_key into slot;
  if slot is not null then
    perform fill_slots(array[slot]);
  end if;
  perform pg_notify('gantry_ready', '');
end
$$;

-- What a person is shown, and who may decide. `call_id` is the call that waits; `inner_id` the one that is asked about,
-- which is another one inside a chain. Arguments are kept without what their keys say is secret, unless they are too long.
alter table approvals add column inner_id text not null default '';
alter table approvals add column principal text not null default '';
alter table approvals add column reason text not null default '';
alter table approvals add column approvers jsonb not null default '[]';
alter table approvals add column args text;
alter table approvals add column args_bytes integer not null default 0;
alter table approvals add column decided_why text;
-- The roles of who decided, by which he may be asked whether he still might; null for who may decide on everything.
alter table approvals add column decided_roles jsonb;
alter table approvals add constraint approvals_decision_check check (decision in ('approve', 'deny', 'expired'));
create index approvals_listed on approvals (tenant, asked_at desc, id desc);
create index approvals_open on approvals (tenant, asked_at desc, id desc) where decision is null;
