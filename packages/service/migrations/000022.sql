-- What must be equal in all processes of a service, as fingerprints that reveal no value: a difference is reported.
alter table workers add column fingerprints jsonb not null default '{}';
-- How long its calls are its own after its last heartbeat; a worker without a heartbeat for longer is lost.
alter table workers add column lease_ms integer not null default 30000;
