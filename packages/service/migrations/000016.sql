-- A call that a worker claimed whose tool it does not have, in the version and definition that the call was admitted for,
-- waits in the lane `later` until a worker that has it says so, or until run_at. `needs` names the tool; while only
-- workers that have it may claim the call, its placement has the label `needs:` || needs.
alter table queue add column needs text;
create index queue_needs on queue (needs) where needs is not null;
