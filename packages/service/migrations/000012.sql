-- How many holders handed a call back because they could not handle it, and how many because its tool was at rest.
alter table queue add column faults integer not null default 0;
alter table queue add column rests integer not null default 0;

-- A chain or a program that is redriven is given the journal of the one that it repeats when it is handed in. Those that
-- were handed in before, and have no outcome yet, are given it now.
insert into journal (call_id, entry, state, fence, result)
select c.call_id, j.entry, j.state, 0, j.result
from queue q join calls c on c.call_id = q.call_id join journal j on j.call_id = c.effect_key
where c.kind <> 'call' and c.redrive_of is not null
on conflict do nothing;
