-- The files that the arguments of an asked call name by their ids, with the digests that the decision is about.
alter table approvals add column files text not null default '[]';
